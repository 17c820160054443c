"""CBF, EDF and MarCCD, as fabio writes them, and a MarCCD file byte for byte."""

from __future__ import annotations

import gzip
import struct

import fabio
import numpy as np
import pytest
from fabio.cbfimage import CbfImage
from fabio.edfimage import EdfImage

from frame_formats import SourceError, gather, open_source

MINI_HEADER = """# Detector: PILATUS 100K, S/N 1-0001
# Exposure_time 0.0010000 s
# Exposure_period 0.0020000 s
# Wavelength 1.5406 A
"""


def test_cbf_images_are_read_value_by_value_with_their_settings(tmp_path, frames, read):
    for number, frame in enumerate(frames):
        header = {"_array_data.header_convention": "PILATUS_1.2", "_array_data.header_contents": MINI_HEADER}
        CbfImage(data=frame.astype(np.int32) - 2, header=header).write(tmp_path / f"run_{number}.cbf")
    gathered = gather([open_source(tmp_path / f"run_{number}.cbf") for number in range(7)])
    np.testing.assert_array_equal(read(gathered.frames), frames.astype(np.int32) - 2)
    assert gathered.formats == ("CBF",)
    assert gathered.attrs == {
        "exposure_s": 0.001,
        "period_s": 0.002,
        "wavelength_angstrom": 1.5406,
        "photon_energy_keV": pytest.approx(8.0478, abs=1e-4),
        "detector": "PILATUS 100K",
    }


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32])
def test_edf_files_of_one_and_of_several_images_are_read(tmp_path, frames, values, dtype):
    frames = (frames % 250).astype(dtype)
    image = EdfImage(data=frames[0])
    image.write(tmp_path / "one.edf")
    for frame in frames[1:]:
        image.append_frame(data=frame)
    image.write(tmp_path / "all.edf")
    np.testing.assert_array_equal(values(tmp_path / "one.edf"), frames[:1])
    np.testing.assert_array_equal(values(tmp_path / "all.edf"), frames)


def marccd(frame: np.ndarray, little: bool = True) -> bytes:
    """A MarCCD image by its format description: a TIFF header, 3 072 bytes of the camera's, the pixels."""
    order = "<" if little else ">"
    rows, columns = frame.shape
    tags = [
        (256, 4, 1, columns), (257, 4, 1, rows), (258, 3, 1, 16), (259, 3, 1, 1), (262, 3, 1, 1), (273, 4, 1, 4096),
        (277, 3, 1, 1), (278, 4, 1, rows), (279, 4, 1, frame.nbytes), (34710, 4, 1, 1024),
    ]  # fmt: skip
    directory = struct.pack(f"{order}H", len(tags))
    for tag, kind, count, value in tags:
        directory += struct.pack(f"{order}HHI", tag, kind, count)
        directory += struct.pack(f"{order}I", value) if kind == 4 else struct.pack(f"{order}HH", value, 0)
    head = (b"II*\0" if little else b"MM\0*") + struct.pack(f"{order}I", 8) + directory + struct.pack(f"{order}I", 0)
    camera = struct.pack(f"{order}I16s", 2, b"MMX") + bytes(8) + struct.pack(f"{order}I", 1234)
    camera += bytes(80 - len(camera)) + struct.pack(f"{order}4I", columns, rows, 2, 4096)
    return head.ljust(1024, b"\0") + camera.ljust(3072, b"\0") + frame.astype(f"{order}u2").tobytes()


@pytest.mark.parametrize("little", [True, False])
def test_marccd_files_are_read_in_either_byte_order(tmp_path, frames, values, little):
    (tmp_path / "a.mccd").write_bytes(marccd(frames[3], little))
    np.testing.assert_array_equal(values(tmp_path / "a.mccd"), frames[3:4])
    if little:
        np.testing.assert_array_equal(fabio.open(tmp_path / "a.mccd").data, frames[3])


def test_images_that_are_cut_short_are_never_filled_up_with_zeros(tmp_path, frames, read):
    for name, image in (("a.cbf", CbfImage(data=frames[0].astype(np.int32))), ("a.edf", EdfImage(data=frames[0]))):
        path = tmp_path / name
        image.write(path)
        path.write_bytes(path.read_bytes()[:-60])
        with pytest.raises(ValueError, match=rf"{name} is (damaged or cut short|not a whole file)"):
            read(open_source(path).frames)
    image = EdfImage(data=frames[0])
    for frame in frames[1:]:
        image.append_frame(data=frame)
    path = tmp_path / "all.edf"
    image.write(path)
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(ValueError, match=r"image 6 of .*all\.edf is damaged or cut short"):
        read(open_source(path).frames, step=7)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kept", [60, 281, None])
def test_a_cbf_file_whose_header_does_not_end_is_not_looked_through_for_ever(tmp_path, frames, packed, kept):
    CbfImage(data=frames[0].astype(np.int32)).write(tmp_path / "a.cbf")
    content = (tmp_path / "a.cbf").read_bytes()
    content = content[:kept] if kept else content.replace(b"--CIF-BINARY", b"--CIF BINARY")
    path = tmp_path / ("b.cbf.gz" if packed else "b.cbf")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(SourceError, match=r"b\.cbf.* is cut short or damaged: the header of a CBF file does not end"):
        open_source(path)


def test_what_fabio_does_not_read_is_said_in_a_sentence(tmp_path):
    (tmp_path / "a.img").write_bytes(b"nothing that anyone knows")
    with pytest.raises(SourceError, match=r"a\.img is not a whole file of a format that fabio reads"):
        open_source(tmp_path / "a.img")
