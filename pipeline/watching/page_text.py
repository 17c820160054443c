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
    """Noise widths, signed."""
    return f"{value:+.3f} σ" if math.isfinite(value) else NONE


def share(value: float) -> str:
    """A share in per cent."""
    return f"{value:.0%}" if math.isfinite(value) else NONE


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
