"""What a run will take, found out on its first frames without writing anything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice

import numpy as np

from finder import Pedestal, open_finder, rounded
from finder.false_clusters import expected_false_clusters
from finder.offset import FRAMES_OF_OFFSET
from finder.rounding import narrowed
from frame_archive.ahead import BYTES_AHEAD
from gpu.memory_plan import CUDA_CONTEXT_BYTES
from pipeline.checks.dark_problems import masked_in, problems_of_sample
from pipeline.inputs.pedestal_source import ReadyPedestal
from pipeline.preparation import BLOCK_BYTES, PreparedRun

# A worker before its first frame: Python with all libraries loaded and the finder compiled.
PROCESS_BYTES = 330 << 20
# Clusters that a worker may hold: a batch being found, one found, and one being written.
BATCHES_HELD = 3
# A frame as full as it can be read: with more, photons pile up.
PIXELS_A_CLUSTER = 9
# Darks that a rough pedestal is trained on; with 100 there is a false cluster in ten frames.
_DARKS = 100


@dataclass(frozen=True)
class Forecast:
    """What a run will take.

    Args:
        clusters_a_frame: Clusters in a frame, as in the first frames.
        frames_tried: How many frames that is known from.
        false_clusters_a_frame: Clusters in a frame that Gaussian noise alone makes at this threshold, window and number
            of darks (see :mod:`finder.false_clusters`): the mean over a batch, or over a chain.
        dark_problems: What is wrong with the darks, a sentence each (see :mod:`pipeline.checks.dark_problems`).
        read_bytes: Bytes stored of the chunks to be read.
        decoded_bytes: Bytes of the frames once decoded.
        write_bytes: Bytes of the clusters before they are encoded.
        worker_bytes: Memory that a worker thread is expected to need at most.
    """

    clusters_a_frame: float
    frames_tried: int
    false_clusters_a_frame: float
    dark_problems: list[str]
    read_bytes: int
    decoded_bytes: int
    write_bytes: int
    worker_bytes: int


def forecast(prepared: PreparedRun) -> Forecast:
    """Find the clusters of the first block of frames and reckon from there.

    Raises:
        ValueError: Frames or darks can't be read.
    """
    archive, plan = prepared.archive, prepared.plan
    pedestal = _rough_pedestal(prepared)
    # Not on a GPU: this process starts workers, and is not to initialise CUDA. The clusters are the same.
    backend = "cpu" if prepared.backend == "cuda" else prepared.backend
    finder = open_finder(backend, prepared.options.parameters, archive.frame_shape, prepared.pixel_mask)
    start, stop = next(iter(islice(archive.blocks(plan.first_frame, plan.stop_frame, max_bytes=BLOCK_BYTES), 1)))
    frames = np.empty((stop - start, *archive.frame_shape), archive.dtype)
    archive.read(start, stop, frames)
    found = finder.find(frames, pedestal)
    clusters_a_frame = len(found) / len(frames)
    signal = narrowed(rounded(found.signal, np.dtype(prepared.layout.signal_dtype)))
    is_listed = prepared.layout.cluster_list
    return Forecast(
        clusters_a_frame=clusters_a_frame,
        frames_tried=len(frames),
        false_clusters_a_frame=_false_clusters(prepared),
        dark_problems=problems_of_sample(prepared),
        read_bytes=archive.stored_bytes(plan.first_frame, plan.stop_frame),
        decoded_bytes=plan.n_frames * archive.frame_nbytes,
        write_bytes=round(clusters_a_frame * plan.n_frames * _cluster_bytes(prepared, 4)) if is_listed else 0,
        worker_bytes=worker_bytes(prepared, clusters_a_frame, signal.itemsize),
    )


def _false_clusters(prepared: PreparedRun) -> float:
    source, plan, tracking = prepared.pedestal, prepared.plan, prepared.options.tracking
    expected = expected_false_clusters(
        prepared.options.parameters,
        prepared.archive.frame_shape,
        # How many darks a ready pedestal was made of is not known: it is taken as exact.
        None if isinstance(source, ReadyPedestal) else source.n_frames,
        masked_in(prepared),
        n_frames=plan.n_frames if tracking == "chain" else min(plan.batch_size, plan.n_frames),
        tracking=tracking != "off",
    )
    return expected.a_frame


def worker_bytes(prepared: PreparedRun, clusters_a_frame: float, signal_itemsize: int = 4) -> int:
    """Memory that a worker of one thread needs at most, for so many clusters in a frame."""
    archive, plan = prepared.archive, prepared.plan
    start, stop = next(iter(archive.blocks(plan.first_frame, plan.stop_frame, max_bytes=BLOCK_BYTES)))
    clusters = clusters_a_frame * min(plan.batch_size, plan.n_frames)
    return (
        process_bytes(prepared)
        + 2 * (stop - start) * archive.frame_nbytes
        + _state_bytes(archive.frame_shape)
        + _recentring_bytes(prepared)
        + (0 if archive.is_local else BYTES_AHEAD)
        + round(BATCHES_HELD * clusters * _cluster_bytes(prepared, signal_itemsize))
    )


def process_bytes(prepared: PreparedRun) -> int:
    """Memory of a worker before its first frame: of its process, and of CUDA where it uses a GPU."""
    return PROCESS_BYTES + (CUDA_CONTEXT_BYTES if prepared.backend == "cuda" else 0)


def dense_worker_bytes(prepared: PreparedRun) -> int:
    """The same for more clusters than there will be: one in every nine pixels; no frame is read."""
    rows, columns = prepared.archive.frame_shape
    return worker_bytes(prepared, rows * columns / PIXELS_A_CLUSTER)


def _cluster_bytes(prepared: PreparedRun, signal_itemsize: int) -> int:
    """The signal, the frame's index, and the centre."""
    coordinate = 2 if max(prepared.archive.frame_shape) <= 1 << 16 else 4
    return math.prod(prepared.layout.cluster_size) * signal_itemsize + 4 + 2 * coordinate


def _rough_pedestal(prepared: PreparedRun) -> Pedestal:
    source = prepared.pedestal
    if isinstance(source, ReadyPedestal):
        return source.pedestal
    parameters = prepared.options.parameters
    return Pedestal.from_dark(
        source.read(0, min(source.n_frames, _DARKS)),
        parameters.n_samples,
        common_mode=parameters.common_mode,
        pixel_mask=prepared.pixel_mask,
        gain_bits=parameters.gain_bits,
        clip=prepared.options.dark_clip,
    )


def _recentring_bytes(prepared: PreparedRun) -> int:
    """The frames that a pedestal is moved to, as read and joined; with a common mode, what it leaves of them too."""
    archive, options = prepared.archive, prepared.options
    rows, columns = archive.frame_shape
    n_frames = min(options.recentre, options.warmup + min(options.batch_size, prepared.plan.n_frames))
    # The offset is measured on what the common mode leaves, in 64 bits.
    left = 0 if options.parameters.common_mode is None else n_frames + FRAMES_OF_OFFSET
    switched = n_frames + FRAMES_OF_OFFSET if options.parameters.gain_bits else 0
    return 2 * n_frames * archive.frame_nbytes + (left * 8 + switched) * rows * columns


def _state_bytes(frame_shape: tuple[int, int]) -> int:
    """The trained pedestal, a chain's copy of it with its counts, and the frames kept for the offset."""
    pixels = frame_shape[0] * frame_shape[1]
    return pixels * (2 * 20 + 40 + 64 * 4)
