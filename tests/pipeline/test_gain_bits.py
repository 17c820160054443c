"""Runs on words with gain bits, and darks that are cleaned: the reference's clusters, and what was left out is told."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
import zarr

from cluster_store import read_pedestal
from finder import CommonMode, FinderParameters, Pedestal, open_finder, recentred, rounded
from frame_archive import ArchiveError
from pipeline import RunOptions, execute, prepare, process

SHAPE = (20, 30)


def switched(frames, share=0.01, seed=3):
    """Put some values into gains 1 and 3 of two bits above fourteen."""
    rng = np.random.default_rng(seed)
    some = rng.random(frames.shape) < share
    n = int(some.sum())
    frames[some] = rng.integers(0, 1 << 14, n) | np.where(rng.random(n) < 0.5, 1 << 14, 3 << 14)
    return frames


def reference(archive, starts, parameters):
    """The clusters of batches that start from the pedestals given, each (first frame, stop, pedestal, mask)."""
    found = []
    for first, stop, pedestal, mask in starts:
        find = open_finder("reference", parameters, SHAPE, mask).find
        found.append((first, find(archive.frames[first:stop], pedestal)))
    return {
        "frame_index": np.concatenate([batch.frame_index + np.uint32(first) for first, batch in found]),
        **{name: np.concatenate([getattr(batch, name) for _, batch in found]) for name in ("y", "x")},
        "signal": np.concatenate([rounded(batch.signal, np.int32) for _, batch in found]),
    }


def assert_same(clusters, expected):
    assert len(expected["y"]) > 30
    for name, array in expected.items():
        np.testing.assert_array_equal(clusters[name].to_numpy(), array, err_msg=name)


@pytest.mark.parametrize("common_mode", [None, "row"])
def test_a_run_on_words_with_gain_bits_is_the_reference_s_and_says_how_many_were_switched(
    client, make_archive, common_mode
):
    archive = make_archive(n_frames=80, change=switched, attrs={"gain_bits": 2}, shape=SHAPE)
    mask = np.zeros(SHAPE, np.uint32)
    mask[3, 4:6] = 1
    parameters = FinderParameters(gain_bits=2, common_mode=common_mode and CommonMode.parse(common_mode))
    options = {"common_mode": parameters.common_mode, "gain_bits": 2}
    pedestal = Pedestal.from_dark(archive.dark, **options, pixel_mask=mask)
    starts = []
    for first in (0, 40):
        moved = recentred(pedestal, archive.frames[first : first + 20], mask, **options)
        starts.append((first, first + 40, moved, mask))
    clusters = process(archive.path, client=client, batch_size=40, recentre=20, mask=mask, common_mode=common_mode)
    assert_same(clusters, reference(archive, starts, parameters))
    in_other = ((archive.frames & 0xC000) != 0) & (mask == 0)
    assert clusters.attrs["gain_bits"] == 2
    assert clusters.attrs["switched_values"] == in_other.sum() > 300
    batches = xr.open_zarr(archive.out, group="batches")
    assert batches.switched_values.values.tolist() == [int(part.sum()) for part in np.split(in_other, 2)]


def test_a_chain_and_a_warm_up_leave_out_other_gains_too(client, make_archive):
    archive = make_archive(n_frames=80, change=switched, shape=SHAPE)
    parameters = FinderParameters(gain_bits=2)
    pedestal = Pedestal.from_dark(archive.dark)
    chained = process(archive.path, client=client, batch_size=20, tracking="chain", gain_bits=2)
    assert_same(chained, reference(archive, [(0, 80, pedestal, None)], parameters))
    warmed = process(archive.path, archive.out + "2", client=client, batch_size=40, warmup=15, gain_bits=2)
    chain = open_finder("reference", parameters, SHAPE).chain(pedestal)
    chain.update(archive.frames[25:40])
    assert_same(warmed, reference(archive, [(0, 40, pedestal, None), (40, 80, chain.pedestal, None)], parameters))


@pytest.mark.parametrize(
    ("attrs", "wanted", "expected"),
    [
        ({"gain_bits": 2}, None, 2),
        ({"gain_bits": 2}, 0, 0),
        ({"detector": "JUNGFRAU 1M"}, None, 2),
        ({"detector": "Eiger"}, None, 0),
        ({"detector": "JUNGFRAU", "gain_bits": 0}, None, 0),
        ({}, 2, 2),
    ],
)
def test_gain_bits_come_from_the_archive_unless_they_are_given(make_archive, attrs, wanted, expected):
    archive = make_archive(n_frames=4, attrs=attrs)
    prepared = prepare(RunOptions(archive.path, gain_bits=wanted))
    assert prepared.options.parameters.gain_bits == expected


def test_a_name_counts_for_words_as_the_detector_writes_them(make_archive):
    archive = make_archive(n_frames=4, attrs={"detector": "Jungfrau"}, dtype=np.int32)
    assert prepare(RunOptions(archive.path)).options.parameters.gain_bits == 0


def test_gain_bits_that_can_not_be_are_refused(make_archive):
    narrow = make_archive(n_frames=4, dtype=np.uint8)
    with pytest.raises(ValueError, match=r"--gain-bits 2: gain bits are those of 16-bit words, .* frames of uint8"):
        prepare(RunOptions(narrow.path, gain_bits=2))
    wrong = make_archive(n_frames=4, name="b.zarr", attrs={"gain_bits": "two"})
    with pytest.raises(ArchiveError, match=r"has the attribute gain_bits 'two', .* give --gain-bits"):
        prepare(RunOptions(wrong.path))
    assert prepare(RunOptions(wrong.path, gain_bits=0)).options.parameters.gain_bits == 0


def run(client, archive, notices, **options):
    prepared = prepare(RunOptions(archive.path, batch_size=40, **options))
    execute(prepared, client, on_notice=notices.append)
    return xr.open_zarr(archive.out)


def test_pixels_without_darks_in_gain_0_are_masked_and_told(client, make_archive):
    def spoil(frames):
        frames[:, 4, 5] = 0xFFFF

    archive = make_archive(n_frames=80, change=spoil)
    dark = archive.dark.copy()
    dark[:, 4, 5] = 0xFFFF
    dark[::10, 8, 8] |= 1 << 14
    zarr.open_array(f"{archive.path}/dark", mode="r+")[:] = dark
    notices = []
    clusters = run(client, archive, notices, gain_bits=2)
    assert notices == [
        "132 of 72,000 values of the darks are in another gain and were left out",
        "1 pixel has fewer than 2 darks left to be trained on: they are masked",
    ]
    names = ("masked_pixels", "untrained_pixels", "dark_values_switched")
    assert [clusters.attrs[name] for name in names] == [1, 1, 132]
    with pytest.warns(UserWarning, match="1 pixels have fewer"):
        pedestal = Pedestal.from_dark(dark, gain_bits=2)
    mask = np.zeros(SHAPE, bool)
    mask[4, 5] = True
    starts = [(0, 40, pedestal, mask), (40, 80, pedestal, mask)]
    assert_same(clusters, reference(archive, starts, FinderParameters(gain_bits=2)))


@pytest.mark.parametrize("common_mode", [None, "row"])
def test_a_clip_leaves_out_photons_in_the_darks_and_says_how_many(client, make_archive, common_mode):
    archive = make_archive(n_frames=80)
    dark = archive.dark.copy()
    hit = np.random.default_rng(5).random(dark.shape) < 0.03
    dark[hit] += 300
    zarr.open_array(f"{archive.path}/dark", mode="r+")[:] = dark
    notices = []
    clusters = run(
        client,
        archive,
        notices,
        dark_clip=5,
        parameters=FinderParameters(common_mode=common_mode and CommonMode.parse(common_mode)),
    )
    n = clusters.attrs["dark_values_clipped"]
    assert n == pytest.approx(hit.sum(), rel=0.01)
    assert (clusters.attrs["dark_clip"], clusters.attrs["dark_values"]) == (5, dark.size)
    lie = "lie more than 5 noise widths from their pixel's mean and were left out"
    assert notices == [f"{n:,} of {dark.size:,} values of the darks ({n / dark.size:.3%}) {lie}"]
    # In one process and in one block, the same pedestal to the last bit.
    parameters = FinderParameters(common_mode=common_mode and CommonMode.parse(common_mode))
    pedestal = Pedestal.from_dark(dark, clip=5, common_mode=parameters.common_mode)
    stored = read_pedestal(archive.out)
    for name in ("x0", "s1", "s2", "trained_variance"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(pedestal, name))
    assert_same(clusters, reference(archive, [(0, 40, pedestal, None), (40, 80, pedestal, None)], parameters))


def test_a_clip_that_can_not_be_is_refused(make_archive):
    path = make_archive(n_frames=8).path
    with pytest.raises(ValueError, match="clipped at 2 to 1000 noise widths, not 1"):
        prepare(RunOptions(path, dark_clip=1))
    ready = Pedestal.from_mean_and_noise(np.full(SHAPE, 4600), np.full(SHAPE, 5))
    with pytest.raises(ValueError, match=r"--dark-clip is for darks, and the pedestal \(.*\) is ready"):
        prepare(RunOptions(path, dark_clip=5, pedestal=ready))
