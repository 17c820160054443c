"""The CPU finder gives the reference's bits on anything: shapes, types, windows, masks, thresholds, chains."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from finder import CommonMode, FinderParameters, Pedestal, open_finder

# A kernel is compiled for each window and noise mode, which takes seconds, so these come from a small set.
WINDOWS_AND_NOISE = [
    ((3, 3), "running"),
    ((3, 3), "trained"),
    ((5, 5), "running"),
    ((3, 5), "trained"),
    ((9, 9), "trained"),
    ((7, 3), "running"),
]
WIDTHS = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 511]
HEIGHTS = [1, 2, 3, 7, 8, 9, 12, 16, 17, 20]
DTYPES = ["uint8", "uint16", "uint32", "int16", "int32"]
# Means at or beyond the end of a frame type, or of the 32 bits that the kernel computes in.
FAR_MEANS = [-1.0, -70_000.0, 2.0**30 + 1, 2.0**31 + 5, -(2.0**31) - 5, 2.0**32 + 5, 2.0**33]
COMMON_MODES = [
    None,
    None,
    *map(CommonMode.parse, ("row", "column", "tile:1x1", "tile:4x32", "tile:7x5", "tile:99x999")),
]
ACTIVITY = ["updated", "firing", "blind", "centres"]
LAYOUTS = ["rows", "columns", "frames last", "every second column", "upside down"]


@dataclass(frozen=True)
class Case:
    """One random run of a finder; everything follows from a seed, so that it shrinks well."""

    parameters: FinderParameters
    frames: np.ndarray
    pedestal: Pedestal
    pixel_mask: np.ndarray | None
    tracking: bool = True


@st.composite
def cases(draw):
    shape = draw(st.sampled_from(HEIGHTS)), draw(st.sampled_from(WIDTHS))
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    window, noise = draw(st.sampled_from(WINDOWS_AND_NOISE))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Low thresholds and few darks are wanted here.
        parameters = FinderParameters(
            n_sigma=draw(st.sampled_from([0.5, 2.0, 5.0, 12.0])),
            cluster_size=window,
            n_samples=draw(st.sampled_from([1, 7, 1000, 2**31 - 1])),
            noise=noise,
            common_mode=draw(st.sampled_from(COMMON_MODES)),
        )
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        spread = draw(st.sampled_from(["ties", "quiet", "whole range"]))
        values = _values(rng, spread, (draw(st.integers(2, 12)) + 4, *shape), dtype)
        far_mean = draw(st.sampled_from([None, None, *FAR_MEANS]))
        if far_mean is None:
            pedestal = Pedestal.from_dark(values[:4], n_samples=parameters.n_samples)
        else:
            mean = np.clip(rng.normal(far_mean, 3, shape), -(2.0**33), 2.0**33)
            pedestal = Pedestal.from_mean_and_noise(mean, np.full(shape, 2.5), parameters.n_samples)
    frames = values[4:].astype(dtype.newbyteorder(draw(st.sampled_from(["<", ">"]))))
    frames = laid_out(frames, draw(st.sampled_from(LAYOUTS)))
    if draw(st.booleans()):
        planes = (pedestal.x0, pedestal.s1, pedestal.s2, pedestal.trained_variance)
        pedestal = Pedestal(*map(np.asfortranarray, planes), pedestal.n_samples)
    share = draw(st.sampled_from([None, 0.0, 0.1, 0.9, 1.0]))
    mask = None if share is None else (rng.random(shape) < share).astype(np.uint32) * 4
    if mask is not None and draw(st.booleans()):
        mask = np.asfortranarray(mask)
    return Case(parameters, frames, pedestal, mask, draw(st.integers(0, 3)) > 0)


def laid_out(frames, layout):
    """The same frames in another order in memory."""
    match layout:
        case "columns":
            return frames.transpose(0, 2, 1).copy().transpose(0, 2, 1)
        case "frames last":
            return np.asfortranarray(frames)
        case "every second column":
            return np.repeat(frames, 2, axis=2)[:, :, ::2]
        case "upside down":
            return frames[:, ::-1].copy()[:, ::-1]
    return frames


def _values(rng, spread, shape, dtype):
    info = np.iinfo(dtype)
    if spread == "whole range":
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    if spread == "ties":
        return rng.integers(0, 3, shape).astype(dtype)
    level = info.max // 2
    values = rng.normal(level, 3, shape) + (rng.random(shape) < 0.03) * 60
    return values.round().astype(dtype)


def run(backend, case, pieces=None, warmup=0):
    """The clusters' arrays, the final pedestal and the counts, the frames handed over in pieces that end at `pieces`.

    The first `warmup` frames only move the pedestal.
    """
    finder = open_finder(backend, case.parameters, case.frames.shape[1:], case.pixel_mask)
    chain = finder.chain(case.pedestal, tracking=case.tracking)
    chain.update(case.frames[:warmup])
    edges = [warmup, *(pieces or []), len(case.frames)]
    found = [(a, chain.find(case.frames[a:b])) for a, b in itertools.pairwise(edges)]
    return {
        "frame_index": np.concatenate([part.frame_index + np.uint32(a) for a, part in found]),
        "y": np.concatenate([part.y for _, part in found]),
        "x": np.concatenate([part.x for _, part in found]),
        "signal": np.concatenate([part.signal for _, part in found]).view(np.uint32),
        "n_clusters": np.concatenate([part.n_clusters for _, part in found]),
        **{name: getattr(chain.activity, name) for name in ACTIVITY},
        "s1": chain.pedestal.s1.view(np.uint32),
        "s2": chain.pedestal.s2.view(np.uint32),
    }


def assert_same(found, expected):
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(cases())
def test_the_cpu_finder_gives_the_bits_of_the_reference(case):
    assert_same(run("cpu", case), run("reference", case))


@settings(derandomize=True, deadline=None, max_examples=50)
@given(cases(), st.data())
def test_warming_up_gives_the_bits_of_the_reference(case, data):
    warmup = data.draw(st.integers(0, len(case.frames)))
    assert_same(run("cpu", case, warmup=warmup), run("reference", case, warmup=warmup))


@settings(derandomize=True, deadline=None, max_examples=50)
@given(cases(), st.data())
def test_a_chain_in_pieces_gives_the_bits_of_one_call(case, data):
    pieces = sorted(data.draw(st.lists(st.integers(0, len(case.frames)), max_size=4)))
    for backend in ("reference", "cpu"):
        assert_same(run(backend, case, pieces), run(backend, case))
