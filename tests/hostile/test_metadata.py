"""Metadata and files that lie: one sentence, in little time and memory, through every command that reads them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from numcodecs import Blosc, Pickle

from cluster_store import DatasetError, open_clusters, read_pedestal, require_replaceable
from frame_archive import ArchiveError, FrameArchive


@pytest.fixture(scope="module")
def originals(tools, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("originals")
    tools.make_archive(folder / "a.zarr", tools.arrays)
    tools.make_dataset(folder / "c.zarr", tools.arrays)
    return folder


@pytest.fixture
def archive(originals, tmp_path) -> Path:
    return shutil.copytree(originals / "a.zarr", tmp_path / "a.zarr")


@pytest.fixture
def dataset(originals, tmp_path) -> Path:
    return shutil.copytree(originals / "c.zarr", tmp_path / "c.zarr")


def edit(file: Path, **changes) -> None:
    document = json.loads(file.read_text())
    document.update(changes)
    file.write_text(json.dumps(document))


def grid(*sides) -> dict:
    return {"name": "regular", "configuration": {"chunk_shape": list(sides)}}


def refusals(tools, path: Path) -> list[str]:
    """What inspect and a dry run say of an archive that both refuse."""
    said = []
    for arguments in (["inspect", path], ["process", path, "--dry-run"]):
        outcome = tools.photonflow(*arguments)
        outcome.require_clean()
        said.append(outcome.stderr)
    return said


LIES = {
    "more frames than chunks": {"shape": [10**6, 12, 10]},
    "a million billion frames": {"shape": [10**15, 12, 10]},
    "more frames than numbers": {"shape": [10**30, 12, 10]},
    "a negative shape": {"shape": [-30, 12, 10]},
    "an unknown codec": {"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zip42"}]},
    "no codec": {"codecs": []},
    "negative chunks": {"chunk_grid": grid(-20, 12, 10)},
    "chunks of nothing": {"chunk_grid": grid(0, 12, 10)},
    "huge chunks": {"chunk_grid": grid(10**12, 12, 10)},
    "huge pixels": {"chunk_grid": grid(20, 10**9, 10**9)},
    "chunks of text": {"chunk_grid": grid("20", 12, 10)},
    "another type": {"data_type": "uint64"},
    "objects": {"data_type": "object"},
    "text": {"data_type": "string"},
}


@pytest.mark.parametrize("lie", LIES)
def test_frames_whose_metadata_lies_are_refused_in_one_sentence(tools, archive, lie):
    edit(archive / "frames" / "zarr.json", **LIES[lie])
    inspected, tried = refusals(tools, archive)
    assert str(archive) in tried
    assert "frames" in tried
    assert inspected == "" or str(archive) in inspected


def test_a_fill_value_is_no_data(tools, archive):
    """Frames that are not there are not made up from the fill value."""
    edit(archive / "frames" / "zarr.json", fill_value=1300)
    shutil.rmtree(archive / "frames" / "c" / "1")
    assert "frames/c/1/0/0" in refusals(tools, archive)[1]


TEXTS = {
    "not UTF-8": b'{"zarr_format": 3, "\xff": 1}',
    "UTF-16": '{"zarr_format": 3}'.encode("utf-16"),
    "a name twice": b'{"zarr_format": 3, "node_type": "group", "node_type": "array"}',
    "nested without end": b'{"zarr_format": 3, "node_type": "group", "attributes": '
    + b"[" * 100_000
    + b"]" * 100_000
    + b"}",
    "a number without end": b'{"zarr_format": 3, "node_type": "group", "attributes": ' + b"1" * 100_000 + b"}",
    "gigantic": b'{"zarr_format": 3, "node_type": "group", "attributes": {"a": "' + b"x" * (17 << 20) + b'"}}',
    "nothing": b"",
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("place", ["zarr.json", "frames/zarr.json", "dark/zarr.json", "pixel_mask/zarr.json"])
def test_a_metadata_file_of_an_archive_that_is_none(tools, archive, text, place):
    (archive / place).write_bytes(TEXTS[text])
    with pytest.raises(ArchiveError) as caught:
        FrameArchive.open(archive)
    assert str((archive / place).parent) in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("place", ["zarr.json", "signal/zarr.json", "pedestal/s1/zarr.json", "pedestal/zarr.json"])
def test_a_metadata_file_of_a_dataset_that_is_none(dataset, text, place):
    (dataset / place).write_bytes(TEXTS[text])
    with pytest.raises(DatasetError) as caught:
        open_clusters(dataset), read_pedestal(dataset)
    assert str(dataset) in str(caught.value)
    assert len(str(caught.value)) < 1000


def make_special(place: Path, kind: str) -> None:
    place.unlink()
    match kind:
        case "pipe":
            os.mkfifo(place)
        case "socket":
            # A socket's address has to be short.
            here = os.open(place.parent, os.O_PATH)
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(f"/proc/self/fd/{here}/{place.name}")
            os.close(here)
        case "device":
            place.symlink_to("/dev/zero")
        case "folder":
            place.mkdir()
        case "link out":
            place.symlink_to("/etc/hostname")
        case "link to itself":
            place.symlink_to(place)


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder", "link out", "link to itself"])
@pytest.mark.parametrize(
    "place", ["zarr.json", "frames/zarr.json", "frames/c/0/0/0", "dark/c/1/0/0", "pixel_mask/c/0/0", "frame_number/c/0"]
)
def test_what_is_no_file_of_the_archive_is_not_read(tools, archive, kind, place):
    """No command waits on a pipe, reads a device to its end, or follows a link out of the store."""
    make_special(archive / place, kind)
    inspected, tried = refusals(tools, archive)
    if not place.startswith(("frames/c", "dark/c")):  # inspect reads neither frames nor darks
        assert str(archive) in inspected
    if not place.startswith("frame_number/c"):  # a dry run reads no numbers
        assert str(archive) in tried
    if kind == "link out":
        assert "/etc/hostname, outside the store" in inspected + tried


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "link out"])
@pytest.mark.parametrize(
    "place", ["zarr.json", "signal/zarr.json", "cluster_y/c/0", "n_clusters/c/0", "batches/total/c"]
)
def test_what_is_no_file_of_the_dataset_is_not_read(tools, dataset, kind, place):
    make_special(dataset / place, kind)
    outcome = tools.photonflow("inspect", dataset)
    outcome.require_clean()
    assert outcome.code == 1
    assert str(dataset) in outcome.stderr


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "link out"])
def test_what_is_no_file_in_the_place_of_a_shard_is_not_read(tools, tmp_path, kind):
    """Found by tests/hostile/test_fuzz.py: the index of a shard was asked of a folder."""
    group = zarr.create_group(tmp_path / "a.zarr")
    group.create_array("frames", data=tools.arrays.frames, chunks=(5, 12, 10), shards=(20, 12, 10))
    make_special(tmp_path / "a.zarr" / "frames" / "c" / "1" / "0" / "0", kind)
    outcome = tools.photonflow("inspect", tmp_path / "a.zarr")
    outcome.require_clean()
    assert "frames/c/1/0/0, with frames 20:30 of frames, cannot be read: " in outcome.stderr


def test_a_store_that_is_a_link_and_links_within_it_are_followed(tools, archive, tmp_path):
    (tmp_path / "link.zarr").symlink_to(archive)
    (archive / "frames" / "c" / "0" / "0").rename(archive / "kept")
    (archive / "frames" / "c" / "0" / "0").symlink_to(archive / "kept")
    outcome = tools.photonflow("process", tmp_path / "link.zarr", "--dry-run")
    assert (outcome.code, outcome.stderr) == (0, "")


def test_an_array_that_is_a_link_to_elsewhere_is_refused_with_what_to_do(tools, archive, tmp_path):
    (archive / "dark").rename(tmp_path / "dark")
    (archive / "dark").symlink_to(tmp_path / "dark")
    for said in refusals(tools, archive):
        assert f"it leads to {tmp_path}/dark/zarr.json, outside the store" in said
        assert "cp -rL" in said
    shutil.copytree(archive, tmp_path / "b.zarr", symlinks=False)
    assert tools.photonflow("process", tmp_path / "b.zarr", "--dry-run").code == 0


class Trap:
    """What runs a program when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return (Path.touch, (self.file,))


