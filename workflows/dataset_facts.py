"""What there is to know of a cluster dataset without reading its clusters."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from cluster_store import (
    DatasetLayout,
    FrameStatus,
    array_storage,
    dataset_status,
    open_dataset,
    read_attributes,
    read_layout,
    read_table,
)
from workflows import run_figures
from workflows.checksums import checksum_facts
from workflows.facts import Fact, Page, Section, human_bytes, missing_fact, opening_line, sizes, times
from workflows.kept_account import kept_account

PARAMETERS = (
    "n_sigma",
    "n_samples",
    "noise",
    "tracking",
    "warmup",
    "recentre",
    "common_mode",
    "gain_bits",
    "batch_size",
    "signal_dtype",
    "pedestal",
    "dark_clip",
)
ORIGIN = (
    "archive",
    "archive_fingerprint",
    "masked_pixels",
    "untrained_pixels",
    "switched_values",
    "dark_values",
    "dark_values_clipped",
    "dark_values_switched",
    "source",
    "device",
    "host",
    "versions",
    "history",
    "digest",
)
SHOWN_ELSEWHERE = (
    "status",
    "title",
    "n_frames",
    "first_frame",
    "frame_shape",
    "cluster_size",
    "format",
    "format_version",
    "cluster_list",
    "made_from",
    "throughput",
    "runs",
)
# Of so many ranges of frames that are not in a dataset the page says which they are.
_RANGES_SHOWN = 10


def dataset_page(path: str) -> Page:
    """The page of a dataset, complete or not."""
    attrs, layout = read_attributes(path), read_layout(path)
    account = kept_account(attrs)
    complete = dataset_status(path) == "complete"
    contents = _clusters(open_dataset(path)) if complete else [Fact("clusters", None, "not known before the end")]
    sections = [
        Section("clusters", [*_frames(attrs, layout), *contents]),
        Section("parameters", [_window(layout), *(Fact(name, attrs[name]) for name in PARAMETERS if name in attrs)]),
        Section("origin", [_origin(name, attrs[name]) for name in ORIGIN if name in attrs]),
        *_throughput(account, layout.n_frames),
        *_runs(attrs),
        *(_table(path, "pedestal", "pedestal against the frames", _movement) if complete else ()),
        *(_table(path, "products", "products", _products) if complete else ()),
        *(_table(path, "batches", "batches", partial(_batches, has_account=bool(account))) if complete else ()),
        Section("storage", _storage(path, layout)),
    ]
    known = {*PARAMETERS, *ORIGIN, *SHOWN_ELSEWHERE, "Conventions"}
    others = [Fact(name, value) for name, value in attrs.items() if name not in known]
    if others:
        sections.append(Section("other attributes", others, as_named=True))
    return Page("cluster dataset", path, sections, opening_line(path, layout.cluster_list))


def _origin(name: str, value: Any) -> Fact:
    """An attribute of the origin; a history has a line for each run."""
    return Fact(name, value, tuple(str(value).splitlines()) or None if name == "history" else None)


def _runs(attrs: dict[str, Any]) -> list[Section]:
    """The runs that worked on a dataset, if it took more than one."""
    try:
        facts = [
            Fact(f"run {run['run_id']}", f"{run['began']} to {run['ended'] or '?'}: {run['outcome'] or 'not ended'}")
            for run in json.loads(attrs["runs"])
        ]
    except (KeyError, TypeError, ValueError):
        return []
    return [Section("runs", facts)] if len(facts) > 1 else []


def _throughput(account: dict[str, Any], n_frames: int) -> list[Section]:
    """How fast the run was, and what held it back: what it said itself at its end."""
    if not account:
        return []
    facts = [
        Fact("advice", account["advice"]),
        Fact("binds", account["binds"], account["binds"] or "nothing"),
        Fact("frames_a_second", account["frames_a_second"], run_figures.rate(account["frames_a_second"])),
        Fact("seconds", account["seconds"], f"{account['seconds']:.2f} {run_figures.pace(account)}"),
        Fact("workers", account["workers"]),
        Fact("bound_frames_a_second", account["bound_frames_a_second"], run_figures.bound(account)),
        Fact("share_of_bound", account["share_of_bound"], run_figures.percent(account["share_of_bound"])),
        Fact("time", account["worker_seconds"], run_figures.time_shares(account)),
        Fact("page_faults", account["minor_faults"], run_figures.page_faults(account)),
    ]
    if account["frames"] != n_frames:
        facts.insert(2, Fact("frames_of_it", account["frames"], run_figures.own_frames(account, n_frames)))
    rows = {row[0].strip("· ◀"): row for row in run_figures.stage_rows(account)}
    values = account["stages"] | {"idle": account["idle_seconds"]}
    stages = [Fact(name, values[name], _stage(row)) for name, row in rows.items()]
    return [Section("throughput", facts), Section("stages", stages)]


def _stage(row: tuple[str, ...]) -> str:
    """A row of the run's table of stages, in a line."""
    _, seconds, micros, reached, ceiling, share, limit = row
    parts = [f"{seconds} worker seconds", f"{micros} µs a frame"]
    if reached:
        of = f" of {ceiling}" * (ceiling != "–")
        parts += [f"{reached}{of} GB/s a worker", *([share] if share != "–" else []), limit]
    return ", ".join(parts)


