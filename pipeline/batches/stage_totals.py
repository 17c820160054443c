"""What the stages of a run have done so far, added up as its tasks report."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from finder.device_use import DeviceUse
from pipeline.batches.reports import BatchCount, BatchWrite
from roofline import StageUse


@dataclass
class StageTotals:
    """Sums over the batches that this run found and wrote.

    Attributes:
        read_seconds: reading and decoding, in s.
        decode_seconds: the decoding's part; NaN once a batch does not know it.
        find_seconds: finding, in s.
        write_seconds: encoding and writing, in s.
        idle_seconds: workers that waited for their next task, in s.
        read_bytes: decoded frames.
        stored_bytes: files that were read.
        write_bytes: clusters before encoding.
        minor_faults: page faults of all tasks.
        device: what finding took of GPUs.
        last_ended: of each worker, by name, when its last work was done, in s since 1970.
    """

    read_seconds: float = 0.0
    decode_seconds: float = 0.0
    find_seconds: float = 0.0
    write_seconds: float = 0.0
    idle_seconds: float = 0.0
    read_bytes: int = 0
    stored_bytes: int = 0
    write_bytes: int = 0
    minor_faults: int = 0
    device: DeviceUse = field(default_factory=DeviceUse)
    last_ended: dict[str, float] = field(default_factory=dict)

    def add_count(self, count: BatchCount) -> None:
        """A batch was found."""
        self.read_seconds += count.read_seconds
        self.decode_seconds += count.decode_seconds
        self.find_seconds += count.find_seconds
        self.idle_seconds += count.idle_seconds
        self.read_bytes += count.read_bytes
        self.stored_bytes += count.stored_bytes
        self.device += count.device
        self._add_work(count.worker, count.ended, count.minor_faults)

    def add_write(self, write: BatchWrite) -> None:
        """Rows were written."""
        self.write_seconds += write.seconds
        self.write_bytes += write.nbytes
        self._add_work(write.worker, write.ended, write.minor_faults)

    def uses(self) -> tuple[StageUse, ...]:
        """The stages, in the order in which a frame meets them; reading and decoding are one where zarr does both.

        Those of a GPU pass within the finding, which waits for them.
        """
        reading: tuple[StageUse, ...]
        if math.isnan(self.decode_seconds):
            reading = (StageUse("read + decode", self.read_seconds, self.read_bytes),)
        else:
            reading = (
                StageUse("read", self.read_seconds - self.decode_seconds, self.stored_bytes),
                StageUse("decode", self.decode_seconds, self.read_bytes),
            )
        return (
            *reading,
            StageUse("find", self.find_seconds, self.read_bytes),
            *(self._on_gpus() if self.device.is_any else ()),
            StageUse("write", self.write_seconds, self.write_bytes),
        )

    def _on_gpus(self) -> tuple[StageUse, ...]:
        did = self.device
        return (
            StageUse("H2D", did.h2d_seconds, did.h2d_bytes, within="find"),
            StageUse("kernel", did.kernel_seconds, did.h2d_bytes, within="find"),
            StageUse("D2H", did.d2h_seconds, did.d2h_bytes, within="find"),
        )

    def _add_work(self, worker: str, ended: float, minor_faults: int) -> None:
        self.minor_faults += minor_faults
        self.last_ended[worker] = max(ended, self.last_ended.get(worker, ended))
