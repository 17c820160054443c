"""Results of a benchmark that a report is given."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest
import xarray as xr

from workflows.pictures import require_matplotlib
from workflows.reporting.bench_charts import counts_chart, ladder_chart, spectra_chart
from workflows.reporting.bench_results import BenchResults, Comparison, Rung, read_bench
from workflows.reporting.contents import _counts_part, _ladder_part, _spectra_part
from workflows.reporting.deck import _faster, _found
from workflows.reporting.run_record import RunRecord
from workflows.reporting.style import PAGE, PHONE, look
from workflows.reporting.tables import comparison_rows, rung_rows

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


# As on a machine of two cores, but for the counts.
RUNGS = tuple(
    Rung(idea, time, 0.95 * time, 1.02 * time, frames, 2400 * frames, True, (400 * frames, 2000 * frames))
    for idea, time, frames in (
        ("plain reference (NumPy)", 29_324.0, 20), ("plain Numba loops", 4_039.0, 150), ("SIMD values", 435.5, 150),
        ("+ 2 threads", 239.7, 150), ("from the archive: decode all, then find", 421.5, 150),
        ("decode and find in step", 418.4, 150),
    )
)  # fmt: skip


@pytest.fixture
def record():
    require_matplotlib()
    return RunRecord("run.zarr", xr.Dataset(), {}, bench=BenchResults(RUNGS, (), (0.0, 100.0, 200.0), "a machine"))


def drawn(chart, record, paper):
    with look():
        (axes,) = chart(record, paper).axes
    return axes


def test_the_ladder_tells_its_frames_and_calls_the_reference_the_reference(record):
    table = rung_rows(record)
    assert table.headings[3:] == ("frames", "clusters", "identical")
    assert table.rows[0][3:] == ("20", "48,000", "reference")
    assert table.rows[1][3:] == ("150", "360,000", "yes")
    assert _found(RUNGS[0]) == "48,000 clusters in 20 frames: what every other rung has to find in them."
    assert _found(RUNGS[1]) == "360,000 clusters in 150 frames, the same as the reference."
    # Nothing is compared with itself: not the reference, and not the first of those with as many frames.
    assert [row[0] for row in comparison_rows(record).rows] == [rung.idea for rung in RUNGS[2:]]


def test_a_rung_is_told_to_be_faster_once_and_only_than_one_that_does_as_much():
    assert _faster(RUNGS[1], RUNGS[0], RUNGS[0]) == "7.3 times as fast as the first rung."
    assert _faster(RUNGS[2], RUNGS[1], RUNGS[0]).startswith("9.27 times as fast as the rung before, 67.3 times")
    said = _faster(RUNGS[4], RUNGS[3], RUNGS[0])
    assert said == (
        "69.6 times as fast as the first rung. It decodes its frames besides, which the rung before had in memory."
    )
    assert _faster(RUNGS[5], RUNGS[4], RUNGS[0]).startswith("1.01 times as fast as the rung before")


@pytest.mark.parametrize("paper", [PAGE, PHONE])
def test_a_ladder_on_a_logarithmic_axis_has_points_and_no_lengths(record, paper):
    axes = drawn(ladder_chart, record, paper)
    assert not axes.patches
    low, high = axes.get_xlim()
    assert 239.7 / 2 < low < 239.7
    assert 29_324 < high < 2 * 29_324


@pytest.mark.parametrize("paper", [PAGE, PHONE])
def test_variants_without_differences_have_an_axis_around_zero(record, paper):
    low, high = drawn(counts_chart, record, paper).get_xlim()
    assert low <= -1
    assert high >= 1


@pytest.mark.parametrize("paper", [PAGE, PHONE])
def test_spectra_that_coincide_are_all_to_be_seen(record, paper):
    looks = [(step.get_linewidth(), step.get_edgecolor()) for step in drawn(spectra_chart, record, paper).patches]
    assert len(looks) == len(RUNGS)
    assert all(wide[0] > narrow[0] + 0.5 and wide[1] != narrow[1] for wide, narrow in pairwise(looks))


def test_a_tiny_benchmark_is_told_as_such_wherever_its_figures_are(record, tmp_path):
    parts = (_ladder_part, _counts_part, _spectra_part)
    assert not any("tiny" in said for part in parts for said in part(record))
    file = tmp_path / "tiny.json"
    file.write_text(
        json.dumps({"ladder": [FIRST, FIRST], "spectrum_edges": [0, 100, 200], "machine": "x", "tiny": True})
    )
    tiny = replace(record, bench=read_bench(str(file)))
    assert all("Of a tiny benchmark (--tiny)" in said for part in parts for said in part(tiny))
    assert "its times mean nothing" in " ".join(drawn(ladder_chart, tiny, PHONE).figure.get_supxlabel().split())
