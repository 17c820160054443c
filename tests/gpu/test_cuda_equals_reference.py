"""The CUDA finder gives the reference's bits on anything, whatever the order in which a device works."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from emulation.device import EmulatedDevice
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finder import CommonMode, FinderParameters, Pedestal, open_finder
from gpu.finder import CudaFinder
from gpu.settings import GpuSettings

# Kernels are compiled for each: window, noise, type of frames, frames a launch.
KERNELS = [
    ((3, 3), "running", "uint16", None),
    ((3, 3), "running", "uint16", 1),
    ((3, 3), "trained", "int16", 3),
    ((5, 5), "running", "int32", None),
    ((3, 5), "trained", "uint32", 2),
    ((7, 3), "running", "uint8", 2),
    ((9, 9), "running", "uint16", None),
]
SHAPES = [(1, 1), (1, 40), (33, 2), (5, 31), (8, 33), (40, 70), (3, 65)]
COMMON_MODES = [None, None, None, *map(CommonMode.parse, ("row", "tile:4x5"))]
# Means at or beyond the end of a frame type, or of the 32 bits in which most frames' differences fit.
FAR_MEANS = [None, None, None, -70_000.0, 2.0**30 + 1, -(2.0**31) - 5, 2.0**33]


@dataclass(frozen=True)
class Case:
    parameters: FinderParameters
    settings: GpuSettings
    frames: np.ndarray
    pedestal: Pedestal
    pixel_mask: np.ndarray | None
    tracking: bool
    edges: list[int]
    seed: int


@st.composite
def cases(draw):
    window, noise, dtype, a_launch = draw(st.sampled_from(KERNELS))
    dtype = np.dtype(dtype)
    shape, seed = draw(st.sampled_from(SHAPES)), draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Low thresholds and few darks are wanted here.
        parameters = FinderParameters(
            n_sigma=draw(st.sampled_from([0.5, 5.0, 12.0])),
            cluster_size=window,
            n_samples=draw(st.sampled_from([1, 7, 1000, 2**31 - 1])),
            noise=noise,
            # Each type has a common mode compiled for it.
            common_mode=draw(st.sampled_from(COMMON_MODES)) if dtype == np.uint16 else None,
            gain_bits=draw(st.sampled_from([0, 0, 1, 2])),
        )
        values = frames_of(rng, draw(st.sampled_from(["ties", "photons", "whole range"])), shape, dtype)
        mean = draw(st.sampled_from(FAR_MEANS)) if parameters.common_mode is None else None
        if mean is None:
            pedestal = Pedestal.from_dark(values[:4], n_samples=parameters.n_samples)
        else:
            means = np.clip(rng.normal(mean, 3, shape), -(2.0**33), 2.0**33)
            pedestal = Pedestal.from_mean_and_noise(means, np.full(shape, 2.5), parameters.n_samples)
    frames = values[4:].astype(dtype.newbyteorder(draw(st.sampled_from("<>"))))
    if draw(st.booleans()):
        frames = np.asfortranarray(frames)
    share = draw(st.sampled_from([None, 0.1, 0.9]))
    graphs = draw(st.booleans())
    how = GpuSettings(
        n_streams=1,
        chunk_frames=draw(st.integers(1, 9)),
        frames_a_launch=a_launch,
        graphs=graphs,
        pinned=graphs or draw(st.booleans()),
        overlap=draw(st.booleans()),
        room=draw(st.sampled_from([1e-6, 0.02, 1.0])),
    )
    n = len(frames)
    return Case(
        parameters,
        how,
        frames,
        pedestal,
        None if share is None else rng.random(shape) < share,
        draw(st.integers(0, 3)) > 0,
        [draw(st.integers(0, n // 3)), *sorted(draw(st.lists(st.integers(n // 3, n), max_size=2))), n],
        seed,
    )


def frames_of(rng, spread, shape, dtype):
    info, n = np.iinfo(dtype), int(rng.integers(6, 24))
    if spread == "whole range":
        return rng.integers(info.min, info.max, (n, *shape), dtype, endpoint=True)
    if spread == "ties":
        return rng.integers(0, 3, (n, *shape)).astype(dtype)
    level = min(100, info.max // 2)
    return (rng.normal(level, 3, (n, *shape)) + (rng.random((n, *shape)) < 0.03) * 60).round().astype(dtype)


def run(finder, case):
    """Everything that a chain gives: some frames warm it up, the others come in pieces."""
    chain = finder.chain(case.pedestal, tracking=case.tracking)
    chain.update(case.frames[: case.edges[0]])
    found = [chain.find(case.frames[a:b]) for a, b in itertools.pairwise(case.edges)]
    activity, pedestal = chain.activity, chain.pedestal
    return {
        **{
            name: np.concatenate([getattr(part, name) for part in found])
            for name in ("frame_index", "y", "x", "n_clusters")
        },
        "signal": np.concatenate([part.signal for part in found]).view(np.uint32),
        **{name: getattr(activity, name) for name in ("updated", "firing", "blind", "centres", "switched")},
        "n_frames": np.array(activity.n_frames),
        "x0": pedestal.x0,
        "s1": pedestal.s1.view(np.uint32),
        "s2": pedestal.s2.view(np.uint32),
    }


@settings(derandomize=True, deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(case=cases())
def test_the_cuda_finder_gives_the_bits_of_the_reference(cpu_compiler, case):
    device = EmulatedDevice(cpu_compiler, case.seed)
    shape = case.frames.shape[1:]
    finder = CudaFinder(case.parameters, shape, case.pixel_mask, device=device, settings=case.settings)
    found = run(finder, case)
    expected = run(open_finder("reference", case.parameters, shape, case.pixel_mask), case)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_array_equal(found[name], array, err_msg=name)
    del finder
    assert device.pool.overruns == device.pinned.overruns == 0


@pytest.mark.parametrize("window", [(5, 5), (7, 3)])
def test_window_sums_are_rounded_in_the_designs_order(cpu_compiler, window):
    rows, cols = window
    rng = np.random.default_rng(8)
    noise, n_sigma = 1e7, 5.0
    limit, area = n_sigma * noise * (rows * cols) ** 0.5, rows * cols
    # Windows apart from each other, whose sum is within a few roundings of the threshold: their order decides.
    frames = np.zeros((2, 16 * (rows + 2), 16 * (cols + 2)), np.int32)
    for window_of in _windows(frames, rows, cols):
        values = (limit / area * rng.uniform(0.7, 1.3, area)).astype(np.int64)
        values[rng.integers(area)] += int(limit) + rng.integers(-60, 60) - values.sum()
        window_of[:] = values.reshape(window)
    pedestal = Pedestal.from_mean_and_noise(np.zeros(frames.shape[1:]), np.full(frames.shape[1:], noise))
    parameters = FinderParameters(n_sigma, window, noise="trained")
    device = EmulatedDevice(cpu_compiler)
    finders = (
        CudaFinder(parameters, frames.shape[1:], device=device, settings=GpuSettings(n_streams=1, chunk_frames=2)),
        open_finder("reference", parameters, frames.shape[1:]),
    )
    chains = [finder.chain(pedestal, tracking=False) for finder in finders]
    for chain in chains:
        chain.find(frames)
    found, expected = (chain.activity.firing for chain in chains)
    n_windows = 2 * 16 * 16
    assert 0.2 * n_windows < expected.sum() < 0.8 * n_windows
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_a_side_of_more_than_65535_pixels_has_wider_coordinates(cpu_compiler):
    shape = 1, 65_601
    frame = np.full((1, *shape), 100, np.uint16)
    frame[0, 0, [3, 40_000, 65_600]] += 90
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 100.0), np.full(shape, 2.0))
    how = GpuSettings(n_streams=1, chunk_frames=2, frames_a_launch=1)
    finder = CudaFinder(FinderParameters(), shape, device=EmulatedDevice(cpu_compiler), settings=how)
    found = finder.find(frame, pedestal)
    assert found.x.dtype == found.y.dtype == np.uint32
    assert found.x.tolist() == [3, 40_000, 65_600]
    np.testing.assert_array_equal(
        found.signal, open_finder("reference", FinderParameters(), shape).find(frame, pedestal).signal
    )


def _windows(frames, rows, cols):
    for frame in frames:
        for top in range(1, frame.shape[0], rows + 2):
            for left in range(1, frame.shape[1], cols + 2):
                yield frame[top : top + rows, left : left + cols]
