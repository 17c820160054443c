"""How far an ingest is: bytes done, bytes a second, and the time left."""

from __future__ import annotations

from roofline.accounting import StageBar
from workflows.progress import RunProgress, duration


def readable(nbytes: float) -> str:
    """Bytes as a person reads them, in powers of ten."""
    for unit, name in ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if nbytes >= unit:
            return f"{nbytes / unit:.3g} {name}"
    return f"{nbytes:.0f} bytes"


class ByteProgress(RunProgress):
    """As `RunProgress`, of bytes."""

    def of(self, total: int) -> None:
        """Say how many bytes there are, once that is known."""
        self._total = total
        self._progress.update(self._task, total=max(total, 1))

    def _figures(self, frames: int, own: int, clusters: int | None, tallest: StageBar | None, seconds: float) -> str:
        parts = [f"{readable(frames)} of {readable(self._total)}"]
        if frames > 0 and seconds > 0:
            parts.append(f"{readable(frames / seconds)}/s")
            if frames < self._total:
                parts.append(f"{duration(seconds * (self._total - frames) / frames)} left")
        assert clusters is None
        return ", ".join(parts)