@pytest.fixture
def trap(tmp_path):
    """An array of objects; that it was unpickled shows at the end."""
    sprung = tmp_path / "sprung"
    yield np.array([[Trap(sprung)] * 10] * 12, dtype=object)
    assert not sprung.exists()


def pickled(path: Path, name: str, values: np.ndarray) -> Path:
    """A Zarr v2 array in which pickle is the object codec, as zarr 2 wrote them."""
    folder = path / name
    folder.mkdir(parents=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    document = {
        "zarr_format": 2, "shape": list(values.shape), "chunks": list(values.shape), "dtype": "|O", "order": "C",
        "compressor": None, "filters": [{"id": "pickle", "protocol": 5}], "fill_value": None,
    }  # fmt: skip
    (folder / ".zarray").write_text(json.dumps(document))
    (folder / ".".join("0" * values.ndim)).write_bytes(Pickle().encode(values))
    return path


def test_pickle_in_an_archive_is_refused(tools, tmp_path, trap):
    path = pickled(tmp_path / "p.zarr", "frames", np.stack([trap, trap]))
    for said in refusals(tools, path):
        assert "unpickling can run any program" in said


@pytest.mark.parametrize(
    "codec", ["pickle", "json2", "msgpack2", "categorize", "vlen-bytes", "vlen-utf8", "vlen-array"]
)
@pytest.mark.parametrize("where", ["filters", "compressor"])
def test_codecs_that_make_objects_are_refused(tools, tmp_path, codec, where):
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=2)
    for name in ("frames", "dark"):
        group.create_array(name, data=getattr(tools.arrays, name), compressors=Blosc("lz4"))
    edit(tmp_path / "a.zarr" / "dark" / ".zarray", **{where: [{"id": codec}] if where == "filters" else {"id": codec}})
    with pytest.raises(ArchiveError, match=r"a.zarr/dark is not read: it is stored with (a pickle|the) codec"):
        FrameArchive.open(tmp_path / "a.zarr")


