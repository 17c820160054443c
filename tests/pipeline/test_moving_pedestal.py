"""Runs whose pedestal moves: recentred, warmed up, untracked, with a common mode; and what they are warned of."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from finder import CommonMode, FinderParameters, Pedestal, open_finder, recentred
from pipeline import BadPixelsWarning, CommonModeWarning, StalePedestalWarning, process

BATCH = 25


def expected_of(frames, pedestal, parameters, first=0, warmup=0, recentre=0, lowest=0, tracking=True):
    """Clusters a frame and signals, by the reference, batch by batch."""
    finder = open_finder("reference", parameters, frames.shape[1:])
    found = []
    for start in range(first, len(frames), BATCH):
        before = max(lowest, start - warmup)
        stop = min(start + BATCH, len(frames))
        moved = recentred(pedestal, frames[before:stop][:recentre], common_mode=parameters.common_mode)
        chain = finder.chain(moved, tracking=tracking)
        chain.update(frames[before:start])
        found.append(chain.find(frames[start:stop]))
    return np.concatenate([part.n_clusters for part in found]), np.concatenate([part.signal for part in found])


@pytest.fixture
def drifting(make_archive):
    """Frames that drift by one noise width, too little to be warned of at once."""

    def drift(frames):
        frames += np.rint(np.linspace(0, 5, len(frames)))[:, None, None].astype(frames.dtype)

    return make_archive(n_frames=80, photons=2.0, change=drift)


@pytest.mark.filterwarnings("ignore::pipeline.StalePedestalWarning")
@pytest.mark.parametrize(
    ("options", "reference"),
    [
        ({"recentre": 20}, {"recentre": 20}),
        ({"warmup": 30, "frames": (10, None)}, {"warmup": 30, "first": 10}),
        ({"warmup": 10, "recentre": 16}, {"warmup": 10, "recentre": 16}),
        ({"tracking": "off"}, {"tracking": False}),
        ({"common_mode": "tile:8x16"}, {}),
    ],
)
def test_a_run_is_its_batches_by_the_reference(client, drifting, options, reference):
    mode = CommonMode.parse(options["common_mode"]) if "common_mode" in options else None
    parameters = FinderParameters(common_mode=mode)
    pedestal = Pedestal.from_dark(drifting.dark, common_mode=mode)
    clusters = process(drifting.path, client=client, batch_size=BATCH, signal_dtype="float32", **options)
    n_clusters, signal = expected_of(drifting.frames, pedestal, parameters, **reference)
    np.testing.assert_array_equal(clusters.n_clusters, n_clusters)
    np.testing.assert_array_equal(clusters.signal, signal)
    assert clusters.attrs["recentre"] == options.get("recentre", 0)
    assert clusters.attrs["common_mode"] == options.get("common_mode", "off")


@pytest.mark.filterwarnings("ignore:only 30 dark frames")
def test_frames_that_served_as_darks_do_not_warm_up(client, make_archive):
    archive = make_archive(n_frames=80, n_dark=0, photons=0.0)
    clusters = process(archive.path, client=client, batch_size=BATCH, pedestal="first:30", warmup=20)
    pedestal = Pedestal.from_dark(archive.frames[:30])
    n_clusters, _ = expected_of(archive.frames, pedestal, FinderParameters(), first=30, warmup=20, lowest=30)
    np.testing.assert_array_equal(clusters.n_clusters, n_clusters)


def test_recentring_cures_what_is_warned_of(client, make_archive):
    def shift(frames):
        frames += 8

    archive = make_archive(n_frames=80, change=shift)
    with pytest.warns(StalePedestalWarning, match=r"--recentre 128 --overwrite"):
        process(archive.path, client=client, batch_size=80)
    process(archive.path, client=client, batch_size=80, recentre=64, overwrite=True)
    table = xr.open_zarr(archive.out, group="pedestal").load()
    assert abs(float(table.offset[0])) < 0.2
    assert float(table.offset_from_darks[0]) == pytest.approx(1.6, abs=0.2)
    assert float(table.seldom_updated[0]) == 0


def test_a_pedestal_lost_within_a_batch_is_warned_of_with_smaller_batches(client, make_archive):
    def step(frames):
        # Photons show above the pedestal that was, and after a step of eight noise widths so does every pixel.
        frames[60:] += 40

    archive = make_archive(n_frames=130, change=step)
    with pytest.warns(StalePedestalWarning, match=r"100% of the pixels were updated in fewer than half .*--batch-size"):
        process(archive.path, client=client, batch_size=130)
    assert float(xr.open_zarr(archive.out, group="pedestal").seldom_updated[0]) == 1


@pytest.mark.parametrize("span", [11, 30])  # 0.6 and 1.7 noise widths
def test_rows_that_jump_are_warned_of_with_their_option(client, make_archive, span):
    def jump(frames):
        frames += np.random.default_rng(3).integers(0, span, (*frames.shape[:2], 1)).astype(frames.dtype)

    archive = make_archive(n_frames=120, shape=(20, 128), photons=1.0, change=jump)
    with pytest.warns(CommonModeWarning, match=r"a row move together .* --common-mode row --overwrite"):
        process(archive.path, client=client, batch_size=120, pedestal=Pedestal.from_dark(archive.frames))


def test_hot_and_blinking_pixels_are_named_and_their_plane_masks_them(client, make_archive):
    def spoil(frames):
        frames[::2, 5, 6] += 400
        frames[:, 8, 15] += 400
        frames[::4, 12, 20] -= 400

    archive = make_archive(n_frames=80, photons=1.0, change=spoil)
    out = archive.out
    with pytest.warns(BadPixelsWarning, match=rf"2 pixels fire .* --mask {out}/pedestal"):
        process(archive.path, client=client, batch_size=40)
    table = xr.open_zarr(out, group="pedestal").load()
    assert np.argwhere(table.pixel_mask.values == 16).tolist() == [[5, 6]]
    assert np.argwhere(table.pixel_mask.values == 8).tolist() == [[8, 15]]
    assert np.argwhere(table.pixel_mask.values == 4).tolist() == [[12, 20]]
    assert table.pixel_mask.attrs["flag_meanings"] == "under_responding over_responding noisy"
    assert table.pixel_mask.attrs["flag_masks"] == [4, 8, 16]
    assert (table.hot.values.tolist(), table.often_blind.values.tolist()) == ([2, 2], [1, 1])
    cured = process(archive.path, f"{out}.again", client=client, batch_size=40, mask=f"{out}/pedestal")
    assert not bool(((cured.y == 5) & (cured.x == 6)).any())
    assert cured.attrs["masked_pixels"] == 3


def test_negative_numbers_of_frames_and_a_warm_up_that_moves_nothing_are_refused(make_archive):
    path = make_archive(n_frames=4).path
    with pytest.raises(ValueError, match="--warmup -1: give a number of frames"):
        process(path, cpus=1, warmup=-1)
    with pytest.raises(ValueError, match="--tracking off keeps it"):
        process(path, cpus=1, warmup=5, tracking="off")
