"""TIFF files, as tifffile writes them."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
import tifffile

from frame_formats import SourceError, open_source


def write_pages(path, frames):
    with tifffile.TiffWriter(path) as file:
        for frame in frames:
            file.write(frame, contiguous=False)


WRITERS = {
    "a stack in one piece": lambda path, frames: tifffile.imwrite(path, frames),
    "big-endian": lambda path, frames: tifffile.imwrite(path, frames, byteorder=">"),
    "BigTIFF": lambda path, frames: tifffile.imwrite(path, frames, bigtiff=True),
    "packed": lambda path, frames: tifffile.imwrite(path, frames, compression="zlib", predictor=True),
    "pages": write_pages,
    "ImageJ": lambda path, frames: tifffile.imwrite(path, frames, imagej=True),
    "OME": lambda path, frames: tifffile.imwrite(path, frames, ome=True, metadata={"axes": "TYX"}),
    "strips": lambda path, frames: tifffile.imwrite(path, frames, rowsperstrip=5),
    "tiles": lambda path, frames: tifffile.imwrite(path, frames, tile=(16, 16)),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_tiff_stacks_are_read_value_by_value(tmp_path, frames, values, write):
    write(tmp_path / "a.tif", frames)
    got = values(tmp_path / "a.tif")
    assert got.dtype == np.uint16
    np.testing.assert_array_equal(got, frames)


@pytest.mark.parametrize("writer", ["a stack in one piece", "packed", "pages", "ImageJ"])
def test_a_tiff_file_that_is_cut_short_gives_the_pages_before_and_says_so(tmp_path, frames, read, writer):
    path = tmp_path / "a.tif"
    WRITERS[writer](path, frames)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 6 // 10])
    opened = open_source(path)
    n = opened.frames.n_frames
    assert 1 <= n < 7
    np.testing.assert_array_equal(read(opened.frames), frames[:n])
    assert opened.facts.ended_early.startswith(f"{path} is cut short: ")


def test_pages_of_several_kinds_and_colours_are_refused(tmp_path, frames):
    with tifffile.TiffWriter(tmp_path / "mixed.tif") as file:
        file.write(frames[0])
        file.write(frames[1, :6])
    with pytest.raises(
        SourceError, match=r"pages of several kinds: page 0 is \(12, 10\) uint16 and page 1 is \(6, 10\)"
    ):
        open_source(tmp_path / "mixed.tif")
    tifffile.imwrite(tmp_path / "rgb.tif", np.zeros((8, 8, 3), np.uint8), photometric="rgb")
    with pytest.raises(SourceError, match="a frame is one value a pixel"):
        open_source(tmp_path / "rgb.tif")


def test_a_page_that_cannot_be_unpacked_is_named(tmp_path, frames, read):
    path = tmp_path / "a.tif"

    def write(data):
        tifffile.imwrite(path, data, compression="zlib", metadata=None)

    write(np.random.default_rng(0).integers(0, 60_000, (7, 64, 64)).astype(np.uint16))
    with tifffile.TiffFile(path) as file:
        at = file.pages[4].dataoffsets[0] + 100
    content = bytearray(path.read_bytes())
    content[at : at + 50] = bytes(50)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"page 4 of .*a\.tif is damaged") as error:
        read(open_source(path).frames)
    assert error.value.index < 3  # Among the frames of the piece that was asked.


def test_a_packing_that_takes_another_library_is_told_before_a_page_is_read(tmp_path, frames):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, frames, metadata=None)
    with tifffile.TiffFile(path, mode="r+") as file:
        for page in file.pages:
            page.tags["Compression"].overwrite(5)
    # In a process where imagecodecs can't be imported, whether it is installed here or not.
    script = (
        "import sys; from pathlib import Path; sys.modules['imagecodecs'] = None;"
        "from frame_formats import open_source; open_source(Path(sys.argv[1]))"
    )
    said = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False).stderr
    assert re.search(
        r"SourceError: .*a\.tif is packed with LZW, which needs imagecodecs: pip install imagecodecs", said
    )


def test_what_a_tiff_file_says_of_itself_is_kept(tmp_path, frames):
    tifffile.imwrite(tmp_path / "a.tif", frames, description="run 7", software="camera 1.2", metadata=None)
    header = open_source(tmp_path / "a.tif").facts.header
    assert header["ImageDescription"] == "run 7"
    assert header["Software"] == "camera 1.2"


def test_half_a_tiff_header_is_said_in_a_sentence(tmp_path):
    (tmp_path / "a.tif").write_bytes(b"II*\0\x08\0\0\0")
    with pytest.raises(SourceError, match=r"a\.tif is not a whole TIFF file"):
        open_source(tmp_path / "a.tif")
