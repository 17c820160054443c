"""Pictures of a cluster dataset: where the photons hit, which energies they had, and when they came."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

import analysis
from workflows.pictures import new_figure, pixel_map, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS_OF_RATE = 300
POINTS_OF_SPECTRUM = 300


def draw_dataset(clusters: xr.Dataset, path: str, folder: Path, products: xr.Dataset | None = None) -> list[str]:
    """Draw `hit_map.png`, `spectrum.png` and `rate.png` into `folder` and return their paths.

    Without a list of clusters the first two are those of `products` that were counted.
    """
    rows, columns = clusters.attrs["cluster_size"]
    # The name alone: a picture goes further than the folders it was made in.
    origin = f"{Path(path).name} · {rows}×{columns} windows"
    if isinstance(clusters.attrs.get("n_sigma"), int | float):
        origin += f", threshold {clusters.attrs['n_sigma']:g}σ"
    n = n_clusters(clusters)
    if "cluster" in clusters.sizes:
        bins = min(500, 8 + int(8 * n ** (1 / 3)))  # few clusters: few bins
        hits, spectrum = clusters.photons.hit_map(), clusters.photons.spectrum(bins=bins)
    else:
        counted = xr.Dataset() if products is None else products
        hits, spectrum = counted.get("hit_map"), _coarser(counted.get("spectrum"))
    figures = {
        "hit_map.png": None if hits is None else _hit_map(hits, n, clusters.sizes["frame"]),
        "spectrum.png": None if spectrum is None else _spectrum(spectrum, n, (rows, columns)),
        "rate.png": _rate(clusters),
    }
    return [save(figure, folder / name, origin) for name, figure in figures.items() if figure is not None]


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


def _hit_map(hits: xr.DataArray, n: int, frames: int) -> Figure:
    return pixel_map(
        hits.to_numpy().astype(np.float64),
        f"Hit map: {n:,} cluster{'s' * (n != 1)} in {frames:,} frame{'s' * (frames != 1)}",
        "clusters a pixel, by central pixel",
        (1, 99),
    )


def _spectrum(spectrum: xr.DataArray, n: int, window: tuple[int, int]) -> Figure:
    rows, columns = window
    from matplotlib.ticker import MaxNLocator

    figure, axes = new_figure(7.2, 4.6)
    half = spectrum.attrs["bin_width"] / 2
    edges = np.append(spectrum.energy - half, spectrum.energy[-1] + half)
    axes.stairs(spectrum, edges, fill=True, color="#c6dbef", edgecolor="#2171b5", linewidth=0.7)
    axes.set_title(f"Spectrum of {n:,} cluster{'s' * (n != 1)}, sum of {rows}×{columns} pixels")
    axes.set_xlabel("cluster energy [ADU]")
    axes.set_ylabel(spectrum.attrs["long_name"])
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, max(1.0, 1.18 * float(spectrum.max())))
    axes.yaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    if n == 0:
        _say(axes, "no clusters")
    _mark_peak(axes, spectrum)
    if spectrum.attrs["above"]:
        note = f"{spectrum.attrs['above']:,} clusters above the range"
        axes.text(0.99, 0.98, note, ha="right", va="top", transform=axes.transAxes, fontsize=7, color="0.35")
    return figure


def _mark_peak(axes: Axes, spectrum: xr.DataArray) -> None:
    try:
        peak = analysis.fit_peak(spectrum)
    except ValueError:  # too few clusters for a peak: the picture says enough
        return
    reach = np.linspace(peak.position - 1.2 * peak.sigma, peak.position + 1.2 * peak.sigma, 200)
    axes.plot(reach, peak.height * np.exp(-0.5 * ((reach - peak.position) / peak.sigma) ** 2), color="#cb181d")
    axes.axvline(peak.position, color="#cb181d", linewidth=0.8, linestyle="--")
    error = f" ± {peak.position_error:.1f}" if peak.position_error >= 0.05 else ""
    axes.annotate(
        f"peak at {peak.position:.1f}{error} ADU\nσ = {peak.sigma:.1f} ADU",
        (peak.position, axes.get_ylim()[1]),
        xytext=(-6, -6),
        textcoords="offset points",
        ha="right",
        va="top",
        color="#cb181d",
        fontsize=9,
    )


def _rate(clusters: xr.Dataset) -> Figure:
    n_frames = clusters.sizes["frame"]
    frames = max(1, -(-n_frames // POINTS_OF_RATE))
    rate = clusters.photons.rate(frames)
    figure, axes = new_figure(7.2, 3.8)
    axes.set_title("Clusters a frame" + (f", mean of every {frames:,} frames" if frames > 1 else ""))
    axes.set_xlabel("frame, counted from the archive's first")
    axes.set_ylabel("clusters a frame")
    if n_clusters(clusters) == 0 or not np.isfinite(rate).any():
        _say(axes, "no clusters")
    else:
        mean = float(clusters.photons.rate(n_frames)[0])
        spread = 2 * (mean / frames) ** 0.5
        axes.axhspan(mean - spread, mean + spread, color="0.9", label="± 2 standard deviations of Poisson counts")
        axes.axhline(mean, color="0.5", linewidth=0.8, label=f"mean {mean:,.1f}")
        axes.plot(rate.frame, rate, color="#2171b5", linewidth=0.9, marker="." if len(rate) <= 50 else "")
        axes.legend(fontsize=7, frameon=False, loc="upper right", ncols=2)
        low, high = axes.get_ylim()
        axes.set_ylim(max(0.0, low), high + 0.12 * (high - low))
        axes.margins(x=0.01)
    return figure


def _say(axes: Axes, what: str) -> None:
    axes.text(0.5, 0.5, what, ha="center", va="center", transform=axes.transAxes, color="0.35")
    axes.set_yticks([])
