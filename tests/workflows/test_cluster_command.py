"""``photonflow cluster``: what is said before anything is started, and workers that several runs use."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
import yaml


def test_a_check_says_what_would_be_started_and_that_it_can_be(photonflow):
    outcome = photonflow("cluster", "check", "local-cpu", "--json")
    found = json.loads(outcome.stdout)
    assert (outcome.code, found["ok"], found["would_start"]["kind"]) == (0, True, "local-cpu")
    assert "it can be started" in photonflow("cluster", "check", "local-cpu").stdout


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("kind: local-cpu\nworkers: 1\nmemory_limit: 900 TiB\n", "memory"),
        ("kind: local-cpu\ninterface: nonesuch\n", "interface"),
        ("kind: local-cpu\nlocal_directory: c.yaml/in_a_file\n", "local_directory"),
        ("kind: existing\nscheduler: nonsense://\n", "scheduler"),
    ],
)
def test_a_check_names_what_is_missing_and_ends_with_1(photonflow, tmp_path, text, what):
    (tmp_path / "c.yaml").write_text(text)
    outcome = photonflow("cluster", "check", "c.yaml", "--json")
    missing = [check["what"] for check in json.loads(outcome.stdout)["checks"] if not check["ok"]]
    assert (outcome.code, missing) == (1, [what])


def test_a_check_warns_of_who_can_reach_the_workers_and_goes_on(photonflow, tmp_path):
    (tmp_path / "c.yaml").write_text("kind: local-cpu\nhost: 0.0.0.0\n")
    outcome = photonflow("cluster", "check", "c.yaml")
    assert (outcome.code, "without TLS" in outcome.stdout) == (0, True)


def test_a_manifest_is_what_kubectl_takes(photonflow):
    assert yaml.safe_load(photonflow("cluster", "manifest", "kubernetes").stdout)["kind"] == "DaskCluster"
    group = yaml.safe_load(photonflow("cluster", "manifest", "kubernetes", "--group", "more").stdout)
    assert (group["kind"], group["metadata"]["name"]) == ("DaskWorkerGroup", "more")
    assert "only 'kubernetes' has a manifest" in photonflow("cluster", "manifest", "local-cpu").sentence


def test_a_scheduler_that_runs_already_is_not_started(photonflow):
    assert "use it with --cluster existing" in photonflow("cluster", "start", "existing").sentence


@pytest.mark.slow
def test_workers_that_are_kept_up_serve_runs_until_ctrl_c(python_m, archive, tmp_path):
    (tmp_path / "c.yaml").write_text("kind: local-cpu\nworkers: 1\nwait_for_workers: 2 minutes\n")
    command = [sys.executable, "-m", "workflows.cluster", "start", "c.yaml"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().split()[-1]
            assert address.startswith("tcp://127.0.0.1:")
            outcome = python_m("process", archive, "--scheduler", address, "--batch-size", 10, "--json")
            assert outcome.code == 0, outcome.stderr
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[1]
        finally:
            process.kill()
    assert (process.returncode, "interrupted" in said, "Traceback" in said) == (130, True, False)
