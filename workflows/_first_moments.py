"""Ctrl-C while Python still imports: one line and no traceback. Imports nothing that takes time."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType


def end_quietly_on_ctrl_c() -> None:
    """Let Ctrl-C end a program of ours at once, until the command takes signals over; nothing is begun yet.

    Where this package is imported into another program (a notebook, a test, a worker) its signals are left alone.
    """
    if _is_our_program() and signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def _is_our_program() -> bool:
    arguments = sys.orig_argv[1:]
    if "-m" in arguments:
        module = arguments[arguments.index("-m") + 1 :][:1]
        return bool(module) and module[0].split(".")[0] == "workflows"
    return any(os.path.basename(argument) in ("photonflow", "photonflow.exe") for argument in sys.orig_argv[:2])  # noqa: PTH119 (pathlib takes time)


def _leave(signum: int, frame: FrameType | None) -> None:
    os.write(2, b"photonflow: interrupted\n")
    os._exit(128 + signum)
