import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from matplotlib.patches import StepPatch

from cluster_store import (
    ClusterWriter,
    DatasetLayout,
    create_dataset,
    finish_dataset,
    open_clusters,
    write_pedestal,
    write_table,
)
from finder import Pedestal
from frame_archive import FrameArchive, create_archive
from workflows.archive_pictures import draw_archive
from workflows.dataset_facts import dataset_page
from workflows.dataset_pictures import draw_dataset, mark_peak
from workflows.facts import Fact, Page, Section
from workflows.pedestal_pictures import pedestal_over_run
from workflows.pictures import new_figure, picture_path, whole_ticks


def inspect(*arguments, **environment):
    """Run the real command; warnings of any library are errors there too."""
    return subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-m", "workflows.inspect", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | environment,
    )


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("archives") / "frames.zarr"
    rng = np.random.default_rng(4)
    mask = np.zeros((20, 30), np.uint32)
    mask[3:5, 7] = 1
    writer = create_archive(
        path,
        (25, 20, 30),
        np.uint16,
        n_dark=120,
        pixel_mask=mask,
        attrs={"photon_energy_keV": 8.048},
        frame_numbers=np.arange(1000, 1025, dtype=np.uint64),
    )
    writer.write_frames(0, rng.normal(4655, 15, (25, 20, 30)).round().astype(np.uint16))
    writer.write_dark(0, rng.normal(4655, 15, (120, 20, 30)).round().astype(np.uint16))
    return path


@pytest.fixture(scope="module")
def bare_array(tmp_path_factory):
    """Someone else's array: no darks, no checksum."""
    path = tmp_path_factory.mktemp("archives") / "bare.zarr"
    frames = np.random.default_rng(4).integers(0, 4000, (6, 16, 12), dtype=np.uint16)
    zarr.create_array(path, data=frames, chunks=(2, 16, 12), compressors=None)
    return path


def write_clusters(path, n_clusters, finished=True, shape=(20, 30)):
    rng = np.random.default_rng(9)
    layout = DatasetLayout(40, 10, 20, shape, (3, 3), rows_per_chunk=4096)
    create_dataset(path, layout, {"n_sigma": 5.0, "n_samples": 1000, "archive": "frames.zarr", "sample": "copper"})
    writer = ClusterWriter(path, layout)
    frame = np.sort(rng.integers(0, 40, n_clusters)).astype(np.uint32)
    y, x = (rng.integers(0, side, n_clusters).astype(np.uint16) for side in shape)
    signal = 804.8 * rng.dirichlet(np.full(9, 0.5), n_clusters).reshape(-1, 3, 3) + rng.normal(
        0, 12, (n_clusters, 3, 3)
    )
    writer.write_clusters(0, frame, y, x, np.rint(signal).astype(np.int32))
    counts = np.bincount(frame, minlength=40).astype(np.uint32)
    writer.write_frames(0, counts, np.arange(10, 50, dtype=np.uint64), np.zeros(40, np.uint8))
    dark = rng.normal(4655, 15, (100, *shape)).round().astype(np.uint16)
    write_pedestal(path, Pedestal.from_dark(dark, n_samples=1000))
    moved = ("batch", np.array([0.01, -0.25]), {"units": "noise widths", "long_name": "movement"})
    hot = ("batch", np.array([3, 12_345], np.uint32), {"units": "1", "long_name": "hot pixels"})
    off = ("batch", np.array([0.0605, 0.01]), {"units": "1", "long_name": "share of pixels"})
    write_table(path, "pedestal", xr.Dataset({"movement": moved, "hot": hot, "pixels_off": off}))
    write_table(path, "batches", xr.Dataset({"find_seconds": ("batch", [1.5, 2.0], {"units": "s"})}))
    if finished:
        finish_dataset(path, layout, n_clusters, {"digest": "xxh3-128:0123"})
    return path


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return write_clusters(tmp_path_factory.mktemp("datasets") / "clusters.zarr", 9000)


def assert_is_a_picture(path):
    """A PNG of a fair size with more in it than one colour."""
    from matplotlib.image import imread

    pixels = imread(path)
    assert min(pixels.shape[:2]) > 300
    assert len(np.unique(pixels[..., 0])) > 20


def test_an_archive_is_described(archive):
    done = inspect(archive)
    assert (done.returncode, done.stderr) == (0, "")
    for line in (
        "20 × 30 pixels (rows × columns)",
        "uint16",
        "2 of 600",
        "1,000 to 1,024",
        "20 × 20 × 30",
        "crc32c",
        "photon_energy_keV",
        f"FrameArchive.open({str(archive)!r})",
    ):
        assert line in done.stdout, line


