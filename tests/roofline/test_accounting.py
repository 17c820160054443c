import math

import pytest

from roofline import StageUse
from roofline.accounting import StageCeiling, account

USES = (StageUse("decode", 6.0, 12_000), StageUse("find", 3.0, 12_000), StageUse("write", 1.0, 4_000))
CEILINGS = (StageCeiling("decode", 3_000.0), StageCeiling("float32", 6_000.0), StageCeiling("write", 8_000.0))


def run(ceilings=CEILINGS, idle_at_end=(0.0, 1.0), seconds=6.0):
    return account(USES, ceilings, workers=2, frames=1_000, seconds=seconds, idle_at_end=idle_at_end)


def test_every_worker_second_is_in_one_part():
    split = run().split
    assert split.at_ceilings == pytest.approx(4 + 2 + 0.5)
    assert split.below_ceilings == pytest.approx(10 - 6.5)
    assert split.stragglers == pytest.approx(1)
    assert split.waiting == pytest.approx(1)
    assert split.total == pytest.approx(2 * 6)


def test_the_tallest_bar_binds_and_the_bound_has_every_stage_at_its_ceiling():
    found = run()
    assert found.tallest.use.name == "decode"
    assert found.tallest.share_of_ceiling == pytest.approx(4 / 6)
    assert found.bound_frames_a_second == pytest.approx(2 * 1_000 / 6.5)
    assert found.share_of_bound == pytest.approx((1_000 / 6) / (2_000 / 6.5))


def test_without_a_ceiling_there_is_no_bound_and_the_time_still_adds_up():
    found = run((StageCeiling("decode", None), *CEILINGS[1:]))
    assert math.isnan(found.bound_frames_a_second)
    assert math.isnan(found.share_of_bound)
    assert math.isnan(found.bars[0].share_of_ceiling)
    assert found.split.total == pytest.approx(12)
    assert found.split.at_ceilings == pytest.approx(6 + 2 + 0.5)


def test_more_waiting_at_the_end_than_idle_time_is_all_there_is():
    assert run(idle_at_end=(6.0, 6.0)).split.stragglers == pytest.approx(2)
    assert run(idle_at_end=(6.0, 6.0)).split.waiting == 0


def test_a_run_without_frames_has_no_bar():
    empty = account([StageUse("find", 0.0, 0)], [CEILINGS[1]], workers=1, frames=0, seconds=0.0, idle_at_end=[0.0])
    assert empty.tallest is None
    assert math.isnan(empty.bound_frames_a_second)
