"""``photonflow export`` as a user meets it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import analysis  # noqa: F401 (the accessor)
from cluster_store import ClusterWriter, DatasetLayout, create_dataset, finish_dataset, open_clusters


@pytest.fixture
def dataset(tmp_path):
    """200 frames with a cluster each."""
    path, layout = tmp_path / "c.zarr", DatasetLayout(200, 0, 50, (12, 10), (3, 3), rows_per_chunk=64)
    create_dataset(path, layout, {"n_sigma": 5.0})
    rng = np.random.default_rng(4)
    writer = ClusterWriter(path, layout)
    writer.write_clusters(
        0,
        np.arange(200, dtype=np.uint32),
        *(rng.integers(0, 10, 200).astype(np.uint16) for _ in "yx"),
        rng.integers(-100, 1000, (200, 3, 3)).astype(np.int32),
    )
    writer.write_frames(0, np.ones(200, np.uint32), np.arange(200, dtype=np.uint64), np.zeros(200, np.uint8))
    finish_dataset(path, layout, 200, {})
    return path


@pytest.mark.parametrize("name", ["c.parquet", "c.clust", "c.h5"])
def test_an_export_says_what_it_wrote(photonflow, dataset, name):
    outcome = photonflow("export", dataset, "--to", name)
    assert outcome.code == 0
    lines = outcome.stderr.splitlines()
    assert lines[0] == f"writing {name}"
    assert lines[-1].startswith("200 of 200 frames")
    assert outcome.stdout.startswith(f"wrote {name}: 200 frames with 200 clusters, ")
    again = photonflow("export", dataset, "--to", name, "--no-progress")
    assert again.code == 1
    assert again.sentence.endswith("or ask to overwrite it (--overwrite).")
    some = photonflow("export", dataset, "--to", name, "--no-progress", "--overwrite", "--frames", "10:30")
    assert some.stdout.startswith(f"wrote {name}: 20 frames with 20 clusters, ")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "c d.clust",
            "photonflow export 'c d.clust' --to NAME.zarr --cluster-size 3x3 --dtype int32 --frame-shape 12x10",
        ),
        ("c.nxs", "import h5py; clusters = h5py.File('c.nxs')['entry/clusters']"),
        ("c.hdf5", "import h5py; clusters = h5py.File('c.hdf5')['entry/clusters']"),
        ("µ.parquet", "import pandas; clusters = pandas.read_parquet('µ.parquet')"),
    ],
)
def test_an_export_says_how_it_is_opened_and_is_not_taken_for_something_else(photonflow, dataset, name, said):
    opened = photonflow("export", dataset, "--to", name, "--no-progress").stdout.splitlines()[-1]
    assert opened.startswith(f"open it   {said}")
    if name.endswith(".clust"):
        assert photonflow(*shlex.split(said)[1:], "--no-progress").code == 0
        assert "make a dataset of it, with photonflow export 'c d.clust' --to" in photonflow("inspect", name).sentence
        return
    assert "photonflow itself reads only .clust back" in opened
    for command in (
        ("inspect", name),
        ("process", name),
        ("ingest", name, "b.zarr"),
        ("export", name, "--to", "b.zarr"),
    ):
        sentence = photonflow(*command).sentence
        assert sentence.startswith(f"{name} holds clusters that export has written (")
        assert "give the dataset that they came from" in sentence


def test_other_hdf5_files_are_still_ones_to_ingest(photonflow, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "frames.h5", "w") as file:
        file["data"] = np.zeros((3, 4, 5), np.uint16)
    assert "photonflow ingest" in photonflow("inspect", "frames.h5").sentence


def test_a_dataset_made_of_a_clust_file_has_no_pedestal_and_says_so(photonflow, dataset, tmp_path):
    photonflow("export", dataset, "--to", "c.clust")
    assert photonflow("export", "c.clust", "--to", "back.zarr", "--frame-shape", "12x10").code == 0
    for back in (xr.open_zarr(tmp_path / "back.zarr"), open_clusters(tmp_path / "back.zarr")):
        with pytest.raises(ValueError, match=r"No pedestal is found in .*back\.zarr.*a dataset made of a \.clust file"):
            back.photons.noise_cuts(5)


def test_a_clust_file_becomes_a_dataset_that_inspect_and_analysis_know(photonflow, dataset, tmp_path):
    photonflow("export", dataset, "--to", "c.clust", "--dtype", "int16")
    to = ("--to", "back.zarr", "--dtype", "int16", "--frame-shape", "12x10")
    assert photonflow("export", "c.clust", *to).code == 0
    back, first = xr.open_zarr(tmp_path / "back.zarr"), xr.open_zarr(dataset)
    xr.testing.assert_equal(back, first)
    assert "photonflow export c.clust --to back.zarr" in back.attrs["history"]
    page = photonflow("inspect", "back.zarr")
    assert page.code == 0
    assert "a .clust file: " in page.stdout
    assert "exists" in photonflow("export", "c.clust", *to).sentence
    assert photonflow("export", "c.clust", *to, "--overwrite").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("c.zarr", "--to", "c.csv"), 1, "end it with one of .parquet, .clust, .h5"),
        (("c.zarr", "--to", "d.zarr"), 1, "would be a dataset again"),
        (("c.zarr", "--to", "c.clust", "--frames", "190:201"), 1, "holds the archive's frames 0:200"),
        (("c.zarr", "--to", "c.zarr/c.clust"), 1, "lies inside"),
        (("absent.zarr", "--to", "c.clust"), 1, "There is no cluster dataset at"),
        (("absent.clust", "--to", "d.zarr", "--frame-shape", "12x10"), 1, "absent.clust cannot be read"),
        (("text.clust", "--to", "d.zarr", "--frame-shape", "12x10"), 1, "text.clust, byte 0: frame 1752393832"),
        (("text.clust", "--to", "c.h5", "--frame-shape", "12x10"), 1, "becomes a dataset first"),
        (("c.zarr", "--to", "text.clust", "--overwrite"), 1, "text.clust exists and is no .clust file of photonflow's"),
        (("c.zarr", "--to", "c.h5", "--frame-shape", "3x3"), 2, "is for reading a .clust file"),
        (("text.bin", "--to", "d.zarr"), 1, "text.bin does not end with .clust"),
        (("text.clust", "--to", "d.zarr"), 2, "give --frame-shape"),
        (("c.zarr", "--to", "c.clust", "--cluster-size", "3x3"), 2, "is for reading a .clust file"),
    ],
)
def test_what_can_not_be_done_is_said_in_a_sentence_and_nothing_is_written(
    photonflow, dataset, tmp_path, arguments, code, said
):
    for name in ("text.clust", "text.bin"):
        (tmp_path / name).write_bytes(b"hhsh, here is text, and no clusters")
    outcome = photonflow("export", *arguments)
    assert outcome.code == code
    assert said in outcome.stderr
    assert code == 2 or outcome.sentence
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["c.zarr", "text.bin", "text.clust"]


def test_a_run_that_is_not_complete_is_not_exported(photonflow, dataset, tmp_path):
    create_dataset(dataset, DatasetLayout(200, 0, 50, (12, 10), (3, 3)), {}, overwrite=True)
    assert "is not complete" in photonflow("export", dataset, "--to", "c.clust").sentence


def test_a_library_that_is_not_installed_is_named_with_what_brings_it(python_m, dataset, tmp_path):
    # A module of that name that is marked as absent: what an installation without the extra looks like.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nfor name in ('h5py', 'pyarrow'): sys.modules[name] = None\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    for name in ("c.h5", "c.parquet"):
        outcome = python_m("export", dataset, "--to", name, env=environment)
        assert outcome.code == 1
        assert "which is not installed: pip install 'photonflow[formats]'" in outcome.sentence
    assert python_m("export", dataset, "--to", "c.clust", env=environment).code == 0


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_export_leaves_nothing_behind(dataset, tmp_path, sent, code):
    # A pipe that nobody reads holds the export up in the middle of its progress, where the signal meets it.
    script = (
        "import sys, os, signal\n"
        "from cluster_store.formats import stored_clusters\n"
        "stored_clusters.ROWS_AT_ONCE = 1\n"
        "from workflows import export\n"
        "from workflows.progress import RunProgress\n"
        "update = RunProgress.update\n"
        "def interrupted(self, frames, clusters):\n"
        "    update(self, frames, clusters)\n"
        f"    if frames == 60: os.kill(os.getpid(), {int(sent)})\n"
        "RunProgress.update = interrupted\n"
        "export.run(export.command)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "c.zarr", "--to", "c.clust"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert done.stderr.splitlines()[-1].endswith("; c.clust is as it was before")
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.zarr"]
