"""Times as people and Slurm write them."""

from __future__ import annotations

import re

from dask.utils import parse_timedelta

_SLURM = re.compile(r"(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})")


def seconds_of(span: str | float, name: str) -> float:
    """A time in s, given as a number of seconds or in words (``5 minutes``).

    Raises:
        ValueError: It is no time, or none above 0.
    """
    try:
        seconds = float(parse_timedelta(span))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{name}: {span!r} is no time, such as 5 minutes or 90 s") from error
    if not seconds > 0:
        raise ValueError(f"{name}: {span!r} is no time above 0")
    return seconds


def seconds_of_walltime(walltime: str | float, name: str) -> int:
    """A time in s, given as Slurm takes it (``1-12:00:00``, ``90:00``) or in words (``90 minutes``).

    A number alone is refused: to Slurm it is minutes, to Dask seconds.

    Raises:
        ValueError: It is no time.
    """
    if not isinstance(walltime, str) or walltime.strip().isdigit():
        raise ValueError(f"{name}: {walltime!r} has no unit: write 01:30:00 or 90 minutes")
    if ":" in walltime or "-" in walltime:
        match = _SLURM.fullmatch(walltime.strip())
        if match is None:
            raise ValueError(f"{name}: {walltime!r} is no time, such as 02:00:00, 1-12:00:00 or 2 hours")
        numbers = [int(number) for number in match["rest"].split(":")]
        if match["days"] is not None:
            # After days come hours; without them a first number of two is minutes.
            hours, minutes, seconds = [*numbers, 0, 0][:3]
            return int(match["days"]) * 86_400 + hours * 3600 + minutes * 60 + seconds
        hours, minutes, seconds = [0, 0, *numbers][-3:]
        return hours * 3600 + minutes * 60 + seconds
    return round(seconds_of(walltime, name))


def slurm_walltime(seconds: int) -> str:
    """A time in s as ``days-hours:minutes:seconds``."""
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}-{hour:02}:{minute:02}:{second:02}"
