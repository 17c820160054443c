"""slsDetectorPackage's `.raw` files: real ones, and every variant that its documentation describes."""

from __future__ import annotations

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest

from frame_formats import FrameStatus, SourceError, SourceOptions, files_meant, gather, open_source

REAL = Path(__file__).parents[2].parent / "shared" / "data" / "jungfrau_raw" / "jungfrau_single_master_0.json"
_spec = spec_from_file_location("sls_writer", Path(__file__).with_name("sls_writer.py"))
sls = module_from_spec(_spec)
_spec.loader.exec_module(sls)

SHAPE = (6, 8)


def pixels(n: int, shape=SHAPE, bits: int = 16, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << min(bits, 31), (n, *shape)).astype(np.uint32)


def with_headers(frames: np.ndarray, numbers=None, packets: int | list[int] = 1, **more):
    numbers = range(1, len(frames) + 1) if numbers is None else numbers
    packets = [packets] * len(frames) if isinstance(packets, int) else packets
    return [
        (sls.header(number, caught, **more), frame)
        for number, caught, frame in zip(numbers, packets, frames, strict=True)
    ]


@pytest.fixture
def real() -> Path:
    if not REAL.exists():
        pytest.skip(f"the Jungfrau frames are not there: {REAL} is absent")
    return REAL


def test_real_frames_are_those_that_aare_reads(real, values):
    if find_spec("aare") is None:
        pytest.skip("aare is not installed: its wheels are for Python 3.11 on Linux")
    import aare

    with aare.RawFile(real) as file:
        _, expected = file.read()
    np.testing.assert_array_equal(values(real), expected)


def test_real_frames_have_their_numbers_times_and_settings(real):
    facts = open_source(real).facts
    assert facts.frame_numbers.tolist() == list(range(1, 11))
    assert facts.columns["timestamp"][:4].tolist() == [0, 10000, 20000, 30001]
    assert facts.attrs == {"detector": "Jungfrau", "gain_bits": 2, "exposure_s": 1e-5, "period_s": 1e-3}
    assert [file.n_frames for file in facts.files] == [3, 3, 3, 1]
    assert not facts.frame_status.any()


@pytest.mark.parametrize("version", [6.4, 7.2, 8.0])
@pytest.mark.parametrize(("bits", "dtype"), [(4, np.uint8), (8, np.uint8), (16, np.uint16), (32, np.uint32)])
def test_every_version_and_depth_is_read_value_by_value(tmp_path, values, version, bits, dtype):
    frames = pixels(7, bits=bits)
    sls.write_port(tmp_path, 0, with_headers(frames), bits)
    master = sls.write_master(tmp_path, SHAPE, version=version, bits=bits)
    got = values(master)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, frames)
    facts = open_source(master).facts
    assert (facts.attrs["exposure_s"], facts.attrs["period_s"]) == (1e-5, 2e-3)
    assert facts.format == f"slsDetectorPackage {version:g}"
    assert facts.columns["bunch_id"].tolist() == list(range(1001, 1008))


def test_four_bits_are_the_low_half_of_a_byte_first(tmp_path, values):
    (tmp_path / "run_d0_f0_0.raw").write_bytes(sls.header(1, 1) + bytes([0x21, 0x43]))
    np.testing.assert_array_equal(values(sls.write_master(tmp_path, (1, 4), bits=4, n_frames=1)), [[[1, 2, 3, 4]]])


def write_modules(folder, frames, ports, shape=SHAPE, in_headers=True, detector="Jungfrau", **master):
    """Cut whole frames into ports, numbered down the columns as slsDetectorPackage does."""
    for port in range(ports[0] * ports[1]):
        column, row = divmod(port, ports[0])
        part = frames[:, row * shape[0] : (row + 1) * shape[0], column * shape[1] : (column + 1) * shape[1]]
        if detector == "Eiger" and row % 2 == 0:
            part = part[:, ::-1]
        where = {"row": row, "column": column} if in_headers else {}
        sls.write_port(folder, port, with_headers(part, module=port, detector=detector, **where))
    return sls.write_master(folder, shape, ports, detector=detector, **master)


@pytest.mark.parametrize("in_headers", [True, False])
@pytest.mark.parametrize("ports", [(2, 1), (1, 2), (3, 2)])
def test_modules_are_put_where_they_belong(tmp_path, values, ports, in_headers):
    frames = pixels(7, (ports[0] * SHAPE[0], ports[1] * SHAPE[1]))
    master = write_modules(tmp_path, frames, ports, in_headers=in_headers)
    np.testing.assert_array_equal(values(master), frames)


def test_the_two_interfaces_of_a_jungfrau_lie_above_each_other_in_each_module(tmp_path, values):
    # Ports 0 and 1 are of the first module, 2 and 3 of the one below it, 4 to 7 of those to the right.
    frames = pixels(2, (4 * SHAPE[0], 2 * SHAPE[1]))
    master = write_modules(tmp_path, frames, (4, 2), in_headers=False, more={"Number of UDP Interfaces": 2})
    np.testing.assert_array_equal(values(master), frames)