def test_an_archive_is_described_to_programs_and_drawn(archive, tmp_path):
    done = inspect(archive, "--json", "--png", tmp_path / "new" / "pictures")
    assert (done.returncode, done.stderr) == (0, "")
    page = json.loads(done.stdout)
    assert page["kind"] == "frame archive"
    assert page["archive"] == {
        "frames": 25,
        "frame_shape": [20, 30],
        "dtype": "uint16",
        "dark_frames": 120,
        "masked_pixels": 2,
        "frame_numbers": [1000, 1024],
        "frame_gaps": {"missing": 0, "places": 0, "repeated": 0, "backwards": 0},
    }
    stored = page["frames as stored"]
    assert (stored["chunks"], stored["checksums"], stored["missing_chunks"]) == ([20, 20, 30], ["crc32c"], [])
    assert stored["bytes_decoded"] == 25 * 20 * 30 * 2
    chunks = sum(file.stat().st_size for file in (archive / "frames" / "c").rglob("*") if file.is_file())
    assert chunks <= stored["bytes_on_disk"] <= chunks + 4096
    assert page["attributes"]["photon_energy_keV"] == 8.048
    assert [Path(picture).name for picture in page["pictures"]] == ["frames.dark_mean.png", "frames.dark_noise.png"]
    for picture in page["pictures"]:
        assert_is_a_picture(picture)


def test_an_array_without_darks_and_checksums_says_so_and_shows_its_first_frame(bare_array, tmp_path):
    done = inspect(bare_array)
    assert (done.returncode, done.stderr) == (0, "")
    assert "none: damage to a chunk may go unnoticed" in done.stdout
    assert "none: uncompressed" in done.stdout
    assert "no mask" in done.stdout
    pictures = draw_archive(FrameArchive.open(bare_array), tmp_path)
    names = [Path(picture).name for picture in pictures]
    assert names == ["bare.first_frame.png", "bare.frames_mean.png", "bare.frames_noise.png"]
    for picture in pictures:
        assert_is_a_picture(picture)


def test_a_missing_chunk_of_an_archive_is_named(archive, tmp_path):
    copy = tmp_path / "frames.zarr"
    shutil.copytree(archive, copy)
    (copy / "frames" / "c" / "1" / "0" / "0").unlink()
    page = json.loads(inspect(copy, "--json").stdout)
    assert page["frames as stored"]["missing_chunks"] == ["frames/c/1/0/0"]


def test_a_dataset_is_described(dataset):
    done = inspect(dataset)
    assert (done.returncode, done.stderr) == (0, "")
    for line in (
        "40 (the archive's 10 to 49)",
        "9,000",
        "225.0 (",
        "3 × 3 pixels",
        "xxh3-128:0123",
        "-0.25 noise widths in batch 1",
        "12,345 in batch 1 (hot pixels)",
        "6.05% in batch 0 (share of pixels)",
        "3.50 s over all batches",
        "sample",
        f"xr.open_zarr({str(dataset)!r})",
    ):
        assert line in done.stdout, line


