"""The attributes of the whole dataset, checked before they are written."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from cluster_store.layout import DatasetLayout
from cluster_store.schema import ABSENT, CLUSTER_LIST, CONVENTIONS, FORMAT, FORMAT_VERSION


def own_attributes(layout: DatasetLayout, run_id: str = "") -> dict[str, Any]:
    """What every dataset says of itself, whatever the run adds."""
    return (
        {
            "Conventions": CONVENTIONS,
            "title": "Photon clusters",
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "status": "running",
            "first_frame": layout.first_frame,
            "n_frames": layout.n_frames,
            "batch_size": layout.batch_size,
            "frame_shape": list(layout.frame_shape),
            "cluster_size": list(layout.cluster_size),
            "signal_dtype": layout.signal_dtype,
        }
        | ({} if layout.cluster_list else {CLUSTER_LIST: ABSENT})
        | ({"run_id": run_id} if run_id else {})
    )


# A run may give its own title; the rest is this package's to say.
RESERVED = frozenset(("Conventions", "format", "format_version", "status"))


def plain_attributes(attrs: Mapping[str, Any], layout: DatasetLayout, run_id: str = "") -> dict[str, Any]:
    """The run's attributes as JSON would give them back: tuples as lists, NumPy numbers as Python's.

    Raises:
        ValueError: An attribute that JSON cannot hold (NaN included), or one that this package sets itself otherwise.
    """
    own = {"run_id": run_id} | own_attributes(layout)
    plain = {}
    for name, value in attrs.items():
        try:
            plain[name] = json.loads(json.dumps(value, allow_nan=False, default=_plain))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Attribute {name!r} is {value!r}, which JSON cannot hold; "
                "give strings, finite numbers, true or false, or lists and dicts of them."
            ) from error
        if name in RESERVED or (name in own and name != "title" and plain[name] != own[name]):
            raise ValueError(f"Attribute {name!r} is set by the dataset itself; give yours another name.")
    return plain


def _plain(value: object) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
