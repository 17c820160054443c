"""Ctrl-C, SIGTERM and a closed terminal: the first ends a command in good order, a second one at once."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

import psutil

SECONDS_TO_STOP = 10.0
"""What has not ended in good order by then is ended at once."""

_WORDS = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "the terminal was closed"}
# `timeout` and closing terminals send their signal twice; nobody is that impatient.
_SECONDS_OF_AN_ECHO = 1.0


class Interruption(KeyboardInterrupt):
    """A signal that ends the command, with what the user should know.

    Args:
        signum: The signal.
        advice: What is left, and how to go on from there.
    """

    def __init__(self, signum: int, advice: str = "") -> None:
        word = _WORDS[signal.Signals(signum).name]
        super().__init__(f"{word}; {advice}" if advice else word)
        self.signum = signum

    @property
    def code(self) -> int:
        """What a shell reports of a process that the signal ended."""
        return 128 + self.signum

    @staticmethod
    def of(interruption: KeyboardInterrupt, advice: str) -> Interruption:
        """The same interruption, with advice."""
        signum = interruption.signum if isinstance(interruption, Interruption) else signal.SIGINT
        return Interruption(signum, advice)


class Interruptions:
    """What happens to the signals that end a command.

    The first raises :class:`Interruption` in the main thread, or, within :meth:`held`, is only noted, for the code
    there to ask for. A second Ctrl-C ends the process and all its children at once, and so does a first one that has
    not led to the end within :data:`SECONDS_TO_STOP`, whatever the main thread is stuck in: a thread of its own sees
    to that.

    Attributes:
        received: The first signal that came.
        left: What to say of what is left behind if the process is ended at once.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self.left = ""
        self._holding = False
        self._leaving_at_once = False
        self._on_first: Callable[[], object] = lambda: None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Take the signals over for as long as a command runs; those that are ignored (``nohup``) stay so."""
        self.received, self.left = None, ""
        names = [name for name in _WORDS if hasattr(signal, name)]
        signals = [signal.Signals[name] for name in names if signal.getsignal(signal.Signals[name]) != signal.SIG_IGN]
        ours, wakeup = socket.socketpair()
        wakeup.setblocking(False)
        before: dict[int, Any] = {number: signal.signal(number, self._receive) for number in signals}
        fd_before = signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        watcher = threading.Thread(target=self._watch, args=(ours, set(signals)), daemon=True, name="interruptions")
        watcher.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(fd_before)
            for number, handler in before.items():
                signal.signal(number, handler)
            wakeup.send(b"\0")
            watcher.join()
            ours.close()
            wakeup.close()

    @contextmanager
    def held(self, on_first: Callable[[], object]) -> Iterator[Callable[[], bool]]:
        """Don't raise at the first signal: hand out a function that says whether one came.

        Raises:
            Interruption: At the end, if a signal came and nothing else was raised.
        """
        self._holding, self._on_first = True, on_first
        try:
            yield lambda: self.received is not None
        finally:
            self._holding, self._on_first = False, lambda: None
        if self.received is not None:
            raise Interruption(self.received)

    @contextmanager
    def leaving_at_once(self) -> Iterator[None]:
        """End the process at the first signal, where raising could break what is going on, such as an import."""
        self._leaving_at_once = True
        try:
            yield
        finally:
            self._leaving_at_once = False

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        if self.received is not None:
            return
        self.received = signal.Signals(signum)
        if self._leaving_at_once:
            self._end_at_once(self.received, "")
        if not self._holding:
            raise Interruption(signum)
        # A closed terminal can't be written to.
        with suppress(OSError):
            self._on_first()

    def _watch(self, source: socket.socket, signals: set[signal.Signals]) -> None:
        first: signal.Signals | None = None
        began = 0.0
        while True:
            patience = None if first is None else max(began + SECONDS_TO_STOP - time.monotonic(), 0)
            ready, _, _ = select.select([source], [], [], patience)
            if first is not None and not ready:
                self._end_at_once(first, f" and not done within {SECONDS_TO_STOP:.0f} s")
            for number in source.recv(64) if ready else b"":
                if number == 0:
                    return
                if number not in signals:
                    continue
                if first is None:
                    first, began = signal.Signals(number), time.monotonic()
                elif number == signal.SIGINT or time.monotonic() - began > _SECONDS_OF_AN_ECHO:
                    self._end_at_once(first, " twice")

    def _end_at_once(self, signum: signal.Signals, how: str) -> NoReturn:
        # A live progress line hides the cursor.
        cursor = "\x1b[?25h\n" if sys.stderr is not None and sys.stderr.isatty() else ""
        stderr = 2
        with suppress(OSError):
            # Threads that look after workers see them end, and would say so with a traceback each.
            stderr = os.dup(2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with suppress(psutil.Error):
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    child.kill()
        left = f"; {self.left}" if self.left else ""
        with suppress(OSError):
            os.write(stderr, f"{cursor}photonflow: {_WORDS[signum.name]}{how}{left}\n".encode(errors="replace"))
        os._exit(128 + signum)


interruptions = Interruptions()
"""Of this process: signals are a process's, so there is one."""
