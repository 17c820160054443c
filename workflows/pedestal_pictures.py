"""A picture of how the pedestal fared over a run: how far it was off, and how many pixels seldom learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from workflows.pictures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pedestal_over_run(
    table: xr.Dataset, first_frames: npt.NDArray[np.integer[Any]], window: tuple[int, int]
) -> Figure | None:
    """Draw offset and shares batch by batch; None where the dataset has none.

    Args:
        table: The dataset's group `pedestal`.
        first_frames: Each batch's first frame.
        window: (rows, columns) of a cluster.
    """
    if "offset" not in table or not np.isfinite(table["offset"]).any():
        return None
    figure, axes = new_figure(7.2, 3.8)
    tolerable = 1 / np.sqrt(window[0] * window[1])
    axes.axhspan(-tolerable, tolerable, color="0.92", label=f"tolerable: ± 1/√area = {tolerable:.2f}")
    marker = "." if len(first_frames) <= 50 else ""
    if "offset_from_darks" in table:
        axes.plot(first_frames, table["offset_from_darks"], color="#9ecae1", marker=marker, label="from the darks")
    axes.plot(first_frames, table["offset"], color="#2171b5", marker=marker, label="before the batch")
    axes.set_title("Offset of the frames from the pedestal")
    axes.set_xlabel("first frame of the batch, counted from the archive's first")
    axes.set_ylabel("noise widths, median pixel")
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
            shares.plot(
                first_frames,
                100 * table[name],
                clip_on=False,
                color=colour,
                marker=marker,
                lw=0.9,
                ls="--",
                label=label,
            )
            largest = max(largest, float(100 * table[name].max()))
    # Room for the legend; and shares of less than 1 % are seen.
    shares.set_ylim(0, 1.35 * largest)
    lines = [line for one in (axes, shares) for line in one.get_legend_handles_labels()[0]]
    axes.legend(lines, [str(line.get_label()) for line in lines], fontsize=7, frameon=False, loc="upper left", ncols=2)
    return figure
