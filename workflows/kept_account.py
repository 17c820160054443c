"""The account of a run's time that its dataset keeps, believed only if it is one: attributes can be edited by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from workflows.reporting.style import PARTS, STAGES

_Check = Callable[[Any], bool]
_OF_STAGES = {"at the bound", "overlap lost", "below ceilings"}


def kept_account(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The account that a dataset's attributes keep; nothing without one, or if it is not whole.

    As :meth:`roofline.accounting.Account.as_dict` gives it, with `advice` and `ceilings`.
    """
    try:
        account = json.loads(attrs["throughput"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}
    if not (isinstance(account, dict) and _fits(account, _ACCOUNT) and _is_consistent(account)):
        return {}
    parts = account["worker_seconds"]
    if account["bound_frames_a_second"] is None and parts.keys() >= _OF_STAGES:
        # Before a run without a bound kept what its stages took as one part, it was in these three.
        others = {name: seconds for name, seconds in parts.items() if name not in _OF_STAGES}
        account["worker_seconds"] = {"in the stages": sum(parts[name] for name in _OF_STAGES), **others}
    return account


def _is_time(value: Any) -> bool:
    """Seconds, or a rate: a number that is not negative."""
    return _is_number(value) and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _or_none(check: _Check) -> _Check:
    return lambda value: value is None or check(value)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_stages(values: Any) -> bool:
    return isinstance(values, dict) and all(
        name in STAGES and isinstance(stage, dict) and _fits(stage, _STAGE) for name, stage in values.items()
    )


def _is_parts(values: Any) -> bool:
    # Floors are taken off what the stages took: the last digit may be below zero.
    allowed = (PARTS.keys() - {"in the stages"}, PARTS.keys() - _OF_STAGES)
    return isinstance(values, dict) and values.keys() in allowed and all(map(_is_number, values.values()))


def _is_ceilings(values: Any) -> bool:
    from pipeline.ceilings import Ceilings  # late: it brings Dask along

    try:
        Ceilings.from_json(values)
    except (KeyError, TypeError, ValueError):
        return False
    return True


_STAGE: dict[str, _Check] = {
    "busy_seconds": _is_number,
    "nbytes": _is_count,
    "microseconds_a_frame": _or_none(_is_number),
    "bytes_a_second": _or_none(_is_time),
    "ceiling": _is_text,
    "ceiling_bytes_a_second": _or_none(_is_positive),
    "share_of_ceiling": _or_none(_is_time),
}
_ACCOUNT: dict[str, _Check] = {
    "advice": _is_text,
    "binds": _or_none(_is_text),
    "frames": _is_count,
    "seconds": _is_time,
    "workers": _is_count,
    "stages": _is_stages,
    "worker_seconds": _is_parts,
    "idle_seconds": _is_time,
    "minor_faults": _is_count,
    "seconds_a_fault": _or_none(_is_time),
    "bound_frames_a_second": _or_none(_is_positive),
    "frames_a_second": _or_none(_is_time),
    "share_of_bound": _or_none(_is_time),
}


def _fits(values: Mapping[str, Any], checks: Mapping[str, _Check]) -> bool:
    return all(name in values and check(values[name]) for name, check in checks.items())


def _is_consistent(account: Mapping[str, Any]) -> bool:
    """Whether frames took time, on workers and in stages, and the ceilings, if there are any, are ceilings."""
    took = account["workers"] > 0 and account["seconds"] > 0
    took = took and all(stage["microseconds_a_frame"] is not None for stage in account["stages"].values())
    took = (took or not account["frames"]) and _or_none(_is_time)(account.get("handed_out"))
    return took and _or_none(_is_ceilings)(account.get("ceilings"))
