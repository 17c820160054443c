"""Progress: a live line in a terminal, a few plain lines elsewhere, notes always."""

import io
import re

import pytest

from workflows.progress import RunProgress


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

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    run(stream)
    assert "dashboard: http://[::1]:8787/status" in stream.getvalue()
    assert "1,000 of 1,000 frames" in stream.getvalue()
    assert "finding clusters" in stream.getvalue()


@pytest.mark.parametrize("total", [0, 1])
def test_a_run_of_no_or_one_frame_has_progress_too(total):
    stream = io.StringIO()
    with RunProgress(total, stream=stream) as progress:
        progress.update(0)
        progress.update(total)
    assert stream.getvalue().count("\n") == total
