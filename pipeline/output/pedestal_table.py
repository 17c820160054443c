"""The dataset's group `pedestal`: how the pedestal fared in each batch, and which pixels misbehaved in any."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_store import Column, Table
from finder.pixel_bits import mask_attributes
from pipeline.batches.count_table import column
from pipeline.batches.pedestal_health import MARKS, marked_pixels
from pipeline.batches.reports import BatchCount

WIDTHS = "noise widths"
# Name, type, units, long_name, and where a batch's count has it.
COLUMNS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "movement", "f8", WIDTHS, "movement of the pedestal within the batch, median over pixels",
        "movement",
    ),
    (
        "offset", "f8", WIDTHS, "offset of the frames from the pedestal before the batch, median over pixels",
        "offset.median",
    ),
    (
        "pixels_off", "f8", "", "share of pixels more than one noise width off before the batch",
        "offset.pixels_off",
    ),
    (
        "offset_from_darks", "f8", WIDTHS, "offset of the frames from the trained pedestal, median over pixels",
        "health.from_darks.median",
    ),
    (
        "seldom_updated", "f8", "", "share of pixels updated in fewer than half of the frames",
        "health.seldom_updated",
    ),
    (
        "often_firing", "u4", "",
        "pixels with a window above the threshold in more than 1 % of the frames; in a bright beam all",
        "health.often_firing",
    ),
    (
        "often_blind", "u4", "", "pixels blind in more than 1 % of the frames",
        "health.often_blind",
    ),
    (
        "hot", "u4", "", "pixels that are a cluster's centre in more than 1 % of the frames, unlike their neighbours",
        "health.hot",
    ),
    (
        "frames_move", "f8", WIDTHS, "what all pixels of a frame have in common, one standard deviation",
        "health.common.frame",
    ),
    (
        "rows_move", "f8", WIDTHS, "what the pixels of a row have in common beyond that, one standard deviation",
        "health.common.row",
    ),
    (
        "columns_move", "f8", WIDTHS, "what the pixels of a column have in common beyond that, one standard deviation",
        "health.common.column",
    ),
)  # fmt: skip


def pedestal_table(counts: Sequence[BatchCount], shape: tuple[int, int]) -> Table:
    """The table: a column a batch (batch), and `pixel_mask` (y, x), which `--mask` of a later run takes.

    Args:
        counts: The batches, in order.
        shape: (y, x) of the frames.
    """
    columns = {
        name: Column(
            ("batch",),
            column(counts, value).astype(dtype),
            {"long_name": meaning} | ({"units": units} if units else {}),
        )
        for name, dtype, units, meaning, value in COLUMNS
    }
    mask = marked_pixels(column(counts, "health.marked"), shape)
    attrs = {"long_name": "pixels that misbehaved in any batch, bits as in NeXus", **mask_attributes(MARKS)}
    return Table({**columns, "pixel_mask": Column(("y", "x"), mask, attrs)})
