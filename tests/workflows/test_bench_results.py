"""Results of a benchmark that a report is given."""

from __future__ import annotations

import json
import re

import pytest

from workflows.reporting.bench_results import Comparison, read_bench

FIRST = {
    "idea": "plain reference", "us_per_frame": 900.0, "quartiles": [880, 930], "frames": 2, "clusters": 200,
    "identical": True, "spectrum": [40, 160],
}  # fmt: skip


@pytest.mark.parametrize(
    ("results", "why"),
    [
        ("", "is not JSON"),
        ("[1, 2]", "neither a ladder nor rows"),
        ('{"trials": 3}', "neither a ladder nor rows"),
        ("[" * 100_000, "is not JSON"),
        ({"ladder": {"idea": "x"}}, "ladder is no list"),
        ({"ladder": [FIRST | {"us_per_frame": 0}]}, "took no time"),
        ({"ladder": [FIRST | {"us_per_frame": -4.0}]}, "took no time"),
        ({"ladder": [FIRST | {"us_per_frame": "900"}]}, "'900' is not a number"),
        ({"ladder": [FIRST | {"us_per_frame": float("nan")}]}, "nan is not a number"),
        ({"ladder": [FIRST | {"us_per_frame": 1e308}]}, "1e+308 is not a number that can be measured"),
        ({"ladder": [FIRST | {"frames": 0}]}, "or no frames"),
        ({"ladder": [FIRST | {"clusters": -1}]}, "-1 is not a count"),
        ({"ladder": [FIRST | {"spectrum": [1, 2, 3]}]}, "other bins"),
        ({"ladder": [FIRST] * 10_000}, "ladder is 10,000 long"),
        ({"rows": ["row"]}, "no object"),
        ({"rows": [{"is_race": True, "rival_clusters": 5, "name": "x"}]}, "lacks 'clusters'"),
        ({"rows": [], "spectrum_edges": [200, 100]}, "don't grow"),
    ],
)
def test_results_that_no_benchmark_writes_are_one_sentence(tmp_path, results, why):
    file = tmp_path / "bench.json"
    whole = {"spectrum_edges": [0, 100, 200]} | results if isinstance(results, dict) else results
    file.write_text(whole if isinstance(whole, str) else json.dumps(whole))
    with pytest.raises(ValueError, match=re.escape(why)) as told:
        read_bench(str(file))
    assert str(told.value).startswith(str(file))
    assert str(told.value).endswith("give what photonflow benchmark wrote")


def test_counts_of_nothing_do_not_differ():
    assert Comparison("another finder", 0, 0).parts_per_million == 0
    assert Comparison("another finder", 999_999, 1_000_000).parts_per_million == -1


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"shapes": [[400, 300], [399, 397]]}, "2 frames of 400×300 pixels on P, 2 cores, 2026-01-31"),
        ({"shapes": []}, "2 frames of a size that its results do not tell on P, 2 cores, 2026-01-31"),
        (None, "2 frames of a size that its results do not tell on P, 2 cores, 2026-01-31"),
    ],
)
def test_a_ladder_says_on_what_frames_and_machine_it_was_measured(tmp_path, sizes, said):
    file = tmp_path / "bench.json"
    machine = {"processor": "P", "cores": "2"}
    ladder = [{name: value for name, value in FIRST.items() if name != "spectrum"}]
    file.write_text(
        json.dumps({"ladder": ladder, "sizes": sizes, "machine": machine, "measured": "2026-01-31T00:00:00"})
    )
    assert read_bench(str(file)).conditions == said
