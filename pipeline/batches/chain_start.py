"""How the chain of a batch starts: from which pedestal, moved to which frames, warmed up on which.

A chain's frames are those of its warm-up and of its batch, read once and in order. With recentring the first K of them
are held until they are there; then the pedestal is moved to them, and they go through the chain like the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from finder import Pedestal, recentred
from finder.interface import Chain, Finder
from pipeline.batches.plan import Batch

Frames = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class ChainOptions:
    """What a user asks of the chains.

    Args:
        follows: Whether frames move the pedestal (``--tracking off``: not).
        warmup: Frames before a batch that move the pedestal first, as many as there are.
        recentre: Frames that a chain's pedestal is moved to before its first frame; 0 leaves it where it is.
        first_frame: The first frame that may warm up: those before it are darks.
    """

    follows: bool = True
    warmup: int = 0
    recentre: int = 0
    first_frame: int = 0

    def first_of(self, batch: Batch) -> int:
        """The first frame that the chain of a batch needs."""
        return max(min(self.first_frame, batch.start), batch.start - self.warmup)


@dataclass(frozen=True)
class ChainBlock:
    """Frames on their way through a chain.

    Args:
        first: Number of the first one in the archive.
        frames: (frame, y, x); good until the next block is asked for.
        chain: The chain that is to take them next.
        start: The pedestal that the chain started from.
    """

    first: int
    frames: Frames
    chain: Chain
    start: Pedestal


def chain_blocks(
    blocks: Iterable[tuple[int, Frames]], finder: Finder, pedestal: Pedestal, options: ChainOptions
) -> Iterator[ChainBlock]:
    """The blocks of a chain's frames, each with the chain, which exists once the frames for recentring are there.

    Args:
        blocks: (number of the first frame, frames) in order; frames are good until the next block is asked for.
        finder: The finder.
        pedestal: The pedestal before recentring.
        options: What is asked of the chain.
    """
    held: list[tuple[int, Frames]] = []
    n_held = 0
    source = iter(blocks)
    while n_held < options.recentre and (block := next(source, None)) is not None:
        first, frames = block
        held.append((first, frames.copy()))
        n_held += len(frames)
    start = _recentred(pedestal, [frames for _, frames in held], finder, options.recentre)
    chain = finder.chain(start, tracking=options.follows)
    for first, frames in held:
        yield ChainBlock(first, frames, chain, start)
    for first, frames in source:
        yield ChainBlock(first, frames, chain, start)


def _recentred(pedestal: Pedestal, held: list[Frames], finder: Finder, n_frames: int) -> Pedestal:
    if not held:
        return pedestal
    frames = np.concatenate(held)[:n_frames] if len(held) > 1 else held[0][:n_frames]
    parameters = finder.parameters
    return recentred(
        pedestal, frames, finder.pixel_mask, common_mode=parameters.common_mode, gain_bits=parameters.gain_bits
    )
