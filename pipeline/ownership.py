"""Who is writing a dataset: so that no run replaces what another is at work on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import zarr

from cluster_store import dataset_status
from pipeline import provenance

# Runs of this process that are at work: one that failed is over although its process lives on, in a notebook say.
_at_work: set[str] = set()


def writer_attributes() -> dict[str, Any]:
    """What a dataset says of its writer while it is being written."""
    me = psutil.Process()
    return {"writer_host": provenance.host(), "writer_pid": me.pid, "writer_began": me.create_time()}


@contextmanager
def at_work(run_id: str) -> Iterator[None]:
    """Mark a run of this process as being at work."""
    _at_work.add(run_id)
    try:
        yield
    finally:
        _at_work.discard(run_id)


def living_writer(path: str) -> str | None:
    """Which process of this machine is writing the dataset at ``path``, in words; None if none is known to.

    A writer on another machine can't be seen from here.
    """
    if dataset_status(path) != "running":
        return None
    attrs = zarr.open_group(path, mode="r").attrs
    host, pid = attrs.get("writer_host"), attrs.get("writer_pid")
    if host != provenance.host() or not isinstance(pid, int):
        return None
    if pid == os.getpid():
        return "this process" if attrs.get("run_id") in _at_work else None
    try:
        began = psutil.Process(pid).create_time()
    except psutil.Error:
        return None
    # Another process may have the number by now.
    return f"process {pid} on {host}" if began == attrs.get("writer_began") else None
