"""Files kept open between reads, for opening some costs as much as reading a frame."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
_KEPT = 4


class OpenFiles:
    """The last few files that a thread opened with `open_file`; a file that has changed is opened anew."""

    def __init__(self, open_file: Callable[..., T]) -> None:
        self._open_file = open_file
        self._kept = threading.local()

    def __call__(self, path: str, *more: Any) -> Any:
        """Return the open file of `open_file(path, *more)`."""
        kept: OrderedDict[Any, Any] = self._kept.__dict__.setdefault("files", OrderedDict())
        status = Path(path).stat()
        key = (path, *more)
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if key in kept and kept[key][0] == stamp:
            kept.move_to_end(key)
            return kept[key][1]
        self._close(kept.pop(key, None))
        file = self._open_file(path, *more)
        kept[key] = (stamp, file)
        while len(kept) > _KEPT:
            self._close(kept.popitem(last=False)[1])
        return file

    def forget(self) -> None:
        """Close what this thread has open."""
        kept: OrderedDict[Any, Any] = self._kept.__dict__.setdefault("files", OrderedDict())
        while kept:
            self._close(kept.popitem()[1])

    @staticmethod
    def _close(entry: Any) -> None:
        if entry is not None:
            with suppress(Exception):
                entry[1].close()
