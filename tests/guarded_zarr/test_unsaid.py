"""Warnings of libraries that are left unsaid, in several threads."""

from __future__ import annotations

import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

from guarded_zarr import unsaid


def test_threads_that_leave_warnings_unsaid_say_none_and_leave_the_filters_as_they_were():
    before = list(warnings.filters)
    together = threading.Barrier(8)

    def quiet(_: int) -> None:
        together.wait()
        for _ in range(200):
            with unsaid(UserWarning):
                warnings.warn("of no use", UserWarning, stacklevel=1)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(quiet, range(8)))
    finally:
        sys.setswitchinterval(interval)
    assert list(warnings.filters) == before
