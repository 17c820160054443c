"""Values of options that several commands read in the same way."""

from __future__ import annotations

import math
import re
from typing import Any

import click

from finder import CommonMode
from finder.products import PRODUCTS, SpectrumBins


class NumberRange(click.FloatRange):
    """Numbers of a range, of which what is not a number is none: every comparison with it is false."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


def size(ctx: click.Context, param: click.Parameter, text: str) -> tuple[int, int]:
    """Rows and columns, as in ``3x3``."""
    match = re.fullmatch(r"(-?\d+)[xX×](-?\d+)", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not rows x columns, such as 3x3", ctx, param)
    return int(match[1]), int(match[2])


def common_mode(ctx: click.Context, param: click.Parameter, text: str) -> CommonMode | None:
    """What moves together, as in ``row``; None for ``off``."""
    if text == "off":
        return None
    try:
        return CommonMode.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def spectrum_bins(ctx: click.Context, param: click.Parameter, text: str) -> SpectrumBins:
    """The bins of a spectrum, as in ``0:16384:1``: lowest energy, end, width, whole ADU."""
    match = re.fullmatch(r"(-?\d+):(-?\d+):(\d+)", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not low:high:width in whole ADU, such as 0:16384:1", ctx, param)
    return SpectrumBins(*map(int, match.groups()))


def product_names(ctx: click.Context, param: click.Parameter, text: str) -> tuple[str, ...]:
    """Names of products, as in ``spectrum,eta``."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in PRODUCTS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(PRODUCTS)}", ctx, param)
    return names


def frame_range(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[int | None, int | None]:
    """A half-open range of frames, as in ``1000:5000``, ``:5000`` or ``1000:``."""
    if text is None:
        return None, None
    match = re.fullmatch(r"(-?\d+)?:(-?\d+)?", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a range of frames, such as 1000:5000", ctx, param)
    first, stop = (None if side is None else int(side) for side in match.groups())
    return first, stop


def widths_at(ctx: click.Context, param: click.Parameter, text: str | None) -> tuple[float, float] | None:
    """Noise widths and the frames that go with them, as in ``3@1000``."""
    if text is None:
        return None
    widths, at, frames = text.partition("@")
    try:
        if not at:
            raise ValueError
        return float(widths), float(frames)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not noise widths @ frames, such as 3@1000", ctx, param) from error
