"""The pictures of the dataset itself: those of ``photonflow inspect``, in the report's look."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from workflows.dataset_pictures import counted, hit_map_figure, mark_peak, note_above
from workflows.reporting.run_record import AbsentError, RunRecord
from workflows.reporting.style import STAGES, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NONE = "No clusters were found, so there is nothing to draw."
_NOT_COUNTED = "The dataset has neither a list of clusters nor this count of them: process with --products."


def hit_map_chart(run: RunRecord) -> Figure:
    """Clusters in each pixel."""
    hits, _ = counted(run.clusters, run.products)
    _require(run, hits is not None)
    assert hits is not None
    return hit_map_figure(hits, run.n_clusters, run.n_frames)


def spectrum_chart(run: RunRecord) -> Figure:
    """The clusters' energies, and the highest peak as fitted."""
    _, spectrum = counted(run.clusters, run.products)
    _require(run, spectrum is not None)
    assert spectrum is not None
    figure, axes = styled(4.0)
    half = spectrum.attrs["bin_width"] / 2
    edges = np.append(spectrum.energy - half, spectrum.energy[-1] + half)
    axes.stairs(spectrum, edges, fill=True, color=STAGES["idle"], edgecolor=STAGES["read"], linewidth=0.8)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, max(1.0, 1.2 * float(spectrum.max())))
    axes.set_xlabel("cluster energy [ADU]")
    axes.set_ylabel(spectrum.attrs["long_name"])
    axes.yaxis.set_major_formatter("{x:,.0f}")
    mark_peak(axes, spectrum)
    note_above(axes, spectrum)
    rows, columns = run.window
    axes.set_title(f"Spectrum of {run.n_clusters:,} clusters, sum of {rows}×{columns} pixels")
    return figure


def _require(run: RunRecord, there: bool) -> None:
    if run.n_clusters == 0:
        raise AbsentError(_NONE)
    if not there:
        raise AbsentError(_NOT_COUNTED)
