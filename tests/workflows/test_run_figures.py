"""What is told of a run's speed, by its summary, by ``inspect`` and in a report."""

from __future__ import annotations

import json
import re
import shlex

import pytest
import xarray as xr

from roofline import StageUse
from roofline.accounting import StageCeiling, account
from workflows import run_figures
from workflows.kept_account import kept_account
from workflows.pictures import require_matplotlib
from workflows.reporting.contents import make_report
from workflows.reporting.run_record import read_run


def cells(page: str) -> dict[str, list[str]]:
    """The lines of a table on the terminal: their cells by what the first one says."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in page.splitlines()]
    return {first.removesuffix(" ◀"): rest for first, *rest in lines}


def test_a_run_its_dataset_and_its_report_tell_the_same_figures(python_m, photonflow, archive):
    # Of three batches one can't be read: its frames are in none of the rates.
    chunk = archive / "frames" / "c" / "1" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:50])
    arguments = ("--batch-size", 10, "--cpus", 2, "--on-bad-batch", "skip", "--no-progress")
    process = cells(python_m("process", archive, *arguments).stdout)
    dataset = archive.with_name("a.clusters.zarr")
    inspect = cells(photonflow("inspect", dataset).stdout)
    values = json.loads(photonflow("inspect", dataset, "--json").stdout)
    kept = json.loads(xr.open_zarr(dataset).attrs["throughput"])
    require_matplotlib()
    report = make_report(read_run(str(dataset), None), only=("stages",))
    facts, rows = dict(report.facts), {row[0].removesuffix(" ◀"): row for row in report.parts["stages"].table.rows}

    assert process["frames lost"][0] == "10"
    assert kept["frames"] == 20
    # Nor in the mean: of frames that nobody could read it is not known how many clusters they have.
    mean = int(xr.open_zarr(dataset).n_clusters.sum()) / 20
    told = (process["clusters a frame"][0], inspect["clusters a frame"][0].split()[0], facts["clusters a frame"])
    assert told == (f"{mean:.1f}",) * 3
    others = "20 of 30: the others are of an earlier run, or were skipped"
    assert inspect["frames of it"][0] == facts["frames of its last run"] == others
    assert process["frames/s"][0] == inspect["frames a second"][0] == facts["frames/s"]
    assert process["seconds"][0] == inspect["seconds"][0].split()[0] == facts["seconds, start-up left out"]
    assert process["seconds"][1].endswith(f"after {facts['seconds to start up']} to start up")
    assert process["seconds"][1] == inspect["seconds"][0].partition(" ")[2]
    assert "on 2 workers" in process["seconds"][1]
    assert inspect["workers"][0] == facts["workers"] == "2"
    assert process["advice"] == inspect["advice"] == [report.advice]
    # The same key is the same thing in all of them.
    assert values["throughput"]["binds"] == kept["binds"] == inspect["binds"][0]
    assert values["throughput"]["advice"] == kept["advice"] == report.advice
    for told in ("time", "page faults"):
        assert process[told] == inspect[told]
    for stage in ("read", "decode", "find", "write", "idle"):
        assert process[stage] == [cell for cell in rows[stage][1:] if cell]
        seconds, micros = process[stage][:2]
        assert inspect[stage][0].startswith(f"{seconds} worker seconds, {micros} µs a frame")
    assert values["throughput"]["frames_a_second"] == kept["frames_a_second"]
    assert values["stages"] == kept["stages"] | {"idle": kept["idle_seconds"]}
    # Decoding is within reading in the table of batches, and nowhere added to it.
    assert not [name for name in values["batches"] if name.endswith("_seconds")]


def test_a_stage_without_bytes_is_not_told_of(python_m, photonflow, archive):
    arguments = ("--no-clusters", "--products", "hitmap", "--cpus", 1, "--no-progress")
    process = cells(python_m("process", archive, *arguments).stdout)
    assert "find" in process
    assert "write" not in process
    assert "write" not in cells(photonflow("inspect", archive.with_name("a.clusters.zarr")).stdout)


def test_the_command_that_is_named_measures_what_a_run_lacks(python_m, photonflow, archive, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    process = ("process", archive, "--cluster-size", "5x5", "--signal-dtype", "float32", "--cpus", 1, "--no-progress")
    lacking = json.loads(python_m(*process, "--json").stdout)["account"]
    assert lacking["bound_frames_a_second"] is None
    command = lacking["measured_by"]
    assert command in run_figures.bound(lacking)
    program, *arguments = shlex.split(command)
    assert program == "photonflow"
    assert photonflow(*arguments, "--window", "0.001", "--no-progress").code == 0
    assert json.loads(python_m(*process, "--overwrite", "--json").stdout)["account"]["bound_frames_a_second"] > 0


def test_attributes_that_are_not_an_account_tell_nothing():
    for text in ("", "[]", '{"stages": {}}', None):
        assert kept_account({"throughput": text}) == {}
    assert kept_account({}) == {}
    assert kept_account({"throughput": "[" * 100_000}) == {}


def test_an_account_without_a_bound_claims_no_time_at_one_even_if_it_was_kept_before_that_was_told_apart():
    kept = _account(None)
    assert kept_account({"throughput": json.dumps(kept)}) == kept
    assert run_figures.time_shares(kept).startswith("in the stages 35%, waiting")
    parts = kept["worker_seconds"]
    three = {"at the bound": 0.5, "overlap lost": 0.1, "below ceilings": parts["in the stages"] - 0.6}
    earlier = {**three, **{name: seconds for name, seconds in parts.items() if name != "in the stages"}}
    read = kept_account({"throughput": json.dumps(kept | {"worker_seconds": earlier})})
    assert read["worker_seconds"] == pytest.approx(parts)


def _account(bytes_a_second: float | None = 1e9) -> dict:
    ceiling = StageCeiling("float32", bytes_a_second)
    uses = (StageUse("read", 0.1, 1000), StageUse("decode", 0.1, 2000), StageUse("find", 0.5, 2000))
    kept = account(uses, [ceiling] * 3, workers=2, frames=20, seconds=1.0, idle_at_end=[0.1, 0.0])
    return {"advice": "find binds", **kept.as_dict(), "ceilings": None}


@pytest.mark.parametrize(
    "change",
    [
        {"stages": ["read"]},
        {"stages": {"<script>": {}}},
        {"worker_seconds": {}},
        {"worker_seconds": {"dreaming": 1.0}},
        {"seconds": float("nan")},
        {"seconds": 0},
        {"frames": "20"},
        {"frames": -20},
        {"workers": 0},
        {"workers": "two"},
        {"idle_seconds": None},
        {"idle_seconds": -1.0},
        {"minor_faults": "many"},
        {"bound_frames_a_second": 0},
        {"advice": ["find"]},
        {"ceilings": [1, 2]},
        {"ceilings": {"ceilings": [{"name": "float32"}], "machine": {}, "measured": ""}},
    ],
)
def test_an_account_that_was_edited_by_hand_is_not_believed(change):
    whole = _account()
    assert kept_account({"throughput": json.dumps(whole)}) == whole
    assert kept_account({"throughput": json.dumps(whole | change)}) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"busy_seconds": float("inf")}, {"busy_seconds": "0.5"}, {"nbytes": -1}, {"nbytes": 0.5}, {"ceiling": None},
        {"microseconds_a_frame": "x"}, {"microseconds_a_frame": None}, {"ceiling_bytes_a_second": 0},
        {"share_of_ceiling": -0.5},
    ],
)  # fmt: skip
def test_an_account_of_a_stage_that_nothing_can_do_is_not_believed(change):
    whole = _account()
    stages = whole["stages"] | {"find": whole["stages"]["find"] | change}
    assert kept_account({"throughput": json.dumps(whole | {"stages": stages})}) == {}
