"""The command line as a user meets it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from frame_archive import create_archive
from workflows.__main__ import main


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def sentence(self) -> str:
        """The one line that a failed command says; nothing else, no traceback, nothing on stdout."""
        assert self.stdout == ""
        lines = self.stderr.splitlines()
        assert len(lines) == 1, self.stderr
        assert lines[0].startswith("photonflow: ")
        return lines[0].removeprefix("photonflow: ")


@pytest.fixture
def photonflow(capfd, monkeypatch, tmp_path):
    """Run ``photonflow …`` in this process, in the test's own folder: the same code without the start of Python."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["photonflow", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        captured = capfd.readouterr()
        return Outcome(exit_.value.code, captured.out, captured.err)

    return call


@pytest.fixture
def python_m(tmp_path):
    """Run ``python -m workflows.…`` as a process of its own, in the test's own folder."""

    def call(module, *arguments, timeout=300, **options) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", f"workflows.{module}", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=timeout,
            check=False,
            **options,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def archive(tmp_path):
    """A small archive that can be processed: 30 frames of 12×10 pixels, 100 darks, a photon in every frame."""
    rng = np.random.default_rng(7)
    path = tmp_path / "a.zarr"
    frames = rng.normal(1000, 5, (30, 12, 10))
    # Each in a pixel of its own: one that fires in every frame would be a hot pixel.
    places = np.arange(30)
    frames[places, 1 + places // 3, 2 + 3 * (places % 3)] += 300
    writer = create_archive(path, shape=frames.shape, dtype=np.uint16, n_dark=100)
    writer.write_dark(0, rng.normal(1000, 5, (100, 12, 10)).astype(np.uint16))
    writer.write_frames(0, frames.astype(np.uint16))
    return path
