"""An archive made of its plan, by the workers of a cluster; what was broken off goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from distributed import Client, Future, KilledWorker, as_completed

from frame_archive import ArchiveError, ArchiveWriter
from pipeline.errors import RunError
from pipeline.ingest.beginning import COLUMN_ATTRS, add_column, created, require_place, resumed
from pipeline.ingest.plan import IngestPlan, Part, Verify
from pipeline.ingest.provenance import of_finished
from pipeline.ingest.writing import PartReport, write_part
from pipeline.workers.clusters import count_workers

_PARTS_AHEAD = 3


@dataclass(frozen=True)
class IngestResult:
    """What became of it.

    Args:
        out: The archive.
        n_frames: Frames in it.
        n_dark: Darks in it.
        nbytes: Of both, decoded.
        seconds: From the first part to the end.
        cpu_seconds: CPU time of the workers while they read, packed, wrote and compared.
        n_verified: Chunks that were read back and compared.
        n_found: Frames and darks that an earlier run had written.
        ended_early: Sentences: which source ended before it should have.
    """

    out: str
    n_frames: int
    n_dark: int
    nbytes: int
    seconds: float
    cpu_seconds: float
    n_verified: int
    n_found: int
    ended_early: tuple[str, ...]


def ingest(
    plan: IngestPlan,
    out: str | os.PathLike[str],
    client: Client,
    *,
    verify: Verify = "sample",
    resume: bool = False,
    overwrite: bool = False,
    command: str = "",
    on_step: Callable[[str], object] = lambda text: None,
    on_progress: Callable[[int], object] = lambda nbytes: None,
) -> IngestResult:
    """Write the archive.

    Args:
        plan: What it is made of.
        out: Where.
        client: Whose workers write it; they see sources and archive under the same paths.
        verify: Which chunks are read back and compared: one in sixteen, all, or none.
        resume: Go on with what an earlier run left; what that wrote is read back and kept where it is whole.
        overwrite: Replace an archive that photonflow made.
        command: What the user typed, for the archive's attributes.
        on_step: Told in a few words what begins.
        on_progress: Told the bytes that are done, decoded.

    Raises:
        frame_archive.ArchiveError: The place is taken or can't be written; what was written stays, for a resume.
        frame_formats.SourceError: A value does not fit the archive's type.
        ResumeError: What is there is no unfinished archive of the same sources and options.
        RunError: A worker died, or no frame at all can be read.
    """
    began = time.monotonic()
    require_place(out, plan, resume=resume, overwrite=overwrite)
    writer = resumed(plan, out) if resume and os.path.lexists(out) else None
    goes_on = writer is not None
    if writer is None:
        # What is there to be resumed, and was broken off before the first frame, is of no use.
        writer = created(plan, out, overwrite or resume, command)
    written = _Written(plan)
    on_step("going on" if goes_on else "writing")
    _Parts(plan, writer, client, verify, goes_on, written, on_progress).run()
    ended_early = [*plan.gathered.ended_early, *written.shortened(plan, writer, client, verify)]
    written.add_digests(writer)
    writer.set_attrs(of_finished(plan, written.digests, command, tuple(ended_early), verify, written.n_verified))
    return IngestResult(
        out=writer.path,
        n_frames=written.length["frames"],
        n_dark=written.length["dark"],
        nbytes=sum(written.length.values()) * plan.frame_nbytes,
        seconds=time.monotonic() - began,
        cpu_seconds=written.cpu_seconds,
        n_verified=written.n_verified,
        n_found=written.n_found,
        ended_early=tuple(ended_early),
    )


class _Written:
    """What has been written so far.

    Attributes:
        digests: XXH3-64 of each frame, by array.
        length: Rows of each array, less what can't be read.
        unreadable: Why an array ends there.
        n_verified: Chunks read back.
        n_found: Frames that were there.
        cpu_seconds: Of the workers, within their parts.
    """

    def __init__(self, plan: IngestPlan) -> None:
        self.length: dict[str, int] = {"dark": plan.n_dark, "frames": plan.shape[0]}
        self.digests = {kind: np.zeros(length, np.uint64) for kind, length in self.length.items()}
        self.unreadable: dict[str, str] = {}
        self.n_verified = self.n_found = 0
        self.cpu_seconds = 0.0
        self.nbytes = 0

    def add(self, report: PartReport) -> None:
        self.digests[report.kind][report.start : report.start + len(report.digests)] = report.digests
        self.n_verified += report.n_verified
        self.n_found += report.n_found
        self.cpu_seconds += report.cpu_seconds
        if report.unreadable_from is not None and report.unreadable_from < self.length[report.kind]:
            self.length[report.kind] = report.unreadable_from
            self.unreadable[report.kind] = report.problem

    def shortened(self, plan: IngestPlan, writer: ArchiveWriter, client: Client, verify: Verify) -> list[str]:
        """End arrays where the first frame can't be read, with the frames before it; return sentences that say so."""
        said = []
        for kind, why in self.unreadable.items():
            length = self.length[kind]
            if length == 0:
                raise RunError(f"no frame can be read: {why}; {writer.path} is left empty: replace it with --overwrite")
            name = "darks" if kind == "dark" else "frames"
            said.append(f"{why}; the archive has the {length:,} {name} before it")
            part = next(part for part in plan.parts() if part.kind == kind and part.start <= length <= part.stop)
            names = [kind] if kind == "dark" else [kind, *plan.columns()]
            for each in names:
                writer.set_length(each, length)
            self.digests[kind] = self.digests[kind][:length]
            if part.start < length:
                rest = Part(part.kind, part.start, length, part.source.cut(0, length - part.start))
                report = client.submit(
                    write_part, rest, writer, plan.frames_per_chunk, verify, False, pure=False
                ).result()
                if report.problem:
                    raise RunError(report.problem)
                self.add(report)
        return said

    def add_digests(self, writer: ArchiveWriter) -> None:
        add_column(writer, "frame_digest", self.digests["frames"], COLUMN_ATTRS["frame_digest"])