@pytest.mark.parametrize("option", ["--mask", "--pedestal"])
@pytest.mark.parametrize("kind", ["npy", "npz", "zarr"])
def test_pickle_in_a_mask_or_a_pedestal_is_refused(tools, archive, tmp_path, trap, option, kind):
    name = "mask" if option == "--mask" else "mean"
    given = tmp_path / f"given.{kind}"
    match kind:
        case "npy":
            np.save(given, trap, allow_pickle=True)
        case "npz":
            np.savez(given, allow_pickle=True, **{name: trap, "noise": np.ones((12, 10))})
        case "zarr":
            pickled(given, name, trap)
            pickled(given / "noise_of", "noise", trap)
            shutil.move(given / "noise_of" / "noise", given / "noise")
    outcome = tools.photonflow("process", archive, "--dry-run", option, given)
    outcome.require_clean()
    assert str(given) in outcome.stderr
    assert "unpickling can run any program" in outcome.stderr


def test_names_of_any_kind_are_shown_in_one_line(tools, tmp_path):
    for name in (
        "with space.zarr",
        "ünï·中.zarr",
        "two\nlines.zarr",
        "\x1b]0;title\x07\x1b[31m.zarr",
        "'; rm -rf x; '.zarr",
        "$x^$.zarr",
    ):
        path = tools.make_archive(tmp_path / name, tools.arrays)
        outcome = tools.photonflow("inspect", path)
        outcome.require_clean()
        assert outcome.code == 0
        shutil.rmtree(path / "frames" / "c")
        (path / "frames" / "zarr.json").write_text("{")
        for said in refusals(tools, path):
            assert said.count("\n") == 1


@pytest.mark.parametrize("frames_path", ["../a.zarr/frames", "frames/../frames", ".", "./frames", "a//frames", "/etc"])
def test_a_frames_path_does_not_lead_out_of_the_archive(tools, archive, frames_path):
    outcome = tools.photonflow("process", archive, "--dry-run", "--frames-path", frames_path)
    outcome.require_clean()
    assert outcome.code == 1


def test_attributes_cannot_steer_the_terminal(tools, archive, dataset):
    for path in (archive, dataset):
        root = json.loads((path / "zarr.json").read_text())
        root["attributes"]["\x1b[2Jname"] = "\x1b]0;owned\x07\u202egnp.exe\r\n\x9b31m"
        (path / "zarr.json").write_text(json.dumps(root))
        outcome = tools.photonflow("inspect", path)
        outcome.require_clean()
        assert "\\x1b[2Jname" in outcome.stdout
        assert "\u202e" not in outcome.stdout


