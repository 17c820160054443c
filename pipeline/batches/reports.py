"""What the client learns of a run from its tasks: small values, never frames or clusters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cluster_store import FrameStatus
from finder.device_use import DeviceUse
from finder.offset import Offset
from finder.products import Products
from pipeline.batches.pedestal_health import PedestalHealth
from pipeline.batches.plan import Batch
from pipeline.errors import ChangedResultError


@dataclass(frozen=True)
class BatchCount:
    """What the client learns of a batch when it has been found.

    Args:
        batch: Which one.
        n_clusters: Clusters in it.
        nbytes: Bytes that its clusters take on their worker.
        worker: Name of the worker that found it.
        began: When work on it began, in s since 1970.
        ended: When it had been found.
        read_seconds: Time for reading and decoding, in s.
        decode_seconds: The decoding's part of it, in s; NaN where zarr did both.
        read_bytes: Bytes of decoded frames.
        stored_bytes: Bytes of the files that were read for them.
        find_seconds: Time for finding, in s; where a GPU does it, until its results were there.
        minor_faults: Pages of memory that the operating system had to supply.
        movement: See :func:`pipeline.batches.worker.pedestal_movement`.
        offset: The pedestal's offset before the batch, after warm-up and recentring.
        digest: xxh3-128 of the batch's clusters, or of what was counted where they are not listed, whatever the blocks
            in which it was read.
        status: What became of the batch's frames; with any other than OK there are no clusters.
        cause: Why, if it isn't OK.
        stamp: Sizes and times of the files that its frames lie in (:meth:`frame_archive.FrameArchive.stamp`).
        content: xxh3 of the frames that it was found in, as 16 hexadecimal digits, where the run was asked to verify;
            else empty.
        state: Digest of the pedestal after the batch, where it is kept for the next; else empty.
        switched_values: Values of unmasked pixels that were in another gain, and so absent from their frame.
        idle_seconds: How long the worker had had nothing to do before it, since the batch that it found last, in s;
            before its first one since it was ready, until :func:`since` has taken off what is start-up.
        device: What finding took of a GPU.
        health: What else the batch showed of its pedestal and its pixels.
    """

    batch: Batch
    n_clusters: int
    nbytes: int
    worker: str
    began: float
    ended: float
    read_seconds: float
    decode_seconds: float
    read_bytes: int
    stored_bytes: int
    find_seconds: float
    minor_faults: int
    movement: float
    offset: Offset
    digest: str
    status: FrameStatus = FrameStatus.OK
    cause: str = ""
    stamp: str = ""
    content: str = ""
    state: str = ""
    switched_values: int = 0
    idle_seconds: float = 0.0
    device: DeviceUse = field(default_factory=DeviceUse)
    health: PedestalHealth = field(default_factory=PedestalHealth.unknown)

    def require_digest(self, digest: str) -> None:
        """Make sure that a batch that was found again is what it was when its digest was noted.

        Raises:
            ChangedResultError: It isn't.
        """
        if self.digest != digest:
            raise ChangedResultError(
                f"{self.batch} was found again with another result than before ({self.digest}, not {digest}): the "
                "archive has changed, or the machine is not sound; begin anew with --overwrite"
            )


def since(handed_out: float, count: BatchCount) -> BatchCount:
    """The count without what its worker waited before a run's first batch was handed out: that is start-up.

    Args:
        handed_out: When that was, in s since 1970.
        count: As the worker told it, which does not know.
    """
    return replace(count, idle_seconds=min(count.idle_seconds, max(count.began - handed_out, 0.0)))


@dataclass(frozen=True)
class BatchReport:
    """What the client learns of a batch, and what it adds up: unlike the count, too much to be kept for each batch.

    Args:
        count: What is known of the batch.
        products: What was counted of its clusters; None where nothing was to be, or the batch was skipped.
    """

    count: BatchCount
    products: Products | None = None


@dataclass(frozen=True)
class BatchWrite:
    """What the client learns of rows that were written.

    Args:
        batch: Index of the batch that wrote them, or of the first of those that share the chunk.
        nbytes: Uncompressed bytes.
        stored_bytes: Bytes as stored.
        seconds: Time, in s.
        ended: When it had been written, in s since 1970.
        worker: Name of the worker that wrote them.
        minor_faults: Pages of memory that the operating system had to supply.
    """

    batch: int
    nbytes: int
    stored_bytes: int
    seconds: float
    ended: float
    worker: str
    minor_faults: int
