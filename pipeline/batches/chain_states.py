"""The pedestal after each batch of a chain, kept in files until no batch can need it any more.

With ``--tracking chain`` each batch starts where the last good one ended. Its worker leaves the state in a file beside
the dataset, and the client hands on its name and digest: so a batch that is lost with its worker, or found again by a
resumed run, starts from the same state without the batches before it.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import xxhash

from cluster_store import FrameStatus
from finder import Pedestal
from pipeline.batches.reports import BatchCount
from pipeline.errors import RunError
from pipeline.faults import writing
from pipeline.output.side_folder import SideFolder

_PLANES = ("x0", "s1", "s2", "trained_variance")
_NAME = re.compile(r"state-(\d+)\.bin(\.[0-9a-f]+\.partial)?")


@dataclass(frozen=True)
class ChainStart:
    """Where a batch of a chain starts: the pedestal after an earlier batch.

    Args:
        after: Index of that batch.
        digest: :func:`pedestal_digest` of the state.
    """

    after: int
    digest: str


def pedestal_digest(pedestal: Pedestal) -> str:
    """xxh3-128 of a pedestal's state: the same for the same bits."""
    whole = xxhash.xxh3_128(f"{pedestal.shape} {pedestal.n_samples}".encode())
    for name in _PLANES:
        whole.update(np.ascontiguousarray(getattr(pedestal, name)).data)
    return whole.hexdigest()


def chain_start(counts: Sequence[BatchCount | None], batch: int) -> ChainStart | None:
    """Where a batch of a chain starts: after the last good batch before it, or from the trained pedestal (None)."""
    for earlier in range(batch - 1, -1, -1):
        count = counts[earlier]
        if count is not None and count.status is FrameStatus.OK:
            return ChainStart(count.batch.index, count.state)
    return None


class ChainStates:
    """The states of one run, each a file in a folder that all workers see.

    Args:
        folder: The run's journal; it exists.
    """

    def __init__(self, folder: SideFolder) -> None:
        self._folder = folder

    def write(self, batch: int, pedestal: Pedestal) -> str:
        """Keep the state after a batch, whole or not at all; returns its digest.

        Raises:
            OutputError: It can't be written.
        """
        file = io.BytesIO()
        for name in _PLANES:
            np.save(file, getattr(pedestal, name), allow_pickle=False)
        with writing(self._place(batch)):
            self._folder.replace(_name(batch), file.getvalue(), durably=False)
        return pedestal_digest(pedestal)

    def read(self, start: ChainStart, n_samples: int) -> Pedestal:
        """The pedestal that a batch starts from.

        Raises:
            RunError: It isn't there, or not what it was.
        """
        path = self._place(start.after)
        try:
            file = io.BytesIO(self._folder.read(_name(start.after)))
            x0, s1, s2, trained_variance = (np.load(file, allow_pickle=False) for _ in _PLANES)
            pedestal = Pedestal(x0, s1, s2, trained_variance, n_samples)
        except (OSError, ValueError, EOFError) as error:
            raise RunError(
                f"{path}, the pedestal after batch {start.after}, can't be read: "
                f"{getattr(error, 'strerror', None) or error}"
            ) from error
        if pedestal_digest(pedestal) != start.digest:
            raise RunError(
                f"{path}, the pedestal after batch {start.after}, is not what that batch left: it is damaged"
            )
        return pedestal

    def holds(self, start: ChainStart, n_samples: int) -> bool:
        """Whether a state is there and whole."""
        try:
            self.read(start, n_samples)
        except RunError:
            return False
        return True

    def keep_only(self, batches: Collection[int]) -> None:
        """Remove the states after all other batches, and what was left half-written."""
        for name in self._folder.names():
            match = _NAME.fullmatch(name)
            if match is not None and (match[2] is not None or int(match[1]) not in batches):
                self._folder.remove(name)

    def remove(self, batch: int) -> None:
        """Remove the state after a batch, if it is there."""
        with contextlib.suppress(OSError):
            self._folder.remove(_name(batch))

    def _place(self, batch: int) -> str:
        return f"{self._folder.place}/{_name(batch)}"


def _name(batch: int) -> str:
    return f"state-{batch}.bin"


class StatePruner:
    """Removes the states that no batch can need any more while a run goes on.

    Needed are the state before the first batch whose rows are not all in the dataset, all later ones (a batch that is
    lost with its worker is found again), and for a later try those before the batches that were skipped.
    """

    def __init__(self, states: ChainStates) -> None:
        self._states = states
        self._seen = 0

    def __call__(self, oldest: int, counts: Sequence[BatchCount | None]) -> None:
        """Remove what is not needed.

        Args:
            oldest: The first batch whose rows may not all be in the dataset.
            counts: What is known of each batch.
        """
        start = chain_start(counts, oldest)
        if start is None:
            return
        for batch in range(self._seen, start.after):
            following = counts[batch + 1]
            if following is None or following.status is FrameStatus.OK:
                self._states.remove(batch)
        self._seen = max(self._seen, start.after)