CONTRADICTIONS = {
    "a length": ("signal", {"shape": [12, 3, 3]}),
    "another type": ("x", {"data_type": "uint32"}),
    "a fill value": ("y", {"fill_value": 7}),
    "other codecs": ("signal", {"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_consolidated_metadata_that_contradicts_the_arrays_is_refused(tools, dataset, what):
    name, changes = CONTRADICTIONS[what]
    root = json.loads((dataset / "zarr.json").read_text())
    root["consolidated_metadata"]["metadata"][name].update(changes)
    (dataset / "zarr.json").write_text(json.dumps(root))
    with pytest.raises(DatasetError, match=f"{dataset}/{name} is damaged .*contradicts"):
        open_clusters(dataset)
    tools.photonflow("inspect", dataset).require_clean()


@pytest.mark.parametrize("n", [10**6, 10**15])
def test_a_dataset_that_claims_more_clusters_than_it_has_is_refused(tools, dataset, n):
    root = json.loads((dataset / "zarr.json").read_text())
    for name in ("frame_index", "y", "x", "signal"):
        shape = json.loads((dataset / name / "zarr.json").read_text())["shape"]
        edit(dataset / name / "zarr.json", shape=[n, *shape[1:]])
        root["consolidated_metadata"]["metadata"][name]["shape"] = [n, *shape[1:]]
    (dataset / "zarr.json").write_text(json.dumps(root))
    with pytest.raises(DatasetError, match=f"{dataset} lacks the chunk"):
        open_clusters(dataset)
    outcome = tools.photonflow("inspect", dataset)
    outcome.require_clean()
    assert outcome.code == 1


def test_a_hostile_dataset_is_neither_replaced_nor_taken_for_a_pedestal(tools, archive, dataset, tmp_path):
    """--overwrite removes nothing that is not ours, whatever a store says of itself."""
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "chapter.tex").write_text("years of work")
    shutil.copy(dataset / "zarr.json", thesis / "zarr.json")
    (dataset / "pedestal" / "s1" / "c" / "0" / "0").unlink()
    for arguments in (["--out", thesis, "--overwrite"], ["--pedestal", dataset], ["--pedestal", thesis]):
        outcome = tools.photonflow("process", archive, "--dry-run", *arguments)
        outcome.require_clean()
        assert outcome.code == 1
    assert (thesis / "chapter.tex").read_text() == "years of work"
    with pytest.raises(DatasetError):
        require_replaceable(thesis)


@pytest.mark.parametrize("name", ["frames.npy", "frames.npz", "run.h5", "run.nxs", "run.tif", "run.zip"])
def test_other_files_are_told_how_they_become_an_archive(tools, tmp_path, name):
    (tmp_path / name).write_bytes(b"anything")
    for said in refusals(tools, tmp_path / name):
        assert ("unpack it" if name.endswith("zip") else "photonflow ingest") in said
    (tmp_path / "folder").mkdir()
    shutil.move(tmp_path / name, tmp_path / "folder" / name)
    if not name.endswith("zip"):
        assert "docs/ingest.md" in refusals(tools, tmp_path / "folder")[1]


def test_darks_that_were_never_written_are_told_from_lost_ones(tools, archive):
    (archive / "dark" / "c" / "1" / "0" / "0").unlink()
    assert "copy the archive again" in refusals(tools, archive)[1]
    shutil.rmtree(archive / "dark" / "c")
    said = refusals(tools, archive)[1]
    assert "it was never written" in said
    assert "--pedestal" in said


def test_commands_of_their_own_end_well_within_bounded_memory(archive, dataset, tmp_path):
    """The real command lines, each with 3 GB of address space, on the worst of the above."""
    edit(archive / "frames" / "zarr.json", shape=[10**15, 12, 10])
    edit(archive / "pixel_mask" / "zarr.json", chunk_grid=grid(10**5, 10**5))
    make_special(dataset / "n_clusters" / "c" / "0", "pipe")
    for command in (["process", archive, "--dry-run"], ["inspect", dataset]):
        done = subprocess.run(
            ["bash", "-c", 'ulimit -v 3000000; exec "$@"', "-", sys.executable, "-m", "workflows", *map(str, command)],
            capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith("photonflow: ")
