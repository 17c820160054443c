"""A picture of how the pedestal fared over a run: how far it was off, and how many pixels seldom learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from workflows.pictures import new_figure, whole_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pedestal_over_run(table: xr.Dataset, batches: xr.Dataset, window: tuple[int, int]) -> Figure | None:
    """Draw offset and shares, each batch as wide as its frames; None where the dataset has none.

    Args:
        table: The dataset's group `pedestal`.
        batches: Its group `batches`, with each batch's `first_frame` and `n_frames`.
        window: (rows, columns) of a cluster.
    """
    if "offset" not in table or not np.isfinite(table["offset"]).any():
        return None
    first = batches["first_frame"].to_numpy().astype(np.int64)
    edges = np.append(first, first[-1] + int(batches["n_frames"][-1]))
    figure, axes = new_figure(7.2, 3.8)
    tolerable = 1 / np.sqrt(window[0] * window[1])
    axes.axhspan(-tolerable, tolerable, color="0.92", label=f"tolerable: ± 1/√area = {tolerable:.2f}")
    # Without a baseline a step is only as high as its ends, and a single batch is a line over all its frames.
    if "offset_from_darks" in table:
        axes.stairs(table["offset_from_darks"], edges, baseline=None, color="#9ecae1", lw=2.4, label="from the darks")
    axes.stairs(table["offset"], edges, baseline=None, color="#2171b5", lw=1.2, label="before the batch")
    axes.set_title("Offset of the frames from the pedestal")
    n = len(first)
    axes.set_xlabel(f"frame, counted from the archive's first; {n:,} batch{'es' * (n != 1)}")
    axes.set_ylabel("noise widths, median pixel")
    axes.set_xlim(edges[0], edges[-1])
    whole_ticks(axes.xaxis)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.35 * (high - low))
    shares = axes.twinx()
    shares.set_ylabel("share of pixels [%]")
    largest = 1.0
    for name, label, colour in (
        ("pixels_off", "more than a noise width off", "#fd8d3c"),
        ("seldom_updated", "updated in fewer than half of the frames", "#cb181d"),
    ):
        if name in table:
            share = 100 * table[name]
            shares.stairs(share, edges, baseline=None, clip_on=False, color=colour, lw=0.9, ls="--", label=label)
            largest = max(largest, float(share.max()))
    # Room for the legend; and shares of less than 1 % are seen.
    shares.set_ylim(0, 1.35 * largest)
    lines = [line for one in (axes, shares) for line in one.get_legend_handles_labels()[0]]
    axes.legend(lines, [str(line.get_label()) for line in lines], fontsize=7, frameon=False, loc="upper left", ncols=2)
    return figure
