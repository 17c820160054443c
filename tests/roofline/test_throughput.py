"""The arithmetic of a run's summary."""

from __future__ import annotations

import json
import math

import pytest

from roofline import StageUse, ThroughputSummary
from roofline.accounting import StageCeiling, account


def account_of(*uses, frames=4000, seconds=0.5):
    ceilings = [StageCeiling(use.name, None) for use in uses]
    return account(uses, ceilings, workers=2, frames=frames, seconds=seconds, idle_at_end=(0.0, 0.0))


def summary(**changes):
    values = {
        "frames": 4000,
        "clusters": 8000,
        "batches": 2,
        "workers": 2,
        "seconds": 0.5,
        "startup_seconds": 2.0,
        "account": account_of(StageUse("read + decode", 0.4, 1_280_000_000), StageUse("find", 0.2, 1_280_000_000)),
        "movement": 0.01,
        "offset": -0.02,
        "pixels_off": 0.001,
    }
    return ThroughputSummary(**(values | changes))


def test_busy_time_and_bytes_give_time_a_frame_and_rate():
    read = summary().account.bars[0].use
    assert read.microseconds_a_frame(4000) == pytest.approx(100)
    assert read.bytes_a_second == pytest.approx(3.2e9)


def test_stages_of_the_same_name_add_up_and_others_do_not():
    assert StageUse("find", 1.0, 10) + StageUse("find", 2.0, 30) == StageUse("find", 3.0, 40)
    with pytest.raises(ValueError, match="don't add up"):
        StageUse("find", 1.0, 10) + StageUse("write", 2.0, 30)


def test_a_summary_is_valid_json_with_null_for_what_is_not_a_number():
    empty = summary(
        frames=0,
        clusters=0,
        seconds=0.0,
        movement=math.nan,
        account=account_of(StageUse("find", 0.0, 0), frames=0, seconds=0.0),
    )
    values = json.loads(json.dumps(empty.as_dict(), allow_nan=False))
    assert values["movement"] is None
    assert values["clusters_a_frame"] is None
    assert values["stages"]["find"]["bytes_a_second"] is None
    assert values["account"]["binds"] is None
    assert values["advice"] == "nothing was done, so nothing binds"


def test_rates_are_of_the_whole_run():
    assert summary().frames_a_second == pytest.approx(8000)
    assert summary().clusters_a_frame == pytest.approx(2)
