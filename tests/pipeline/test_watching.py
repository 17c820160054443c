"""Runs as those see them who watch: Dask's dashboard, the scheduler's board, Prometheus, a log, the dataset itself."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
import urllib.request
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from distributed import Client

from cluster_store import read_attributes
from pipeline import RunError, RunOptions, execute, prepare, process
from pipeline.errors import RunStoppedError
from pipeline.watching.event_log import EventLog
from pipeline.watching.run_board import EXTENSION, POINTS, RUNS_KEPT, RunBoard
from pipeline.watching.run_events import RunEvent
from pipeline.watching.run_reporter import told_to_scheduler
from pipeline.watching.run_state import RunDescription, RunState
from pipeline.watching.scheduler_plugin import plugin_name
from pipeline.workers.cluster_watch import ClusterWatch


def run(archive, client, **options):
    """A run, with all its events."""
    events = []
    keywords = {name: options.pop(name) for name in ("should_stop", "on_progress") if name in options}
    prepared = prepare(RunOptions(archive.path, **options))
    return execute(prepared, client, on_event=events.append, **keywords), events


def in_chunks_of(rows_per_chunk, archive, **options):
    """A run that writes so many clusters to a chunk."""
    prepared = prepare(RunOptions(archive.path, **options))
    return replace(prepared, layout=replace(prepared.layout, rows_per_chunk=rows_per_chunk))


async def _heartbeat(dask_worker):
    await dask_worker.heartbeat()


def board_of_scheduler(dask_scheduler):
    """The runs on the board, by name: all that a test asks about, in values that travel."""
    board = dask_scheduler.extensions[EXTENSION]
    return {
        run.description.name: {
            "state": run.state,
            "at_work": len(run.at_work),
            "retries": dict(run.retries),
            "ended": run.ended,
            "times": [point.time for point in run.points],
        }
        for run in board.runs.values()
    }


class TestOnDasksDashboard:
    def test_tasks_have_names_that_read_well(self, client, make_archive):
        run(make_archive(), client, batch_size=20)
        names = set(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes)))
        # And those of other runs that this scheduler has had.
        assert {"read-train", "train", "find", "write", "join"} <= names

    def test_its_page_of_fine_performance_has_our_stages(self, client, make_archive):
        run(make_archive(n_frames=40), client, batch_size=20)
        # What a worker measured goes to the scheduler with its next heartbeat.
        client.run(_heartbeat)
        metrics = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.cumulative_worker_metrics))
        stages = {(key[1], key[2]) for key in metrics if key[0] == "execute" and key[-1] == "seconds"}
        assert {("read-train", "read"), ("find", "read"), ("find", "decode"), ("find", "find")} <= stages
        assert {("join", "write")} <= stages


class TestTheBoard:
    """What a scheduler knows of the runs on it."""

    def test_a_run_is_there_with_all_that_it_did_and_its_plugin_is_gone(self, client, make_archive):
        archive = make_archive(name="seen.zarr")
        result, _ = run(archive, client, batch_size=10)
        seen = client.run_on_scheduler(board_of_scheduler)["seen"]
        state = seen["state"]
        assert (state.frames, state.batches, state.clusters) == (97, 10, result.summary.clusters)
        assert (state.outcome, state.skipped, state.failures, seen["at_work"]) == ("complete", 0, 0, 0)
        assert sum(totals.frames for totals in state.workers.values()) == 97
        assert {"find", "write"} <= {stage.name for stage in state.stages}
        assert state.binds == max(state.stages, key=lambda stage: stage.seconds).name
        assert seen["ended"] is not None
        plugins = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.plugins))
        assert not [name for name in plugins if name.startswith(plugin_name(""))]

    # All rows in one chunk, which is written when no batch is left to be found; and in many.
    @pytest.mark.parametrize("rows_per_chunk", [1 << 20, 64])
    def test_at_the_end_it_has_the_account_that_the_dataset_keeps(self, client, make_archive, rows_per_chunk):
        archive = make_archive(name=f"in-chunks-of-{rows_per_chunk}.zarr")
        execute(in_chunks_of(rows_per_chunk, archive, batch_size=20), client)
        state = client.run_on_scheduler(board_of_scheduler)[f"in-chunks-of-{rows_per_chunk}"]["state"]
        kept = json.loads(read_attributes(archive.out)["throughput"])
        assert {stage.name: (stage.nbytes, stage.seconds) for stage in state.stages} == {
            name: (stage["nbytes"], stage["busy_seconds"]) for name, stage in kept["stages"].items()
        }
        assert kept["stages"]["write"]["nbytes"] > 0
        # And so its rate over the run.
        assert state.seconds == kept["seconds"]
        assert (state.binds, state.idle_seconds) == (kept["binds"], kept["idle_seconds"])

    def test_what_a_run_has_written_when_it_stops_is_told(self, client, make_archive):
        archive, events = make_archive(name="written.zarr"), []

        def written():
            return sum(event.nbytes for event in events if event.event == "batch_written")

        with pytest.raises(RunStoppedError):
            execute(
                in_chunks_of(16, archive, batch_size=10),
                client,
                on_event=events.append,
                should_stop=lambda: written() > 0,
            )
        stages = client.run_on_scheduler(board_of_scheduler)["written"]["state"].stages
        assert next(stage.nbytes for stage in stages if stage.name == "write") == written()

    def test_what_can_not_be_read_is_told_with_its_tries(self, client, make_archive):
        archive = make_archive(name="damaged.zarr", n_frames=40)
        chunk = Path(archive.path) / "frames" / "c" / "1" / "0" / "0"
        chunk.write_bytes(chunk.read_bytes()[:-7])
        result, events = run(archive, client, batch_size=20, on_bad_batch="skip")
        assert len(result.skipped) == 1
        seen = client.run_on_scheduler(board_of_scheduler)["damaged"]
        assert (seen["state"].skipped, seen["state"].failures, seen["state"].batches) == (1, 1, 2)
        # The first try and two more.
        assert seen["retries"] == {"find": 2}
        names = [event.event for event in events]
        assert names.index("batch_failed") < names.index("batch_skipped")
        failed = next(event for event in events if event.event == "batch_failed")
        assert failed.batch == 1
        assert "c/1/0/0" in failed.message

    def test_a_run_that_stops_says_so(self, client, make_archive):
        done = []
        with pytest.raises(RunStoppedError):
            run(
                make_archive(name="stopped.zarr"),
                client,
                batch_size=10,
                on_progress=done.append,
                should_stop=lambda: bool(done),
            )
        state = client.run_on_scheduler(board_of_scheduler)["stopped"]["state"]
        assert state.outcome == "stopped"
        assert "batches were found" in state.message

    def test_a_scheduler_without_photonflow_shows_no_run_and_that_is_no_error(self, tmp_path):
        (tmp_path / "sitecustomize.py").write_text(
            "import sys\nsys.modules |= dict.fromkeys(('pipeline', 'cluster_store'))\n"
        )
        contact = tmp_path / "contact.json"
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
        command += ["--no-dashboard", "--scheduler-file", str(contact)]
        path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
        with subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as scheduler:
            try:
                for line in scheduler.stderr:
                    if "Scheduler at:" in line:
                        break
                address = line.split()[-1]
                with Client(address, set_as_default=False, timeout=60) as client:
                    watch = ClusterWatch(client)
                    description = RunDescription("r", "r", "a", "o", "cpu", began=0.0, frames=1, batches=1)
                    with told_to_scheduler(client, description, None, watch) as reporter:
                        assert reporter is None
            finally:
                scheduler.terminate()
                said = scheduler.stderr.read()
        assert "Traceback" not in said

    def test_a_scheduler_that_preloads_the_page_has_it_before_the_first_run(self):
        pytest.importorskip("bokeh", reason="Bokeh, which serves the dashboard, is not there")
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
        command += ["--dashboard-address", "127.0.0.1:0", "--preload", "pipeline.watching.preload"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as scheduler:
            try:
                # Between telling this and its preloads it answers nobody.
                told = {}
                for line in scheduler.stderr:
                    told |= {what: line.split()[-1] for what in ("Scheduler", "dashboard") if f"{what} at:" in line}
                    if len(told) == 2:
                        break
                with urllib.request.urlopen(told["dashboard"], timeout=120) as status:
                    bar = status.read().decode()
                with urllib.request.urlopen(told["dashboard"].replace("status", "photonflow"), timeout=120) as page:
                    assert page.status == 200
                with Client(told["Scheduler"], set_as_default=False, timeout=60) as client:
                    assert client.run_on_scheduler(board_of_scheduler) == {}
            finally:
                scheduler.terminate()
                said = scheduler.stderr.read()
        assert bar.count('href="photonflow"') == 1
        assert "Traceback" not in said

    def test_rates_are_those_of_the_last_seconds_and_fall_when_nothing_comes(self):
        board = RunBoard()
        shown = board.begin(RunDescription("r", "r", "a", "o", "cpu", began=1000.0, frames=10_000, batches=10))
        for second in range(1, 41):
            shown.take(RunState(frames=100 * second + 50 * max(second - 20, 0), clusters=second), 1000.0 + second)
        assert shown.rates(1040.0) == (125.0, 1.0)
        assert shown.rates_now(1040.0) == (150.0, 1.0)
        assert shown.seconds_left(1040.0) == (10_000 - 5000) / 125
        assert shown.rates_now(1100.0)[0] == pytest.approx(1500 / 70)

    def test_the_history_of_a_long_run_stays_small_and_even(self):
        board = RunBoard()
        shown = board.begin(RunDescription("r", "r", "a", "o", "cpu", began=0.0, frames=1, batches=1))
        for second in range(1, 20_001):
            shown.take(RunState(frames=second), float(second))
        times = [point.time for point in shown.points]
        assert POINTS <= len(times) < 2 * POINTS
        steps = [later - earlier for earlier, later in pairwise(times)]
        assert max(steps) <= 3 * min(steps)

    def test_only_runs_that_have_ended_are_forgotten(self):
        board = RunBoard()
        for k in range(RUNS_KEPT + 3):
            board.begin(RunDescription(str(k), str(k), "a", "o", "cpu", began=0.0, frames=10, batches=2, client="c"))
            if k != 1:
                board.take(str(k), RunState(frames=10, skipped=1, outcome="complete").as_message())
        assert len(board.runs) == RUNS_KEPT
        assert "1" in board.runs
        assert "0" not in board.runs
        assert board.batches_skipped == RUNS_KEPT + 2
        board.lose_client("c")
        assert board.runs["1"].state.outcome == "lost"
        assert board.outcomes == {"complete": RUNS_KEPT + 2, "lost": 1}


class TestPrometheus:
    """What is scraped from the ``/metrics`` of real workers and of their scheduler."""

    def scraped(self, port):
        parser = pytest.importorskip("prometheus_client.parser")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
            text = page.read().decode()
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith("photonflow_")
        }

    def of_workers(self, client):
        ports = client.run(lambda dask_worker: dask_worker.http_server.port)
        summed = {}
        for port in ports.values():
            for name, value in self.scraped(port).items():
                summed[name] = summed.get(name, 0.0) + value
        return summed

    def of_scheduler(self, client):
        return self.scraped(client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.http_server.port))

    def test_workers_count_frames_clusters_and_each_stage_across_runs(self, client, make_archive):
        archive = make_archive(n_frames=60)
        first, _ = run(archive, client, batch_size=20)
        before = self.of_workers(client)
        again, _ = run(archive, client, batch_size=20, overwrite=True)
        after = self.of_workers(client)

        def gained(name, **labels):
            key = (f"photonflow_{name}", *sorted(labels.items()))
            return after[key] - before.get(key, 0.0)

        assert gained("frames_total") == 60
        assert gained("clusters_total") == again.summary.clusters == first.summary.clusters
        assert gained("batches_total") == gained("batch_duration_seconds_count") == 3
        nbytes = archive.frames.nbytes
        for stage in ("read", "decode", "find", "write"):
            assert gained("stage_seconds_total", stage=stage, within="") > 0
        for stage in ("find", "decode"):
            assert gained("stage_bytes_total", stage=stage, within="") == nbytes
        assert gained("stored_bytes_total") == gained("stage_bytes_total", stage="read", within="")
        assert gained("write_duration_seconds_count") >= 1

    def test_a_scheduler_tells_how_runs_fare_and_how_they_ended(self, client, make_archive):
        archive = make_archive(name="scraped.zarr", n_frames=60)
        damaged = make_archive(name="scraped-damaged.zarr", n_frames=40)
        chunk = Path(damaged.path) / "frames" / "c" / "1" / "0" / "0"
        chunk.write_bytes(chunk.read_bytes()[:-7])
        run(archive, client, batch_size=20)
        before = self.of_scheduler(client)
        failures = self.of_workers(client).get(("photonflow_failures_total", ("step", "find")), 0.0)
        with pytest.raises(RunError):
            run(damaged, client, batch_size=20)
        after = self.of_scheduler(client)
        outcome = ("photonflow_runs_total", ("outcome", "failed"))
        assert after[outcome] - before.get(outcome, 0.0) == 1
        retries = ("photonflow_retries_total", ("step", "find"))
        assert after[retries] - before.get(retries, 0.0) == 2
        assert after["photonflow_task_failures_total",] - before["photonflow_task_failures_total",] == 1
        assert self.of_workers(client)["photonflow_failures_total", ("step", "find")] - failures == 3
        assert after["photonflow_runs_in_progress",] == 0
        of_run = {
            (name, *(label for label in labels if label[0] not in ("run", "run_id", "within"))): value
            for (name, *labels), value in after.items()
            if ("run", "scraped") in labels
        }
        assert of_run["photonflow_run_frames",] == of_run["photonflow_run_frames_done_total",] == 60
        assert of_run["photonflow_run_batches", ("state", "done")] == 3
        assert of_run["photonflow_run_batches", ("state", "to_do")] == 0
        assert of_run["photonflow_run_stage_seconds_total", ("stage", "find")] > 0
        assert "photonflow_run_pedestal_offset_ratio" in {name for name, *_ in of_run}

    def test_the_grafana_dashboard_asks_for_what_there_is(self, client, make_archive):
        parser = pytest.importorskip("prometheus_client.parser")
        run(make_archive(n_frames=20), client, batch_size=20)
        there = set()
        for server in (client.run_on_scheduler(_metrics_port), *client.run(_metrics_port).values()):
            with urllib.request.urlopen(f"http://127.0.0.1:{server}/metrics", timeout=30) as page:
                for family in parser.text_string_to_metric_families(page.read().decode()):
                    endings = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
                    there |= {family.name + ending for ending in endings.get(family.type, ("",))}
        dashboard = json.loads((Path(__file__).parents[2] / "docs" / "grafana" / "photonflow.json").read_text())
        asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        asked += [
            variable["query"]["query"] for variable in dashboard["templating"]["list"] if variable["name"] == "run"
        ]
        names = {name for expression in asked for name in re.findall(r"\b(?:photonflow|dask)_\w+", expression)}
        assert len(asked) > 20
        assert names <= there
        # What is told can be seen.
        ours = {name for name in there if name.startswith("photonflow_")}
        unseen = {name for name in ours - names if not name.endswith(("_count", "_sum", "_created"))}
        assert unseen == {
            "photonflow_batches_total",
            "photonflow_run_duration_seconds",
            "photonflow_run_idle_seconds_total",
            "photonflow_run_stage_bytes_total",
            "photonflow_run_stage_seconds_total",
        }


def _metrics_port(dask_worker=None, dask_scheduler=None):
    return (dask_worker or dask_scheduler).http_server.port


class TestTheLog:
    def test_each_line_is_an_event_with_its_run_and_batch(self, client, make_archive):
        stream = io.StringIO()
        archive = make_archive(n_frames=60)
        result = execute(prepare(RunOptions(archive.path, batch_size=20)), client, on_event=EventLog(stream))
        events = [json.loads(line) for line in stream.getvalue().splitlines()]
        assert len({event["run"] for event in events}) == 1
        assert [events[0]["event"], events[-1]["event"]] == ["run_began", "run_ended"]
        assert (events[0]["frames"], events[0]["batches"]) == (60, 3)
        assert events[-1]["outcome"] == "complete"
        assert (events[-1]["digest"], events[-1]["clusters"]) == (result.digest, result.summary.clusters)
        found = [event for event in events if event["event"] == "batch_found"]
        assert sorted(event["batch"] for event in found) == [0, 1, 2]
        assert sum(event["frames"] for event in found) == 60
        assert sum(event["clusters"] for event in found) == result.summary.clusters
        assert all({"read", "decode", "find"} <= event["stages"].keys() for event in found)
        assert all(event["seconds"] > 0 and event["worker"] in ("0", "1") for event in found)
        assert "finding clusters" in [event["message"] for event in events if event["event"] == "step"]
        assert any(event["event"] == "batch_written" and event["nbytes"] > 0 for event in events)
        assert [event["time"] for event in events] == sorted(event["time"] for event in events)

    def test_what_is_not_a_number_is_null(self):
        stream = io.StringIO()
        EventLog(stream)(RunEvent("notice", "r", message="m", seconds=float("nan"), stages={"read": float("inf")}))
        event = json.loads(stream.getvalue())
        assert (event["seconds"], event["stages"]) == (None, {"read": None})

    def test_a_log_that_can_not_be_written_does_not_end_the_run(self, client, make_archive):
        with Path("/dev/full").open("w") as stream:
            log = EventLog(stream)
            result = execute(prepare(RunOptions(make_archive(n_frames=20).path)), client, on_event=log)
            assert log.problem.errno == errno.ENOSPC
            with suppress(OSError):  # what it could not write it tries again
                stream.close()
        assert result.summary.frames == 20


class TestTheDatasetsHistory:
    def test_a_dataset_tells_of_its_run(self, client, make_archive):
        archive = make_archive(n_frames=40)
        process(archive.path, client=client, batch_size=20)
        attributes = read_attributes(archive.out)
        (only,) = json.loads(attributes["runs"])
        assert (only["run_id"], only["outcome"]) == (attributes["run_id"], "complete")
        assert (only["frames"], only["batches"]) == (40, 2)
        assert only["began"] <= only["ended"]
        assert "photonflow" in only["versions"]
        assert attributes["history"].endswith(only["command"])

    def test_a_run_that_was_stopped_and_gone_on_with_is_told_as_two(self, client, make_archive):
        archive = make_archive()
        done = []
        with pytest.raises(RunStoppedError):
            run(archive, client, batch_size=10, on_progress=done.append, should_stop=lambda: bool(done))
        (stopped,) = json.loads(read_attributes(archive.out)["runs"])
        assert stopped["outcome"] == "stopped"
        assert stopped["ended"] is not None
        run(archive, client, batch_size=10, resume=True)
        attributes = read_attributes(archive.out)
        first, second = json.loads(attributes["runs"])
        assert first == stopped
        assert second["outcome"] == "complete"
        assert len(attributes["history"].splitlines()) == 2
