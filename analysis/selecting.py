"""Filters that compose: each narrows down which clusters count, without copying a value."""

from collections.abc import Hashable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis import filters, isolation, maps
from analysis.arguments import detector_shape, number, require_shape_of, whole
from analysis.columns import is_lazy
from analysis.energies import Energies, Kind
from analysis.filters import Range
from analysis.gain import EnergyScale, Map
from analysis.given_clusters import described, in_our_form, require_usable
from analysis.pixel_noise import noise_of
from analysis.units import warn_of_other_unit


class Selection:
    """Clusters of a dataset: all, or those that the filters applied so far keep.

    A filter only adds its condition; the values are read once, when something is asked of what is left. Filters apply
    in the order they are written, which matters for `isolated` alone: those dropped before are nobody's neighbours.
    """

    def __init__(self, ds: xr.Dataset) -> None:
        self._ds = in_our_form(ds)
        self._keep: xr.DataArray | None = None
        self._scale: EnergyScale | None = None
        self._said: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """What there is, and what was asked of it; nothing is computed."""
        return described(self._ds, in_kev=self._scale is not None, said=self._said)

    def roi(self, y: Range | None = None, x: Range | None = None) -> Self:
        """Keep clusters whose centre lies in rows `y` and columns `x`: (first, end), the end not included, or slices.

        Raises:
            ValueError: A range that is none, or none of the detector's, or no `y`, `x`.
        """
        kept = filters.in_roi(self._with("y", "x"), y, x)
        return self._and(kept, f"roi(y={y}, x={x})")

    def mask(self, mask: npt.ArrayLike | xr.DataArray, touching: bool = False) -> Self:
        """Drop clusters on masked pixels of a map (y, x): True, or a NeXus pixel_mask with any of its low 16 bits set.

        Args:
            mask: The map.
            touching: Drop those too whose window touches a masked pixel: charge is missing there.

        Raises:
            ValueError: No such map, or, when it is computed, clusters beyond it.
        """
        return self._and(filters.off_mask(self._with("y", "x", "signal"), mask, touching), f"mask(touching={touching})")

    def noise_cuts(self, n: float, noise: Map | None = None) -> Self:
        """Drop clusters that noise could have made, seen from the noise of the central pixel.

        Those whose centre is at most `n` times it, or the largest 2×2 at most 2n times, or the sum over the window at
        most √(pixels)·n times: 3n at 3×3. (Uncorrelated noise of k pixels adds up to √k times that of one.)

        Args:
            n: Noise widths.
            noise: ADU, (y, x) or one number; left out, that of the dataset's own pedestal.

        Raises:
            ValueError: No noise known, or windows below 3×3.
        """
        n = number("n", n, 0)
        return self._and(
            filters.above_noise(self._with("signal", "y", "x"), n, self.noise_map(noise)), f"noise_cuts({n:g})"
        )

    def no_edges(self, shape: tuple[int, int] | None = None) -> Self:
        """Drop clusters whose window reaches beyond the detector, of `shape` (y, x) or the attribute `frame_shape`.

        Raises:
            ValueError: No shape known.
        """
        return self._and(filters.off_edges(self._with("y", "x", "signal"), self.shape(shape)), "no_edges()")

    def isolated(self, radius: int) -> Self:
        """Keep clusters with no other kept one of their frame within `radius` pixels along rows and columns.

        Windows of n×n pixels share no pixel from a radius of n - 1 on.

        Raises:
            ValueError: A negative radius, no `frame_index`, `y`, `x`; when it is computed, lazy clusters that are not
                in the order of their frames.
        """
        ds, radius = self._with("frame_index", "y", "x"), whole("radius", radius, 0)
        alone = isolation.isolated(ds, radius, self._keep, self._most_in_a_frame() if is_lazy(ds) else 0)
        return self._and(alone, f"isolated({radius})", replace=True)

    def energy_window(self, low: float, high: float, energy: Kind = "sum", n: int | None = None) -> Self:
        """Keep clusters with low ≤ energy < high, in ADU, or in keV after `calibrated`.

        Raises:
            ValueError: Limits in the wrong order, or a kind of energy that there is not.
            UnitsWarning: (as a warning) limits that look as if they were in the other unit.
        """
        low, high = number("low", low), number("high", high)
        if not low < high:
            raise ValueError(f"The energy window is {low:g} to {high:g}; the lower limit comes first.")
        energies = self._energies(energy, n)
        found, unit = energies.values(), energies.unit
        warn_of_other_unit(f"energy_window({low:g}, {high:g})", low, high, found)
        return self._and((found >= low) & (found < high), f"energy_window({low:g}, {high:g} {unit}, {energy})")

    def frame_range(self, start: int | None, stop: int | None) -> Self:
        """Keep start ≤ frame < stop, counted from the archive's first frame, like the coordinate `frame` of `rate`.

        None is the dataset's first frame, or its end.

        What is dropped is not even read, and `rate` and `spectrum(frames=…)` go over these frames alone.

        Raises:
            ValueError: A range that holds no frame of the dataset.
        """
        ds = self._with("frame_index", dims=("cluster", "frame"))
        first, n_frames = int(ds.attrs.get("first_frame", 0)), ds.sizes["frame"]
        start = first if start is None else whole("start", start, 0)
        stop = first + n_frames if stop is None else whole("stop", stop, 0)
        low, high = max(start - first, 0), min(stop - first, n_frames)
        if low >= high:
            raise ValueError(
                f"Frames {start} to {stop} hold none of the dataset's, which are {first} to {first + n_frames}."
            )
        if maps.counts_hold(ds):
            ends = np.concatenate([[0], np.cumsum(ds["n_clusters"].to_numpy(), dtype=np.int64)])
            rows: Any = slice(int(ends[low]), int(ends[high]))
        else:
            rows = np.flatnonzero(((ds["frame_index"] >= low) & (ds["frame_index"] < high)).to_numpy())
        chosen = ds.isel(cluster=rows, frame=slice(low, high)).assign_attrs(first_frame=first + low)
        if low:
            index = (chosen["frame_index"] - np.asarray(low, ds["frame_index"].dtype)).assign_attrs(
                ds["frame_index"].attrs
            )
            chosen = chosen.assign(frame_index=index)
        other = self._like(chosen, f"frame_range({start}, {stop})")
        other._keep = None if self._keep is None else self._keep.isel(cluster=rows)
        return other

    def no_pile_up(
        self,
        photon_energy: float,
        outside: float = 0.1,
        n: float = 3.0,
        noise: Map | None = None,
    ) -> Self:
        """Drop windows with charge of a second photon.

        Two photons within 2×2 pixels show in the energy alone, which is twice one's. A part of a second one at the
        window's rim shows in the shape: one photon's charge cloud lights 2×2 pixels and little else. (Two clusters
        side by side are for `isolated`.)

        Args:
            photon_energy: Of one photon, ADU, or keV after `calibrated`; sums above 1.5 times it are dropped.
            outside: The share of the sum that may lie outside the largest 2×2.
            n: Allowed on top: so many times the noise of the pixels outside.
            noise: ADU, (y, x) or one number; left out, that of the dataset's own pedestal.

        Raises:
            ValueError: No noise known, windows below 3×3, or an energy that is not above 0.
            UnitsWarning: (as a warning) an energy that looks as if it were in the other unit.
        """
        if not number("photon_energy", photon_energy) > 0:
            raise ValueError(f"photon_energy is {photon_energy}; it must be above 0.")
        ds = self._with("signal", "y", "x")
        kept = filters.of_one_photon(ds, outside, n, self.noise_map(noise))
        energies = self._energies("sum", None)
        values = energies.values()
        warn_of_other_unit(f"no_pile_up({photon_energy:g})", 0.5 * photon_energy, 1.5 * photon_energy, values)
        kept = kept & (values <= 1.5 * photon_energy)
        return self._and(kept, f"no_pile_up({photon_energy:g} {energies.unit}, {outside:g}, {n:g})")

    def where(self, condition: xr.DataArray) -> Self:
        """Keep clusters for which a condition of one's own holds, bool (cluster).

        Raises:
            ValueError: Not one bool for each cluster of the dataset.
        """
        given = xr.DataArray(condition) if not isinstance(condition, xr.DataArray) else condition
        n = self._with().sizes["cluster"]
        if given.dtype != bool or given.shape != (n,):
            raise ValueError(
                f"The condition is {given.dtype} of shape {given.shape}; it must be bool, one for each of {n} clusters."
            )
        if given.dims[0] != "cluster" and given.dims[0] in self._ds.sizes:
            raise ValueError(f"The condition is along {given.dims[0]}; it must be along cluster.")
        return self._and(xr.DataArray(given.data, dims="cluster"), "where(…)")

    def calibrated(self, gain: Map, offset: Map = 0.0) -> Self:
        """Give energies in keV from here on: keV = (ADU - offset) / gain.

        Args:
            gain: ADU/keV: one number, or a map (y, x), by which every pixel of a window is divided by its own.
            offset: ADU at 0 keV, one number or the central pixel's of a map (y, x).

        Raises:
            ValueError: A gain that is not positive, or no map (y, x), or one of another shape than the detector's.
        """
        scale = EnergyScale.of(gain, offset)
        if scale.shape is not None:
            require_shape_of(self._ds, "The map of the gain", scale.shape)
        other = self._like(self._ds, "")
        other._keep, other._scale = self._keep, scale
        return other

    def kept(self) -> xr.DataArray:
        """Which clusters of the dataset the filters keep, bool (cluster); lazy when the dataset is.

        xarray selects with it once it is computed: `ds.isel(cluster=selection.kept().compute())`.
        """
        if self._keep is None:
            return xr.DataArray(np.ones(self._with().sizes["cluster"], bool), dims="cluster", name="kept")
        return self._keep.rename("kept").assign_attrs(long_name="kept by the filters")

    def count(self) -> int:
        """How many clusters are left."""
        return self._with().sizes["cluster"] if self._keep is None else int(self._keep.sum())

    def dataset(self) -> xr.Dataset:
        """The clusters that are left, as a dataset: filters are worked out now, the values stay lazy if they were.

        `n_clusters` is counted anew, so that the rows of frame i still begin at `n_clusters[:i].sum()`; the attribute
        `digest`, which is that of all clusters, is dropped, and `selection` says how they were chosen.
        """
        if not self._said:
            return self._ds
        ds, keep = self._ds, self._keep
        attrs = {name: value for name, value in ds.attrs.items() if name != "digest"}
        attrs["selection"] = "; ".join([*filter(None, [ds.attrs.get("selection")]), *self._said])
        if keep is not None:
            kept = np.flatnonzero(keep.to_numpy())
            if "n_clusters" in ds and "frame_index" in ds:
                stored = ds["n_clusters"]
                counted = maps.clusters_per_frame(ds, keep).astype(stored.dtype)
                ds = ds.assign(n_clusters=stored.copy(data=counted))
            ds = ds.isel(cluster=kept)
        return ds.drop_attrs(deep=False).assign_attrs(attrs)

    def shape(self, shape: tuple[int, int] | None = None) -> tuple[int, int]:
        """Rows and columns of the detector: `shape` if given, or the attribute `frame_shape`.

        Raises:
            ValueError: Neither, or no two sides.
        """
        found = shape if shape is not None else self._ds.attrs.get("frame_shape")
        if found is None:
            raise ValueError("The dataset has no attribute frame_shape; give the detector's shape=(rows, columns).")
        return detector_shape(found)

    def noise_map(self, noise: Map | None = None) -> npt.NDArray[np.float64]:
        """The noise of each pixel, ADU, (y, x): `noise` if given, or that of the pedestal stored with the dataset.

        Raises:
            ValueError: Neither, or no map (y, x).
        """
        return noise_of(self._ds, noise)

    def _energies(self, kind: Kind, n: int | None) -> Energies:
        with_maps = self._scale is not None and self._scale.shape is not None
        return Energies.of(self._with("signal", *(("y", "x") if with_maps else ())), kind, n, self._scale)

    def _most_in_a_frame(self) -> int:
        ds = self._ds
        if ds.sizes.get("frame"):
            return int((ds["n_clusters"] if maps.counts_hold(ds) else maps.clusters_per_frame(ds)).max())
        return int(np.unique(ds["frame_index"].to_numpy(), return_counts=True)[1].max(initial=0))

    def _and(self, keep: xr.DataArray | None, said: str, replace: bool = False) -> Self:
        other = self._like(self._ds, said)
        if keep is None:
            other._keep = self._keep
        else:
            other._keep = keep if self._keep is None or replace else self._keep & keep
        return other

    def _like(self, ds: xr.Dataset, said: str) -> Self:
        other = type(self)(ds)
        other._scale = self._scale
        other._said = (*self._said, said) if said else self._said
        return other

    def _with(self, *names: str, dims: tuple[Hashable, ...] = ("cluster",)) -> xr.Dataset:
        lacking = [name for name in names if name not in self._ds.variables]
        lacking += [f"the dimension {dim}" for dim in dims if dim not in self._ds.sizes]
        if lacking and "n_clusters" in self._ds and "signal" not in self._ds:
            raise ValueError(
                "This dataset has no list of clusters, only what was counted of them (--no-clusters): "
                "xr.open_zarr(path, group='products') gives spectrum, hit map and eta."
            )
        if lacking:
            raise ValueError(
                f"This dataset lacks {', '.join(lacking)}; "
                "give photon clusters as cluster_store.open_clusters opens them."
            )
        require_usable(self._ds, names)
        return self._ds
