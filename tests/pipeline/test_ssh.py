"""Workers started by a real SSH server on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from pipeline import ClusterConfig, ClusterUnavailableError, RunOptions, execute, open_cluster, prepare
from pipeline.workers.cluster_check import check_cluster

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SSHD = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
PidFile {folder}/sshd.pid
UsePAM no
StrictModes no
PasswordAuthentication no
SetEnv PYTHONPATH={path}
"""


@pytest.fixture
def sshd(tmp_path, monkeypatch):
    """The port of an SSH server that lets in who has the key in `tmp_path`."""
    server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if server is None or shutil.which("ssh-keygen") is None:
        pytest.skip("there is no SSH server to start (Debian: apt install openssh-server)")
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path / "dask"))
    for name in ("host_key", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    with contextlib.suppress(OSError):
        Path("/run/sshd").mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    conf = SSHD.format(port=port, folder=tmp_path, path=f"{ROOT}:{ROOT / 'io'}")
    (tmp_path / "sshd.conf").write_text(conf)
    host_key = " ".join((tmp_path / "host_key.pub").read_text().split()[:2])
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}\n")
    process = subprocess.Popen([server, "-D", "-f", tmp_path / "sshd.conf"], stderr=subprocess.DEVNULL)
    try:
        while True:
            assert process.poll() is None
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def config(sshd, tmp_path):
    def config(more="", **ssh) -> ClusterConfig:
        keys = {"hosts": ["127.0.0.1"], "port": sshd, "user": psutil.Process().username()}
        keys |= {"key": str(tmp_path / "key"), "known_hosts": str(tmp_path / "known_hosts"), "python": sys.executable}
        section = "\n".join(f"  {name}: {value}" for name, value in (keys | ssh).items() if value is not None)
        text = f"kind: ssh\nworkers: 2\nhost: 127.0.0.1\ninterface: lo\nmemory_limit: 700 MiB\n{more}ssh:\n{section}\n"
        (tmp_path / "ssh.yaml").write_text(text)
        return ClusterConfig.from_yaml(str(tmp_path / "ssh.yaml"))

    return config


def processes_with(mark):
    """The processes that have a variable in their environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if mark in process.environ() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def wait_until(holds):
    for _ in range(6000):
        if holds():
            return
        threading.Event().wait(0.1)
    raise AssertionError("it did not come to that within 10 minutes")


def test_workers_started_by_ssh_find_the_same_and_end_with_the_run(config, client, make_archive):
    archive = make_archive()
    options = RunOptions(archive.path, batch_size=10, overwrite=True)
    expected = execute(prepare(options), client)
    with open_cluster(config("environment: {PHOTONFLOW_TEST_SSH: 1}\n")) as ours:
        ours.wait_for_workers(2)
        result = execute(prepare(options), ours)
        assert ours.run(os.environ.get, "RAYON_NUM_THREADS").popitem()[1] == "1"
        # The scheduler, two nannies, two workers, and what starts those.
        assert len(processes_with("PHOTONFLOW_TEST_SSH")) >= 5
    assert result.digest == expected.digest
    wait_until(lambda: not processes_with("PHOTONFLOW_TEST_SSH"))


def test_what_ssh_has_started_ends_with_a_client_that_is_killed(config, tmp_path):
    config("environment: {PHOTONFLOW_TEST_KILLED: 1}\n")
    command = [sys.executable, "-m", "workflows.cluster", "start", str(tmp_path / "ssh.yaml")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline().startswith("scheduler: tcp://127.0.0.1:")
            assert processes_with("PHOTONFLOW_TEST_KILLED")
        finally:
            process.send_signal(signal.SIGKILL)
    wait_until(lambda: not processes_with("PHOTONFLOW_TEST_KILLED"))


@pytest.mark.parametrize(
    ("ssh", "said"),
    [
        ({"known_hosts": "/dev/null"}, "[Hh]ost key is not trusted"),
        ({"user": "nobody-here"}, "[Pp]ermission denied"),
        ({"python": "/no/python"}, "fail"),
        ({"port": 1}, "[Cc]onnect"),
    ],
)
def test_a_machine_that_starts_nothing_is_named_with_the_reason(config, ssh, said):
    with (
        pytest.raises(ClusterUnavailableError, match=rf"by SSH on 127\.0\.0\.1: .*{said}"),
        open_cluster(config(**ssh)),
    ):
        pass


def test_a_check_logs_in_and_looks_for_photonflow(config):
    [host] = [check for check in check_cluster(config()) if check.what == "127.0.0.1"]
    assert (host.ok, "has photonflow" in host.found) == (True, True)
    [host] = [check for check in check_cluster(config(python="/no/python")) if check.what == "127.0.0.1"]
    assert (host.ok, "/no/python" in host.found) == (False, True)
    [host] = [check for check in check_cluster(config(known_hosts="/dev/null")) if check.what == "127.0.0.1"]
    assert (host.ok, "can't be logged in to" in host.found) == (False, True)
