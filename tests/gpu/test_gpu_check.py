"""`benchmarks/gpu_check.py` works but for the hardware: a little of everything on the emulated device."""

import dataclasses
import json

import numpy as np
import pytest
from emulation.device import EmulatedDevice

from benchmarks.gpu_check import Size, check, sanitized
from benchmarks.gpu_ladder import rungs
from benchmarks.gpu_precision import ARITHMETICS, counts_on_cpu
from benchmarks.gpu_table import table
from gpu.device import LostDeviceError

TINY = Size(
    frames=16,
    batch=4,
    side=40,
    oracle_cases=1,
    random_cases=1,
    windows=(3,),
    repeats=1,
    copies=1000,
    kernel_repeats=1,
    precision_frames=4,
    budget_seconds=1e9,
)


@pytest.fixture(scope="module")
def report(cpu_compiler):
    said = []
    report = check(EmulatedDevice(cpu_compiler), TINY, said.append)
    assert said == ["oracle cases", "random cases", "ceilings", "the ladder with 3×3", "precision"]
    return json.loads(json.dumps(report))


def test_nothing_is_wrong_and_nothing_left_out(report):
    assert report["wrong"] == report["left_out"] == []
    assert report["oracle_cases"] == 1
    assert report["random_cases"] == 1


def test_every_rung_finds_the_same_clusters(report):
    ladder = report["ladder_3x3"]["rungs"]
    assert [rung["name"] for rung in ladder] == [rung.name for rung in rungs(2)]
    assert len({rung["clusters"] for rung in ladder}) == 1
    assert ladder[0]["clusters"] > 0
    for rung in ladder:
        assert min(rung["stage_microseconds"].values()) > 0
    assert report["ladder_3x3"]["tallest"] in ("H2D", "kernels", "D2H")


def test_every_arithmetic_is_timed_and_finds_what_it_finds_in_numpy(report):
    # Compared with NumPy in the check itself, where nothing was wrong.
    assert [rung["name"] for rung in report["precision"]] == [arithmetic.name for arithmetic in ARITHMETICS]
    for rung in report["precision"]:
        assert rung["frames"] == TINY.precision_frames
        assert rung["microseconds_a_frame"] > 0
        assert rung["kernel_microseconds"] > 0
    assert report["precision"][0]["clusters"] > 0


def test_the_table_has_all_of_it(report):
    shown = table(report | {"sanitizer": sanitized(lambda what: None, 60), "run": {"same_digest": True}})
    for words in (
        "bit for bit: 1 oracle and 1 random cases",
        "H2D, pinned",
        "opt1",
        "ours",
        "float64 raw: ",
        "the CPU's digest too",
    ):
        assert words in shown
    assert "WRONG" not in shown


def test_a_finder_that_differs_is_seen(cpu_compiler, monkeypatch):
    from benchmarks import gpu_cases, gpu_check

    case = next(gpu_cases.oracle_cases())
    wrong = {"wrong": []}
    gpu_check._compare(wrong, [case], EmulatedDevice(cpu_compiler))
    assert wrong["wrong"] == []
    finder = gpu_check.open_finder

    def another(backend, parameters, shape, mask):
        return finder(backend, dataclasses.replace(parameters, noise="trained"), shape, mask)

    monkeypatch.setattr(gpu_check, "open_finder", another)
    gpu_check._compare(wrong, [case], EmulatedDevice(cpu_compiler))
    assert any("running: the pedestal's s2 differs" in words for words in wrong["wrong"])


def test_the_cpu_finder_is_compiled_beforehand_for_all_windows_and_noises():
    from benchmarks import gpu_cases

    cases = list(gpu_cases.oracle_cases())[:4]
    needed = {(parameters.cluster_size, parameters.noise) for _, parameters, *_ in cases}
    assert sorted(needed) == gpu_cases.compile_for_cpu(cases, 1)


def test_where_the_gpu_fails_the_report_says_in_which_case(cpu_compiler, monkeypatch):
    def failing(stream, event):
        raise LostDeviceError("an illegal address")

    monkeypatch.setattr("emulation.device.EmulatedStream.record", failing)
    report = {}
    with pytest.raises(LostDeviceError):
        check(EmulatedDevice(cpu_compiler), TINY, lambda what: None, report)
    assert report["case"].endswith(" running")
    assert report["wrong"] == []


def test_raw_moments_in_float32_find_too_much():
    rng = np.random.default_rng(1)
    frames, darks = (rng.normal(4655, 2, (n, 40, 40)).astype(np.uint16) for n in (20, 200))
    counts = counts_on_cpu(frames, darks, 5.0, 1000)
    assert counts["float32 centred"] <= counts["float64 raw"] + 3
    assert counts["float32 raw"] > 10 * (counts["float64 raw"] + 1)
