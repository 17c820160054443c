import json
import math

import pytest

from roofline import StageUse
from roofline.accounting import PageFaults, StageCeiling, account
from roofline.advice import advice

USES = (StageUse("decode", 6.0, 12_000), StageUse("find", 3.0, 12_000), StageUse("write", 1.0, 4_000))
CEILINGS = (StageCeiling("decode", 3_000.0), StageCeiling("float32", 6_000.0), StageCeiling("write", 8_000.0))


def run(ceilings=CEILINGS, idle_at_end=(0.0, 1.0), seconds=6.0, **others):
    return account(USES, ceilings, workers=2, frames=1_000, seconds=seconds, idle_at_end=idle_at_end, **others)


def test_every_worker_second_is_in_one_part():
    split = run(seconds=6.5, startup_seconds=2.0, finishing_seconds=0.5).split
    assert split.at_bound == pytest.approx(4 + 2 + 0.5)
    assert split.overlap_lost == 0
    assert split.below_ceilings == pytest.approx(10 - 6.5)
    assert split.stragglers == pytest.approx(1)
    assert split.waiting == pytest.approx(1)
    assert split.start_up == pytest.approx(4)
    assert split.finishing == pytest.approx(1)
    assert split.total == pytest.approx(2 * (2 + 6.5))


def test_the_tallest_bar_binds_and_stages_of_one_resource_take_turns():
    found = run()
    assert found.tallest.name == "decode"
    assert found.tallest.share_of_ceiling == pytest.approx(4 / 6)
    assert found.bound_frames_a_second == pytest.approx(2 * 1_000 / 6.5)
    assert found.share_of_bound == pytest.approx((1_000 / 6) / (2_000 / 6.5))


def test_what_another_resource_does_could_be_hidden_and_is_overlap_lost():
    storage = StageCeiling("decode", 3_000.0, "storage")
    found = run((storage, *CEILINGS[1:]))
    assert found.split.at_bound == pytest.approx(4)
    assert found.split.overlap_lost == pytest.approx(2.5)
    assert found.bound_frames_a_second == pytest.approx(500)
    assert found.split.total == pytest.approx(12)


def test_without_a_ceiling_there_is_no_bound_and_the_time_still_adds_up():
    found = run((StageCeiling("decode", None), *CEILINGS[1:]))
    assert math.isnan(found.bound_frames_a_second)
    assert math.isnan(found.share_of_bound)
    assert math.isnan(found.bars[0].share_of_ceiling)
    assert found.split.total == pytest.approx(12)
    assert found.split.at_bound == pytest.approx(6 + 2 + 0.5)
    assert found.as_dict()["bound_frames_a_second"] is None
    # Nothing is said to have been at a bound that is not known.
    parts = found.as_dict()["worker_seconds"]
    assert list(parts) == ["in the stages", "start-up", "waiting", "stragglers", "finishing"]
    assert parts["in the stages"] == pytest.approx(6 + 3 + 1)
    assert "in the stages" not in run().as_dict()["worker_seconds"]


GPU_USES = (
    StageUse("decode", 1.0, 12_000),
    StageUse("find", 8.0, 12_000),
    StageUse("H2D", 2.0, 12_000, within="find"),
    StageUse("kernel", 1.0, 12_000, within="find"),
    StageUse("D2H", 0.5, 3_000, within="find"),
    StageUse("write", 1.0, 3_000),
)
GPU_CEILINGS = (
    StageCeiling("decode", 24_000.0),
    StageCeiling("H2D, pinned", 2_000.0, "GPU"),
    StageCeiling("H2D, pinned", 8_000.0, "GPU"),
    StageCeiling("device memory", None, "GPU"),
    StageCeiling("D2H, pinned", 12_000.0, "GPU"),
    StageCeiling("write", 6_000.0),
)


def on_gpus(uses=GPU_USES, gpus=1):
    return account(
        uses,
        GPU_CEILINGS,
        workers=4,
        frames=1_000,
        seconds=3.0,
        idle_at_end=[0.0] * 4,
        gpus=gpus,
        finishing_seconds=0.2,
    )


def test_what_a_gpu_does_is_what_workers_waited_for_and_not_beside_it():
    found = on_gpus()
    assert found.busy_seconds == pytest.approx(10)
    assert found.split.total == pytest.approx(12)
    # The finding's own ceiling is what the GPU sets; the GPU's are not added to it.
    assert found.split.at_bound == pytest.approx(12_000 / 2_000)
    assert found.split.overlap_lost == pytest.approx(0.5 + 0.5)
    # One of the GPU's that was not measured leaves the bound, which the finding's ceiling sets.
    assert found.bound_frames_a_second == pytest.approx(4 * 1_000 / 6)
    assert found.bars[2].share_of_ceiling == pytest.approx(6_000 / 8_000)
    told = found.as_dict()
    assert [stage["within"] for stage in told["stages"].values()] == [None, None, "find", "find", "find", None]
    assert told["gpus"] == 1


def test_the_gpus_tallest_stage_binds_where_the_gpu_was_at_work_for_most_of_the_wait():
    # Four workers waited for 8 s, in 2 of which all of them waited: the GPU was at work for 3.5.
    assert on_gpus().tallest.name == "H2D"
    assert advice(on_gpus()).startswith("H2D binds: ")
    assert "GB/s a GPU; a faster bus" in advice(on_gpus())
    # With four GPUs a second of one is a second of one worker, and they were idle for more than half of the wait.
    assert on_gpus(gpus=4).tallest.name == "find"
    assert "more --streams, would help: the GPU waited" in advice(on_gpus(gpus=4))
    # Where something else takes longer, that binds.
    slow = (StageUse("decode", 9.0, 12_000), *GPU_USES[1:])
    assert on_gpus(slow).tallest.name == "decode"


