"""Dask's own report of what scheduler and workers did: one HTML file."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client, performance_report


def require_report_place(path: str) -> None:
    """Make sure, before anything begins, that a report can be made and written.

    Raises:
        ValueError: Bokeh, which draws it, is not installed.
        OSError: There is no folder for it, or it can't be written there.
    """
    if importlib.util.find_spec("bokeh") is None:
        raise ValueError("--performance-report needs Bokeh: pip install 'photonflow[report]'")
    place = Path(path)
    if place.is_dir():
        raise IsADirectoryError(f"{path} is a folder: --performance-report takes the name of a file to write")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"{place.parent} is not there: --performance-report {path} can't be written into it")
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise PermissionError(f"{path} can't be written: give --performance-report another place")


@contextmanager
def reported(client: Client, path: str, what: str, on_notice: Callable[[str], object]) -> Iterator[None]:
    """Have Dask write its report of what is done within, also if that fails.

    Args:
        client: The cluster.
        path: The HTML file.
        what: What is done, for the report's summary.
        on_notice: Told where the report could not be made: no reason for a run to fail.
    """
    with client.as_current():
        # With all that it needs inside: a browser at a facility may reach nothing else.
        report = performance_report(path, mode="inline")
        try:
            client.sync(report.__aenter__)
        except Exception as error:
            on_notice(f"there will be no performance report: {_sentence(error)}")
            yield
            return
        try:
            yield
        finally:
            try:
                client.sync(report.__aexit__, None, None, None, code=what, callback_timeout=60)
            except Exception as error:
                on_notice(f"{path} could not be written: {_sentence(error)}")


def _sentence(error: Exception) -> str:
    return str(error) or type(error).__name__
