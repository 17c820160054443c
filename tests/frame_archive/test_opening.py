"""What cannot be opened is refused with one sentence that names the path and the cause."""

import json
import pickle

import numpy as np
import pytest
import zarr

from frame_archive import ArchiveAddress, ArchiveError, FrameArchive, local_path


def group_with(path, **arrays):
    group = zarr.create_group(path)
    for name, values in arrays.items():
        group.create_array(name, data=np.asarray(values))
    return path


def refusal(path, **options) -> str:
    with pytest.raises(ArchiveError) as caught:
        FrameArchive.open(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


FRAMES = np.ones((4, 3, 5), np.uint16)


def test_a_path_that_does_not_exist(tmp_path):
    assert refusal(tmp_path / "no.zarr") == f"{tmp_path / 'no.zarr'} does not exist: check the path"


def test_a_folder_and_a_file_that_are_no_zarr_store(tmp_path):
    assert "is not a Zarr store" in refusal(tmp_path)
    (tmp_path / "frames.h5").write_bytes(b"\x89HDF")
    assert "is a file, not a Zarr store" in refusal(tmp_path / "frames.h5")


def test_damaged_metadata(tmp_path):
    (tmp_path / "zarr.json").write_text("{")
    assert f"the Zarr metadata in {tmp_path} is damaged" in refusal(tmp_path)


def test_a_group_without_frames_names_the_stacks_to_choose_from(tmp_path):
    path = group_with(tmp_path / "a.zarr", data=FRAMES, image=FRAMES[0], calibrated=FRAMES * 0.5)
    group_with(path / "deeper", other=FRAMES)
    message = refusal(path)
    assert message.startswith(f"{path} holds no `frames`: choose one of its 3-D integer arrays with --frames-path: ")
    assert message.endswith("data (4, 3, 5) uint16, deeper/other (4, 3, 5) uint16")
    assert FrameArchive.open(path, frames_path="deeper/other").n_frames == 4


def test_a_group_without_any_stack_is_no_archive(tmp_path):
    assert "nor any other 3-D integer array" in refusal(group_with(tmp_path / "a.zarr", image=FRAMES[0]))


def test_a_frames_path_that_leads_nowhere_or_to_a_group(tmp_path):
    path = group_with(tmp_path / "a.zarr", frames=FRAMES)
    zarr.open_group(path).create_group("entry")
    for wrong in ("nothing", "entry", ""):
        assert f"holds no array {wrong!r}: choose one of" in refusal(path, frames_path=wrong)


def test_a_frames_path_into_a_bare_array(tmp_path):
    path = group_with(tmp_path / "a.zarr", frames=FRAMES) / "frames"
    assert "is itself an array" in refusal(path, frames_path="frames")


@pytest.mark.parametrize("values", [FRAMES[0], FRAMES[None], FRAMES[0, 0, 0]])
def test_frames_of_another_rank(tmp_path, values):
    message = refusal(group_with(tmp_path / "a.zarr", frames=values))
    assert f"has the shape {values.shape}: frames are three-dimensional, (frame, y, x)" in message


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "bool", "int64", "uint64", "int8"])
def test_frames_of_a_type_that_the_finder_does_not_take(tmp_path, dtype):
    message = refusal(group_with(tmp_path / "a.zarr", frames=FRAMES.astype(dtype)))
    assert f"{tmp_path / 'a.zarr' / 'frames'} holds " in message
    assert "booleans" in message if dtype == "bool" else f"{dtype} values" in message
    assert "the finder's arithmetic is exact" in message or "exact arithmetic" in message or dtype == "bool"
    assert "int" in message.rpartition(":")[2]


def test_frames_of_text(tmp_path):
    zarr.create_group(tmp_path / "a.zarr", zarr_format=2).create_array("frames", shape=(2, 2, 2), dtype="<U3")
    assert "not the detector's integers" in refusal(tmp_path / "a.zarr")


