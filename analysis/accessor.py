"""`ds.photons`: what one asks of a cluster dataset."""

import numpy as np
import numpy.typing as npt
import xarray as xr

from analysis import eta as etas
from analysis import gain_map, line_fits, maps, multiplicities, peaks, spectra
from analysis import interpolation as interpolating
from analysis.binning import DEFAULT_BINS, Binning, Bins, Steps
from analysis.energies import Energies, Kind
from analysis.eta import EtaKind
from analysis.gain import Map
from analysis.interpolation import LEARNING_BINS, LEARNING_RANGES, Interpolation, Method
from analysis.line_fits import Ratio, Shape
from analysis.peak_top import Peak
from analysis.selecting import Selection
from analysis.xray_lines import KLines


@xr.register_dataset_accessor("photons")  # type: ignore[no-untyped-call]
class PhotonsAccessor(Selection):
    """Photon clusters, as `cluster_store.open_clusters` or `xr.open_zarr` give them, or a selection of them.

    Filters return the same kind of object, so that they chain:

        ds.photons.roi(y=(0, 200)).noise_cuts(5).isolated(4).spectrum()

    Lazy datasets are gone through a block of clusters at a time, wherever Dask runs: memory stays bounded however long
    the run was. Results are named DataArrays with units that xarray's `.plot` shows.
    """

    def energy(self, kind: Kind = "sum", n: int | None = None) -> xr.DataArray:
        """The energy of each cluster left, (cluster), ADU, or keV after `calibrated`; lazy when the dataset is.

        Args:
            kind: "sum" over the window, "largest_2x2" that holds the centre, "centre", or "brightest", the sum of the
                `n` brightest pixels.
            n: How many for "brightest".

        Raises:
            ValueError: No `signal`, a kind that there is not, or windows too small for it.
        """
        return self._chosen(self._energies(kind, n).values())

    def corner(self) -> xr.DataArray:
        """On which sides of the centre the largest 2×2 lies, uint8 (cluster), a CF flag; lazy when the dataset is.

        Raises:
            ValueError: No `signal`, or windows below 3×3.
        """
        return self._chosen(multiplicities.corner(self._with("signal")))

    def pixels_above(self, k: float, noise: Map | None = None) -> xr.DataArray:
        """How many pixels of each cluster's window lie above k times their own noise, uint8 (cluster); lazy.

        Args:
            k: Noise widths.
            noise: ADU, (y, x) or one number; left out, that of the dataset's own pedestal.

        Raises:
            ValueError: No noise known.
        """
        ds = self._with("signal", "y", "x")
        return self._chosen(multiplicities.pixels_above(ds, k, self.noise_map(noise)))

    def multiplicity(self, k: float, noise: Map | None = None) -> xr.DataArray:
        """How many clusters have each number of pixels above k times their noise, over `multiplicity`.

        Raises:
            ValueError: No noise known.
        """
        ds = self._with("signal", "y", "x")
        return multiplicities.multiplicity(ds, k, self.noise_map(noise), self._keep)

    def spectrum(
        self,
        bins: Bins = DEFAULT_BINS,
        range: tuple[float, float] | None = None,
        energy: Kind = "sum",
        n: int | None = None,
        *,
        regions: npt.ArrayLike | xr.DataArray | None = None,
        frames: int | None = None,
    ) -> xr.DataArray:
        """How many clusters have each energy, over the coordinate `energy` (bin centres; ADU, or keV if calibrated).

        Args:
            bins: How many bins, or their edges.
            range: Lowest and highest energy; left out, one that shows nearly all clusters, with bins a whole number of
                ADU wide for an integer signal (with a single gain, of these in keV).
            energy: Which energy, as in `energy()`.
            n: How many pixels for "brightest".
            regions: One spectrum for each label of a map (y, x) of whole numbers, 0 for none: (region, energy).
            frames: One spectrum for every so many frames: (frame, energy).

        Returns:
            Counts, with the attributes `bin_width`, `below` and `above` (clusters outside the range).

        Raises:
            ValueError: Bins or groups that make no sense, or no `signal`.
        """
        if regions is not None and frames is not None:
            raise ValueError("Give regions or frames, not both; frame_range() chooses frames.")
        groups = None
        if regions is not None:
            groups = spectra.by_regions(self._with("y", "x"), regions)
        elif frames is not None:
            groups = spectra.by_frames(self._with("frame_index", dims=("cluster", "frame")), frames)
        found, binning = self._binned(bins, range, energy, n)
        return spectra.spectrum(found, binning, groups, self._keep)

    def pixel_spectra(
        self,
        bins: Bins,
        range: tuple[float, float] | None = None,
        energy: Kind = "sum",
        n: int | None = None,
        shape: tuple[int, int] | None = None,
    ) -> xr.DataArray:
        """The spectrum of the clusters centred on each pixel, (y, x, energy).

        All counts are in memory at once: 400×400 pixels with 200 bins take 128 MB.

        Args:
            bins: How many bins, or their edges.
            range: Lowest and highest energy.
            energy: Which energy, as in `energy()`.
            n: How many pixels for "brightest".
            shape: Rows and columns of the detector; left out, the dataset's attribute `frame_shape`.

        Raises:
            ValueError: Bins that make no sense, no shape known, or clusters beyond it.
        """
        groups = spectra.by_pixel(self._with("y", "x"), self.shape(shape))
        found, binning = self._binned(bins, range, energy, n)
        return spectra.spectrum(found, binning, groups, self._keep)

    def peak(
        self,
        bins: Bins = DEFAULT_BINS,
        range: tuple[float, float] | None = None,
    ) -> Peak:
        """The highest peak of the spectrum within `range`: a Gaussian fitted to its top.

        Raises:
            ValueError: No peak there, or no `signal`.
        """
        return peaks.fit_peak(self.spectrum(bins, range))

    def fit_line(
        self,
        lines: KLines | str | None = None,
        bins: Bins = DEFAULT_BINS,
        range: tuple[float, float] | None = None,
        *,
        shape: Shape = "step",
        ratio: Ratio = "known",
        energy: Kind = "sum",
    ) -> xr.Dataset:
        """The highest peak of the spectrum, or Kα and Kβ of an element, fitted: see ``analysis.fit_line``.

        Raises:
            ValueError: No peak there, or no `signal`.
        """
        return line_fits.fit_line(self.spectrum(bins, range, energy), lines, shape, ratio=ratio)

    def gain_map(
        self,
        lines: KLines | str,
        bins: int,
        range: tuple[float, float],
        *,
        shape: Shape = "step",
        ratio: Ratio = "known",
        energy: Kind = "sum",
        min_clusters: int = 30,
    ) -> xr.Dataset:
        """The gain of every pixel from Kα and Kβ of an element: see ``analysis.gain_map``.

        Raises:
            ValueError: The spectrum of all pixels has no peak, no `signal`, or no shape known.
        """
        spectra_of_pixels = self.pixel_spectra(bins, range, energy)
        return gain_map.gain_map(spectra_of_pixels, lines, shape, ratio=ratio, min_clusters=min_clusters)

    def hit_map(self, shape: tuple[int, int] | None = None) -> xr.DataArray:
        """How many clusters each pixel is the centre of, (y, x).

        Args:
            shape: Rows and columns of the detector; left out, the dataset's attribute `frame_shape`.

        Raises:
            ValueError: No `x` and `y`, no shape known, or clusters beyond it.
        """
        return maps.hit_map(self._with("y", "x"), self.shape(shape), self._keep)

    def rate(self, frames: int = 1) -> xr.DataArray:
        """The mean number of clusters left in a frame over successive groups of `frames` frames, along `frame`.

        Raises:
            ValueError: `frames` below 1, or no `frame_index`.
        """
        if self._ds.attrs.get("cluster_list") == "absent":
            return maps.rate(self._with("n_clusters", dims=("frame",)), frames)
        return maps.rate(self._with("frame_index", dims=("cluster", "frame")), frames, self._keep)

    def eta(self, kind: EtaKind = "2x2") -> xr.Dataset:
        """How the charge of each cluster left is split along both axes; lazy when the dataset is.

        Args:
            kind: "2x2", "full_2x2", "3x3" or "cross_3x3"; `analysis.eta` has the formulas.

        Returns:
            `eta_y`, `eta_x`, `energy` (ADU, of the pixels compared) and for the 2×2 kinds `corner`, each (cluster).

        Raises:
            ValueError: A kind that there is not, or windows below 3×3.
        """
        found = etas.eta(self._with("signal"), kind)
        return found if self._keep is None else found.isel(cluster=np.flatnonzero(self._keep.to_numpy()))

    def eta_histogram(
        self,
        kind: EtaKind = "2x2",
        bins: int = 150,
        range: tuple[float, float] | None = None,
        energy_bins: npt.ArrayLike | None = None,
    ) -> xr.DataArray:
        """How many clusters have each eta, (eta_y, eta_x), or (energy, eta_y, eta_x) with `energy_bins`.

        Args:
            kind: Which eta.
            bins: How many along each axis.
            range: Lowest and highest eta; left out, -1/4 to 5/4 for the 2×2 kinds and -1 to 1 for the others. Those
                beyond count in the outermost bins.
            energy_bins: Edges, ADU, of the energy of the pixels compared.

        Raises:
            ValueError: A kind that there is not, windows below 3×3, or bins that make no sense.
        """
        return etas.eta_histogram(self._with("signal"), kind, bins, range, energy_bins, self._keep)

    def interpolation(
        self,
        kind: EtaKind = "2x2",
        method: Method = "rosenblatt",
        energy_bins: npt.ArrayLike | None = None,
        bins: int = LEARNING_BINS,
    ) -> Interpolation:
        """Learn from these photons, of a flat field, where within a pixel a photon of each eta falls.

        Args:
            kind: Which eta.
            method: "rosenblatt" or "marginal"; `analysis.interpolation` explains both.
            energy_bins: Edges, ADU: learn apart for each, and leave out other energies.
            bins: Of eta, along each axis.

        Raises:
            ValueError: A kind or method that there is not, or no clusters to learn from.
        """
        limits = LEARNING_RANGES.get(kind)
        return Interpolation.of(self.eta_histogram(kind, bins, limits, energy_bins), method)

    def positions(self, interpolation: Interpolation) -> xr.Dataset:
        """Where each photon fell, `y` and `x` (cluster) in fractions of a pixel; lazy when the dataset is.

        Pixel (y, x) covers y ± ½ and x ± ½. NaN for energies that the interpolation was not learned for.

        Raises:
            ValueError: No `signal`, `y`, `x`.
        """
        found = interpolating.positions(self._with("signal", "y", "x"), interpolation)
        return found if self._keep is None else found.isel(cluster=np.flatnonzero(self._keep.to_numpy()))

    def super_resolved(
        self, interpolation: Interpolation, factor: int = 10, shape: tuple[int, int] | None = None
    ) -> xr.DataArray:
        """An image with pixels `factor` times as fine, (y, x), of photons put where they fell.

        Args:
            interpolation: From `interpolation()` of a flat field.
            factor: Parts of a pixel's side.
            shape: Rows and columns of the detector; left out, the dataset's attribute `frame_shape`.

        Returns:
            Counts; the attribute `outside` counts photons that have no place in it.

        Raises:
            ValueError: `factor` below 1, or no shape known.
        """
        ds = self._with("signal", "y", "x")
        return interpolating.super_resolved(ds, interpolation, factor, self.shape(shape), self._keep)

    def _binned(
        self, bins: Bins, limits: tuple[float, float] | None, kind: Kind, n: int | None
    ) -> tuple[Energies, Binning]:
        found = self._energies(kind, n)
        steps = Steps() if self._ds["signal"].dtype.kind != "f" else None
        if steps is not None and self._scale is not None:
            steps = self._scale.steps(steps)
        return found, Binning.of(bins, limits, found.values(), steps, self._keep)

    def _chosen(self, values: xr.DataArray) -> xr.DataArray:
        return values if self._keep is None else values.isel(cluster=np.flatnonzero(self._keep.to_numpy()))
