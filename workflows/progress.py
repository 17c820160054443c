"""How far a run is, on stderr: a live line in a terminal, plain lines where there is none."""

from __future__ import annotations

import math
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from roofline.accounting import StageBar
from workflows.printable import printable
from workflows.run_figures import percent, rate

_PLAIN_LINES = 10
_LONGEST_SILENCE = 30.0
# Of 80 columns the figures that matter most leave so many for a bar.
_BAR = 6
# So many frames are told in millions.
_MANY = 10_000_000


class RunProgress:
    """Frames done, frames/s, the time left, the stage that binds, clusters/s; a context manager.

    Rates are means so far: they count from the last `step` before the first frame was done, so that starting workers
    does not slow them, and count nothing that an earlier run had done.

    Args:
        total_frames: Frames of the whole run.
        enabled: False shows nothing but notes.
        stream: Where to write; stderr by default.
    """

    def __init__(self, total_frames: int, enabled: bool = True, stream: TextIO | None = None) -> None:
        self._total = total_frames
        self._enabled = enabled
        self._console = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True)
        self._text = ""
        self._frames = 0
        self._offset = math.nan
        self._began = self._last_line = time.monotonic()
        self._live = enabled and self._console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=_BAR),
            TextColumn("{task.fields[figures]}"),
            console=self._console,
            transient=True,
            disable=not self._live,
        )
        self._task = self._progress.add_task("", total=max(total_frames, 1), figures="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Nor is a closed terminal left as it was found; what ended the run matters more.
        with suppress(OSError):
            self._progress.stop()

    def step(self, text: str) -> None:
        """Say what the run does from now on, such as ``training the pedestal``."""
        self._text = text = printable(text)
        if self._frames == 0:
            self._began = time.monotonic()
        self._progress.update(self._task, description=text, refresh=True)
        if self._enabled and not self._live:
            self._line(text)

    def note(self, text: str) -> None:
        """Print a line that stays, whether progress is shown or not."""
        self._line(text)

    def update(
        self,
        frames_done: int,
        clusters_done: int | None = None,
        offset: float = math.nan,
        tallest: StageBar | None = None,
        *,
        frames_before: int = 0,
        seconds: float | None = None,
    ) -> None:
        """Say how far the run is.

        Args:
            frames_done: How many frames are done.
            clusters_done: How many clusters this run found.
            offset: How far the pedestal was off, in noise widths.
            tallest: The stage in which most time went.
            frames_before: How many of the frames this run did not go through: an earlier one had.
            seconds: How long it took this run, in s; None: as long as it has gone on.
        """
        before, self._frames = self._frames, frames_done
        self._offset = offset if math.isfinite(offset) else self._offset
        seconds = time.monotonic() - self._began if seconds is None else seconds
        figures = self._figures(frames_done, frames_done - frames_before, clusters_done, tallest, seconds)
        # Where a narrow terminal has no room for all, the figures say enough.
        text = "" if frames_done and not before else None
        self._progress.update(self._task, completed=frames_done, figures=figures, description=text)
        if self._enabled and not self._live and frames_done > before and self._is_due(before, frames_done):
            self._line(figures)

    def all_found(self) -> None:
        """Say in a terminal that what is left is to write, which is in the time of the run, too."""
        figures = f"{self._total:,} of {self._total:,} frames found, writing their last clusters"
        self._progress.update(self._task, completed=self._total, figures=figures, description="")

    def _is_due(self, before: int, done: int) -> bool:
        tenth = done * _PLAIN_LINES // max(self._total, 1) > before * _PLAIN_LINES // max(self._total, 1)
        return tenth or time.monotonic() - self._last_line > _LONGEST_SILENCE

    def _figures(self, frames: int, own: int, clusters: int | None, tallest: StageBar | None, seconds: float) -> str:
        """What matters most comes first, because a narrow terminal cuts the end off."""
        parts = [f"{_frames_of(frames, self._total)} frames"]
        if own <= 0 or seconds <= 0:
            return parts[0]
        parts.append(f"{rate(own / seconds)} frames/s")
        if frames < self._total:
            parts.append(f"{duration(seconds * (self._total - frames) / own)} left")
        if tallest is not None:
            parts.append(f"{tallest.name} binds")
        if clusters is not None:
            parts.append(_cluster_rate(clusters / seconds))
        if math.isfinite(self._offset):
            parts.append(f"pedestal {self._offset:+z.2f} σ")
        if tallest is not None:
            parts.append(_reached(tallest))
        return ", ".join(parts)

    def _line(self, text: str) -> None:
        self._last_line = time.monotonic()
        # Where nobody can read along any more (a closed terminal) the run goes on, or ends in good order.
        with suppress(OSError):
            self._console.print(printable(text), markup=False)


def _frames_of(done: int, total: int) -> str:
    return f"{done:,} of {total:,}" if total < _MANY else f"{done / 1e6:.1f} of {total / 1e6:.1f} M"


def _reached(tallest: StageBar) -> str:
    reached, share = tallest.use.bytes_a_second, tallest.share_of_ceiling
    of_ceiling = f", {percent(share)} of its ceiling" if math.isfinite(share) else ""
    return f"{tallest.name} {reached / 1e9:.2g} GB/s a worker{of_ceiling}"


def _cluster_rate(clusters: float) -> str:
    return f"{clusters / 1e6:.2f} M clusters/s" if clusters >= 1e5 else f"{clusters:,.0f} clusters/s"


def duration(seconds: float) -> str:
    """Seconds as a person reads them."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
