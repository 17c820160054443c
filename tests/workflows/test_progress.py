"""Progress: a live line in a terminal, a few plain lines elsewhere, notes always."""

import io
import re

import pytest

from roofline import StageUse
from roofline.accounting import StageBar, StageCeiling
from workflows.progress import RunProgress

FIND = StageBar(StageUse("find", 100.0, 50_000_000_000), StageCeiling("float32", 2e9))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(stream, enabled=True, total=1000):
    with RunProgress(total, enabled=enabled, stream=stream) as progress:
        progress.step("starting 2 workers")
        progress.note("dashboard: http://[::1]:8787/status")
        progress.step("finding clusters")
        for frames in range(0, total + 1, 10):
            progress.update(frames, 5 * frames)


def test_without_a_terminal_progress_is_plain_lines_one_a_tenth():
    stream = io.StringIO()
    run(stream)
    lines = stream.getvalue().splitlines()
    assert lines[:3] == ["starting 2 workers", "dashboard: http://[::1]:8787/status", "finding clusters"]
    assert [line.partition(",")[0].partition(" of")[0] for line in lines[3:-1]] == [f"{n}00" for n in range(1, 10)]
    assert lines[-1].startswith("1,000 of 1,000 frames, ")
    assert all(re.search(r"[\d,]+ frames/s, (.* left, )?[\d.,]+( M)? clusters/s$", line) for line in lines[3:])
    assert all((" left, " in line) == (line != lines[-1]) for line in lines[3:])


def test_progress_that_is_turned_off_leaves_the_notes():
    stream = io.StringIO()
    run(stream, enabled=False)
    assert stream.getvalue() == "dashboard: http://[::1]:8787/status\n"


def test_in_a_terminal_progress_is_one_live_line(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    run(stream)
    assert "dashboard: http://[::1]:8787/status" in stream.getvalue()
    assert "1,000 of 1,000 frames" in stream.getvalue()
    assert "finding clusters" in stream.getvalue()


@pytest.mark.parametrize(
    ("total", "figures"),
    [
        (3_000, "2,600 of 3,000 frames, 26 frames/s, 15 s left, find binds"),
        (100_000_000, "86.7 of 100.0 M frames, 866,667 frames/s, 15 s left, find binds"),
    ],
)
def test_eighty_columns_show_frames_rate_time_left_and_the_stage_that_binds(monkeypatch, total, figures):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    with RunProgress(total, stream=stream) as progress:
        progress.step("finding clusters")
        done = round(total * 2_600 / 3_000)
        progress.update(done, 50 * done, 0.03, FIND, seconds=100.0)
    last = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "\n", stream.getvalue()).splitlines()
    assert any(figures in line for line in last)


def test_rates_count_what_this_run_did_and_end_with_the_ones_it_is_given():
    stream = io.StringIO()
    with RunProgress(3_000, stream=stream) as progress:
        progress.update(2_700, 120_000, 0.03, FIND, frames_before=400, seconds=2.0)
        progress.all_found()
        progress.update(3_000, 130_000, tallest=FIND, frames_before=400, seconds=4.0)
    assert stream.getvalue().splitlines() == [
        "2,700 of 3,000 frames, 1,150 frames/s, 0 s left, find binds, 60,000 clusters/s, pedestal +0.03 σ, "
        "find 0.5 GB/s a worker, 25% of its ceiling",
        "3,000 of 3,000 frames, 650 frames/s, find binds, 32,500 clusters/s, pedestal +0.03 σ, "
        "find 0.5 GB/s a worker, 25% of its ceiling",
    ]


@pytest.mark.parametrize("total", [0, 1])
def test_a_run_of_no_or_one_frame_has_progress_too(total):
    stream = io.StringIO()
    with RunProgress(total, stream=stream) as progress:
        progress.update(0)
        progress.update(total)
    assert stream.getvalue().count("\n") == total
