"""The tables beside the clusters: what each batch did, and how the pedestal fared in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cluster_store import Column, DatasetLayout, FrameStatus, Table, stored_chunks, write_table
from cluster_store.schema import cluster_variables
from pipeline.batches.count_table import column
from pipeline.batches.plan import rows_written
from pipeline.batches.reports import BatchCount
from pipeline.output.pedestal_table import pedestal_table

# Of so many batches that were skipped the attributes say why; of all, the table says that they were.
_CAUSES_KEPT = 100
EPOCH = "seconds since 1970-01-01"  # As CF has it: xarray decodes such a column to times.


@dataclass(frozen=True)
class Writing:
    """What was written of each batch: its own rows, and the chunks that begin with them.

    Args:
        seconds: How long it took, in s; NaN where it isn't known.
        ended: When it was done, in s since 1970; NaN likewise.
        nbytes: Uncompressed bytes.
        stored_bytes: Bytes as stored.
        minor_faults: Minor page faults of it.
    """

    seconds: npt.NDArray[np.float64]
    ended: npt.NDArray[np.float64]
    nbytes: Sequence[int]
    stored_bytes: Sequence[int]
    minor_faults: npt.NDArray[np.uint64]


def write_tables(
    out: str,
    counts: Sequence[BatchCount],
    written: Writing,
    frame_shape: tuple[int, int],
    *,
    run_id: str,
    workers: Sequence[str] = (),
) -> None:
    """Write the groups ``batches`` and ``pedestal``.

    Args:
        out: The dataset.
        counts: What is known of each batch, in order.
        written: What was written of each.
        frame_shape: (y, x).
        run_id: The run that the dataset has to be of.
        workers: Names of the workers that there were: one that had no batch is to be seen too.
    """
    write_table(out, "batches", _batches(counts, written, workers), run_id=run_id)
    write_table(out, "pedestal", pedestal_table(counts, frame_shape), run_id=run_id)


def bytes_written(out: str, layout: DatasetLayout, n_clusters: Sequence[int]) -> tuple[list[int], list[int]]:
    """Of each batch, the bytes of its own rows and of the chunks that begin with them: uncompressed, and as stored.

    Args:
        out: The dataset, with all its rows.
        layout: Its layout.
        n_clusters: Clusters of each batch, in order.
    """
    rows = rows_written(n_clusters, layout.rows_per_chunk)
    stops = np.cumsum(np.asarray(n_clusters, np.int64))
    stored = [0] * len(n_clusters)
    for chunk, size in stored_chunks(out).rows.items():
        stored[int(np.searchsorted(stops, chunk * layout.rows_per_chunk, side="right"))] += size
    return [n * _row_nbytes(layout) for n in rows], stored


def _row_nbytes(layout: DatasetLayout) -> int:
    """Bytes of one cluster in all arrays of the dataset."""
    return sum(
        np.dtype(variable.dtype).itemsize * (math.prod(layout.cluster_size) if variable.name == "signal" else 1)
        for variable in cluster_variables(layout)
    )


def stamp_number(stamp: str) -> int:
    """The first 64 bits of a stamp, which a table can hold; 0 is none."""
    return int(stamp[:16] or "0", 16)


def _column(values: npt.ArrayLike, dtype: str, **attrs: Any) -> Column:
    return Column(("batch",), np.asarray(values, dtype), attrs)


def _on_gpus(counts: Sequence[BatchCount]) -> dict[str, Column]:
    """What batches took of GPUs: of one that was found on cores, nothing."""
    seconds = {"h2d": "frames to the GPU", "kernel": "kernels on the GPU", "d2h": "clusters from the GPU"}
    return {
        **{
            f"{name}_seconds": _column(
                column(counts, f"device.{name}_seconds"),
                "f8",
                long_name=f"{what}, which is in find_seconds too; moments of several streams at once count for one",
                units="s",
            )
            for name, what in seconds.items()
        },
        "h2d_bytes": _column(column(counts, "device.h2d_bytes"), "u8", long_name="frames to the GPU", units="byte"),
        "d2h_bytes": _column(column(counts, "device.d2h_bytes"), "u8", long_name="clusters from it", units="byte"),
    }


def _batches(counts: Sequence[BatchCount], written: Writing, workers: Sequence[str]) -> Table:
    names_of_batches = column(counts, "worker").tolist()
    # Those that are numbered come as they are counted: 2 before 10.
    names = sorted({*names_of_batches, *workers}, key=lambda name: (len(name), name))
    positions = {name: position for position, name in enumerate(names)}
    status, contents = column(counts, "status"), column(counts, "content")
    is_skipped = status != FrameStatus.OK
    # Of skipped batches there is none.
    digests = [int(content or "0", 16) for content in contents]
    verifiable = any(digests) and all(contents[~is_skipped])
    skipped = [counts[int(k)] for k in np.flatnonzero(is_skipped)[:_CAUSES_KEPT]]
    return Table(
        {
            "first_frame": _column(column(counts, "batch.start"), "u8", long_name="first frame, in the archive"),
            "n_frames": _column(column(counts, "batch.n_frames"), "u4", long_name="frames"),
            "n_clusters": _column(column(counts, "n_clusters"), "u8", long_name="clusters"),
            "status": _column(
                status,
                "u1",
                long_name="status of the batch's frames",
                flag_values=[int(status) for status in FrameStatus],
                flag_meanings=" ".join(status.name.lower() for status in FrameStatus),
            ),
            "worker": _column(
                [positions[name] for name in names_of_batches], "u2", long_name="position of the worker in worker_names"
            ),
            "began": _column(column(counts, "began"), "f8", long_name="work on the batch began", units=EPOCH),
            "found": _column(column(counts, "ended"), "f8", long_name="the batch had been found", units=EPOCH),
            "written": _column(written.ended, "f8", long_name="its last rows had been written", units=EPOCH),
            "read_seconds": _column(
                column(counts, "read_seconds"),
                "f8",
                long_name="read and decode; less decode_seconds it is what throughput calls read",
                units="s",
            ),
            "decode_seconds": _column(
                column(counts, "decode_seconds"),
                "f8",
                long_name="decode, which is in read_seconds too; missing where zarr reads and decodes in one go",
                units="s",
            ),
            "find_seconds": _column(column(counts, "find_seconds"), "f8", long_name="find", units="s"),
            **(_on_gpus(counts) if column(counts, "device.h2d_bytes").any() else {}),
            "idle_seconds": _column(
                column(counts, "idle_seconds"),
                "f8",
                long_name="its worker had nothing to do before it, since the batch that it found before, or since the "
                "run's first batch was handed out; throughput has the time after a worker's last batch too",
                units="s",
            ),
            "write_seconds": _column(written.seconds, "f8", long_name="encode and write", units="s"),
            "read_bytes": _column(column(counts, "read_bytes"), "u8", long_name="decoded frames", units="byte"),
            "stored_bytes": _column(column(counts, "stored_bytes"), "u8", long_name="files read", units="byte"),
            "write_bytes": _column(written.nbytes, "u8", long_name="clusters before encoding", units="byte"),
            "write_stored_bytes": _column(written.stored_bytes, "u8", long_name="clusters as stored", units="byte"),
            "switched_values": _column(
                column(counts, "switched_values"), "u8", long_name="pixel values in another gain"
            ),
            "minor_faults": _column(
                column(counts, "minor_faults"), "u8", long_name="minor page faults while it was found"
            ),
            "write_minor_faults": _column(
                written.minor_faults,
                "u8",
                long_name="minor page faults while its rows were written; with minor_faults those of throughput",
            ),
            "files_stamp": _column(
                [stamp_number(stamp) for stamp in column(counts, "stamp")],
                "u8",
                long_name="digest of its files' sizes, times",
            ),
        }
        | ({"frames_xxh3": _column(digests, "u8", long_name="xxh3-64 of the frames")} if verifiable else {}),
        attrs={"worker_names": names, "skipped": [f"{c.batch}: {c.status.name.lower()}: {c.cause}" for c in skipped]},
    )
