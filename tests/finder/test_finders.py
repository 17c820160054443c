"""What every backend does with its input, whatever the frames hold."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from finder import FinderParameters, Pedestal, open_finder

SHAPE = (6, 9)


@pytest.fixture(scope="module")
def pedestal():
    return Pedestal.from_dark(np.random.default_rng(3).normal(100, 2, (100, *SHAPE)).round().astype(np.uint16))


@pytest.fixture(scope="module")
def frames():
    rng = np.random.default_rng(4)
    return (rng.normal(100, 2, (40, *SHAPE)) + (rng.random((40, *SHAPE)) < 0.05) * 80).round().astype(np.uint16)


@pytest.fixture(params=["reference", "cpu"])
def backend(request):
    return request.param


def finder_of(backend, **options):
    return open_finder(backend, FinderParameters(**options), SHAPE)


def assert_same(a, b):
    for name in ("frame_index", "y", "x", "signal", "n_clusters"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def test_one_photon_gives_one_cluster_with_its_window(backend, pedestal):
    frame = np.rint(pedestal.mean).astype(np.uint16)
    frame[2, 5] += 100
    batch = finder_of(backend).find(frame[None], pedestal)
    assert (batch.frame_index.tolist(), batch.y.tolist(), batch.x.tolist()) == ([0], [2], [5])
    expected = (frame - pedestal.mean)[1:4, 4:7]
    np.testing.assert_allclose(batch.signal[0], expected, atol=1e-4)
    assert batch.n_clusters.tolist() == [1]


def test_the_results_have_the_promised_types_and_own_no_more_than_they_hold(backend, pedestal, frames):
    batch = finder_of(backend, cluster_size=(3, 5)).find(frames, pedestal)
    n = len(batch)
    assert n > 0
    assert n == batch.n_clusters.sum()
    assert batch.signal.shape == (n, 3, 5)
    types = [batch.frame_index.dtype, batch.y.dtype, batch.x.dtype, batch.signal.dtype, batch.n_clusters.dtype]
    assert types == [np.uint32, np.uint16, np.uint16, np.float32, np.uint32]
    assert batch.nbytes == n * (4 + 2 + 2 + 3 * 5 * 4) + len(frames) * 4
    for array in (batch.frame_index, batch.y, batch.x, batch.signal):
        assert array.base is None or array.base.nbytes == array.nbytes


def test_the_given_pedestal_and_frames_are_untouched(backend, pedestal, frames):
    before, kept = pedestal.s1.copy(), frames.copy()
    batch = finder_of(backend).find(frames, pedestal)
    np.testing.assert_array_equal(pedestal.s1, before)
    np.testing.assert_array_equal(frames, kept)
    assert (batch.pedestal.s1 != before).any()


def test_a_chains_pedestal_is_a_copy(backend, pedestal, frames):
    chain = finder_of(backend).chain(pedestal)
    chain.find(frames[:10])
    then = chain.pedestal
    kept = then.s1.copy()
    chain.find(frames[10:])
    np.testing.assert_array_equal(then.s1, kept)


def test_handing_the_pedestal_on_continues_the_chain(backend, pedestal, frames):
    finder = finder_of(backend)
    whole, first = finder.find(frames, pedestal), finder.find(frames[:15], pedestal)
    second = finder.find(frames[15:], first.pedestal)
    np.testing.assert_array_equal(np.concatenate([first.signal, second.signal]), whole.signal)
    np.testing.assert_array_equal(second.pedestal.s1, whole.pedestal.s1)
    np.testing.assert_array_equal(second.pedestal.s2, whole.pedestal.s2)


def test_read_only_strided_and_memory_mapped_frames_give_the_same(backend, pedestal, frames, tmp_path):
    finder = finder_of(backend)
    expected = finder.find(frames, pedestal)
    read_only = frames.copy()
    read_only.flags.writeable = False
    np.save(tmp_path / "frames.npy", frames)
    mapped = np.load(tmp_path / "frames.npy", mmap_mode="r")
    strided = np.repeat(np.repeat(frames, 2, axis=0), 3, axis=2)[::2, :, ::3]
    backwards = frames[::-1].copy()[::-1]
    for given in (read_only, mapped, strided, backwards, frames.astype(">u2"), frames.astype("<u2"), frames.tolist()):
        array = np.asarray(given, np.uint16) if isinstance(given, list) else given
        assert_same(finder.find(array, pedestal), expected)


def test_no_frames_give_no_clusters(backend, pedestal):
    batch = finder_of(backend).find(np.empty((0, *SHAPE), np.uint16), pedestal)
    assert len(batch) == 0
    assert batch.signal.shape == (0, 3, 3)
    assert batch.n_clusters.shape == (0,)


def test_float_frames_are_refused_with_the_reason(backend, pedestal, frames):
    with pytest.raises(TypeError, match="float32; the finder's arithmetic is exact for integers only"):
        finder_of(backend).find(frames.astype(np.float32), pedestal)
    for dtype in (np.int8, np.int64, np.uint64, bool, complex):
        with pytest.raises(TypeError, match="supported are uint8"):
            finder_of(backend).find(frames.astype(dtype), pedestal)


def test_frames_of_another_shape_are_refused(backend, pedestal, frames):
    finder = finder_of(backend)
    for wrong in (frames[0], frames[:, 1:], frames.transpose(0, 2, 1)):
        with pytest.raises(ValueError, match="have the shape"):
            finder.find(wrong, pedestal)


def test_a_pedestal_that_does_not_fit_is_refused(backend, pedestal, frames):
    with pytest.raises(ValueError, match="n_samples 1000, the finder for 500"):
        finder_of(backend, n_samples=500).find(frames, pedestal)
    other = Pedestal.from_mean_and_noise(np.zeros((2, 2)), np.ones((2, 2)))
    with pytest.raises(ValueError, match="the pedestal has the shape"):
        finder_of(backend).chain(other)


def test_any_of_the_low_16_bits_masks_a_pixel(backend):
    parameters = FinderParameters()
    for mask in (1, 1 << 15, 1 << 16, 0):
        finder = open_finder(backend, parameters, (1, 2), np.array([[mask, 0]], np.uint32))
        masked = finder.pixel_mask is not None and finder.pixel_mask[0, 0]
        assert masked == (mask in (1, 1 << 15))
    assert open_finder(backend, parameters, (1, 2), np.array([[True, False]])).pixel_mask.tolist() == [[True, False]]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", ">u2", "int64", "uint64"])
def test_a_mask_of_any_integer_type_and_memory_order_masks(backend, dtype):
    mask = np.zeros((2, 3), dtype)
    mask[0, 1], mask[1, 2] = 1, 64
    for given in (mask, np.asfortranarray(mask)):
        masked = open_finder(backend, FinderParameters(), (2, 3), given).pixel_mask
        np.testing.assert_array_equal(masked, mask != 0)


def test_a_mask_that_does_not_fit_is_refused(backend):
    with pytest.raises(ValueError, match="the pixel mask has the shape"):
        open_finder(backend, FinderParameters(), SHAPE, np.zeros((9, 6), np.uint32))
    with pytest.raises(ValueError, match="float64"):
        open_finder(backend, FinderParameters(), SHAPE, np.zeros(SHAPE))


def test_a_masked_pixel_keeps_its_pedestal(backend, pedestal, frames):
    mask = np.zeros(SHAPE, np.uint32)
    mask[2, 3] = 1
    chain = open_finder(backend, FinderParameters(), SHAPE, mask).chain(pedestal)
    chain.find(frames)
    after = chain.pedestal
    assert after.s1[2, 3] == pedestal.s1[2, 3]
    assert after.s2[2, 3] == pedestal.s2[2, 3]
    assert (after.s1 != pedestal.s1).mean() > 0.5


def test_threads_with_chains_of_their_own_do_not_disturb_each_other(backend, pedestal, frames):
    finder = finder_of(backend)
    expected = finder.find(frames, pedestal)
    found = {}

    def work(name):
        chain = finder.chain(pedestal)
        found[name] = [chain.find(frames[first : first + 4]) for first in range(0, len(frames), 4)]

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3]
    for parts in found.values():
        np.testing.assert_array_equal(np.concatenate([part.signal for part in parts]), expected.signal)
        np.testing.assert_array_equal(np.concatenate([part.n_clusters for part in parts]), expected.n_clusters)


def test_auto_is_a_finder_and_unknown_backends_are_refused():
    assert open_finder("auto", FinderParameters(), SHAPE).backend in ("cpu", "cuda")
    with pytest.raises(ValueError, match="no finder is called 'fpga'"):
        open_finder("fpga", FinderParameters(), SHAPE)
