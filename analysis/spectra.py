"""How often each energy occurs: over all clusters, over regions of the detector, over time, in every pixel."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis.adding_up import add_up, add_up_in_place
from analysis.arguments import pixel_map, require_shape_of, whole
from analysis.axes import frame_groups, frame_of, pixel_axes
from analysis.binning import Binning
from analysis.columns import per_cluster, require_on
from analysis.energies import Energies

# Beyond so many counts the parts of a sum would be larger than the blocks of clusters they come from.
_COUNTS_OF_A_BLOCK = 1 << 18


@dataclass(frozen=True)
class Groups:
    """Clusters that are counted apart.

    Attributes:
        of: int64 (cluster), which group, -1 for none.
        dims: their dimensions, before `energy`.
        shape: their number along each.
        coords: of those dimensions.
    """

    of: xr.DataArray
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    coords: dict[str, xr.Variable]


def spectrum(energies: Energies, binning: Binning, groups: Groups | None, keep: xr.DataArray | None) -> xr.DataArray:
    """Count the clusters in each bin of energy.

    Args:
        energies: Which energy of which clusters.
        binning: The bins.
        groups: Clusters that are counted apart.
        keep: bool (cluster), which clusters count; all when left out.

    Returns:
        int64 (energy), or (group …, energy); uint32 when there are very many. `below` and `above` (clusters outside
        the bins), and `uncalibrated` (without a gain, if there are any), are attributes.
    """
    shape = () if groups is None else groups.shape
    n_groups = int(np.prod(shape))
    chosen: list[xr.DataArray] = []
    if groups is not None:
        chosen = [groups.of if keep is None else groups.of.where(keep, -1)]
    elif keep is not None:
        chosen = [keep.astype(np.int64) - 1]
    width = len(binning) + 3
    if n_groups * width <= _COUNTS_OF_A_BLOCK:
        function = partial(_counted, energies.function, len(energies.columns), binning, n_groups)
        counts = add_up(function, n_groups * width, [*energies.columns, *chosen]).reshape(n_groups, width)
    else:
        counts = np.zeros((n_groups, width), np.uint32)
        add_up_in_place(binning.count, counts, [energies.values(), *chosen])
    return _labelled(counts, energies, binning, groups)


def by_regions(ds: xr.Dataset, regions: npt.ArrayLike | xr.DataArray) -> Groups:
    """The regions of a map of labels (y, x): 0 is no region, every other whole number one; True is region 1.

    Raises:
        ValueError: No such map, one without regions, or clusters beyond it.
    """
    labels = pixel_map(regions)
    if labels.ndim != 2 or labels.dtype.kind not in "iub":
        raise ValueError(
            f"regions is {labels.dtype} of shape {labels.shape}; it must be whole numbers (y, x), 0 for no region."
        )
    require_shape_of(ds, "regions", labels.shape)
    found, places = np.unique(labels.astype(np.int64), return_inverse=True)
    kept = found != 0
    if not kept.any():
        raise ValueError("The map of regions has none: every pixel is 0.")
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    lookup = number[places.reshape(labels.shape)].astype(np.int64)
    coord = xr.Variable("region", found[kept], {"long_name": "region"})
    return Groups(_looked_up(ds, lookup), ("region",), (int(kept.sum()),), {"region": coord})


def by_pixel(ds: xr.Dataset, shape: tuple[int, int]) -> Groups:
    """Every pixel of a detector of `shape` (y, x) by itself."""
    lookup = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(shape)
    return Groups(_looked_up(ds, lookup), ("y", "x"), shape, dict(pixel_axes(shape)))


def by_frames(ds: xr.Dataset, frames: int) -> Groups:
    """Successive groups of `frames` frames.

    Raises:
        ValueError: `frames` below 1.
    """
    frames = whole("frames", frames, 1)
    starts, middle = frame_groups(ds, frames)
    return Groups(frame_of(ds) // frames, ("frame",), (len(starts),), {"frame": middle})


def _looked_up(ds: xr.Dataset, lookup: npt.NDArray[np.int64]) -> xr.DataArray:
    found: xr.DataArray = per_cluster(partial(_at, lookup), [ds["y"], ds["x"]], (np.int64,))
    return found


def _at(lookup: npt.NDArray[np.int64], y: npt.NDArray[Any], x: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    require_on(lookup.shape, y, x)
    return np.asarray(lookup[y, x])


def _counted(
    energies: Callable[..., npt.NDArray[np.float64]],
    n_columns: int,
    binning: Binning,
    n_groups: int,
    *columns: npt.NDArray[Any],
) -> npt.NDArray[np.int64]:
    counts = np.zeros((n_groups, len(binning) + 3), np.int64)
    group = columns[n_columns] if len(columns) > n_columns else None
    binning.count(counts, energies(*columns[:n_columns]), group)
    return counts.reshape(-1)


def _labelled(counts: npt.NDArray[Any], energies: Energies, binning: Binning, groups: Groups | None) -> xr.DataArray:
    unit, name = energies.unit, energies.long_name
    below, above, nowhere = (int(counts[:, place].sum(dtype=np.int64)) for place in (-3, -2, -1))
    attrs: dict[str, Any] = {"long_name": "clusters a bin", "units": "count", "below": below, "above": above}
    if nowhere:
        attrs["uncalibrated"] = nowhere
    if binning.width is not None:
        attrs |= {"long_name": f"clusters per {binning.width:g} {unit}", "bin_width": binning.width}
    dims, shape, coords = ((), (), {}) if groups is None else (groups.dims, groups.shape, groups.coords)
    return xr.DataArray(
        counts[:, :-3].reshape(*shape, len(binning)),
        coords={**coords, "energy": binning.axis("energy", name, unit)},
        dims=(*dims, "energy"),
        name="spectrum",
        attrs=attrs,
    )
