"""How often pixels were quiet, fired or were blind; chains that warm up, or do not track."""

from __future__ import annotations

import math

import numpy as np
import pytest

from finder import FinderParameters, Pedestal, often_blind, often_firing, open_finder, share_seldom_updated

SHAPE = (9, 70)


@pytest.fixture(params=["reference", "cpu"])
def backend(request):
    return request.param


@pytest.fixture(scope="module")
def pedestal():
    return Pedestal.from_mean_and_noise(np.full(SHAPE, 100.0), np.full(SHAPE, 2.0))


def finder_of(backend, pixel_mask=None):
    return open_finder(backend, FinderParameters(), SHAPE, pixel_mask)


def quiet_frames(n_frames):
    # Alternating, so that the running noise stays where it is.
    return (
        np.full((n_frames, *SHAPE), 100, np.uint16) + (2 * (np.arange(n_frames) % 2)).astype(np.uint16)[:, None, None]
    )


def test_each_way_a_pixel_can_go_is_counted(backend, pedestal):
    frames = quiet_frames(600)
    frames[:30, 4, 66] = 180
    frames[:7, 0, 3] = 20
    activity = finder_of(backend).chain(pedestal).activity
    assert (activity.n_frames, activity.updated.sum()) == (0, 0)
    chain = finder_of(backend).chain(pedestal)
    chain.find(frames[:301])
    chain.find(frames[301:])
    activity = chain.activity
    assert activity.n_frames == 600
    expected = np.zeros(SHAPE)
    expected[3:6, 65:68] = 30
    np.testing.assert_array_equal(activity.firing, expected)
    assert (activity.centres[4, 66], activity.centres.sum()) == (30, 30)
    assert (activity.blind[0, 3], activity.blind.sum()) == (7, 7)
    np.testing.assert_array_equal(activity.updated, 600 - activity.firing - activity.blind)
    assert often_firing(activity).sum() == 9
    assert np.argwhere(often_blind(activity)).tolist() == [[0, 3]]
    assert share_seldom_updated(activity) == 0


def test_masked_pixels_count_nothing(backend, pedestal):
    mask = np.zeros(SHAPE, bool)
    mask[4, 66] = mask[:, 10] = True
    frames = quiet_frames(20)
    frames[:, 3, 65] = 180
    chain = finder_of(backend, mask).chain(pedestal)
    chain.find(frames)
    activity = chain.activity
    for count in (activity.updated, activity.firing, activity.blind, activity.centres):
        assert count.dtype == np.uint32
        assert count[mask].sum() == 0
    assert (activity.updated + activity.firing + activity.blind)[~mask].tolist() == [20] * int((~mask).sum())
    assert math.isnan(share_seldom_updated(finder_of(backend, np.ones(SHAPE, bool)).chain(pedestal).activity))


def test_a_pedestal_that_was_lost_shows_in_the_share_that_is_seldom_updated(backend, pedestal):
    frames = quiet_frames(40)
    frames[:, :, 35:] += 60
    chain = finder_of(backend).chain(pedestal)
    chain.find(frames)
    assert share_seldom_updated(chain.activity) == 36 / 70  # The neighbours' windows see it too.


def test_the_counts_are_copies(backend, pedestal):
    chain = finder_of(backend).chain(pedestal)
    chain.find(quiet_frames(3))
    before = chain.activity
    before.centres[:] = before.updated[:] = 77
    chain.find(quiet_frames(1))
    assert (chain.activity.updated == 4).all()
    assert (chain.activity.centres == 0).all()


def test_warming_up_moves_the_pedestal_as_finding_does_and_counts_nothing(backend, pedestal):
    frames = quiet_frames(300)
    frames[7, 4, 4] = 190
    warmed, searched = (finder_of(backend).chain(pedestal) for _ in range(2))
    warmed.update(frames)
    searched.find(frames)
    np.testing.assert_array_equal(warmed.pedestal.s1, searched.pedestal.s1)
    np.testing.assert_array_equal(warmed.pedestal.s2, searched.pedestal.s2)
    assert (warmed.activity.n_frames, warmed.activity.updated.sum()) == (0, 0)
    assert len(warmed.find(frames[7:8])) == 1
    assert warmed.activity.n_frames == 1


def test_without_tracking_the_pedestal_stays_and_pixels_are_still_counted(backend, pedestal):
    frames = quiet_frames(30)
    frames[:, 2, 2] = 180
    chain = finder_of(backend).chain(pedestal, tracking=False)
    chain.update(frames)
    found = chain.find(frames)
    after = chain.pedestal
    np.testing.assert_array_equal((after.s1, after.s2), (pedestal.s1, pedestal.s2))
    assert len(found) == 30
    assert (found.signal[:, 1, 1] == 80).all()
    assert chain.activity.updated.max() == 30


def test_what_find_refuses_updating_refuses(backend, pedestal):
    for tracking in (True, False):
        chain = finder_of(backend).chain(pedestal, tracking=tracking)
        with pytest.raises(TypeError, match="integers only"):
            chain.update(quiet_frames(2).astype(np.float32))
        with pytest.raises(ValueError, match="expected"):
            chain.update(quiet_frames(2)[:, 1:])