@pytest.mark.parametrize("dtype", ["|O", "<u2"])
@pytest.mark.parametrize("place", ["filters", "compressor"])
def test_a_pickle_codec_is_refused_before_anything_is_unpickled(tmp_path, dtype, place):
    canary = tmp_path / "canary"

    class Bomb:
        def __reduce__(self):
            return (open, (str(canary), "w"))

    codec = {"id": "pickle", "protocol": 4}
    metadata = {
        "zarr_format": 2, "shape": [2, 2, 2], "chunks": [2, 2, 2], "dtype": dtype, "fill_value": 0, "order": "C",
        "filters": [codec] if place == "filters" else None, "compressor": codec if place == "compressor" else None,
    }  # fmt: skip
    path = tmp_path / "a.zarr"
    (path / "frames").mkdir(parents=True)
    (path / ".zgroup").write_text(json.dumps({"zarr_format": 2}))
    (path / "frames" / ".zarray").write_text(json.dumps(metadata))
    (path / "frames" / "0.0.0").write_bytes(pickle.dumps(Bomb()))
    assert "pickle codec, and unpickling can run any program" in refusal(path)
    assert not canary.exists()


@pytest.mark.parametrize(("shape", "words"), [((0, 3, 5), "holds no frames"), ((4, 0, 5), "frames without pixels")])
def test_no_frames_or_no_pixels(tmp_path, shape, words):
    zarr.create_group(tmp_path / "a.zarr").create_array("frames", shape=shape, chunks=(1, 1, 1), dtype="u2")
    assert f"{words}: its shape is {shape}" in refusal(tmp_path / "a.zarr")


def test_darks_of_another_shape_rank_or_type(tmp_path):
    message = refusal(group_with(tmp_path / "a.zarr", frames=FRAMES, dark=FRAMES[:, :2]))
    assert "dark frames of 2×5 pixels, but the frames have 3×5 pixels" in message
    assert "three-dimensional" in refusal(group_with(tmp_path / "b.zarr", frames=FRAMES, dark=FRAMES[0]))
    assert "dark holds float64 values" in refusal(group_with(tmp_path / "c.zarr", frames=FRAMES, dark=FRAMES * 1.0))


def test_no_darks_are_none_and_so_are_zero_darks(tmp_path):
    archive = FrameArchive.open(group_with(tmp_path / "a.zarr", frames=FRAMES))
    assert archive.dark is None
    assert archive.n_dark == 0
    with pytest.raises(ArchiveError, match="holds no dark frames"):
        archive.read_dark(0, 1)
    path = group_with(tmp_path / "b.zarr", frames=FRAMES)
    zarr.open_group(path).create_array("dark", shape=(0, 3, 5), chunks=(1, 3, 5), dtype="u2")
    assert FrameArchive.open(path).dark is None


def test_a_mask_of_another_shape_or_type(tmp_path):
    message = refusal(group_with(tmp_path / "a.zarr", frames=FRAMES, pixel_mask=np.zeros((5, 3), int)))
    assert "a mask of 5×3 pixels, but the frames have 3×5 pixels" in message
    assert "holds float64 values" in refusal(
        group_with(tmp_path / "b.zarr", frames=FRAMES, pixel_mask=np.zeros((3, 5)))
    )


def test_a_mask_of_zeros_that_zarr_did_not_store_masks_nothing(tmp_path):
    mask = FrameArchive.open(
        group_with(tmp_path / "a.zarr", frames=FRAMES, pixel_mask=np.zeros((3, 5), bool))
    ).pixel_mask
    assert not (tmp_path / "a.zarr" / "pixel_mask" / "c").exists()
    assert mask.dtype == np.uint32
    assert not mask.any()


def test_frame_numbers_that_do_not_fit(tmp_path):
    message = refusal(group_with(tmp_path / "a.zarr", frames=FRAMES, frame_number=np.arange(3)))
    assert "has the shape (3,), but there are 4 frames to number" in message
    assert "integers, one a frame" in refusal(
        group_with(tmp_path / "b.zarr", frames=FRAMES, frame_number=np.arange(4.0))
    )
    archive = FrameArchive.open(group_with(tmp_path / "c.zarr", frames=FRAMES, frame_number=[1, 2, 3, -4]))
    assert archive.frame_numbers(0, 3).tolist() == [1, 2, 3]
    with pytest.raises(ArchiveError, match="negative frame number -4"):
        archive.frame_numbers(2, 4)


