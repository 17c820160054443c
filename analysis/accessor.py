"""`ds.photons`: what one asks of a cluster dataset."""

from collections.abc import Hashable

import xarray as xr

from analysis import isolation, maps, peaks, spectra
from analysis.spectra import DEFAULT_BINS, Bins


@xr.register_dataset_accessor("photons")  # type: ignore[no-untyped-call]
class PhotonsAccessor:
    """Photon clusters, as `cluster_store.open_clusters` or `xr.open_zarr` give them, or a selection of them.

    Lazy datasets are gone through a block of clusters at a time: memory stays bounded however long the run was.
    Results are named DataArrays with units that xarray's `.plot` shows.
    """

    def __init__(self, ds: xr.Dataset) -> None:
        self._ds = ds

    def energy(self) -> xr.DataArray:
        """The sum over each cluster's window, (cluster), ADU; lazy when the dataset is.

        Raises:
            ValueError: The dataset has no `signal`.
        """
        return spectra.energy(self._with("signal"))

    def spectrum(self, bins: Bins = DEFAULT_BINS, range: tuple[float, float] | None = None) -> xr.DataArray:
        """How many clusters have each energy, over the coordinate `energy` (ADU, bin centres).

        Args:
            bins: How many bins, or their edges in ADU.
            range: Lowest and highest energy, ADU; left out, one that shows nearly all clusters, with bins a whole
                number of ADU wide for an integer signal.

        Returns:
            Counts, with the attributes `bin_width`, `below` and `above` (clusters outside the range).

        Raises:
            ValueError: Bins that make no sense, or no `signal`.
        """
        return spectra.spectrum(self._with("signal"), bins, range)

    def peak(
        self,
        bins: Bins = DEFAULT_BINS,
        range: tuple[float, float] | None = None,
    ) -> peaks.Peak:
        """The highest peak of the spectrum within `range` (ADU): a Gaussian fitted to its top.

        Raises:
            ValueError: No peak there, or no `signal`.
        """
        return peaks.fit_peak(self.spectrum(bins, range))

    def hit_map(self, shape: tuple[int, int] | None = None) -> xr.DataArray:
        """How many clusters each pixel is the centre of, (y, x).

        Args:
            shape: Rows and columns of the detector; left out, the dataset's attribute `frame_shape`.

        Raises:
            ValueError: No `x` and `y`, no shape known, or clusters beyond it.
        """
        ds = self._with("y", "x")
        found = shape if shape is not None else ds.attrs.get("frame_shape")
        if found is None:
            raise ValueError("The dataset has no attribute frame_shape; give the detector's shape=(rows, columns).")
        return maps.hit_map(ds, (int(found[0]), int(found[1])))

    def rate(self, frames: int = 1) -> xr.DataArray:
        """The mean number of clusters a frame over successive groups of `frames` frames, along `frame`.

        Raises:
            ValueError: `frames` below 1, or no `frame_index`.
        """
        return maps.rate(self._with("frame_index", dims=("cluster", "frame")), frames)

    def isolated(self, radius: int) -> xr.DataArray:
        """Of each cluster, whether no other of its frame lies within `radius` pixels along rows and columns, bool.

        `ds.isel(cluster=ds.photons.isolated(4))` selects them.

        Raises:
            ValueError: A negative radius, or no `frame_index`, `y`, `x`.
        """
        return isolation.isolated(self._with("frame_index", "y", "x"), radius)

    def _with(self, *names: str, dims: tuple[Hashable, ...] = ("cluster",)) -> xr.Dataset:
        lacking = [name for name in names if name not in self._ds.variables]
        lacking += [f"the dimension {dim}" for dim in dims if dim not in self._ds.sizes]
        if lacking:
            raise ValueError(
                f"This dataset lacks {', '.join(lacking)}; "
                "give photon clusters as cluster_store.open_clusters opens them."
            )
        return self._ds
