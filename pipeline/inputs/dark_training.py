"""Training a run's pedestal: dark frames are added up in blocks on the workers, exactly, in any order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt
from distributed import Client, Future, KilledWorker, as_completed
from distributed.metrics import context_meter

from finder import CommonMode, DarkSums, Pedestal
from finder.common_mode_correction import CommonModeCorrection
from finder.dark_clip import checked_clip, clipped, first_range, sample_of
from finder.dark_quality import GROUPS, DarkBlock, DarkQuality, mean_and_noise, quality_of_darks
from finder.dark_sums import ValueRange
from finder.gain_bits import in_another_gain
from finder.pedestal import FEWEST_DARKS
from frame_archive import ArchiveError
from pipeline.errors import ClusterUnavailableError, RunError, RunStoppedError
from pipeline.inputs.pedestal_source import DarkFrames, PedestalSource, ReadyPedestal
from pipeline.workers.cluster_watch import ClusterWatch

# A block of dark frames that a worker adds up at a time.
_BLOCK_BYTES = 32 << 20


@dataclass(frozen=True, eq=False)
class Training:
    """How a pedestal is trained.

    Args:
        n_samples: Memory of the running pedestal.
        masked: bool (y, x), True where masked: such pixels say nothing of the darks' quality, nor of the common mode.
        common_mode: What moves together, as the finder's parameters have it.
        gain_bits: Likewise; values in another gain are left out.
        clip: Values so many noise widths off are left out (see :mod:`finder.dark_clip`); None leaves out none.
    """

    n_samples: int
    masked: npt.NDArray[np.bool_] | None = None
    common_mode: CommonMode | None = None
    gain_bits: int = 0
    clip: float | None = None


@dataclass(frozen=True)
class LeftOut:
    """How many values of the darks a pedestal is not trained on, masked pixels' apart.

    Args:
        n_values: Of so many in all.
        clipped: Clipped.
        switched: In another gain.
    """

    n_values: int
    clipped: int
    switched: int


@dataclass(frozen=True, eq=False)
class TrainedPedestal:
    """A run's pedestal, and what is known of the darks that it was trained on.

    Args:
        pedestal: The pedestal.
        dark_noise: The noise of the darks as they are (y, x), ADU; of a ready pedestal, its own.
        quality: Of the darks that were not left out; None for a pedestal that came ready.
        left_out: Of the darks; None likewise.
        untrained: bool (y, x), True where fewer than two darks were left to train on; None if there is no such pixel.
    """

    pedestal: Pedestal
    dark_noise: npt.NDArray[np.floating[Any]]
    quality: DarkQuality | None = None
    left_out: LeftOut | None = None
    untrained: npt.NDArray[np.bool_] | None = None


def train_pedestal(
    source: PedestalSource, training: Training, client: Client, run_id: str, watch: ClusterWatch
) -> TrainedPedestal:
    """The pedestal itself.

    With a common mode the darks are read twice: it is subtracted from them, and for that their mean must be known. With
    a clip they are read until what is left out stays the same.

    Args:
        source: Where it comes from.
        training: How.
        client: The cluster.
        run_id: The run, for the names of its tasks.
        watch: Notices when the cluster is lost, and when the run should stop.

    Raises:
        RunError: Dark frames can't be read, the cluster was lost, or the run was asked to stop.
    """
    if isinstance(source, ReadyPedestal):
        return TrainedPedestal(source.pedestal, source.pedestal.noise)
    darks = _DarksOnWorkers(source, training, client, run_id, watch)
    sums, quality = darks.summed()
    noise = mean_and_noise(sums)[1]
    if training.common_mode is None:
        pedestal = Pedestal.from_sums(sums, training.n_samples)
    else:
        x0 = sums.offset()
        sums = darks.summed_without_common_mode(x0)
        pedestal = Pedestal.from_corrected_sums(x0, sums, training.n_samples)
    untrained = sums.n_values < FEWEST_DARKS
    return TrainedPedestal(
        pedestal, noise, quality, _left_out(sums, training.masked), untrained if untrained.any() else None
    )


class _DarksOnWorkers:
    """Dark frames, to be summed as often as it takes."""

    def __init__(
        self, source: DarkFrames, training: Training, client: Client, run_id: str, watch: ClusterWatch
    ) -> None:
        self._source, self._training, self._client = source, training, client
        self._run_id, self._watch = run_id, watch
        # Not so few blocks that the darks could not be compared with each other.
        block = max(min(_BLOCK_BYTES // source.address.open().frame_nbytes, -(-source.n_frames // GROUPS)), 1)
        starts = range(0, source.n_frames, block)
        self._spans = [(start, min(start + block, source.n_frames)) for start in starts]
        self._rounds = 0

    def summed(self) -> tuple[DarkSums, DarkQuality]:
        """The sums over the darks as they are, and how good they are, without what is left out."""
        training = self._training
        quality: DarkQuality | None = None

        def within(values: Future[ValueRange] | None) -> DarkSums:
            nonlocal quality
            parts = self._parts(_sum_block, training.gain_bits, values)
            total = self._submit("train", _add_up, parts, training.masked)
            sums, quality = self._handed_over(total)
            assert isinstance(sums, DarkSums)
            return sums

        sums = self._clipped(within, None)
        assert quality is not None
        return sums, quality

    def summed_without_common_mode(self, x0: npt.NDArray[np.int64]) -> DarkSums:
        """The sums over what the common mode leaves of the darks, without what is left out."""
        plane, training = self._new_round("train-offset", _same, x0), self._training

        def within(values: Future[ValueRange] | None) -> DarkSums:
            parts = self._parts(_sum_corrected_block, plane, training, values)
            sums = self._handed_over(self._submit("train", _add_up_sums, parts))
            assert isinstance(sums, DarkSums)
            return sums

        return self._clipped(within, plane)

    def _clipped(
        self, within: Callable[[Future[ValueRange] | None], DarkSums], x0: Future[npt.NDArray[np.int64]] | None
    ) -> DarkSums:
        if self._training.clip is None:
            return within(None)
        clip = checked_clip(self._training.clip)
        start = self._handed_over(self._submit("train-sample", _first_range, self._source, self._training, x0))
        return clipped(lambda values: within(self._new_round("train-range", _same, values)), start, clip)[0]

    def _parts(self, task: Callable[..., Any], *arguments: Any) -> list[Future[Any]]:
        return [
            self._submit("read-train", task, self._source, start, stop, *arguments, part=start)
            for start, stop in self._spans
        ]

    def _new_round(self, name: str, task: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """What all tasks of the next round are given."""
        self._rounds += 1
        return self._submit(name, task, *arguments)

    def _submit(self, name: str, task: Callable[..., Any], *arguments: Any, part: int = 0) -> Future[Any]:
        # The letters at its beginning are what Dask calls a task, on its dashboard and in its estimates.
        key = f"{name}-{self._run_id}-{self._rounds}-{part}"
        return self._client.submit(task, *arguments, key=key, retries=2)

    def _handed_over(self, total: Future[Any]) -> Any:
        try:
            while not self._watch.next_done(as_completed([total], loop=self._client.loop)):
                if self._watch.should_stop():
                    raise RunStoppedError("stopped")
            return self._watch.answer(total.result, "hand over the pedestal")
        except ArchiveError as error:
            raise RunError(f"the pedestal can't be trained: {error}") from error
        except KilledWorker as error:
            raise RunError(
                f"the pedestal can't be trained on {self._source}: workers ended while they read it, most often for "
                "want of memory"
            ) from error
        except (CancelledError, OSError) as error:
            raise ClusterUnavailableError(f"{self._watch.name} has gone") from error


def _same(planes: Any) -> Any:
    """Planes that the workers hand to each other."""
    return planes


def _read(source: DarkFrames, start: int, stop: int) -> npt.NDArray[np.integer[Any]]:
    with context_meter.meter("read"):
        return source.read(start, stop)


def _sum_block(source: DarkFrames, start: int, stop: int, gain_bits: int, within: ValueRange | None) -> DarkBlock:
    return DarkBlock.of(_read(source, start, stop), gain_bits=gain_bits, within=within)


def _add_up(blocks: list[DarkBlock], masked: npt.NDArray[np.bool_] | None) -> tuple[DarkSums, DarkQuality]:
    return reduce(add, (block.sums for block in blocks)), quality_of_darks(blocks, masked)


def _sum_corrected_block(
    source: DarkFrames,
    start: int,
    stop: int,
    x0: npt.NDArray[np.int64],
    training: Training,
    within: ValueRange | None,
) -> DarkSums:
    assert training.common_mode is not None
    return DarkSums.of_corrected(
        _read(source, start, stop),
        x0,
        training.common_mode,
        training.masked,
        gain_bits=training.gain_bits,
        within=within,
    )


def _add_up_sums(parts: list[DarkSums]) -> DarkSums:
    return reduce(add, parts)


def _first_range(source: DarkFrames, training: Training, x0: npt.NDArray[np.int64] | None) -> ValueRange:
    assert training.clip is not None
    sample = np.concatenate([source.read(i, i + 1) for i in sample_of(source.n_frames)])
    counts = ~in_another_gain(sample, training.gain_bits) if training.gain_bits else None
    values = sample
    if x0 is not None and training.common_mode is not None:
        values = CommonModeCorrection(training.common_mode, x0, training.masked, training.gain_bits).corrected(sample)
    return first_range(values, counts, checked_clip(training.clip))


def _left_out(sums: DarkSums, masked: npt.NDArray[np.bool_] | None) -> LeftOut:
    counts = np.ones(sums.shape, bool) if masked is None else ~masked

    def of(plane: npt.NDArray[np.int64] | None) -> int:
        return 0 if plane is None else int(plane[counts].sum())

    return LeftOut(sums.n_frames * int(counts.sum()), of(sums.clipped), of(sums.switched))
