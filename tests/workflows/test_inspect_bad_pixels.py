"""`inspect` says what the frames' values show, and with `--bad-pixels` masks what stands out in the darks."""

from __future__ import annotations

import json

import numpy as np
import pytest
import zarr

from finder.bad_pixels import BadPixelThresholds, DarkFigures, bad_pixels, mask_of
from finder.dark_clip import sample_of
from frame_archive import create_archive
from pipeline import RunOptions, prepare

SHAPE = (48, 70)
DEAD, COLD, HOT, NOISY, SPIKY, FLICKERING, SWITCHING = (3, 4), (10, 60), (20, 5), (30, 30), (31, 65), (40, 9), (41, 50)


def darks(n=400, seed=0):
    """Darks with one pixel of each kind; the right half of the detector stands higher and is noisier."""
    rng = np.random.default_rng(seed)
    half = (np.arange(SHAPE[1]) >= 35).astype(float)
    mean = rng.normal(3000, 30, SHAPE) + 1500 * half
    dark = mean + rng.normal(0, 1, (n, *SHAPE)) * (18 + 20 * half)
    dark[:, *DEAD] = 77
    dark[:, *COLD] -= 900
    dark[:, *HOT] += 900
    dark[:, *NOISY] = 3000 + rng.normal(0, 120, n)
    dark[rng.choice(n, 8, replace=False), *SPIKY] += 1500
    dark[:, *FLICKERING] += 30 * (np.arange(n) // 40 % 2)
    return dark.round().clip(0, 16_383).astype(np.uint16)


@pytest.fixture
def make_archive(tmp_path):
    def make(dark, frames=None, name="a.zarr", **creation):
        frames = np.full((6, *SHAPE), 3000, np.uint16) if frames is None else frames
        writer = create_archive(tmp_path / name, frames.shape, frames.dtype, n_dark=len(dark), **creation)
        writer.write_frames(0, frames)
        if len(dark):
            writer.write_dark(0, dark)
        return name

    return make


def test_each_kind_of_bad_pixel_is_found_by_its_neighbours_and_nothing_else_is():
    dark = darks()
    dark[::50, *SWITCHING] |= 1 << 14
    figures = DarkFigures.of(dark[sample_of(400)], np.array_split(dark, 7), gain_bits=2)
    found = bad_pixels(figures, BadPixelThresholds(tile=(24, 35)))
    where = {kind: [tuple(pixel) for pixel in np.argwhere(there).tolist()] for kind, there in found.items()}
    assert where == {
        "dead": [DEAD],
        "cold": [COLD],
        "hot": [HOT],
        "noisy": [NOISY, SPIKY, SWITCHING],
        "flickering": [FLICKERING],
    }
    mask = mask_of(found)
    assert [int(mask[pixel]) for pixel in (DEAD, COLD, HOT, NOISY, FLICKERING)] == [2, 4, 8, 16, 16]
    assert np.count_nonzero(mask) == 7


def test_blocks_and_their_sizes_do_not_matter():
    dark = darks(60)
    whole, parts = DarkFigures.of(dark, [dark]), DarkFigures.of(dark, np.array_split(dark, 13))
    for name in ("mean", "noise", "persistence", "far"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    values = dark[:, 8, 8].astype(float)
    expected = 1 - (np.diff(values) ** 2).sum() / (2 * 59 * values.var())
    assert whole.persistence[8, 8] == pytest.approx(expected)


def test_good_darks_have_no_bad_pixel_however_few_they_are():
    for n in (10, 30, 300):
        dark = np.random.default_rng(n).normal(3000, 18, (n, 64, 64)).round().astype(np.uint16)
        assert not mask_of(bad_pixels(DarkFigures.of(dark[:64], [dark]))).any()


def test_photons_among_the_darks_make_no_bad_pixel():
    rng = np.random.default_rng(7)
    for share in (0.0002, 0.02):
        dark = rng.normal(3000, 18, (400, 64, 64)) + (rng.random((400, 64, 64)) < share) * 800
        figures = DarkFigures.of(dark[:64].astype(np.uint16), [dark.astype(np.uint16)])
        assert not mask_of(bad_pixels(figures)).any()


def test_a_mask_is_written_told_drawn_and_taken_by_a_run(photonflow, make_archive, tmp_path):
    known = np.zeros(SHAPE, np.uint32)
    known[HOT] = known[0, 0] = 1
    make_archive(darks(), pixel_mask=known)
    arguments = ("a.zarr", "--bad-pixels", "bad.zarr", "--tile", "24x35", "--json", "--png", "pictures")
    outcome = photonflow("inspect", *arguments)
    assert outcome.code == 0, outcome.stderr
    page = json.loads(outcome.stdout)
    section = page["bad pixels"]
    kinds = ("dead", "cold", "hot", "noisy", "flickering", "bad_pixels", "masked_before")
    assert [section[kind] for kind in kinds] == [1, 1, 0, 2, 1, 5, 2]
    assert "pictures/a.bad_pixels.png" in page["pictures"]
    assert (tmp_path / "pictures" / "a.bad_pixels.png").stat().st_size > 20_000
    stored = zarr.open_group("bad.zarr", mode="r")
    assert stored.attrs["thresholds"] == {"hot": 10, "noisy": 10, "flickering": 7, "far": 0.01, "tile": [24, 35]}
    assert stored.attrs["found"]["noisy"] == 2
    attrs = stored["pixel_mask"].attrs
    meanings = dict(zip(attrs["flag_meanings"].split(), attrs["flag_masks"], strict=True))
    assert meanings.items() >= {"dead": 2, "under_responding": 4, "over_responding": 8, "noisy": 16}.items()
    mask = prepare(RunOptions("a.zarr", mask="bad.zarr")).pixel_mask
    assert [int(mask[pixel]) for pixel in (DEAD, COLD, HOT, NOISY, FLICKERING)] == [2, 4, 1, 16, 16]

    again = photonflow("inspect", *arguments)
    assert (again.code, again.sentence) == (
        1,
        "bad.zarr exists already: choose another name, or replace it with --overwrite",
    )
    looser = photonflow("inspect", *arguments, "--overwrite", "--noisy", "1000", "--flickering", "1000")
    assert json.loads(looser.stdout)["bad pixels"]["bad_pixels"] == 3


def test_a_mask_goes_nowhere_where_it_would_do_harm(photonflow, make_archive, tmp_path):
    make_archive(darks(20))
    (tmp_path / "other").mkdir()
    for place, words in (
        ("a.zarr/mask.zarr", "lies inside a.zarr"),
        ("other", "is not a mask that photonflow made"),
        ("a.zarr", "lies inside a.zarr"),
    ):
        outcome = photonflow("inspect", "a.zarr", "--bad-pixels", place, "--overwrite")
        assert outcome.code == 1
        assert words in outcome.sentence
    assert not (tmp_path / "a.zarr" / "mask.zarr").exists()


def test_too_few_darks_and_thresholds_without_sense_are_refused(photonflow, make_archive):
    make_archive(darks(9))
    outcome = photonflow("inspect", "a.zarr", "--bad-pixels", "bad.zarr")
    assert (outcome.code, "has 9 dark frames, and it takes at least 10" in outcome.sentence) == (1, True)
    outcome = photonflow("inspect", "a.zarr", "--bad-pixels", "bad.zarr", "--noisy", "0")
    assert "the threshold of noisy pixels is 0.0: it must be above 0" in outcome.sentence
    outcome = photonflow("inspect", "a.zarr", "--bad-pixels", "bad.zarr", "--tile", "0x5")
    assert "a neighbourhood of 0x5 pixels has none" in outcome.sentence


def test_gaps_saturation_and_switched_values_are_told(photonflow, make_archive):
    rng = np.random.default_rng(1)
    frames = rng.integers(2000, 4000, (50, *SHAPE)).astype(np.uint16)
    frames[:, 4, 4] = 0xFFFF
    frames[7, 5, 5] = (1 << 14) | 100
    numbers = np.arange(50, dtype=np.uint64) + 10
    numbers[20:] += 5
    numbers[30:] += 1
    numbers[41] = numbers[40]
    make_archive(darks(12), frames, frame_numbers=numbers, attrs={"gain_bits": 2}, frames_per_chunk=5)
    page = json.loads(photonflow("inspect", "a.zarr", "--json").stdout)
    assert page["archive"]["frame_gaps"] == {"missing": 7, "places": 3, "repeated": 1, "backwards": 0}
    values = page["values of the frames"]
    # Eight places of a chunk each, evenly spread.
    assert (values["frames_looked_at"], values["gain_bits"]) == (40, 2)
    assert (values["saturated_values"], values["pixels_always_saturated"]) == (40, 1)
    assert values["switched_values"] in (40, 41)
    text = photonflow("inspect", "a.zarr").stdout
    assert "7 frames are missing in 3 places, the first after 29; 1 numbers come twice" in text
    make_archive(darks(12), frames, name="b.zarr", attrs={"saturation_value": 3999})
    values = json.loads(photonflow("inspect", "b.zarr", "--json").stdout)["values of the frames"]
    assert values["saturated_values"] == np.count_nonzero(frames >= 3999)
    assert "switched_values" not in values


def test_frames_that_an_ingest_has_flagged_are_counted(photonflow, tmp_path):
    frames = np.full((30, *SHAPE), 3000, np.uint16)
    numbers = np.delete(np.arange(31), 7)
    # The status is that of `ingest`, whose archives name the bits.
    make = create_archive(tmp_path / "a.zarr", frames.shape, frames.dtype, frame_numbers=numbers.astype(np.uint64))
    make.write_frames(0, frames)
    status = np.zeros(30, np.uint8)
    status[7], status[20] = 8, 1
    meaning = {"flag_masks": [1, 2, 4, 8], "flag_meanings": "missing_packets missing_module duplicate_number after_gap"}
    make.add_array("frame_status", (30,), np.uint8, (30,), ("frame",), meaning)
    make.write("frame_status", 0, status)
    page = json.loads(photonflow("inspect", "a.zarr", "--json").stdout)["archive"]
    assert page["frame_gaps"]["missing"] == 1
    flagged = {"any": 2, "missing_packets": 1, "missing_module": 0, "duplicate_number": 0, "after_gap": 1}
    assert page["frames_flagged"] == flagged
    text = photonflow("inspect", "a.zarr").stdout
    assert "2: 1 missing packets, 1 after gap" in text


def test_a_run_on_words_with_gain_bits_tells_what_it_left_out(photonflow, make_archive):
    rng = np.random.default_rng(2)
    frames = rng.normal(3000, 18, (40, *SHAPE)).round().astype(np.uint16)
    frames[:, 10, 10:20] |= 1 << 14
    dark = rng.normal(3000, 18, (120, *SHAPE)).round().astype(np.uint16)
    dark[5, 20, 20:25] = 3800
    make_archive(dark, frames, attrs={"gain_bits": 2})
    outcome = photonflow("process", "a.zarr", "--dark-clip", "5", "--cpus", "1", "--no-progress")
    assert outcome.code == 0, outcome.stderr
    assert "5 of 403,200 values of the darks (0.001%) lie more than 5 noise widths" in outcome.stderr
    assert "values switched" in outcome.stdout
    page = json.loads(photonflow("inspect", "a.clusters.zarr", "--json").stdout)
    assert (page["parameters"]["gain_bits"], page["parameters"]["dark_clip"]) == (2, 5)
    names = ("switched_values", "dark_values", "dark_values_clipped", "dark_values_switched")
    assert [page["origin"][name] for name in names] == [400, 403_200, 5, 0]