class _Parts:
    """The parts of an archive on their way through the workers."""

    def __init__(
        self,
        plan: IngestPlan,
        writer: ArchiveWriter,
        client: Client,
        verify: Verify,
        goes_on: bool,
        written: _Written,
        on_progress: Callable[[int], object],
    ) -> None:
        self._client = client
        self._written = written
        self._on_progress = on_progress
        self._arguments = (writer, plan.frames_per_chunk, verify, goes_on)
        self._parts: Iterator[Part] = plan.parts()
        self._sizes: dict[Any, int] = {}
        self._pending: set[Future[PartReport]] = set()
        self._finished: Any = as_completed(loop=client.loop)
        self._path = writer.path

    def run(self) -> None:
        """Write all of them.

        Raises:
            ArchiveError: One can't be written, or was not written as it should be.
            RunError: A worker died.
        """
        done = 0
        self._on_progress(done)
        try:
            for part in islice(self._parts, _PARTS_AHEAD * max(1, count_workers(self._client))):
                self._submit(part)
            for future in self._finished:
                self._pending.discard(future)
                report = future.result()
                if report.problem and report.unreadable_from is None:
                    how = "begin anew with --overwrite" if report.of_source else "go on with --resume"
                    raise ArchiveError(f"{report.problem}; what was written stays: {how}")
                self._written.add(report)
                done += self._sizes.pop(future.key)
                self._on_progress(done)
                self._submit_next()
        except KilledWorker as error:
            raise RunError(
                f"a worker died while it wrote {self._path}, and so did those that took its place ({error}): "
                "go on with --resume"
            ) from error
        finally:
            self._client.cancel(list(self._pending))

    def _submit_next(self) -> None:
        for part in self._parts:
            # What comes after a frame that can't be read is left out.
            if part.start < self._written.length[part.kind]:
                self._submit(part)
                return

    def _submit(self, part: Part) -> None:
        future = self._client.submit(write_part, part, *self._arguments, pure=False)
        self._sizes[future.key] = part.nbytes
        self._pending.add(future)
        self._finished.add(future)
