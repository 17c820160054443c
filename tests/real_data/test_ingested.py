"""Real files become archives: every value, and what their detectors say of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from frame_archive import FrameArchive
from pipeline.ingest.planning import IngestOptions, plan_ingest
from pipeline.ingest.run import ingest

DATA = Path(__file__).parents[2].parent / "shared" / "data"
RAW = DATA / "jungfrau_raw"
FRAME_IN_FILE = np.dtype([("number", "<u8"), ("rest_of_header", "V104"), ("pixels", "<u2", (512, 1024))])


@pytest.fixture
def archive_of(client, tmp_path):
    def call(source: Path, **options) -> FrameArchive:
        if not source.exists():
            pytest.skip(f"the real frames are not there: {source} is absent")
        ingest(plan_ingest([str(source)], IngestOptions(**options)), tmp_path / "a.zarr", client, verify="all")
        return FrameArchive.open(tmp_path / "a.zarr")

    return call


def test_ten_raw_frames_of_a_jungfrau_the_first_four_of_them_darks(archive_of):
    archive = archive_of(RAW, dark=("first:4",))
    files = sorted(RAW.glob("*.raw"))
    frames = np.concatenate([np.fromfile(file, FRAME_IN_FILE) for file in files])
    np.testing.assert_array_equal(archive.dark[:], frames["pixels"][:4])
    np.testing.assert_array_equal(archive.frames[:], frames["pixels"][4:])
    assert archive.frame_numbers(0, 6).tolist() == frames["number"][4:].tolist()
    assert (archive.attrs["detector"], archive.attrs["gain_bits"]) == ("Jungfrau", 2)
    assert len(archive.attrs["ingest"]["sources"]) == 4


def test_two_frames_of_a_jungfrau_keep_their_gain_bits(archive_of):
    source = DATA / "jungfrau_gain_bits_2x512x1024.npy"
    archive = archive_of(source, gain_bits=2)
    np.testing.assert_array_equal(archive.frames[:], np.load(source))
    assert archive.attrs["gain_bits"] == 2
    assert np.bincount(archive.frames[0].ravel() >> 14).tolist() == [523_681, 151, 0, 456]


@pytest.mark.parametrize("compression", ["lz4", "none"])
def test_four_frames_of_a_ccd(archive_of, compression):
    source = DATA / "fe55_ccd_4x400x400.npy"
    np.testing.assert_array_equal(archive_of(source, compression=compression).frames[:], np.load(source))
