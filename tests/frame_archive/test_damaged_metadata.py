"""Whatever a metadata file says, an archive opens and reads, or one sentence says where it is damaged."""

import copy
import json
import random
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from numcodecs import Blosc
from zarr.codecs import BloscCodec, Crc32cCodec

from frame_archive import ArchiveError, FrameArchive

FRAMES = np.arange(10 * 4 * 5, dtype=np.uint16).reshape(10, 4, 5)
MASK = np.zeros((4, 5), np.uint32)
METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs")
WRONG: list[Any] = [
    None, True, -1, 0, 1, 3.5, 1e308, float("inf"), float("nan"), 10**30, 2**31, 2**63, "", "x", "a\nb", "\ud800", [],
    {}, [1], [[]], "O", "|O", ">f4", "(", ",", "i4,f4", "<M8[s]", "S99999999999", "regular", "default", "NaN",
    [0, 0, 0], [-1, 4, 4], [float("inf"), 4, 4], ["3", 4, 4], [10**12, 4, 5], [1, 1, 1],
    {"name": "bytes"}, {"configuration": None}, {"name": "blosc", "configuration": {}},
]  # fmt: skip
LAYOUTS = {
    "version 3": {"compressors": [BloscCodec(cname="lz4", typesize=2), Crc32cCodec()]},
    "uncompressed": {"compressors": None},
    "sharded": {"chunks": (2, 4, 5), "shards": (4, 4, 5)},
    "version 2": {"zarr_format": 2, "compressors": Blosc("lz4")},
}


def stored(path: Path, layout: str) -> Path:
    options: dict[str, Any] = {"chunks": (4, 4, 5)} | LAYOUTS[layout]
    group = zarr.create_group(path, zarr_format=options.pop("zarr_format", 3), attributes={"detector": {"name": "it"}})
    for name, values in {"frames": FRAMES, "dark": FRAMES[:3]}.items():
        array = group.create_array(name, shape=values.shape, dtype="u2", attributes={"units": "ADU"}, **options)
        array[:] = values
    group.create_array("pixel_mask", data=MASK)
    group.create_array("frame_number", data=np.arange(10, dtype=np.uint64), chunks=(10,))
    return path


