"""``photonflow benchmark`` in its tiny form: it finds what its peer finds, and says so; no time is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

HAS_AARE = find_spec("aare") is not None


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    place = tmp_path_factory.mktemp("benchmark") / "result.json"
    peer = ["--peer-python", sys.executable] if HAS_AARE else ["--no-peer"]
    options = ["--tiny", "--parts", "peer,rates,ladder", "--out", str(place), *peer]
    done = subprocess.run(
        [sys.executable, "-m", "workflows.benchmark", *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(place.read_text()), done.stdout


def test_the_json_tells_machine_versions_and_every_row(benchmark):
    result, _ = benchmark
    assert {"processor", "cores", "memory", "system", "versions", "lanes"} <= set(result["machine"])
    assert result["seed"] == 3
    assert len(result["rows"]) == (7 if HAS_AARE else 0) + 3
    for row in result["rows"]:
        assert row["median"] > 0
        assert row["quartiles"][0] <= row["median"] <= row["quartiles"][1]
        assert {"minor_faults", "rival_minor_faults", "faults_settled", "clusters", "differing", "ratio"} <= set(row)


def test_every_rung_of_the_ladder_finds_identical_clusters(benchmark):
    rungs = benchmark[0]["ladder"]
    assert len(rungs) == 8
    assert all(rung["identical"] for rung in rungs)
    assert len({rung["clusters"] for rung in rungs if rung["frames"] == rungs[-1]["frames"]}) == 1


@pytest.mark.skipif(not HAS_AARE, reason="aare has no wheel for this Python")
def test_the_peer_finds_the_same_clusters_but_for_a_few(benchmark):
    result, _ = benchmark
    assert result["peer"]["aare"]
    on_one_core = [row for row in result["rows"] if row["rival"] == f"aare {result['peer']['aare']}"]
    assert len(on_one_core) == 6
    for row in on_one_core:
        assert row["clusters"] > 50
        assert row["differing"] <= 0.05 * row["clusters"]


def test_the_tables_are_for_people(benchmark):
    result, said = benchmark
    assert result["machine"]["processor"] in said
    for name in [row["name"] for row in result["rows"]] + [rung["idea"] for rung in result["ladder"]]:
        assert name in said


def test_a_part_that_there_is_not_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "workflows.benchmark", "--parts", "peer,gpu"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--parts gpu is none of peer, plain, rates, shapes, ladder, run, start" in done.stderr


@pytest.mark.slow
def test_whole_runs_of_it_say_nothing_of_their_own_pedestals(tmp_path):
    options = ["--tiny", "--parts", "run", "--no-peer", "--out", str(tmp_path / "result.json")]
    command = [sys.executable, "-m", "workflows.benchmark", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if not line.startswith("compiling ")] == ["whole runs ..."]
    assert json.loads((tmp_path / "result.json").read_text())["tiny"] is True
