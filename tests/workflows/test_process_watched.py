"""``photonflow process`` and what watches it: its page on a scheduler, its log, Dask's report."""

from __future__ import annotations

import json
import urllib.request

import pytest

from pipeline import ClusterConfig, open_cluster


@pytest.fixture(scope="module")
def scheduler():
    """The address of a scheduler that is there already, with a dashboard and a worker."""
    with open_cluster(ClusterConfig(workers=1, dashboard_address="127.0.0.1:0")) as client:
        yield client.scheduler.address


def test_a_run_on_a_scheduler_that_is_there_says_where_its_page_is(photonflow, archive, scheduler):
    outcome = photonflow("process", archive, "--scheduler", scheduler, "--batch-size", 10)
    assert outcome.code == 0
    (link,) = (line.split()[-1] for line in outcome.stderr.splitlines() if line.startswith("its runs: "))
    assert link.endswith("/photonflow")
    with urllib.request.urlopen(link, timeout=60) as page:
        assert b"photonflow" in page.read()


def test_a_log_goes_to_the_end_of_a_file_and_dasks_report_to_one_of_its_own(photonflow, archive, scheduler, tmp_path):
    log = tmp_path / "log.jsonl"
    # Its last line has no end: the disk was full, say.
    log.write_text('{"event": "of somebody else"}')
    options = ("--log-json", log, "--performance-report", "report.html")
    outcome = photonflow("process", archive, "--scheduler", scheduler, "--batch-size", 10, *options)
    assert outcome.code == 0
    assert "30 of 30 frames" in outcome.stderr
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert events[0] == {"event": "of somebody else"}
    assert [event["batch"] for event in events if event["event"] == "batch_found"] == [0, 1, 2]
    assert (events[-1]["event"], events[-1]["outcome"]) == ("run_ended", "complete")
    assert events[1]["command"].startswith("photonflow process")
    report = (tmp_path / "report.html").read_text()
    assert "Dask Performance Report" in report
    # All that it needs is in it.
    assert "<script src=" not in report.replace("'", '"')
    assert "photonflow process" in report


def test_a_log_on_stderr_takes_the_place_of_progress(photonflow, archive, scheduler):
    arguments = ("--scheduler", scheduler, "--batch-size", 10, "--json", "--log-json")
    outcome = photonflow("process", archive, *arguments)
    events = [json.loads(line) for line in outcome.stderr.splitlines()]
    assert events[0]["message"].startswith("its runs: ")
    assert {"run_began", "step", "batch_found", "run_ended"} <= {event["event"] for event in events}
    assert json.loads(outcome.stdout)["frames"] == 30


def test_a_run_that_fails_says_so_in_its_log_and_has_its_report(photonflow, archive, scheduler, tmp_path):
    chunk = next((archive / "frames" / "c").rglob("0"))
    while chunk.is_dir():
        chunk = chunk / "0"
    chunk.write_bytes(chunk.read_bytes()[:-7])
    options = ("--log-json", "log.jsonl", "--performance-report", "report.html")
    outcome = photonflow("process", archive, "--scheduler", scheduler, *options)
    assert outcome.code == 1
    *_, failed, ended = (json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines())
    assert (failed["event"], failed["batch"]) == ("batch_failed", 0)
    assert (ended["event"], ended["outcome"]) == ("run_ended", "failed")
    assert failed["message"] in ended["message"]
    assert "Dask Performance Report" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--performance-report", "nowhere/report.html"), "nowhere is not there"),
        (("--performance-report", "."), "is a folder"),
        (("--log-json", "nowhere/log.jsonl"), "--log-json can't be written there"),
    ],
)
def test_a_log_or_a_report_that_can_not_be_written_is_told_before_anything_begins(photonflow, archive, options, said):
    outcome = photonflow("process", archive, "--cpus", 1, *options)
    assert outcome.code == 1
    assert said in outcome.sentence