def _frames(attrs: dict[str, Any], layout: DatasetLayout) -> list[Fact]:
    first, n = layout.first_frame, layout.n_frames
    status = attrs.get("status")
    where = f"{n:,} (the archive's {first:,} to {first + n - 1:,})" if n else "none"
    return [
        Fact("title", attrs.get("title")),
        Fact("status", status, "complete" if status == "complete" else "not complete"),
        Fact("frames", n, where),
        Fact("frame_shape", list(layout.frame_shape), f"{times(layout.frame_shape)} pixels (rows × columns)"),
    ]


def _clusters(clusters: xr.Dataset) -> list[Fact]:
    counts = clusters.n_clusters.to_numpy()
    n = int(counts.sum(dtype=np.int64))
    listed = "cluster" in clusters.sizes
    facts = [Fact("clusters", n, f"{n:,}" if listed else f"{n:,}, counted and not listed (--no-clusters)")]
    status = clusters.frame_status.to_numpy()
    counts = counts[status == FrameStatus.OK]
    if len(counts):
        low, high, mean = int(counts.min()), int(counts.max()), float(counts.mean())
        facts.append(Fact("clusters_a_frame", mean, f"{mean:,.1f} ({low:,} to {high:,})"))
    bad = int(np.count_nonzero(status))
    facts.append(Fact("frames_not_ok", bad, f"{bad:,}: {_ranges(status, clusters.attrs)}" if bad else "none"))
    return facts


def _ranges(status: npt.NDArray[np.uint8], attrs: dict[str, Any]) -> str:
    """Which frames, by their place in the archive, are not in the dataset, and why."""
    changes = np.flatnonzero(np.diff(status, prepend=0, append=0))
    names = {member.value: member.name.lower() for member in FrameStatus}
    first = attrs["first_frame"]
    ranges = [
        f"{names.get(int(status[start]), 'unknown')} {first + start:,} to {first + stop - 1:,}"
        for start, stop in pairwise(changes.tolist())
        if status[start]
    ]
    return ", ".join(ranges[:_RANGES_SHOWN]) + (
        f" and {len(ranges) - _RANGES_SHOWN:,} more" * (len(ranges) > _RANGES_SHOWN)
    )


def _window(layout: DatasetLayout) -> Fact:
    return Fact("cluster_size", list(layout.cluster_size), f"{times(layout.cluster_size)} pixels (rows × columns)")


def _table(path: str, name: str, title: str, facts_of: Callable[[xr.Dataset], list[Fact]]) -> list[Section]:
    table = read_table(path, name)
    if table is None:
        return []
    facts = facts_of(table)
    return [Section(title, facts)] if facts else []


def _movement(table: xr.Dataset) -> list[Fact]:
    """The most extreme batch of each per-batch variable; the planes (y, x) by their median."""
    facts = []
    for name in ("mean", "noise"):
        if name in table:
            median = float(np.median(table[name]))
            facts.append(Fact(f"median_{name}", median, f"{median:,.2f} ADU"))
    for batchwise, variable in table.data_vars.items():
        if variable.dims != ("batch",) or variable.size == 0 or not np.isfinite(variable).any():
            continue
        batch = int(np.nanargmax(np.abs(variable.to_numpy())))
        value = float(variable[batch])
        units, meaning = (variable.attrs.get(key, "") for key in ("units", "long_name"))
        told = _quantity(value, units, variable.dtype)
        facts.append(Fact(f"largest_{batchwise}", value, f"{told} in batch {batch} ({meaning})"))
    return facts


def _quantity(value: float, units: str, dtype: np.dtype) -> str:
    """A value as it is read aloud: without units, a count of integers or a share in per cent."""
    if units not in ("", "1"):
        return f"{value:+.3g} {units}"
    return f"{value:,.0f}" if dtype.kind in "iu" else f"{value:.2%}"


def _products(table: xr.Dataset) -> list[Fact]:
    facts = []
    for name, product in table.data_vars.items():
        counted = int(product.sum(dtype=np.int64))
        outside = sum(int(product.attrs.get(side, 0)) for side in ("below", "above", "outside"))
        beyond = f", {outside:,} beyond" if outside else ""
        facts.append(Fact(str(name), counted, f"{times(product.shape)} bins, {counted:,} clusters{beyond}"))
    return facts


def _batches(table: xr.Dataset, has_account: bool) -> list[Fact]:
    """Sums over the batches; of times only where no account says how they belong together."""
    facts = [Fact("batches", table.sizes.get("batch", 0), f"{table.sizes.get('batch', 0):,}")]
    for name, variable in table.data_vars.items():
        match variable.attrs.get("units"):
            case "s" if not has_account:
                seconds = float(variable.sum())
                facts.append(Fact(str(name), seconds, f"{seconds:,.2f} s over all batches"))
            case "byte":
                facts.append(Fact(str(name), int(variable.sum()), human_bytes(int(variable.sum()))))
    return facts


def _storage(path: str, layout: DatasetLayout) -> list[Fact]:
    arrays = array_storage(path)
    missing = [key for array in arrays for key in array.missing]
    rows = layout.rows_per_chunk
    return [
        *sizes(sum(array.stored_bytes for array in arrays), sum(array.decoded_bytes for array in arrays)),
        *([Fact("clusters_a_chunk", rows, f"{rows:,}")] if layout.cluster_list else ()),
        *checksum_facts({array.name: array.codecs for array in arrays}),
        missing_fact(missing),
    ]
