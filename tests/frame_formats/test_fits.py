"""FITS files, as astropy writes them, and the frames of a real CCD camera."""

from __future__ import annotations

import gzip
from importlib import metadata

import numpy as np
import pytest
from astropy.io import fits

from frame_formats import SourceError, gather, open_source


@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "u4"])
@pytest.mark.parametrize("suffix", ["fits", "fits.gz"])
def test_cubes_are_read_value_by_value_plain_and_gzipped(tmp_path, frames, values, dtype, suffix):
    frames = (frames % 250).astype(dtype)
    fits.PrimaryHDU(frames).writeto(tmp_path / f"a.{suffix}")
    got = values(tmp_path / f"a.{suffix}")
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got, frames)


def test_an_image_is_one_frame_and_its_header_is_kept(tmp_path, frames, values):
    hdu = fits.PrimaryHDU(frames[0])
    hdu.header["EXPTIME"], hdu.header["INSTRUME"], hdu.header["FRAMENO"] = 1.5, "camera", 77
    hdu.writeto(tmp_path / "a.fit")
    np.testing.assert_array_equal(values(tmp_path / "a.fit"), frames[:1])
    facts = open_source(tmp_path / "a.fit").facts
    assert facts.attrs == {"exposure_s": 1.5, "detector": "camera"}
    assert facts.header["FRAMENO"] == 77
    assert facts.frame_numbers.tolist() == [77]


def test_packed_images_in_an_extension_are_read(tmp_path, frames, values):
    fits.HDUList([fits.PrimaryHDU(), fits.CompImageHDU(frames, name="RUN")]).writeto(tmp_path / "a.fits")
    np.testing.assert_array_equal(values(tmp_path / "a.fits"), frames)


def test_of_several_images_one_is_named_or_numbered(tmp_path, frames, values):
    hdus = [fits.PrimaryHDU(frames), fits.ImageHDU(frames[::-1], name="BACK")]
    fits.HDUList(hdus).writeto(tmp_path / "a.fits")
    with pytest.raises(
        SourceError, match=r"choose one with .*a\.fits::NUMBER, of 0 \(PRIMARY\) \(7, 12, 10\), 1 \(BACK\)"
    ):
        open_source(tmp_path / "a.fits")
    np.testing.assert_array_equal(values(tmp_path / "a.fits", "BACK"), frames[::-1])
    np.testing.assert_array_equal(values(tmp_path / "a.fits", "0"), frames)


def test_scaled_images_are_floats_which_no_archive_holds_unasked(tmp_path, frames):
    hdu = fits.PrimaryHDU(frames.astype(np.int16))
    hdu.header["BSCALE"] = 0.5
    hdu.writeto(tmp_path / "a.fits")
    opened = open_source(tmp_path / "a.fits")
    assert opened.frames.dtype.kind == "f"
    with pytest.raises(SourceError, match="holds float32 values"):
        gather([opened])


def test_a_cube_that_is_cut_short_gives_the_whole_frames_before(tmp_path, read):
    frames = np.random.default_rng(0).integers(0, 60_000, (7, 64, 64)).astype(np.uint16)
    path = tmp_path / "a.fits"
    fits.PrimaryHDU(frames).writeto(path)
    path.write_bytes(path.read_bytes()[: 2880 + 3 * 8192 + 100])
    opened = open_source(path)
    assert opened.facts.ended_early == f"{path} is cut short: 3 of its 7 frames are there"
    np.testing.assert_array_equal(read(opened.frames), frames[:3])


def test_what_is_cut_short_behind_gzip_is_told_when_it_is_read(tmp_path, read):
    frames = np.random.default_rng(0).integers(0, 60_000, (7, 64, 64)).astype(np.uint16)
    path = tmp_path / "a.fits.gz"
    fits.PrimaryHDU(frames).writeto(path)
    path.write_bytes(path.read_bytes()[:-20_000])
    with pytest.raises(ValueError, match=r"a\.fits\.gz is (damaged or cut short|not a whole FITS file)"):
        read(open_source(path).frames)


def test_half_a_header_is_said_in_a_sentence(tmp_path):
    (tmp_path / "a.fits").write_bytes(b"SIMPLE  =                    T" + b" " * 50)
    with pytest.raises(SourceError, match=r"a\.fits is not a whole FITS file"):
        open_source(tmp_path / "a.fits")
    (tmp_path / "a.fits.gz").write_bytes(gzip.compress(b"something else"))
    with pytest.raises(SourceError, match=r"a\.fits\.gz is not a whole FITS file"):
        open_source(tmp_path / "a.fits.gz")


def test_the_frames_of_a_real_ccd_are_read_in_order_of_their_number(read):
    try:
        package = metadata.distribution("msfc-ccd")
    except metadata.PackageNotFoundError:
        pytest.skip("the CCD frames are not there: pip install --no-deps msfc-ccd==1.2.0")
    paths = [package.locate_file(f"msfc_ccd/_data/fe55/ESIS3_0{n}.fit.gz") for n in (5416, 5400)]
    gathered = gather([open_source(path) for path in paths])
    assert gathered.frames.frame_shape == (1040, 2152)
    assert gathered.frame_numbers.tolist() == [5400, 5416]
    expected = np.stack([fits.getdata(path) for path in paths[::-1]])
    np.testing.assert_array_equal(read(gathered.frames), expected)
