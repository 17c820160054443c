"""What is known of each batch of a run, in a few hundred bytes a batch: a run may have a million of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from pipeline.batches.flat_counts import COLUMNS, count_of, values_of
from pipeline.batches.plan import BatchPlan
from pipeline.batches.reports import BatchCount

# Texts that are another one for each batch, digests of at most so many characters, are kept in its row; the others
# are few, and kept once.
_OF_EACH_BATCH = ("digest", "stamp", "content", "state")
_LONGEST = 32


def _dtype_of(name: str, kind: type) -> str:
    if issubclass(kind, str):
        return f"S{_LONGEST}" if name in _OF_EACH_BATCH else "u4"
    return "f8" if issubclass(kind, float) else "i8"


_ROW = np.dtype([(name, _dtype_of(name, kind)) for name, kind in COLUMNS.items()])
_TEXTS = [k for k, name in enumerate(COLUMNS) if _ROW[name] == np.dtype("u4")]
_DIGESTS = [k for k, name in enumerate(COLUMNS) if _ROW[name].kind == "S"]


class CountTable(Sequence[BatchCount | None]):
    """What is known of each batch, by its index; None where nothing is yet.

    Args:
        plan: The batches.
    """

    def __init__(self, plan: BatchPlan) -> None:
        self._plan = plan
        # The system supplies the memory of zeros as they are overwritten.
        self._rows = np.zeros(len(plan), _ROW)
        self._is_known = np.zeros(len(plan), bool)
        self._texts: list[str] = []
        self._places: dict[str, int] = {}

    def put(self, count: BatchCount) -> None:
        """Keep what is known of a batch."""
        values: list[Any] = list(values_of(count))
        for k in _TEXTS:
            values[k] = self._place(values[k])
        for k in _DIGESTS:
            if len(values[k]) > _LONGEST:
                raise ValueError(f"a digest of {len(values[k])} characters, {values[k]}: {_LONGEST} are kept")
            values[k] = values[k].encode("ascii")
        index = count.batch.index
        self._rows[index] = tuple(values)
        self._is_known[index] = True

    def known(self) -> KnownCounts:
        """All that is known, in the order of the batches."""
        return KnownCounts(self, np.flatnonzero(self._is_known))

    def __len__(self) -> int:
        return len(self._plan)

    @overload
    def __getitem__(self, index: int) -> BatchCount | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[BatchCount | None]: ...
    def __getitem__(self, index: int | slice) -> BatchCount | list[BatchCount | None] | None:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        return self._count(index) if self._is_known[index] else None

    def __iter__(self) -> Iterator[BatchCount | None]:
        return (self[k] for k in range(len(self)))

    def column(self, name: str, indices: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
        """See :func:`column`."""
        if name.startswith("batch."):
            field = name.removeprefix("batch.")
            return np.fromiter((getattr(self._plan[int(k)], field) for k in indices), np.int64, len(indices))
        values: npt.NDArray[Any] = self._rows[name][indices]
        if values.dtype == np.dtype("u4"):
            values = np.asarray(self._texts or [""], object)[values]
        return values.astype(str) if values.dtype.kind == "S" else values

    def _count(self, index: int) -> BatchCount:
        values = list(self._rows[index].item())
        for k in _TEXTS:
            values[k] = self._texts[values[k]]
        for k in _DIGESTS:
            values[k] = values[k].decode("ascii")
        return count_of(values, self._plan)

    def _place(self, text: str) -> int:
        place = self._places.setdefault(text, len(self._texts))
        if place == len(self._texts):
            self._texts.append(text)
        return place


class KnownCounts(Sequence[BatchCount]):
    """Those batches of a table that something is known of; each is made when it is asked for.

    Args:
        table: The table.
        indices: (batch) which of its batches.
    """

    def __init__(self, table: CountTable, indices: npt.NDArray[np.intp]) -> None:
        self._table = table
        self._indices = indices

    def at(self, positions: Sequence[int] | npt.NDArray[np.intp]) -> KnownCounts:
        """Some of them, by their positions among these."""
        return KnownCounts(self._table, self._indices[np.asarray(positions, np.intp)])

    def column(self, name: str) -> npt.NDArray[Any]:
        """See :func:`column`."""
        return self._table.column(name, self._indices)

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> BatchCount: ...
    @overload
    def __getitem__(self, index: slice) -> KnownCounts: ...
    def __getitem__(self, index: int | slice) -> BatchCount | KnownCounts:
        if isinstance(index, slice):
            return KnownCounts(self._table, self._indices[index])
        count = self._table[int(self._indices[index])]
        assert count is not None
        return count

    def __iter__(self) -> Iterator[BatchCount]:
        return (self[k] for k in range(len(self)))


def column(counts: Sequence[BatchCount], name: str) -> npt.NDArray[Any]:
    """(batch) one value of each, by its name, as in ``offset.median``; a table's without making counts of its rows."""
    if isinstance(counts, KnownCounts):
        return counts.column(name)
    return np.asarray([attrgetter(name)(count) for count in counts])
