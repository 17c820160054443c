"""The table of batches that a report draws: believed only if it is whole, and of the run that came last."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pytest
import xarray as xr

from workflows.reporting.batch_table import is_whole, of_last_run, worker_names

FIRST = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
DAY = 86_400.0


def table(**columns) -> xr.Dataset:
    values = {
        "began": [FIRST, FIRST + 1, FIRST + DAY, FIRST + DAY + 1],
        "written": [FIRST + 2, np.nan, FIRST + DAY + 2, np.nan],
        "read_seconds": [0.1] * 4,
        "decode_seconds": [np.nan] * 4,
        "find_seconds": [0.2] * 4,
        "worker": [0, 1, 2, 0],
        "status": [0, 0, 0, 1],
    } | columns
    return xr.Dataset(
        {name: ("batch", np.array(column)) for name, column in values.items()},
        attrs={"worker_names": ["first", "gone", "new", "idle"]},
    )


def runs(*began: float) -> dict[str, str]:
    return {"runs": json.dumps([{"began": datetime.fromtimestamp(at, UTC).isoformat("T", "seconds")} for at in began])}


@pytest.mark.parametrize(
    "damaged",
    [
        table(began=[np.nan] * 4),
        table(began=[FIRST, np.inf, FIRST, FIRST]),
        table(find_seconds=[np.inf, 0.1, 0.1, 0.1]),
        table(worker=[0.0, 1.0, 2.0, 0.5]),
        table().drop_vars("find_seconds"),
        table().drop_vars("status"),
        table().assign(began=5.0),
        table().assign_attrs(worker_names=5),
    ],
)
def test_a_table_that_nothing_can_be_drawn_of_is_not_whole(damaged):
    assert is_whole(table())
    assert not is_whole(damaged)


def test_of_a_dataset_that_two_runs_made_the_batches_of_the_last_are_taken_and_its_workers():
    last = of_last_run(table(), runs(FIRST - 3, FIRST + DAY - 3))
    assert last["began"].values.tolist() == [FIRST + DAY, FIRST + DAY + 1]
    # The one that had batches only of the run before is none of this run's.
    assert worker_names(last) == ["first", "new", "idle"]
    assert [worker_names(last)[k] for k in last["worker"].values] == ["new", "first"]


@pytest.mark.parametrize(
    "attrs", [{}, {"runs": "[null]"}, {"runs": "5"}, runs(FIRST - 3), runs(FIRST - 9, FIRST + 9 * DAY)]
)
def test_where_runs_cannot_be_told_apart_all_batches_are_taken(attrs):
    assert of_last_run(table(), attrs).sizes["batch"] == 4
