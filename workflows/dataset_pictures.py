"""Pictures of a cluster dataset: where the photons hit, which energies they had, how they split, and when they came."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

import analysis
from analysis.peaks import fit_peak_on_shelf
from cluster_store import read_table
from workflows.pedestal_pictures import pedestal_over_run
from workflows.pictures import colour_bar, new_figure, picture_path, pixel_map, save, whole_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS_OF_RATE = 300
POINTS_OF_SPECTRUM = 300
FEWEST_FOR_ETA = 1000
_FIT = "#cb181d"


@dataclass(frozen=True)
class Counted:
    """What a dataset's clusters add up to, or what was counted in place of their list; None of what is not there.

    Args:
        hits: Clusters of each pixel (y, x).
        spectrum: Clusters of each energy (energy), ADU.
        eta: Clusters of each eta (eta_y, eta_x).
    """

    hits: xr.DataArray | None
    spectrum: xr.DataArray | None
    eta: xr.DataArray | None


def draw_dataset(clusters: xr.Dataset, path: str, folder: Path, products: xr.Dataset | None = None) -> list[str]:
    """Draw hit map, spectrum, eta and rate into `folder`, under the dataset's name, and return their paths.

    Without a list of clusters the first three are those of `products` that were counted.
    """
    rows, columns = clusters.attrs["cluster_size"]
    # The name alone: a picture goes further than the folders it was made in.
    origin = f"{Path(path).name} · {rows}×{columns} windows"
    if isinstance(clusters.attrs.get("n_sigma"), int | float):
        origin += f", threshold {clusters.attrs['n_sigma']:g}σ"
    n = n_clusters(clusters)
    counted = count(clusters, products)
    figures = {
        "hit_map": None if counted.hits is None else hit_map_figure(counted.hits, n, clusters.sizes["frame"]),
        "spectrum": None if counted.spectrum is None else _spectrum(counted.spectrum, n, (rows, columns)),
        "eta": None if counted.eta is None else eta_figure(counted.eta),
        "rate": _rate(clusters),
        "pedestal": _pedestal(path, (rows, columns)),
    }
    return [
        save(figure, picture_path(folder, path, name), origin) for name, figure in figures.items() if figure is not None
    ]


def count(clusters: xr.Dataset, products: xr.Dataset | None) -> Counted:
    """Add up the clusters of a dataset; few of them in few bins."""
    table = xr.Dataset() if products is None else products
    if "cluster" not in clusters.sizes:
        return Counted(table.get("hit_map"), _coarser(table.get("spectrum")), table.get("eta"))
    n = n_clusters(clusters)
    spectrum = clusters.photons.spectrum(bins=min(500, 8 + int(8 * n ** (1 / 3))))
    eta = table.get("eta")
    if eta is None and n >= FEWEST_FOR_ETA and min(clusters.attrs["cluster_size"]) >= 3:
        # By sixes: 0 and 1 are edges of bins.
        eta = clusters.photons.eta_histogram(bins=6 * min(25, max(2, int((n / 360) ** 0.5))))
    return Counted(clusters.photons.hit_map(), spectrum, eta)


def _pedestal(path: str, window: tuple[int, int]) -> Figure | None:
    table, batches = (read_table(path, name) for name in ("pedestal", "batches"))
    if table is None or batches is None or not {"first_frame", "n_frames"} <= set(batches.data_vars):
        return None
    return pedestal_over_run(table, batches, window)


def n_clusters(clusters: xr.Dataset) -> int:
    """How many clusters were found, whether they are listed or not."""
    return int(clusters["n_clusters"].sum(dtype=np.int64))


def _coarser(spectrum: xr.DataArray | None) -> xr.DataArray | None:
    """A spectrum counted in fine bins, up to where nearly all clusters are, in bins that a picture shows."""
    if spectrum is None:
        return None
    total = np.cumsum(spectrum.to_numpy())
    end = 1 + int(np.searchsorted(total, 0.995 * total[-1]) * 1.1)
    together = -(-min(end, spectrum.size) // POINTS_OF_SPECTRUM)
    n_bins = -(-min(end, spectrum.size) // together)
    shown = spectrum[: n_bins * together].coarsen(energy=together, boundary="trim").sum()
    width = int(spectrum.attrs["bin_width"]) * together
    above = int(spectrum.attrs["above"]) + int(spectrum.sum()) - int(shown.sum())
    return shown.assign_attrs(
        spectrum.attrs | {"bin_width": width, "above": above, "long_name": f"clusters per {width} ADU"}
    )


def hit_map_figure(hits: xr.DataArray, n: int, frames: int, width: float | None = None) -> Figure:
    """Clusters in each pixel (y, x), of so many clusters in so many frames; `width` as :func:`pixel_map` has it."""
    title = f"Hit map: {n:,} cluster{'s' * (n != 1)} in {frames:,} frame{'s' * (frames != 1)}"
    return pixel_map(
        hits.to_numpy().astype(np.float64),
        title if width is None else "",
        "clusters a pixel, by central pixel",
        (1, 99),
        width=width,
    )


def _spectrum(spectrum: xr.DataArray, n: int, window: tuple[int, int]) -> Figure:
    rows, columns = window
    figure, axes = new_figure(7.2, 4.6)
    half = spectrum.attrs["bin_width"] / 2
    edges = np.append(spectrum.energy - half, spectrum.energy[-1] + half)
    axes.stairs(spectrum, edges, fill=True, color="#c6dbef", edgecolor="#2171b5", linewidth=0.7)
    axes.set_title(f"Spectrum of {n:,} cluster{'s' * (n != 1)}, sum of {rows}×{columns} pixels")
    axes.set_ylabel(spectrum.attrs["long_name"])
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, max(1.0, 1.18 * float(spectrum.max())))
    whole_ticks(axes.yaxis)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    if n == 0:
        _say(axes, "no clusters")
    mark_peak(axes, spectrum)
    label_energies(axes, spectrum)
    return figure


def label_energies(axes: Axes, spectrum: xr.DataArray, *, narrow: bool = False) -> None:
    """Label the axis of energies, and say how many clusters lie above the range that is shown, if any do."""
    above = spectrum.attrs["above"]
    note = f"{above:,} cluster{'s' * (above != 1)} above the range" if above else ""
    axes.set_xlabel(("\n" if narrow else ";  ").join(["cluster energy [ADU]", *([note] if note else [])]))


def mark_peak(axes: Axes, spectrum: xr.DataArray) -> None:
    """Draw the highest peak as fitted, and say where it is; nothing where there are too few clusters for a peak."""
    try:
        fit = fit_peak_on_shelf(spectrum)
    except ValueError:
        _mark_top(axes, spectrum)
        return
    axes.plot(fit["energy"], fit["fitted"], color=_FIT)
    names = ("position", "position_error", "sigma", "sigma_error")
    position, position_error, sigma, sigma_error = (float(fit[name]) for name in names)
    _label_peak(axes, position, position_error, sigma, sigma_error, "Gaussian on a shelf")


def _mark_top(axes: Axes, spectrum: xr.DataArray) -> None:
    """What is left to say where clusters are too few for a fit of the flanks."""
    try:
        peak = analysis.fit_peak(spectrum)
    except ValueError:  # too few clusters for a peak: the picture says enough
        return
    reach = np.linspace(peak.position - 1.2 * peak.sigma, peak.position + 1.2 * peak.sigma, 200)
    axes.plot(reach, peak.height * np.exp(-0.5 * ((reach - peak.position) / peak.sigma) ** 2), color=_FIT)
    _label_peak(axes, peak.position, peak.position_error, peak.sigma, np.nan, "Gaussian at its top")


def _label_peak(axes: Axes, position: float, position_error: float, sigma: float, sigma_error: float, how: str) -> None:
    axes.axvline(position, color=_FIT, linewidth=0.8, linestyle="--")
    # On the side with more room: a peak far left has none on its left.
    low, high = axes.get_xlim()
    left = position - low > 0.5 * (high - low)
    axes.annotate(
        f"peak at {_with_error(position, position_error)} ADU\nσ = {_with_error(sigma, sigma_error)} ADU\n{how}",
        (position, axes.get_ylim()[1]),
        xytext=(-6 if left else 6, -6),
        textcoords="offset points",
        ha="right" if left else "left",
        va="top",
        color=_FIT,
        fontsize=9,
    )


def _with_error(value: float, error: float) -> str:
    return f"{value:.1f} ± {error:.1f}" if np.isfinite(error) and error >= 0.05 else f"{value:.1f}"


def eta_figure(eta: xr.DataArray, width: float | None = None) -> Figure:
    """Clusters in each bin of eta (eta_y, eta_x); `width` as :func:`pixel_map` has it."""
    from matplotlib.ticker import MultipleLocator

    narrow = width is not None
    figure, axes = new_figure(*((6.0, 5.2) if width is None else (width, width + 0.45)))
    low, high = eta.attrs["eta_range"]
    image = axes.imshow(eta, origin="lower", extent=(low, high, low, high), cmap="viridis", interpolation="nearest")
    if not narrow:
        n = int(eta.sum())
        axes.set_title(f"Eta of {n:,} cluster{'s' * (n != 1)}")
    axes.set_xlabel("eta along columns: the right\npixel's share of the charge")
    axes.set_ylabel("eta along rows: the share\nof the pixel in the higher row")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MultipleLocator(0.5))
    whole_ticks(colour_bar(figure, axes, image, "clusters a bin", narrow=narrow))
    return figure


def _rate(clusters: xr.Dataset) -> Figure:
    n_frames = clusters.sizes["frame"]
    frames = max(1, -(-n_frames // POINTS_OF_RATE))
    rate = clusters.photons.rate(frames)
    figure, axes = new_figure(7.2, 3.8)
    axes.set_title("Clusters a frame" + (f", mean of every {frames:,} frames" if frames > 1 else ""))
    axes.set_xlabel("frame, counted from the archive's first")
    axes.set_ylabel("clusters a frame")
    whole_ticks(axes.xaxis)
    if n_clusters(clusters) == 0 or not np.isfinite(rate).any():
        _say(axes, "no clusters")
    else:
        mean = float(clusters.photons.rate(n_frames)[0])
        spread = 2 * (mean / frames) ** 0.5
        axes.axhspan(mean - spread, mean + spread, color="0.9", label="± 2 standard deviations of Poisson counts")
        axes.axhline(mean, color="0.5", linewidth=0.8, label=f"mean {mean:,.1f}" if mean >= 1 else f"mean {mean:.2g}")
        axes.plot(rate.frame, rate, color="#2171b5", linewidth=0.9, marker="." if len(rate) <= 50 else "")
        axes.legend(fontsize=7, frameon=False, loc="upper right", ncols=2)
        low, high = axes.get_ylim()
        axes.set_ylim(max(0.0, low), high + 0.12 * (high - low))
        axes.margins(x=0.01)
    return figure


def _say(axes: Axes, what: str) -> None:
    axes.text(0.5, 0.5, what, ha="center", va="center", transform=axes.transAxes, color="0.35")
    axes.set_yticks([])
