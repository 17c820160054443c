"""What an archive says of how it was made: sources and their digests, what they say of themselves, the command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from pipeline.ingest.plan import IngestPlan
from pipeline.output.provenance import history_line, versions

_MOST_FILES = 1000
_LONGEST, _MOST_FACTS = 500, 200


def of_unfinished(plan: IngestPlan, command: str, begun: bool) -> dict[str, Any]:
    """Attributes of an archive that is being written; `begun` if all but its frames is there."""
    return {**plan.attrs, "ingest": {"status": "running", "plan": plan.digest if begun else None, "command": command}}


def of_finished(
    plan: IngestPlan,
    digests: Mapping[str, npt.NDArray[np.uint64]],
    command: str,
    ended_early: tuple[str, ...],
    verify: str,
    n_verified: int,
) -> dict[str, Any]:
    """Attributes of an archive that is complete.

    Args:
        plan: What it is made of.
        digests: XXH3-64 of each frame, of ``frames`` and ``dark``, as many as there are.
        command: What the user typed.
        ended_early: Which source ended before it should have.
        verify: Which chunks were read back.
        n_verified: How many they were.
    """
    said: dict[str, Any] = {
        "status": "complete",
        "command": command,
        "versions": versions(),
        "formats": list(plan.gathered.formats),
        "sources": _sources(plan, digests["frames"]),
        "frames_digest": _digest_of(digests["frames"]),
        "digests": "XXH3-128 over the XXH3-64 of each frame; of a source in its own order",
        "header": _plain(plan.gathered.header),
        "problems": list(plan.gathered.problems),
        "ended_early": list(ended_early),
        "verify": verify,
        "chunks_verified": n_verified,
    }
    if plan.dark is not None:
        said["dark"] = {
            "from": list(plan.dark_files)[:_MOST_FILES],
            "frames": len(digests["dark"]),
            "digest": _digest_of(digests["dark"]),
        }
    return {"history": history_line(command), "ingest": said}


def _sources(plan: IngestPlan, digests: npt.NDArray[np.uint64]) -> list[dict[str, Any]]:
    """One entry a file; where there are more than a page has room for, one for all of them."""
    in_source = digests
    if plan.gathered.order is not None:
        in_source = np.zeros(len(plan.gathered.order), np.uint64)
        in_source[plan.gathered.order[plan.n_dark_first :][: len(digests)]] = digests
    elif plan.n_dark_first:
        in_source = np.concatenate([np.zeros(plan.n_dark_first, np.uint64), digests])
    files = plan.gathered.files
    if len(files) > _MOST_FILES:
        return [
            {
                "first": str(files[0].path),
                "last": str(files[-1].path),
                "files": len(files),
                "frames": len(digests),
                "digest": _digest_of(in_source),
            }
        ]
    entries, first = [], 0
    for file in files:
        own = in_source[first : first + file.n_frames]
        status = file.path.stat()
        entries.append(
            {
                "path": str(file.path.absolute()),
                **({"bytes": status.st_size} if file.path.is_file() else {}),
                "modified_ns": status.st_mtime_ns,
                **({"frames": len(own), "digest": _digest_of(own)} if file.n_frames else {}),
            }
        )
        first += file.n_frames
    return entries


def _digest_of(digests: npt.NDArray[np.uint64]) -> str:
    return xxhash.xxh3_128_hexdigest(digests.astype("<u8").tobytes())


def _plain(header: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as JSON holds them, none longer than a line or two."""
    plain: dict[str, Any] = {}
    for name, value in list(header.items())[:_MOST_FACTS]:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not np.isfinite(value):
            value = str(value)
        plain[str(name)] = value if isinstance(value, bool | int | float) else str(value)[:_LONGEST]
    return plain
