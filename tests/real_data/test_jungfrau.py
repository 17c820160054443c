"""Raw Jungfrau frames, dead and saturated pixels included, give what the plain reference finds, bit for bit.

The ten frames are dark ones. From frame to frame the whole detector moves together, by up to 0.7 noise widths.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cluster_store import read_pedestal
from finder import FinderParameters, Pedestal, open_finder, rounded
from finder.bad_pixels import DarkFigures, bad_pixels
from frame_archive import create_archive
from pipeline import StalePedestalWarning, process

DATA = Path(__file__).parents[2].parent / "shared" / "data"
RAW = DATA / "jungfrau_raw"
GAIN_BITS = DATA / "jungfrau_gain_bits_2x512x1024.npy"

FRAME_IN_FILE = np.dtype([("number", "<u8"), ("rest_of_header", "V104"), ("pixels", "<u2", (512, 1024))])


def _require(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"the Jungfrau frames are not there: {path} is absent")
    return path


@pytest.fixture(scope="module")
def raw() -> np.ndarray:
    """The ten frames of the four sub-files, each with its number."""
    files = sorted(_require(RAW).glob("jungfrau_single_d0_f*_0.raw"), key=lambda path: path.name)
    frames = np.concatenate([np.fromfile(path, FRAME_IN_FILE) for path in files])
    assert len(frames) == 10
    return frames


def _write_archive(path: Path, frames: np.ndarray, **creation) -> Path:
    writer = create_archive(path, frames.shape, frames.dtype, **creation)
    writer.write_frames(0, frames)
    return path


def _assert_equals_reference(
    clusters, frames, pedestal, batch_size, mask=None, cluster_size=(3, 3), gain_bits=0
) -> None:
    """Every array of the dataset equals what the reference finds batch by batch, the type included."""
    parameters = FinderParameters(cluster_size=cluster_size, gain_bits=gain_bits)
    find = open_finder("reference", parameters, frames.shape[1:], mask).find
    found = [(k, find(frames[k : k + batch_size], pedestal)) for k in range(0, len(frames), batch_size)]
    expected = {
        "n_clusters": [batch.n_clusters for _, batch in found],
        "frame_index": [batch.frame_index + np.uint32(k) for k, batch in found],
        "y": [batch.y for _, batch in found],
        "x": [batch.x for _, batch in found],
        "signal": [rounded(batch.signal, clusters.signal.dtype) for _, batch in found],
    }
    for name, parts in expected.items():
        array = clusters[name].to_numpy()
        assert array.dtype == parts[0].dtype, name
        np.testing.assert_array_equal(array, np.concatenate(parts), err_msg=name)


@pytest.fixture(scope="module")
def archive(raw, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("jungfrau") / "j.zarr"
    return _write_archive(path, raw["pixels"], frames_per_chunk=2, frame_numbers=raw["number"])


@pytest.fixture(scope="module")
def pedestal(raw) -> Pedestal:
    """Of each pixel the median, and the median absolute deviation as a standard deviation."""
    frames = raw["pixels"]
    mean = np.median(frames, axis=0)
    noise = 1.4826 * np.median(np.abs(frames - mean), axis=0)
    # Ten frames say little of one pixel's noise, so that no pixel gets less than the typical one.
    return Pedestal.from_mean_and_noise(mean, np.maximum(noise, np.median(noise)))


@pytest.mark.parametrize(("cluster_size", "signal_dtype"), [((3, 3), "float32"), ((5, 5), "int32")])
def test_ten_raw_frames_give_the_clusters_of_the_reference(
    raw, archive, pedestal, client, tmp_path, cluster_size, signal_dtype
):
    out = tmp_path / "out.zarr"
    clusters = process(
        archive,
        out,
        client=client,
        pedestal=pedestal,
        batch_size=5,
        cluster_size=cluster_size,
        signal_dtype=signal_dtype,
    )
    _assert_equals_reference(clusters, raw["pixels"], pedestal, 5, cluster_size=cluster_size)
    assert clusters.frame_number.dtype == np.uint64
    assert clusters.frame_number.to_numpy().tolist() == list(range(1, 11))
    stored = read_pedestal(str(out))
    for name in ("x0", "s1", "s2", "trained_variance"):
        np.testing.assert_array_equal(getattr(stored, name), getattr(pedestal, name), err_msg=name)


def test_dark_frames_have_next_to_no_clusters(archive, pedestal, client, tmp_path):
    clusters = process(archive, tmp_path / "out.zarr", client=client, pedestal=pedestal, batch_size=5)
    counts = clusters.n_clusters.to_numpy()
    assert counts.sum() == clusters.sizes["cluster"] > 0
    assert np.median(counts) < 100
    # The frames in which the detector as a whole stands high have the most: one in some 500 pixels.
    assert counts.max() < 512 * 1024 / 300
    assert set(np.argsort(counts)[-3:]) == {0, 2, 7}


def test_the_numbers_in_the_headers_follow_a_range_of_frames(archive, pedestal, client, tmp_path):
    clusters = process(archive, tmp_path / "out.zarr", client=client, pedestal=pedestal, batch_size=5, frames=(2, 7))
    assert clusters.frame_number.to_numpy().tolist() == [3, 4, 5, 6, 7]


def test_a_single_frame_is_warned_of_where_the_whole_detector_has_moved(archive, pedestal, client, tmp_path):
    with pytest.warns(StalePedestalWarning, match=r"\(frames 9:10\), the median pixel is -0\.60 noise widths off"):
        process(archive, tmp_path / "out.zarr", client=client, pedestal=pedestal, frames=(9, 10))


def test_dead_and_saturated_pixels_and_gain_bits_give_the_clusters_of_the_reference(client, tmp_path):
    frames = np.load(_require(GAIN_BITS), allow_pickle=False)
    dead, saturated = (frames == 0).all(axis=0), (frames == 65535).all(axis=0)
    assert (int(dead.sum()), int(saturated.sum())) == (6, 258)
    dead_bit = np.where(dead, np.uint32(1 << 1), np.uint32(0))
    archive = _write_archive(tmp_path / "j.zarr", frames, frames_per_chunk=1, pixel_mask=dead_bit)
    # One mean and noise for all pixels: dead ones are far below, saturated ones and those in other gains far above.
    typical = float(np.median(frames))
    spread = 1.4826 * float(np.median(np.abs(frames - typical)))
    mean, noise = np.full(frames.shape[1:], typical), np.full(frames.shape[1:], spread)
    pedestal = Pedestal.from_mean_and_noise(mean, noise)
    clusters = process(archive, tmp_path / "out.zarr", client=client, pedestal=pedestal, batch_size=1)

    _assert_equals_reference(clusters, frames, pedestal, 1, mask=dead_bit)
    y, x, signal = (clusters[name].to_numpy() for name in ("y", "x", "signal"))
    assert not dead[y, x].any()
    assert saturated[y, x].any()
    assert signal.max() == 65535 - typical
    # Windows that reach over a dead pixel take nothing from it, not the 2 334 ADU that it lies below the others.
    around = np.lib.stride_tricks.sliding_window_view(np.pad(dead, 1), (3, 3))[y, x]
    assert around.any()
    assert (signal[around] == 0).all()


def test_switched_pixels_of_real_frames_are_in_no_cluster(client, tmp_path):
    frames = np.load(_require(GAIN_BITS), allow_pickle=False)
    switched = (frames >> 14) != 0
    assert [np.bincount((frame >> 14).ravel(), minlength=4).tolist() for frame in frames] == [
        [523_681, 151, 0, 456],
        [523_676, 156, 0, 456],
    ]
    dead = (frames == 0).all(axis=0)
    attrs = {"detector": "Jungfrau"}
    archive = _write_archive(tmp_path / "j.zarr", frames, frames_per_chunk=1, pixel_mask=dead, attrs=attrs)
    typical = float(np.median(frames))
    spread = 1.4826 * float(np.median(np.abs(frames - typical)))
    planes = np.full(frames.shape[1:], typical), np.full(frames.shape[1:], spread)
    pedestal = Pedestal.from_mean_and_noise(*planes)
    # Two frames, each a batch.
    clusters = process(archive, tmp_path / "out.zarr", client=client, pedestal=pedestal, batch_size=1)
    _assert_equals_reference(clusters, frames, pedestal, 1, mask=dead, gain_bits=2)
    assert clusters.attrs["gain_bits"] == 2
    assert clusters.attrs["switched_values"] == switched.sum() == 1219
    frame, y, x = (clusters[name].to_numpy() for name in ("frame_index", "y", "x"))
    assert len(frame) > 0
    assert not switched[frame, y, x].any()
    # No word with gain bits, 16 384 at least, is in any signal; taken for values they were.
    signal = clusters.signal.to_numpy()
    assert signal.max() < (1 << 14) - typical
    around = np.pad(switched, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), axis=(1, 2))[frame, y, x]
    assert windows.any()
    assert (signal[windows] == 0).all()


def test_bad_pixels_of_a_real_detector_are_found_in_ten_darks(raw):
    frames = raw["pixels"]
    found = bad_pixels(DarkFigures.of(frames, [frames], gain_bits=2))
    n_found = {kind: int(there.sum()) for kind, there in found.items()}
    assert n_found == {"dead": 2, "cold": 2, "hot": 6, "noisy": 1, "flickering": 0}
    stuck = frames[:, found["dead"]]
    assert (stuck == stuck[0]).all()
    assert frames[:, found["hot"]].mean() > 1.5 * np.median(frames)
