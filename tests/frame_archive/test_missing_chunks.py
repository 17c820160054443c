"""What is missing is told from what is there, however much the metadata claims."""

from pathlib import Path

import numpy as np
import pytest
import zarr

from frame_archive import ArchiveError, FrameArchive

NESTED = {"name": "default", "separator": "/"}
FLAT = {"name": "default", "separator": "."}
VERSION_2_FLAT = {"name": "v2", "separator": "."}
KEYS = {"nested": NESTED, "flat": FLAT, "version 2's": VERSION_2_FLAT}
# In chunks of (2, 4, 5), these are more than are asked for one by one, along one axis or along all.
SHAPES = [(300, 4, 5), (150, 8, 13), (40, 36, 50)]


@pytest.fixture(params=KEYS)
def chunk_keys(request):
    return KEYS[request.param]


def claimed(path: Path, shape: tuple[int, int, int], chunk_keys, **options) -> "zarr.Array":
    options = {"chunks": (2, 4, 5)} | options
    config = {"write_empty_chunks": True}
    group = zarr.create_group(path)
    return group.create_array(
        "frames", shape=shape, dtype="u2", chunk_key_encoding=chunk_keys, compressors=None, config=config, **options
    )


def test_a_claim_of_a_trillion_frames_costs_what_is_there(tmp_path, chunk_keys):
    array = claimed(tmp_path / "a.zarr", (10**12, 8, 5), chunk_keys)
    array[2:4] = 1
    array[6:8, :4] = 1
    archive = FrameArchive.open(tmp_path / "a.zarr")
    key = array.metadata.encode_chunk_key
    absent = [(0, 0, 0), (0, 1, 0), (2, 0, 0), (2, 1, 0), (3, 1, 0), (4, 0, 0)]
    assert archive.missing_chunks(0, 10**12, at_most=6) == [f"frames/{key(at)}" for at in absent]
    assert len(archive.missing_chunks(0, 10**12)) == 10
    assert archive.missing_chunks(10**12 - 1, 10**12) == [f"frames/{key((10**12 // 2 - 1, y, 0))}" for y in (0, 1)]
    assert archive.stored_bytes(0, 10**12) == 3 * 2 * 4 * 5 * 2
    assert archive.stored_bytes(4, 10**12) == 2 * 4 * 5 * 2


def test_frames_that_claim_trillions_of_pixels_cost_what_is_there(tmp_path, chunk_keys):
    claimed(tmp_path / "a.zarr", (2, 10**6, 10**6), chunk_keys)[:, 4:8, 5:10] = 1
    archive = FrameArchive.open(tmp_path / "a.zarr")
    missing = archive.missing_chunks(0, 2, at_most=200_002)
    assert len(missing) == 200_002
    key = archive.frames.metadata.encode_chunk_key
    assert missing[-2:] == [f"frames/{key(at)}" for at in [(0, 1, 0), (0, 1, 2)]]
    assert archive.stored_bytes(0, 2) == 2 * 4 * 5 * 2


@pytest.mark.parametrize("shape", SHAPES)
def test_the_missing_chunks_of_any_range_are_those_without_a_file(tmp_path, chunk_keys, shape):
    rng = np.random.default_rng(3)
    array = claimed(tmp_path / "a.zarr", shape, chunk_keys)
    rows, columns = -(-shape[1] // 4), -(-shape[2] // 5)
    every = [(t, y, x) for t in range(shape[0] // 2) for y in range(rows) for x in range(columns)]
    present = {at for at, chosen in zip(every, rng.random(len(every)) < 0.3, strict=True) if chosen}
    for t, y, x in present:
        file = tmp_path / "a.zarr" / "frames" / array.metadata.encode_chunk_key((t, y, x))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(1 + t))
    archive = FrameArchive.open(tmp_path / "a.zarr")
    for start, stop in [(0, shape[0]), (0, 4), (6, 6), (7, 9), (12, 35), (shape[0] - 1, shape[0])]:
        wanted = range(start // 2, -(-stop // 2) if stop > start else start // 2)
        expected = [at for at in every if at[0] in wanted and at not in present]
        missing = archive.missing_chunks(start, stop, at_most=len(every))
        assert missing == ["frames/" + array.metadata.encode_chunk_key(at) for at in expected]
        assert archive.missing_chunks(start, stop, at_most=3) == missing[:3]
        assert archive.stored_bytes(start, stop) == sum(1 + t for t, _, _ in present if t in wanted)


def test_other_files_beside_the_chunks_are_not_chunks(tmp_path, chunk_keys):
    claimed(tmp_path / "a.zarr", (200, 4, 5), chunk_keys)[:] = 1
    archive = FrameArchive.open(tmp_path / "a.zarr")
    folder = tmp_path / "a.zarr" / "frames" / ("c" if chunk_keys is NESTED else "")
    first = folder / ("0/0/0" if chunk_keys is NESTED else "c.0.0.0" if chunk_keys is FLAT else "0.0.0")
    first.unlink()
    prefix = "c." if chunk_keys is FLAT else ""
    tail = "" if chunk_keys is NESTED else ".0.0"
    for name in ("00", "+0", "0x0", "٠", "-1", "1e0", "100", "9" * 30, "", "0.part"):
        (folder / f"{prefix}{name}{tail}~").touch()
        if name:
            (folder / f"{prefix}{name}{tail}").touch()
    assert archive.missing_chunks(0, 200) == [str(first.relative_to(tmp_path / "a.zarr"))]
    assert archive.stored_bytes(0, 200) == 99 * 2 * 4 * 5 * 2


def test_an_inner_chunk_left_out_is_told_in_its_place_among_missing_shards(tmp_path):
    array = claimed(tmp_path / "a.zarr", (10**9, 4, 5), NESTED, shards=(4, 4, 5)).with_config(
        {"write_empty_chunks": False}
    )
    array[4:8] = 1
    array[4:6] = 0
    array[12:16] = 1
    missing = FrameArchive.open(tmp_path / "a.zarr").missing_chunks(0, 10**9, at_most=4)
    expected = ["c/0/0/0", "c/1/0/0 (inner chunk 2/0/0)", "c/2/0/0", "c/4/0/0"]
    assert missing == [f"frames/{key}" for key in expected]


@pytest.mark.parametrize("n_frames", [4, 400])
def test_a_folder_that_cannot_be_looked_into_is_an_error(tmp_path, n_frames):
    claimed(tmp_path / "a.zarr", (n_frames, 4, 5), NESTED)
    chunks = tmp_path / "a.zarr" / "frames" / "c"
    chunks.symlink_to(chunks)
    with pytest.raises(ArchiveError, match=f"{chunks}.* cannot be .*: Too many levels of symbolic links"):
        FrameArchive.open(tmp_path / "a.zarr").missing_chunks(0, n_frames)
