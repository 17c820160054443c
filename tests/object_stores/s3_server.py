"""A real S3 server, SeaweedFS: a store, and gateways to it that can be killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

KEY, SECRET = "AKIAPHOTONFLOWTEST", "a-secret-that-nobody-may-see"
BUCKET = "beamtime"
SECONDS_TO_START = 120.0


def free_ports(n: int) -> list[int]:
    """Ports that are free, and that the system gives to nobody who asks for any: a server can come back to its own."""
    found: list[int] = []
    for port in random.Random(os.getpid() + time.monotonic_ns()).sample(range(15_000, 32_000), 1000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
        if len(found) == n:
            break
    return found


def weed(*arguments: str, folder: Path) -> subprocess.Popen[bytes]:
    program = Path(sys.executable).parent / "weed"
    with (folder / f"{arguments[0]}.log").open("ab") as log:
        return subprocess.Popen([program, *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def answers(process: subprocess.Popen[bytes], url: str) -> bool:
    """Wait until there is an answer at `url`; False if the process has ended."""
    until = time.monotonic() + SECONDS_TO_START
    while process.poll() is None:
        assert time.monotonic() < until, f"no answer at {url}"
        try:
            with urllib.request.urlopen(url, timeout=5):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            time.sleep(0.05)  # between two looks
    return False


class Gateway:
    """An S3 server on a port of its own."""

    def __init__(self, filer: str, folder: Path) -> None:
        self._filer, self._folder = filer, folder
        self._port, self._grpc = free_ports(2)
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return self._port

    def start(self) -> None:
        self._process = weed(
            "s3",
            f"-filer={self._filer}",
            f"-port={self._port}",
            f"-port.grpc={self._grpc}",
            "-ip.bind=127.0.0.1",
            "-port.iceberg=0",
            "-port.lance=0",
            "-config=id.json",
            folder=self._folder,
        )
        assert answers(self._process, f"{self.endpoint}/healthz"), (self._folder / "s3.log").read_text()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Backend:
    """What keeps the objects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (folder / "id.json").write_text(json.dumps({"identities": [identity]}))
        for _ in range(3):  # Somebody else may take a port first.
            ports = free_ports(6)
            self._process = weed(
                "server",
                f"-dir={folder}",
                "-ip=127.0.0.1",
                "-ip.bind=127.0.0.1",
                f"-master.port={ports[0]}",
                f"-master.port.grpc={ports[1]}",
                f"-volume.port={ports[2]}",
                f"-volume.port.grpc={ports[3]}",
                "-filer",
                f"-filer.port={ports[4]}",
                f"-filer.port.grpc={ports[5]}",
                "-master.volumeSizeLimitMB=64",
                "-master.electionTimeout=1s",
                "-volume.max=0",
                folder=folder,
            )
            self._address = f"http://127.0.0.1:{ports[4]}"
            self.filer = f"127.0.0.1:{ports[4]}.{ports[5]}"
            if answers(self._process, f"{self._address}/"):
                break
        else:
            raise AssertionError((folder / "server.log").read_text())
        self.make_bucket(BUCKET)

    def make_bucket(self, name: str) -> None:
        """Make a bucket: a folder of the filer's, as soon as it takes one."""
        until = time.monotonic() + SECONDS_TO_START
        while True:
            request = urllib.request.Request(f"{self._address}/buckets/{name}/", method="POST")
            try:
                with urllib.request.urlopen(request, timeout=10):
                    return
            except OSError:
                assert time.monotonic() < until, "no bucket can be made"
                time.sleep(0.1)  # between two looks

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