def test_more_waiting_at_the_end_than_idle_time_is_all_there_is():
    assert run(idle_at_end=(6.0, 6.0)).split.stragglers == pytest.approx(2)
    assert run(idle_at_end=(6.0, 6.0)).split.waiting == 0


def test_a_run_without_frames_has_no_bar():
    empty = account([StageUse("find", 0.0, 0)], [CEILINGS[1]], workers=1, frames=0, seconds=0.0, idle_at_end=[0.0])
    assert empty.tallest is None
    assert math.isnan(empty.bound_frames_a_second)
    assert advice(empty) == "nothing was done, so nothing binds"
    json.dumps(empty.as_dict(), allow_nan=False)


def test_advice_names_the_stage_its_ceiling_and_what_would_help():
    gigabytes = (StageUse("decode", 6.0, 12 * 10**9), StageUse("find", 3.0, 12 * 10**9))
    ceilings = (StageCeiling("decode", 2.6e9), StageCeiling("float32", None))
    about = {"workers": 2, "frames": 10, "seconds": 5.0, "idle_at_end": (0.0, 0.0)}
    assert advice(account(gigabytes, ceilings, **about)) == (
        "decode binds: 2.0 of 2.6 GB/s a worker; more cores or an uncompressed archive would help; "
        "a faster GPU would not"
    )
    swapped = (StageUse("decode", 1.0, 12 * 10**9), StageUse("find", 8.0, 12 * 10**9))
    assert advice(account(swapped, ceilings, **about)).startswith(
        "find binds: 1.5 GB/s a worker, its ceiling not measured; more cores would help"
    )


@pytest.mark.parametrize(
    ("name", "resource", "expected"),
    [
        ("read", "storage", "faster storage or chunks that pack better"),
        ("read", "core", "faster storage would not"),
        ("read + decode", "core", "photonflow's own layout"),
        ("write", "core", "--no-clusters"),
    ],
)
def test_each_stage_has_a_cure_of_its_own(name, resource, expected):
    found = account(
        [StageUse(name, 9.0, 10**9)],
        [StageCeiling("x", 1e9, resource)],
        workers=1,
        frames=1,
        seconds=10.0,
        idle_at_end=[0],
    )
    assert advice(found).startswith(f"{name} binds: 0.11 of 1.0 GB/s")
    assert expected in advice(found)


@pytest.mark.parametrize(("batches", "gpus", "told"), [(2, 0, True), (1, 0, False), (0, 0, False), (2, 1, False)])
def test_larger_batches_are_advised_where_they_are_short(batches, gpus, told):
    found = account(
        [StageUse("find", 9.0, 10**9)],
        [StageCeiling("float32", 1e9)],
        workers=1,
        frames=1999,
        seconds=10.0,
        idle_at_end=[0],
        batches=batches,
        gpus=gpus,
    )
    assert ("--batch-size" in advice(found)) is told
    assert found.as_dict()["batches"] == batches


def test_a_run_that_mostly_starts_or_waits_says_so_instead():
    # What took most of the time, and the stage that a chart of the stages marks, which is not the same.
    assert advice(run(startup_seconds=20.0)) == (
        "start-up took 77% of the wall time: more frames in one run would help; of the stages decode binds"
    )
    assert advice(run(seconds=20.0, finishing_seconds=14.0)).startswith("finishing took 70% of the wall time")
    assert advice(run(seconds=20.0, idle_at_end=(0, 0))).endswith("; of the stages decode binds")
    assert "idle for 75% of the time: more frames, or smaller batches" in advice(
        run(seconds=20.0, idle_at_end=(18, 18))
    )
    assert "idle for 75% of the time: fewer workers" in advice(run(seconds=20.0, idle_at_end=(0, 0)))


def test_a_run_dominated_by_first_touches_says_so():
    costly, cheap = PageFaults(10_000_000, 0.5e-6), PageFaults(1_000_000, 0.5e-6)
    assert "first touches of memory took 50% of the stages' time (10,000,000 page faults of 0.50 µs)" in advice(
        run(faults=costly)
    )
    assert "first touches" not in advice(run(faults=cheap))
    assert "first touches" not in advice(run(faults=PageFaults(10_000_000)))
    # The published run: 2.6 million faults of 0.68 µs on top of the steady state.
    assert PageFaults(2_600_000, 0.68e-6).seconds == pytest.approx(1.768)


def test_a_ceiling_that_the_run_exceeds_was_measured_too_low_and_does_not_count():
    # Decoding took 6 worker seconds, and would have taken 24 at this ceiling.
    found = run((StageCeiling("decode", 500.0), *CEILINGS[1:]))
    assert found.bars[0].exceeds_ceiling
    assert not found.bars[1].exceeds_ceiling
    assert found.bars[0].share_of_ceiling == pytest.approx(4)
    assert found.split.at_bound == pytest.approx(6 + 2 + 0.5)
    assert found.split.below_ceilings == pytest.approx(10 - 8.5)
    assert found.split.total == pytest.approx(12)
    assert found.share_of_bound <= 1
    assert "2e-06 GB/s a worker, more than its ceiling: measure that again" in advice(found)
    assert found.as_dict()["stages"]["decode"]["exceeds_ceiling"] is True


def test_a_ceiling_that_is_exceeded_by_no_more_than_repeats_scatter_holds():
    assert not run((StageCeiling("decode", 1_900.0), *CEILINGS[1:])).bars[0].exceeds_ceiling