def test_frame_numbers_are_the_detectors_own_or_the_positions(tmp_path):
    numbers = np.array([2**63, 5, 6, 9], np.uint64)
    archive = FrameArchive.open(group_with(tmp_path / "a.zarr", frames=FRAMES, frame_number=numbers))
    np.testing.assert_array_equal(archive.frame_numbers(0, 4), numbers)
    archive = FrameArchive.open(group_with(tmp_path / "b.zarr", frames=FRAMES))
    assert archive.frame_numbers(1, 4).tolist() == [1, 2, 3]
    assert archive.frame_numbers(1, 4).dtype == np.uint64


@pytest.mark.parametrize("address", ["ftp://host/run.zarr", "memory://run", "s3:///run.zarr", "s3://bucket/a/../b"])
def test_an_address_of_nothing_that_is_known(address):
    assert refusal(address).startswith(address)
    assert "\n" not in refusal(address)


@pytest.mark.parametrize("address", ["s3://id:s3cr3t@bucket/run.zarr", "https://host/run.zarr?token=s3cr3t"])
def test_an_address_with_a_secret_is_refused_without_asking_anybody(address):
    assert "in the environment" in refusal(address)


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("run.zarr", "run.zarr"),
        ("/data/100%25.zarr", "/data/100%25.zarr"),
        ("file:///data/run.zarr", "/data/run.zarr"),
        ("FILE://localhost/data/run.zarr", "/data/run.zarr"),
        ("file:///data/run%20%233.zarr", "/data/run #3.zarr"),
        ("file:///data/run?#3.zarr", "/data/run?#3.zarr"),
    ],
)
def test_a_path_and_a_file_address_are_local_paths(address, path):
    assert local_path(address) == path


@pytest.mark.parametrize("address", ["file://server/share/run.zarr", "file://run.zarr"])
def test_a_file_address_of_another_host_is_refused(address):
    with pytest.raises(ArchiveError, match=f"{address} is on the host .* only this machine's files are read"):
        local_path(address)


def test_an_empty_path():
    assert "path of the archive is empty" in refusal("")


@pytest.mark.parametrize("name", ["with spaces", "Mönch ⁵⁵Fe 実験", "percent %20", "c", "0.0.0"])
def test_any_name_of_a_folder_will_do(tmp_path, name):
    path = group_with(tmp_path / name, frames=FRAMES)
    assert FrameArchive.open(str(path) + "/").address.path == str(path)
    assert FrameArchive.open(path.as_uri()).n_frames == 4
    assert FrameArchive.open(path).missing_chunks(0, 4) == []


def test_a_relative_path_becomes_an_absolute_address(tmp_path, monkeypatch):
    path = group_with(tmp_path / "a.zarr", frames=FRAMES)
    monkeypatch.chdir(tmp_path)
    assert FrameArchive.open("a.zarr").address == ArchiveAddress(str(path))


def test_an_archive_and_its_address_pickle(tmp_path):
    path = group_with(tmp_path / "a.zarr", data=FRAMES)
    archive = FrameArchive.open(path, frames_path="data")
    for copy in (pickle.loads(pickle.dumps(archive)), pickle.loads(pickle.dumps(archive.address)).open()):
        assert copy.address == archive.address
        assert copy.fingerprint == archive.fingerprint
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(archive.frames))[:], FRAMES)


def test_the_fingerprint_tells_other_metadata_and_another_mask(tmp_path):
    mask = np.zeros((3, 5), int)
    path = group_with(tmp_path / "a.zarr", frames=FRAMES, pixel_mask=mask)
    first = FrameArchive.open(path).fingerprint
    assert FrameArchive.open(path).fingerprint == first
    mask[0, 0] = 1
    zarr.open_group(path)["pixel_mask"][...] = mask
    second = FrameArchive.open(path).fingerprint
    zarr.open_group(path)["frames"].resize((5, 3, 5))
    third = FrameArchive.open(path).fingerprint
    assert len({first, second, third}) == 3


def test_opening_and_reading_leave_zarrs_settings_alone(tmp_path):
    before = json.dumps(zarr.config.config, default=str)
    archive = FrameArchive.open(group_with(tmp_path / "a.zarr", frames=FRAMES))
    archive.read(0, 4, np.empty((4, 3, 5), np.uint16))
    assert json.dumps(zarr.config.config, default=str) == before
