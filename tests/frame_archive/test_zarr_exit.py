"""The end of a Python process in which zarr has worked."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import time
import numpy as np
import zarr
from zarr.core import sync
{load}
zarr.create_array({{}}, data=np.zeros(3))
# What a busy machine does to zarr's thread: it has no time to stop when it is asked to.
sync.loop[0].call_soon_threadsafe(time.sleep, 1)
"""


def stderr_of(load: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(load=load)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0
    return done.stderr


def test_a_busy_machine_does_not_make_zarr_end_in_a_traceback():
    assert stderr_of("import frame_archive") == ""


def test_zarr_still_needs_this():
    assert "Cannot close a running event loop" in stderr_of("")
