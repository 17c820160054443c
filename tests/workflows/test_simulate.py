"""The simulate command, run as a user runs it."""

import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr

from frame_archive import FrameArchive

SMALL = ["--frames", "30", "--dark", "5", "--shape", "12x17", "--photons-per-frame", "4", "--cpus", "1"]


def simulate(*arguments, **options):
    command = [sys.executable, "-m", "workflows.simulate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("simulated")


@pytest.fixture(scope="module")
def written(folder):
    """A run of the command that wrote `run 1.zarr` into `folder`."""
    return simulate("run 1.zarr", *SMALL, "--seed", 3, "--bad-pixels", 4, "--frames-per-chunk", 7, cwd=folder)


def test_simulate_writes_what_was_asked_for(written, folder):
    assert written.returncode == 0, written.stderr
    archive = FrameArchive.open(folder / "run 1.zarr")
    assert (archive.n_frames, archive.n_dark, archive.frame_shape) == (30, 5, (12, 17))
    assert archive.frames.chunks == (7, 12, 17)
    assert archive.missing_chunks(0, 30) == []
    assert (archive.pixel_mask != 0).sum() == 4
    assert archive.attrs["simulation"]["seed"] == 3
    counts = zarr.open_group(folder / "run 1.zarr" / "truth", mode="r")["n_photons"][...]
    assert 2 < np.mean(counts) < 6


def test_simulate_says_what_it_wrote_and_the_next_command(written):
    assert written.stderr.splitlines()[:2] == ["starting 1 worker", "simulating 30 frames and 5 darks"]
    lines = written.stdout.splitlines()
    assert lines[-2].startswith("wrote run 1.zarr: 30 frames and 5 darks of 12×17 pixels, ")
    assert lines[-2].endswith(" kB on disk")
    assert lines[-1] == "find its photons with: python -m workflows.process 'run 1.zarr'"


def test_the_demo_runs_the_program_so_that_what_it_advises_can_be_typed():
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    demo = makefile.partition("\ndemo:")[2].partition("\n\n")[0]
    commands = re.findall(r"\$\(BIN\)/(\S+) (?:-m )?(\S+)", demo)
    assert commands == [("photonflow", "simulate"), ("photonflow", "process"), ("photonflow", "inspect")]


def test_simulate_makes_a_pedestal_that_moves_and_keeps_the_truth_of_it(tmp_path):
    moving = ["--step", "3@10", "--sinusoid", "0.5@40", "--common-mode", "tile:6x17"]
    changed = ["--hot-pixels", "2", "--blinking-pixels", "3"]
    result = simulate(tmp_path / "a.zarr", *SMALL, *moving, *changed, "--drift", 1)
    assert result.returncode == 0, result.stderr
    truth = zarr.open_group(tmp_path / "a.zarr" / "truth", mode="r")
    end = 29 / 30 + 3 + 0.5 * np.sin(29 * np.pi / 20)
    np.testing.assert_allclose(truth["moved"][[0, 10, 29]], [0, 1 / 3 + 3.5, end])
    assert truth["common_mode"].shape == (30, 2, 1)
    assert 5 < truth["common_mode"][...].std() < 15
    assert sorted(np.unique(truth["changed_pixels"][...], return_counts=True)[1].tolist()) == [2, 3, 12 * 17 - 5]


def test_an_archive_is_not_replaced_unasked(written, folder):
    again = simulate("run 1.zarr", *SMALL, cwd=folder)
    assert again.returncode == 1
    assert again.stderr.splitlines() == [
        f"photonflow: {folder / 'run 1.zarr'} exists already: choose another name, or replace it with --overwrite"
    ]
    assert FrameArchive.open(folder / "run 1.zarr").attrs["simulation"]["seed"] == 3


def test_what_is_not_ours_is_not_replaced_even_when_asked(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    result = simulate(tmp_path, *SMALL, "--overwrite")
    assert result.returncode == 1
    assert "is not an archive that photonflow made" in result.stderr
    assert (tmp_path / "thesis.tex").read_text() == "mine"


@pytest.mark.slow
def test_an_archive_of_ours_is_replaced_when_asked(tmp_path):
    for seed in (1, 2):
        result = simulate(tmp_path / "a.zarr", *SMALL, "--overwrite", "--no-progress", "--seed", seed)
        assert result.returncode == 0, result.stderr
        assert (len(result.stdout.splitlines()), result.stderr) == (2, "")
        assert FrameArchive.open(tmp_path / "a.zarr").attrs["simulation"]["seed"] == seed


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["a.zarr", "--gain", "-1"], 1, "gain is above 0, not -1.0"),
        (["file/a.zarr"], 1, "file/a.zarr cannot be written: Not a directory"),
        (["a.zarr", "--common-mode", "diagonal"], 1, "a common mode is of row, column or tile:RxC"),
        (["a.zarr", "--shape", "large"], 2, "is not rows x columns"),
        (["a.zarr", "--step", "3"], 2, "is not noise widths @ frames, such as 3@1000"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_leaves_nothing(tmp_path, arguments, code, words):
    (tmp_path / "file").write_bytes(b"")
    result = simulate(*arguments, cwd=tmp_path)
    assert result.returncode == code
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    if code == 1:
        assert len(result.stderr.splitlines()) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_a_disk_that_takes_no_more_is_one_sentence(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    result = simulate(
        tmp_path / "a.zarr", "--frames", 40, "--dark", 0, "--shape", "200x200", "--cpus", 1, "--no-progress",
        preexec_fn=limit,
    )  # fmt: skip
    assert result.returncode == 1
    message = result.stderr.splitlines()[-1]
    assert message == f"photonflow: {tmp_path / 'a.zarr' / 'frames'} cannot be written: File too large"
    assert "Traceback" not in result.stderr


def test_ctrl_c_says_what_is_left_and_ends_with_130(tmp_path):
    command = [sys.executable, "-m", "workflows.simulate", tmp_path / "a.zarr", "--frames", "1000000", "--cpus", "1"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("simulating"):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(timeout=300) == 130
    assert rest.splitlines()[-1] == (
        f"photonflow: interrupted; what is at {tmp_path / 'a.zarr'} is unfinished; run again with --overwrite"
    )
    assert "Traceback" not in rest