def test_a_dataset_is_described_to_programs_and_drawn(dataset, tmp_path):
    done = inspect(dataset, "--json", "--png", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    page = json.loads(done.stdout)
    assert (page["kind"], page["clusters"]["status"]) == ("cluster dataset", "complete")
    assert page["clusters"]["clusters"] == 9000
    assert page["clusters"]["clusters_a_frame"] == 225
    assert page["parameters"]["n_sigma"] == 5
    assert page["pedestal against the frames"]["largest_movement"] == -0.25
    arrays = 9000 * 44 + 40 * 13 + 2 * 3 * 2
    pedestal = 20 * 30 * (8 + 5 * 4)
    assert page["storage"]["bytes_decoded"] == arrays + pedestal + 2 * (8 + 4 + 8) + 2 * 8
    on_disk = sum(file.stat().st_size for file in dataset.rglob("*") if file.is_file())
    assert 0.5 * on_disk < page["storage"]["bytes_on_disk"] <= on_disk
    assert [Path(picture).name for picture in page["pictures"]] == [
        "clusters.hit_map.png",
        "clusters.spectrum.png",
        "clusters.eta.png",
        "clusters.rate.png",
    ]
    for picture in page["pictures"]:
        assert_is_a_picture(picture)
    names = {}
    exec(page["open_with"], names)
    assert names["clusters"].identical(open_clusters(dataset))


@pytest.mark.parametrize(("n_clusters", "shape"), [(0, (1, 1)), (0, (20, 30)), (1, (20, 30)), (50, (500, 1))])
def test_few_clusters_and_odd_detectors_are_described_and_drawn(tmp_path, n_clusters, shape):
    path = write_clusters(tmp_path / "c.zarr", n_clusters, shape=shape)
    assert dataset_page(str(path)).as_json()["clusters"]["clusters"] == n_clusters
    for picture in draw_dataset(open_clusters(path), str(path), tmp_path):
        assert_is_a_picture(picture)


def test_pictures_of_several_datasets_lie_side_by_side_in_a_folder(tmp_path):
    for name in ("a.zarr", "b.clusters.zarr", "c"):
        path = write_clusters(tmp_path / name, 30)
        draw_dataset(open_clusters(path), str(path), tmp_path)
    pictures = {f"{store}.{what}.png" for store in ("a", "b.clusters", "c") for what in ("hit_map", "rate", "spectrum")}
    assert {file.name for file in tmp_path.glob("*.png")} == pictures
    assert picture_path(tmp_path, "x" * 250 + ".zarr", "rate").name == "x" * 50 + ".rate.png"


@pytest.mark.parametrize("position", [60, 300, 700])
def test_the_label_of_the_peak_lies_within_the_axes(position):
    edges = np.arange(0.5, 800)
    counts = 3000 * np.exp(-0.5 * ((edges[:-1] + 0.5 - position) / 12) ** 2)
    spectrum = xr.DataArray(counts.round(), {"energy": edges[:-1] + 0.5}, "energy")
    figure, axes = new_figure(7.2, 4.6)
    axes.set_xlim(0, 800)
    axes.set_ylim(0, 4000)
    mark_peak(axes, spectrum)
    (label,) = axes.texts
    assert label.get_text().startswith(f"peak at {position}.0")
    figure.draw_without_rendering()
    inside, outer = label.get_window_extent(), axes.get_window_extent()
    assert outer.x0 <= inside.x0 < inside.x1 <= outer.x1
    assert outer.y0 <= inside.y0 < inside.y1 <= outer.y1


def test_the_pedestal_of_a_single_batch_is_a_line_over_its_frames():
    table = xr.Dataset({name: ("batch", [0.02]) for name in ("offset", "offset_from_darks", "pixels_off")})
    batches = xr.Dataset({"first_frame": ("batch", [10]), "n_frames": ("batch", [40])})
    figure = pedestal_over_run(table, batches, (3, 3))
    for axes, n_lines in zip(figure.axes, (2, 1), strict=True):
        lines = [patch.get_path().get_extents() for patch in axes.patches if isinstance(patch, StepPatch)]
        assert [(line.x0, line.x1) for line in lines] == [(10, 50)] * n_lines
    assert figure.axes[0].get_xlabel().endswith("1 batch")


def test_a_rate_of_few_frames_has_ticks_at_whole_frames():
    figure, axes = new_figure(7.2, 3.8)
    axes.plot([0, 1, 2], [4, 5, 3])
    whole_ticks(axes.xaxis)
    assert [tick for tick in axes.get_xticks() if 0 <= tick <= 2] == [0, 1, 2]
    del figure


def test_a_run_that_is_not_complete_is_described_but_not_drawn(tmp_path):
    path = write_clusters(tmp_path / "c.zarr", 100, finished=False)
    done = inspect(path)
    assert done.returncode == 0
    assert "not complete" in done.stdout
    assert "not known before the end" in done.stdout
    drawn = inspect(path, "--png", tmp_path / "pictures")
    assert drawn.returncode == 1
    assert drawn.stderr.startswith(f"photonflow: {path} is not complete")
    assert not (tmp_path / "pictures").exists()


def test_what_is_neither_is_refused_in_one_sentence(tmp_path):
    absent = inspect(tmp_path / "none.zarr")
    assert absent.returncode == 1
    assert absent.stderr.count("\n") == 1
    assert f"{tmp_path}/none.zarr is empty or not there" in absent.stderr
    (tmp_path / "notes.txt").write_text("mine")
    other = inspect(tmp_path)
    assert other.returncode == 1
    assert other.stderr.count("\n") == 1
    assert str(tmp_path) in other.stderr
    assert "no cluster dataset either" in other.stderr


def test_pictures_do_not_go_inside_the_store(dataset):
    before = sorted(dataset.rglob("*"))
    done = inspect(dataset, "--png", dataset / "pictures")
    assert done.returncode == 1
    assert "choose another folder" in done.stderr
    assert sorted(dataset.rglob("*")) == before


def test_without_matplotlib_the_extra_is_named(dataset, tmp_path):
    (tmp_path / "matplotlib.py").write_text(
        "raise ModuleNotFoundError('No module named matplotlib', name='matplotlib')"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = inspect(dataset, "--png", tmp_path / "pictures", PYTHONPATH=path)
    assert done.returncode == 1
    assert done.stderr == (
        "photonflow: pictures need matplotlib, which is not installed: pip install 'photonflow[report]'\n"
    )


def test_a_wrong_option_is_a_matter_of_usage(dataset):
    assert inspect(dataset, "--colour").returncode == 2


def test_the_json_of_a_page_is_json_whatever_an_attribute_holds():
    attributes = {"gain": float("nan"), "steps": [1, float("inf"), {"deep": (-float("inf"), 2.5)}], "name": "x"}
    page = Page(
        "cluster dataset", "a.zarr", [Section("other attributes", [Fact(*item) for item in attributes.items()])], ""
    )
    told = json.loads(json.dumps(page.as_json(), allow_nan=False))["other attributes"]
    assert told == {"gain": None, "steps": [1, None, {"deep": [None, 2.5]}], "name": "x"}
