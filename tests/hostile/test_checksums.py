"""Every chunk that we write ends with a CRC-32C: a flipped bit anywhere is an error, never another value."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from numcodecs import Blosc
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, ZstdCodec

from cluster_store import DatasetError, open_clusters, read_pedestal, read_table
from cluster_store.lifecycle import consolidate
from frame_archive import ArchiveError, FrameArchive
from workflows.archive_facts import archive_page
from workflows.dataset_facts import dataset_page

ARRAYS = ("frame_index", "y", "x", "signal", "n_clusters", "frame_number", "frame_status", "cluster_y", "cluster_x")


def places_in(content: bytes) -> list[int]:
    """The first byte, a length in Blosc's header, the middle, and the checksum."""
    return [0, 12, len(content) // 2, len(content) - 1]


def read_archive(path: Path, array: str) -> None:
    archive = FrameArchive.open(path)
    if array == "frames":
        archive.read(0, archive.n_frames, np.empty((archive.n_frames, *archive.frame_shape), archive.dtype))
    elif array == "dark":
        archive.read_dark(0, archive.n_dark)
    elif array == "frame_number":
        archive.frame_numbers(0, archive.n_frames)
    else:
        assert array == "pixel_mask"
        assert archive.pixel_mask is not None


def read_dataset(path: Path, array: str) -> None:
    if array in ARRAYS:
        open_clusters(path)[array].load()
    elif array in ("pedestal/mean", "pedestal/noise"):
        read_table(path, "pedestal")
    elif array.startswith("pedestal/"):
        read_pedestal(path)
    else:
        read_table(path, array.partition("/")[0])


@pytest.mark.parametrize(("kind", "read", "error"), [
    ("archive_store", read_archive, ArchiveError), ("dataset_store", read_dataset, DatasetError)
])  # fmt: skip
def test_a_flipped_bit_in_any_chunk_of_any_array_is_an_error_that_names_the_array(
    request, kind, read, error, record_property
):
    store = request.getfixturevalue(kind)
    seen, flips = set(), 0
    for name in store.chunks():
        array = name.partition("/c/")[0].removesuffix("/c")
        if name != "signal/c/0/0/0" and array in seen and array in ARRAYS:
            continue  # the chunks of one array are stored alike, and opening a dataset takes its time
        seen.add(array)
        for at in places_in(store.files[name]):
            flipped = bytearray(store.files[name])
            flipped[at] ^= 1 << (at % 8)
            store.replace(name, bytes(flipped))
            with pytest.raises(error) as caught:
                read(store.path, array)
            assert f"{store.path}/{array}" in str(caught.value)
            flips += 1
        store.restore()
        read(store.path, array)
    expected = {"frames", "dark", "pixel_mask", "frame_number"} if kind == "archive_store" else {
        *ARRAYS, "batches/find_seconds", "batches/total",
        *(f"pedestal/{name}" for name in ("x0", "s1", "s2", "trained_variance", "mean", "noise")),
    }  # fmt: skip
    assert seen == expected
    record_property("inputs tried", f"{flips} flipped bits in {len(seen)} arrays: {flips} errors")


def test_every_bit_of_a_small_chunk_is_watched(archive_store):
    name = "pixel_mask/c/0/0"
    mask = FrameArchive.open(archive_store.path).stored_arrays["pixel_mask"]
    for bit in range(8 * len(archive_store.files[name])):
        flipped = bytearray(archive_store.files[name])
        flipped[bit // 8] ^= 1 << (bit % 8)
        archive_store.replace(name, bytes(flipped))
        with pytest.raises(ArchiveError, match="pixel_mask"):
            mask.read_new(0, 12)
    archive_store.restore()
    mask.read_new(0, 12)


def test_the_archive_and_the_dataset_end_every_arrays_codecs_with_a_checksum(archive_store, dataset_store):
    for store in (archive_store, dataset_store):
        documents = [json.loads(store.files[name]) for name in store.metadata()]
        arrays = [document for document in documents if document["node_type"] == "array"]
        assert len(arrays) >= 4
        assert [array["codecs"][-1]["name"] for array in arrays] == ["crc32c"] * len(arrays)


LAYOUTS = {
    "no checksum": {"compressors": [BloscCodec(cname="lz4", typesize=2)]},
    "zarr's own default": {},
    "uncompressed": {"compressors": None},
    "version 2": {"zarr_format": 2, "compressors": Blosc("lz4")},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_archive_without_checksums_works_and_is_said_to_have_none(tmp_path, tools, layout):
    options = dict(LAYOUTS[layout])
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=options.pop("zarr_format", 3))
    for name in ("frames", "dark"):
        group.create_array(name, data=getattr(tools.arrays, name), chunks=(20, 12, 10), **options)
    archive = FrameArchive.open(tmp_path / "a.zarr")
    frames = np.empty_like(tools.arrays.frames)
    archive.read(0, 30, frames)
    np.testing.assert_array_equal(frames, tools.arrays.frames)
    page = archive_page(archive).as_json()
    assert page["frames as stored"]["checksums"] == page["dark frames as stored"]["checksums"] == []
    outcome = tools.photonflow("inspect", tmp_path / "a.zarr")
    outcome.require_clean()
    assert outcome.stdout.count("none: damage to a chunk may go unnoticed") == 2
    tools.photonflow("process", tmp_path / "a.zarr", "--dry-run").require_clean()


def test_a_store_in_which_some_arrays_lack_a_checksum_says_which(tmp_path, tools):
    group = zarr.create_group(tmp_path / "a.zarr")
    codecs = [ZstdCodec(), Crc32cCodec()]
    group.create_array("frames", data=tools.arrays.frames, chunks=(20, 12, 10), compressors=codecs)
    group.create_array("dark", data=tools.arrays.dark, chunks=(20, 12, 10))
    page = archive_page(FrameArchive.open(tmp_path / "a.zarr")).as_json()
    assert page["frames as stored"]["checksums"] == ["crc32c"]
    assert page["dark frames as stored"]["checksums"] == []


def without_checksum(path: Path, name: str) -> None:
    """Write an array of a dataset anew as other programs would: zarr's defaults, without CRC-32C."""
    old = zarr.open_array(path / name, mode="r")
    values, attributes, dims = old[...], dict(old.attrs), old.metadata.dimension_names
    zarr.create_array(
        path / name, data=values, chunks=old.chunks, dimension_names=dims, attributes=attributes, overwrite=True,
        serializer=BytesCodec(),
    )  # fmt: skip


def test_a_dataset_without_checksums_works_and_inspect_says_which_arrays_have_none(tmp_path, tools):
    path = tools.make_dataset(tmp_path / "c.zarr", tools.arrays)
    expected = open_clusters(path).load()
    assert dataset_page(str(path)).as_json()["storage"]["checksums"] == ["crc32c"]
    without_checksum(path, "signal")
    consolidate(str(path))
    assert open_clusters(path).load().equals(expected)
    storage = dataset_page(str(path)).as_json()["storage"]
    assert (storage["checksums"], storage["without_checksums"]) == (["crc32c"], ["signal"])
    assert "signal: damage to their chunks may go unnoticed" in tools.photonflow("inspect", path).stdout
