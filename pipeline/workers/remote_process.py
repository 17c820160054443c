"""``python -m pipeline.workers.remote_process -m MODULE …``: run a module for as long as somebody holds its stdin.

Started by SSH, a process outlives whoever started it: nothing tells it that the connection has ended but its stdin,
which is then at its end.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading

SECONDS_TO_END = 10.0


def main(arguments: list[str]) -> None:
    """Run a module under its own arguments, and end the process, with its children, when stdin does."""
    if arguments[:1] != ["-m"] or len(arguments) < 2:
        raise SystemExit("usage: python -m pipeline.workers.remote_process -m MODULE …")
    if os.getpid() != os.getpgrp():
        os.setpgid(0, 0)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    sys.argv = arguments[1:]
    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


def _end_with_stdin() -> None:
    # The descriptor, not the file object, whose lock would be held when Python ends.
    while os.read(0, 4096):
        pass
    # Dask ends its workers on this, in good order; what hangs is ended by force.
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(SECONDS_TO_END)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
