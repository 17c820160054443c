"""The figures of a run's throughput, told alike by its summary, by ``inspect`` and in a report.

All are texts of one account, :meth:`roofline.accounting.Account.as_dict`, which the dataset keeps: nothing is worked
out a second time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from roofline.accounting import MEASURED_BY

Values = Mapping[str, Any]

# Ceilings of an archive's own files and chunks, which are named with those.
_WITH_DETAILS = ("read cold", "read warm", "read + decode", "decode", "write")
STAGE_HEADINGS = ("stage", "worker seconds", "µs a frame", "GB/s a worker", "ceiling", "reached", "limited by")


def number(value: float | None, form: str, absent: str = "–") -> str:
    """The number in this form, or what stands for one that there isn't."""
    return format(value, form) if value is not None and math.isfinite(value) else absent


def rate(frames_a_second: float | None, absent: str = "–") -> str:
    """Frames a second, in whole ones where there are many."""
    return number(frames_a_second, ",.0f" if (frames_a_second or 0) >= 100 else ".3g", absent)


def microseconds(value: float | None) -> str:
    """µs a frame, in whole ones where there are many."""
    return number(value, ",.0f" if (value or 0) >= 1000 else ",.1f")


def percent(share: float | None, absent: str = "–") -> str:
    """A share in per cent; one that is less than any is told as that."""
    return "<1%" if share is not None and 0 < share < 0.005 else number(share, ".0%", absent)


def is_of_a_gpu(stage: Values) -> bool:
    """Whether a stage is a GPU's, which passes within one of the workers'."""
    return stage.get("within") is not None


def stages_at_work(account: Values) -> dict[str, dict[str, Any]]:
    """The stages that did something, by name."""
    return {name: stage for name, stage in account.get("stages", {}).items() if stage["busy_seconds"] > 0}


def stage_rows(account: Values) -> list[tuple[str, ...]]:
    """A row of texts, as the headings say, for each stage that did something, and one for the time in none."""
    rows: list[tuple[str, ...]] = [
        (
            f"{'· ' * is_of_a_gpu(stage)}{name}{' ◀' * (name == account['binds'])}",
            f"{stage['busy_seconds']:.2f}",
            microseconds(stage["microseconds_a_frame"]),
            _gigabytes(stage["bytes_a_second"]),
            _gigabytes(stage["ceiling_bytes_a_second"]),
            percent(stage["share_of_ceiling"]),
            _limit(stage),
        )
        for name, stage in stages_at_work(account).items()
    ]
    if account["frames"]:
        idle: float = account["idle_seconds"]
        rows.append(("idle", f"{idle:.2f}", microseconds(idle / account["frames"] * 1e6), "", "", "", ""))
    return rows


def own_frames(account: Values, n_frames: int) -> str:
    """How many of a dataset's frames the account is of, where it is not of all."""
    return f"{account['frames']:,} of {n_frames:,}: the others are of an earlier run, or were skipped"


def startup_seconds(account: Values) -> float:
    """How long the run took before its first batch was handed out, in s."""
    seconds: float = account["worker_seconds"]["start-up"] / max(account["workers"], 1)
    return seconds


def pace(account: Values) -> str:
    """How long the run took, on how many workers."""
    workers = account["workers"]
    return f"on {workers} worker{'s' * (workers != 1)}, after {startup_seconds(account):.2f} to start up"


def bound(account: Values) -> str:
    """What the ceilings would allow beside what was reached."""
    most = account["bound_frames_a_second"]
    if most is None:
        return f"not known: a ceiling was not measured ({how_to_know(account)})"
    return (
        f"{rate(most)} frames/s; reached {rate(account['frames_a_second'])}, {percent(account['share_of_bound'])} of it"
    )


def time_shares(account: Values) -> str:
    """Where the workers' seconds went; nothing if there were none."""
    parts = account["worker_seconds"]
    total = sum(parts.values())
    shares = {name: seconds / total for name, seconds in parts.items()} if total > 0 else {}
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items() if abs(share) >= 0.005)


def page_faults(account: Values) -> str:
    """First touches of memory, and what they cost."""
    count, each = account["minor_faults"], account["seconds_a_fault"]
    if each is None:
        return f"{count:,}; what they cost was not measured"
    busy = sum(stage["busy_seconds"] for stage in account["stages"].values() if not is_of_a_gpu(stage))
    share = f": {count * each / busy:.0%} of the stages' time" if busy > 0 else ""
    return f"{count:,}, {each * 1e6:.2f} µs each, {count * each:.2f} worker seconds{share}"


def exceeded(account: Values) -> str:
    """The stages that were faster than was measured on this machine, as a sentence; nothing if there are none."""
    names = [name for name, stage in account["stages"].items() if stage.get("exceeds_ceiling")]
    if not names:
        return ""
    why = "which was busy then, perhaps, or had files in its page cache now and not then"
    what = f"{' and '.join(names)} did more than was measured on this machine, {why}"
    return f"{what}: measure again ({command})" if (command := measured_by(account)) else what


def measured_by(account: Values) -> str:
    """The command that measures the ceilings of such a run; empty where none does."""
    return str(account.get("measured_by", MEASURED_BY))  # Accounts of earlier versions have none.


def how_to_know(account: Values) -> str:
    """What to do about ceilings that were not measured."""
    command = measured_by(account)
    return f"{command}, then process again" if command else "those of object stores are not"


def _gigabytes(bytes_a_second: float | None) -> str:
    if bytes_a_second is None:
        return number(None, "")
    return number(bytes_a_second / 1e9, ".2f" if bytes_a_second >= 1e8 else ".2g")


def _limit(stage: Values) -> str:
    """Which measurement the ceiling is, as the table of ceilings calls it, without its types, codecs and places."""
    if stage["ceiling_bytes_a_second"] is None:
        return "not measured"
    return short_name(str(stage["ceiling"]))


def short_name(ceiling: str) -> str:
    """What a ceiling is on, without the files, chunks or place of the run that it was measured on."""
    if len(ceiling.split(" ")) == 2:
        return ceiling  # Such as a codec's, which is the machine's.
    return next((short for short in _WITH_DETAILS if ceiling.startswith(f"{short} ")), ceiling)