def test_the_upper_half_of_an_eiger_is_turned_the_right_way_round(tmp_path, values):
    frames = pixels(3, (2 * SHAPE[0], 2 * SHAPE[1]))
    master = write_modules(tmp_path, frames, (2, 2), detector="Eiger")
    np.testing.assert_array_equal(values(master), frames)


def test_gap_pixels_are_put_in_and_masked(tmp_path, read):
    frames = pixels(2, (1024, 1024))
    master = write_modules(tmp_path, frames, (2, 1), shape=(512, 1024))
    opened = open_source(master, None, SourceOptions(gap_pixels=True))
    # 2 columns between each of 4 chips; 2 rows between chips, 36 between modules.
    assert opened.frames.frame_shape == (2 * 514 + 36, 1030)
    good = opened.facts.pixel_mask == 0
    assert good.sum() == 1024 * 1024
    assert np.flatnonzero(~good[0]).tolist() == [256, 257, 514, 515, 772, 773]
    assert np.flatnonzero(~good[:, 0]).tolist() == [256, 257, *range(514, 550), 806, 807]
    got = read(opened.frames)
    np.testing.assert_array_equal(got[:, good].reshape(frames.shape), frames)
    assert not got[:, ~good].any()


@pytest.mark.parametrize("version", [7.2, 8.0])
def test_a_region_over_two_modules_is_read(tmp_path, values, version):
    frames = pixels(4, (12, 8))
    part = frames[:, 4:9, 2:7]
    sls.write_port(tmp_path, 0, with_headers(part[:, :2]))
    sls.write_port(tmp_path, 1, with_headers(part[:, 2:], row=1))
    region = (2, 6, 4, 8)
    master = sls.write_master(tmp_path, SHAPE, (2, 1), version=version, roi=region, rois=[region], n_frames=4)
    np.testing.assert_array_equal(values(master), part)


def test_several_regions_lie_in_one_frame_and_the_rest_is_masked(tmp_path, read):
    frames = pixels(4, (12, 8))
    first, second = frames[:, 1:4, 0:3], frames[:, 8:10, 5:8]
    sls.write_port(tmp_path, 0, with_headers(first))
    sls.write_port(tmp_path, 1, with_headers(second, row=1))
    master = sls.write_master(tmp_path, SHAPE, (2, 1), version=8.0, rois=[(0, 2, 1, 3), (5, 7, 8, 9)], n_frames=4)
    opened = open_source(master)
    assert opened.frames.frame_shape == (9, 8)
    got, good = read(opened.frames), opened.facts.pixel_mask == 0
    np.testing.assert_array_equal(got[:, 0:3, 0:3], first)
    np.testing.assert_array_equal(got[:, 7:9, 5:8], second)
    assert good.sum() == 9 + 6
    assert not got[:, ~good].any()


def test_frames_that_lack_packets_are_kept_and_flagged(tmp_path, values):
    shape = (64, 64)  # One packet of 8 192 bytes.
    frames = pixels(4, shape)
    sls.write_port(tmp_path, 0, with_headers(frames, packets=[1, 0, 1, 1]))
    master = sls.write_master(tmp_path, shape, n_frames=4)
    np.testing.assert_array_equal(values(master), frames)
    facts = open_source(master).facts
    assert facts.frame_status.tolist() == [0, FrameStatus.MISSING_PACKETS, 0, 0]
    assert facts.problems == ("1 of 4 frames lack packets: they are kept and flagged",)


def test_frames_that_lack_a_module_are_kept_and_flagged(tmp_path, values):
    frames = pixels(5, (12, 8))
    sls.write_port(tmp_path, 0, with_headers(frames[[0, 1, 3, 4], :6], [1, 2, 4, 5]))
    sls.write_port(tmp_path, 1, with_headers(frames[[0, 2, 3, 4], 6:], [1, 3, 4, 5], row=1))
    master = sls.write_master(tmp_path, SHAPE, (2, 1), n_frames=4)
    expected = frames.copy()
    expected[2, :6] = expected[1, 6:] = 0
    np.testing.assert_array_equal(values(master), expected)
    facts = open_source(master).facts
    assert facts.frame_numbers.tolist() == [1, 2, 3, 4, 5]
    assert facts.frame_status.tolist() == [0, 2, 2, 0, 0]
    assert facts.columns["bunch_id"].tolist() == [1001, 1002, 1003, 1004, 1005]
    assert facts.problems == ("2 of 5 frames lack one of 2 modules: they are kept and flagged",)


def test_a_module_without_files_is_told(tmp_path, values):
    frames = pixels(3, (12, 8))
    sls.write_port(tmp_path, 1, with_headers(frames[:, 6:], row=1))
    master = sls.write_master(tmp_path, SHAPE, (2, 1), n_frames=3)
    frames[:, :6] = 0
    np.testing.assert_array_equal(values(master), frames)
    facts = open_source(master).facts
    assert facts.problems[0] == f"module 0 of {master} has no file: its pixels are 0, and all frames flagged"
    assert facts.frame_status.tolist() == [2, 2, 2]


