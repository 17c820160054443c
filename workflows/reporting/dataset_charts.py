"""The pictures of the dataset itself: those of ``photonflow inspect``, in the report's look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workflows.dataset_pictures import FEWEST_FOR_ETA, eta_figure, hit_map_figure, label_energies, mark_peak
from workflows.reporting.run_record import AbsentError, RunRecord
from workflows.reporting.style import STAGES, Paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NONE = "No clusters were found."
_NOT_COUNTED = "The dataset has neither a list of clusters nor this count of them: process with --products."


def hit_map_chart(run: RunRecord, paper: Paper) -> Figure:
    """Clusters in each pixel."""
    hits = run.counted.hits
    _require(run, hits is not None)
    assert hits is not None
    return hit_map_figure(hits, run.n_clusters, run.n_frames, paper.width if paper.is_narrow else None)


def eta_chart(run: RunRecord, paper: Paper) -> Figure:
    """How the charge of the clusters is split between neighbouring pixels."""
    eta = run.counted.eta
    if eta is None and run.is_listed and run.n_clusters:
        if min(run.window) < 3:
            raise AbsentError("Eta needs windows of 3×3 pixels at least.")
        raise AbsentError(f"Eta is drawn of {FEWEST_FOR_ETA:,} clusters or more.")
    _require(run, eta is not None)
    assert eta is not None
    return eta_figure(eta, paper.width if paper.is_narrow else None)


def spectrum_chart(run: RunRecord, paper: Paper) -> Figure:
    """The clusters' energies, and the highest peak as fitted."""
    spectrum = run.counted.spectrum
    _require(run, spectrum is not None)
    assert spectrum is not None
    figure, axes = paper.figure(3.4 if paper.is_narrow else 4.0)
    half = spectrum.attrs["bin_width"] / 2
    edges = np.append(spectrum.energy - half, spectrum.energy[-1] + half)
    axes.stairs(spectrum, edges, fill=True, color=STAGES["idle"], edgecolor=STAGES["read"], linewidth=0.8)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, max(1.0, 1.2 * float(spectrum.max())))
    axes.set_ylabel(spectrum.attrs["long_name"])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    mark_peak(axes, spectrum)
    label_energies(axes, spectrum, narrow=paper.is_narrow)
    rows, columns = run.window
    paper.entitle(axes, f"Spectrum of {run.n_clusters:,} clusters, sum of {rows}×{columns} pixels")
    return figure


def _require(run: RunRecord, there: bool) -> None:
    if run.n_clusters == 0:
        raise AbsentError(_NONE)
    if not there:
        raise AbsentError(_NOT_COUNTED)
