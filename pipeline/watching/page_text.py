"""Figures as the page writes them."""

from __future__ import annotations

import math

NONE = "–"


def whole(value: float) -> str:
    """A count or a rate, with separators; large ones in k, M or G with three digits: 2.82 M."""
    if not math.isfinite(value):
        return NONE
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}" if abs(value) < 100 * size else f"{value / size:,.0f} {unit}"
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.1f}"


def bytes_in_units(value: float) -> str:
    """Bytes: 1.42 GB."""
    if not math.isfinite(value):
        return NONE
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value < 100 * size else f"{value / size:,.0f} {unit}"
    return f"{value:.0f} B"


def widths(value: float) -> str:
    """Noise widths, signed; what rounds to zero has no sign of its own."""
    return f"{round(value, 3) + 0.0:+.3f} σ" if math.isfinite(value) else NONE


def share(value: float) -> str:
    """A share in per cent."""
    return "under 1%" if 0 < value < 0.005 else f"{value:.0%}" if math.isfinite(value) else NONE


def duration(seconds: float) -> str:
    """Seconds as a person reads them."""
    if not math.isfinite(seconds):
        return NONE
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


# Apart by these, times on an axis are read at a glance: in s.
_STEPS: tuple[float, ...] = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_STEPS += tuple(60.0 * minutes for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720))
# From here on they are told in days.
_IN_DAYS = 48 * 3600


def times_on_axis(seconds: float, at_most: int = 5) -> dict[float, str]:
    """Where an axis of so many seconds is marked, and with what: 0 s, 20 s; 0:30 min; 1:30 h; 2 d."""
    days = math.ceil(seconds / 86400 / at_most) * 86400.0
    step = days if seconds >= _IN_DAYS else next(step for step in _STEPS if seconds / step <= at_most)
    marks = [round(k * step, 1) for k in range(int(seconds / step + 1e-9) + 1)]
    return {mark: _time_on_axis(mark, seconds, step) for mark in marks}


def _time_on_axis(mark: float, seconds: float, step: float) -> str:
    if seconds < 60:
        return f"{mark:.1f} s" if step < 1 else f"{mark:.0f} s"
    if seconds >= _IN_DAYS:
        return f"{mark / 86400:.0f} d"
    minutes, unit = (mark / 60, "h") if seconds >= 3600 else (mark, "min")
    whole_part, rest = divmod(round(minutes), 60)
    return f"{whole_part}:{rest:02d} {unit}"
