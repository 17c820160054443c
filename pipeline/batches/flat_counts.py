"""What is known of a batch as a row of plain values, for the journal's lines and for memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, get_type_hints

from pipeline.batches.plan import BatchPlan
from pipeline.batches.reports import BatchCount

# A batch is known by its index; where it begins and ends is in the plan.
_IN_THE_PLAN = ("batch.start", "batch.stop")


def _columns_of(kind: Any, prefix: str = "") -> dict[str, type]:
    """The plain values that a report is made of, those of the reports inside it under `outer.inner`."""
    columns: dict[str, type] = {}
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        name = prefix + field.name
        columns |= _columns_of(hint, f"{name}.") if dataclasses.is_dataclass(hint) else {name: hint}
    return columns


COLUMNS = {name: kind for name, kind in _columns_of(BatchCount).items() if name not in _IN_THE_PLAN}
"""Of each value of a row: its name and its type."""

_values: Callable[[BatchCount], tuple[Any, ...]] = attrgetter(*COLUMNS)


def values_of(count: BatchCount) -> tuple[Any, ...]:
    """The row of a batch."""
    return _values(count)


def _builder(kind: Any) -> Callable[[Iterator[Any]], Any]:
    """Makes a report from its values, which come in the order of its fields."""
    hints = get_type_hints(kind)
    of_fields = [
        _builder(hint) if dataclasses.is_dataclass(hint := hints[field.name]) else _plain(hint)
        for field in dataclasses.fields(kind)
    ]
    return lambda values: kind(*[build(values) for build in of_fields])


def _plain(kind: Any) -> Callable[[Iterator[Any]], Any]:
    return lambda values: kind(next(values))


_of_fields = [
    _builder(hint) if dataclasses.is_dataclass(hint) else _plain(hint)
    for name, hint in get_type_hints(BatchCount).items()
    if name != "batch"
]


def count_of(values: Sequence[Any], plan: BatchPlan) -> BatchCount:
    """The batch of a row.

    Raises:
        ValueError: The row has another number of values, or one that means nothing.
        IndexError: The plan has no such batch.
        TypeError: A value is of another kind.
    """
    if len(values) != len(COLUMNS):
        raise ValueError(f"{len(values)} values where a batch has {len(COLUMNS)}")
    left = iter(values)
    batch = plan[int(next(left))]
    return BatchCount(batch, *[build(left) for build in _of_fields])
