"""The variables of a cluster dataset: names, dimensions, types, CF attributes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from cluster_store.layout import DatasetLayout

FORMAT = "photonflow clusters"
"""The root attribute `format` by which a dataset of ours is known."""

FORMAT_VERSION = 1
CONVENTIONS = "CF-1.11"


class FrameStatus(IntEnum):
    """The values of `frame_status`."""

    OK = 0
    UNREADABLE = 1
    FAILED = 2


@dataclass(frozen=True)
class Variable:
    """One array of the dataset, before it has a length."""

    name: str
    dims: tuple[str, ...]
    dtype: str
    attrs: Mapping[str, Any] = field(default_factory=dict)


def cluster_variables(layout: DatasetLayout) -> tuple[Variable, ...]:
    """The arrays along `cluster`, one row a photon cluster; none where the layout has no list of them."""
    if not layout.cluster_list:
        return ()
    return (
        Variable(
            "frame_index",
            ("cluster",),
            "uint32",
            {"long_name": "position of the cluster's frame along the dimension frame"},
        ),
        Variable("y", ("cluster",), layout.position_dtype, {"long_name": "row of the central pixel", "units": "pixel"}),
        Variable(
            "x", ("cluster",), layout.position_dtype, {"long_name": "column of the central pixel", "units": "pixel"}
        ),
        Variable(
            "signal",
            ("cluster", "cluster_y", "cluster_x"),
            layout.signal_dtype,
            {"long_name": "pedestal-subtracted signal", "units": "ADU"},
        ),
    )


def frame_variables(layout: DatasetLayout | None = None) -> tuple[Variable, ...]:
    """The arrays along `frame`; only where the layout has a list of clusters can `n_clusters` be said to count rows."""
    # CF 9.3.3, contiguous ragged array: the rows of frame i follow those of the frames before it.
    ragged = {"sample_dimension": "cluster"} if layout is None or layout.cluster_list else {}
    return (
        Variable(
            "n_clusters",
            ("frame",),
            "uint32",
            {"long_name": "clusters in the frame"} | ragged,
        ),
        Variable("frame_number", ("frame",), "uint64", {"long_name": "the archive's number of the frame"}),
        Variable(
            "frame_status",
            ("frame",),
            "uint8",
            {
                "long_name": "status of the frame",
                "flag_values": [int(status) for status in FrameStatus],
                "flag_meanings": " ".join(status.name.lower() for status in FrameStatus),
            },
        ),
    )


def window_offsets(layout: DatasetLayout) -> tuple[tuple[Variable, range], ...]:
    """The two small coordinate variables: where each pixel of the window lies, seen from the central one."""
    if not layout.cluster_list:
        return ()
    return tuple(
        (
            Variable(name, (name,), "int16", {"long_name": f"{what} offset from the central pixel", "units": "pixel"}),
            range(-(side // 2), side // 2 + 1),
        )
        for name, what, side in zip(("cluster_y", "cluster_x"), ("row", "column"), layout.cluster_size, strict=True)
    )


ARRAY_NAMES = (
    "frame_index", "y", "x", "signal", "n_clusters", "frame_number", "frame_status", "cluster_y", "cluster_x",
)  # fmt: skip
"""The arrays of the root group."""

CLUSTER_LIST, ABSENT = "cluster_list", "absent"
"""The root attribute that says that there are no arrays along `cluster`."""

GROUPS = ("pedestal", "batches", "products")
"""The groups beside them, whose arrays the run names."""

PEDESTAL_ATTRS: Mapping[str, Mapping[str, str]] = {
    "x0": {"long_name": "reference level: the rounded mean of the dark frames", "units": "ADU"},
    "s1": {"long_name": "running sum of the distance from x0", "units": "ADU"},
    "s2": {"long_name": "running sum of the squared distance from x0", "units": "ADU2"},
    "trained_variance": {"long_name": "variance of the dark frames", "units": "ADU2"},
    "mean": {"long_name": "trained pedestal", "units": "ADU"},
    "noise": {"long_name": "trained noise, one standard deviation", "units": "ADU"},
}
"""CF attributes of the pedestal the run started from, each variable (y, x)."""

PEDESTAL_STATE: Mapping[str, str] = {"x0": "int64", "s1": "float32", "s2": "float32", "trained_variance": "float32"}
"""The types of the planes from which the pedestal is read back."""