def places(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something can be replaced in parsed JSON."""
    yield place
    if isinstance(document, dict | list):
        children = document.items() if isinstance(document, dict) else enumerate(document)
        for key, child in children:
            yield from places(child, (*place, key))


def mutated(document: Any, chance: random.Random) -> Any:
    """`document` with one or two of its parts gone or replaced by something wrong."""
    document = copy.deepcopy(document)
    for _ in range(chance.choice([1, 1, 1, 2])):
        place = chance.choice(list(places(document)))
        wrong = copy.deepcopy(chance.choice(WRONG))
        if not place:
            return wrong
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        if chance.random() < 0.15:
            holder.pop(place[-1])
        else:
            holder[place[-1]] = wrong
    return document


def use(path: Path) -> None:
    """Everything that is asked of an archive."""
    archive = FrameArchive.open(path)
    assert archive.fingerprint
    assert len(archive.missing_chunks(0, archive.n_frames)) <= 10
    assert archive.stored_bytes(0, archive.n_frames) >= 0
    assert archive.block_nbytes >= archive.frame_nbytes
    n = min(archive.n_frames, 5)
    archive.frame_numbers(0, n)
    if archive.frame_nbytes < 10**7:
        archive.read(0, n, np.empty((n, *archive.frame_shape), archive.dtype))
        archive.read(archive.n_frames - 1, archive.n_frames, np.empty((1, *archive.frame_shape), archive.dtype))
        archive.read_dark(0, min(archive.n_dark, 2))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_wrong_value_anywhere_in_the_metadata_is_read_or_told_in_one_sentence(tmp_path, layout):
    path, chance = stored(tmp_path / "a.zarr", layout), random.Random(17)
    files = sorted(file for file in path.rglob("*") if file.name in METADATA)
    messages = []
    for _ in range(100):
        file = chance.choice(files)
        original = file.read_text()
        file.write_text(json.dumps(mutated(json.loads(original), chance)))
        try:
            use(path)
        except ArchiveError as error:
            messages.append(str(error))
        file.write_text(original)
    use(path)
    assert 20 < len(messages) < 98
    assert [message for message in messages if str(path) not in message or "\n" in message] == []
    assert max(map(len, messages)) < 1000


def refusal(path: Path, file: str, **changes: Any) -> str:
    document = json.loads((path / file).read_text())
    (path / file).write_text(json.dumps(document | changes))
    with pytest.raises(ArchiveError) as caught:
        use(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("shape", [[float("inf"), 4, 5], [True, 4, 5], ["3", 4, 5], [-1, 4, 5], [2.5, 4, 5], None, 3])
def test_a_shape_that_is_none(tmp_path, shape):
    path = stored(tmp_path / "a.zarr", "version 3")
    message = refusal(path, "dark/zarr.json", shape=shape)
    assert message.startswith(f"the Zarr metadata in {path / 'dark'} is damaged: its shape is ")
    assert message.endswith(", not a list of whole numbers")


def test_a_shape_that_no_array_has(tmp_path):
    path = stored(tmp_path / "a.zarr", "version 3")
    assert "more than any array holds" in refusal(path, "frames/zarr.json", shape=[2**40, 2**20, 2**20])


@pytest.mark.parametrize("name", [",", "(", "i4,f4", "a\nb", "O"])
def test_a_data_type_that_is_none(tmp_path, name):
    path = stored(tmp_path / "a.zarr", "version 3")
    message = refusal(path, "frames/zarr.json", data_type=name)
    assert f"{path / 'frames'} holds elements of type " in message


def test_a_node_that_is_neither_group_nor_array(tmp_path):
    path = stored(tmp_path / "a.zarr", "version 3")
    message = refusal(path, "zarr.json", node_type="gruop")
    assert message == f"the Zarr metadata in {path} is damaged: its node_type is 'gruop', neither 'array' nor 'group'"


@pytest.mark.parametrize("attributes", [[1], 3, "x"])
def test_attributes_that_are_no_object(tmp_path, attributes):
    path = stored(tmp_path / "a.zarr", "version 3")
    assert str(path) in refusal(path, "zarr.json", attributes=attributes)


def test_attributes_of_version_2_that_are_no_object(tmp_path):
    path = stored(tmp_path / "a.zarr", "version 2")
    (path / ".zattrs").write_text("[1]")
    assert str(path) in refusal(path, ".zgroup")


@pytest.mark.parametrize("depth", [100, 3_000, 100_000])
@pytest.mark.parametrize("layout", ["version 3", "version 2"])
def test_metadata_nested_without_end(tmp_path, depth, layout):
    path = stored(tmp_path / "a.zarr", layout)
    nested = '{"a":' * depth + "1" + "}" * depth
    if layout == "version 3":
        file = path / "zarr.json"
        file.write_text(file.read_text().replace('"it"', nested))
    else:
        (path / ".zattrs").write_text(nested)
    with pytest.raises(ArchiveError, match=f"{path}.*: its JSON is nested more than 64 deep"):
        use(path)


@pytest.mark.parametrize("array", ["frames", "dark"])
def test_chunks_without_elements(tmp_path, array):
    path = stored(tmp_path / "a.zarr", "version 2")
    message = refusal(path, f"{array}/.zarray", chunks=[0, 4, 5])
    assert str(path / array) in message


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("side", [10**12, 2**62, 10**30])
def test_chunks_larger_than_any_file_are_told_by_their_files(tmp_path, layout, side):
    path = stored(tmp_path / "a.zarr", layout)
    if layout == "version 2":
        message = refusal(path, "frames/.zarray", chunks=[side, 4, 5])
    else:
        grid = {"name": "regular", "configuration": {"chunk_shape": [side, 4, 5]}}
        message = refusal(path, "frames/zarr.json", chunk_grid=grid)
    assert str(path) in message
    assert "frames" in message


def test_more_darks_than_can_be_held(tmp_path):
    path = stored(tmp_path / "a.zarr", "version 3")
    file = path / "dark" / "zarr.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"shape": [2**50, 4, 5]}))
    archive = FrameArchive.open(path)
    for stop in (2**50, 2**58):
        with pytest.raises(ArchiveError, match=f"frames 0:{stop} of dark in {path} takes {stop * 40} bytes, more than"):
            archive.read_dark(0, stop)


def test_a_chunk_that_is_too_large_for_the_memory(tmp_path):
    group = zarr.create_group(tmp_path / "a.zarr")
    nbytes = 1 << 30
    group.create_array(
        "frames", shape=(2, 1024, nbytes >> 11), chunks=(2, 1024, nbytes >> 11), dtype="u1", compressors=None
    )
    chunk = tmp_path / "a.zarr" / "frames" / "c" / "0" / "0" / "0"
    chunk.parent.mkdir(parents=True)
    with chunk.open("wb") as opened:
        opened.truncate(nbytes)
    archive = FrameArchive.open(tmp_path / "a.zarr")
    frame = np.empty((1, *archive.frame_shape), archive.dtype)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + nbytes // 2, limits[1]))
    try:
        with pytest.raises(ArchiveError, match=f"of frames in {tmp_path / 'a.zarr'} takes {nbytes} bytes, more than"):
            archive.read(0, 1, frame)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
