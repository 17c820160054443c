"""Calls that may never return, waited for no longer than one likes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Asked:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], Any], what: str) -> None:
        self._call = call
        self._answers: list[Any] = []
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._ask, daemon=True, name=what)
        self._thread.start()

    def _ask(self) -> None:
        try:
            self._answers.append(self._call())
        except BaseException as error:
            self._errors.append(error)

    def done_within(self, seconds: float) -> bool:
        """Whether there is an answer, after so many seconds at most."""
        self._thread.join(timeout=seconds)
        return not self._thread.is_alive()

    def answer(self) -> Any:
        """What the call returned, or raised."""
        if self._errors:
            raise self._errors[0]
        return self._answers[0]