def test_frames_out_of_order_with_gaps_and_twice_are_put_in_order(tmp_path, read):
    frames = pixels(6)
    sls.write_port(tmp_path, 0, with_headers(frames, [4, 2, 3, 3, 9, 8]))
    gathered = gather([open_source(sls.write_master(tmp_path, SHAPE, n_frames=6))])
    assert gathered.frame_numbers.tolist() == [2, 3, 3, 4, 8, 9]
    assert gathered.frame_status.tolist() == [0, 4, 4, 0, 8, 0]
    np.testing.assert_array_equal(read(gathered.frames), frames[[1, 2, 3, 0, 5, 4]])


def test_a_number_that_is_there_twice_in_each_module_stays_together(tmp_path, values):
    frames = pixels(4, (12, 8))
    numbers = [1, 2, 2, 3]
    sls.write_port(tmp_path, 0, with_headers(frames[:, :6], numbers))
    sls.write_port(tmp_path, 1, with_headers(frames[:, 6:], numbers, row=1))
    np.testing.assert_array_equal(values(sls.write_master(tmp_path, SHAPE, (2, 1), n_frames=4)), frames)


def test_a_data_file_that_is_cut_short_gives_its_whole_frames(tmp_path, values):
    frames = pixels(7)
    paths = sls.write_port(tmp_path, 0, with_headers(frames))
    paths[2].write_bytes(paths[2].read_bytes()[:-1])
    master = sls.write_master(tmp_path, SHAPE)
    opened = open_source(master)
    assert opened.frames.n_frames == 6
    assert opened.facts.ended_early.startswith(f"{paths[2]} ends in the middle of a frame")
    paths[2].unlink()
    assert open_source(master).facts.ended_early == f"{master} says that 7 frames were written, and 6 are there"
    np.testing.assert_array_equal(values(master), frames[:6])


def test_data_files_lead_to_their_master_and_are_taken_once(tmp_path):
    sls.write_port(tmp_path, 0, with_headers(pixels(7)))
    master = sls.write_master(tmp_path, SHAPE)
    for addresses in ([str(tmp_path)], [str(tmp_path / "run_d0_f*_0.raw")], [str(tmp_path / "run_*")], [str(master)]):
        assert files_meant(addresses) == [(master, None)]


def test_the_analog_samples_of_a_moench_03_are_put_into_pixels(tmp_path, values):
    frames = pixels(2, (400, 400))
    sls.write_port(tmp_path, 0, with_headers(frames, detector="Moench"))
    master = sls.write_master(tmp_path, (400, 400), version=6.4, detector="Moench", n_frames=2)
    got = values(master)
    if find_spec("aare") is not None:
        import aare

        with aare.RawFile(master) as file:
            np.testing.assert_array_equal(got, file.read()[1])
    # The first value is of converter 0: the last row of the upper half, column 300.
    assert got[0, 199, 300] == frames[0].reshape(-1)[0]
    assert got[0, 200, 300] == frames[0].reshape(-1)[4]
    np.testing.assert_array_equal(np.sort(got.reshape(2, -1)), np.sort(frames.reshape(2, -1)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 5.1}, "is of version 5.1, and versions 6 to 8 are read"),
        ({"more": {"Dynamic Range": 24}}, "says 24 bits a pixel"),
        ({"more": {"Quad": 1}}, "is of an Eiger quad"),
        ({"more": {"Image Size in bytes": 77}}, "says 77 bytes an image, and 6×8 pixels of 16 bits are not that many"),
        ({"more": {"Geometry": 3}}, "is not a whole master file"),
        ({"roi": (2, 8, 0, 5)}, "has the region x 2 to 8, y 0 to 5, which is not in its 6×8 pixels"),
    ],
)
def test_master_files_that_are_not_understood_are_refused(tmp_path, change, words):
    sls.write_port(tmp_path, 0, with_headers(pixels(3)))
    with pytest.raises(SourceError) as error:
        open_source(sls.write_master(tmp_path, SHAPE, **change))
    assert words in str(error.value)


def test_half_a_master_file_and_one_without_data_are_told(tmp_path):
    master = sls.write_master(tmp_path, SHAPE)
    with pytest.raises(SourceError, match="there is no data file with a whole one beside it"):
        open_source(master)
    master.write_text(master.read_text()[:200])
    with pytest.raises(SourceError, match="is not a whole master file"):
        open_source(master)
    text = sls.write_master(tmp_path, SHAPE, version=6.4)
    text.write_text("Version : 6.4\nDetector Type : Jungfrau\n")
    with pytest.raises(SourceError, match="is not a whole master file: it does not say 'Geometry'"):
        open_source(text)
