"""What is particular to the CPU finder: its memory, its pedestals beyond 32 bits, its compiled code."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from finder import FinderParameters, Pedestal, open_finder

ARRAYS = ("frame_index", "y", "x", "signal", "n_clusters")


def assert_same_as_reference(finder, frames, pedestal):
    expected = open_finder("reference", finder.parameters, finder.shape, finder.pixel_mask).find(frames, pedestal)
    found = finder.find(frames, pedestal)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    for name in ("s1", "s2"):
        np.testing.assert_array_equal(getattr(found.pedestal, name), getattr(expected.pedestal, name), err_msg=name)
    return found


def test_every_pixel_of_every_frame_can_be_a_cluster():
    shape = (41, 130)
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 100.0), np.full(shape, 2.0))
    frames = np.full((3, *shape), 900, np.uint16)
    found = assert_same_as_reference(open_finder("cpu", FinderParameters(), shape), frames, pedestal)
    assert len(found) == frames.size


def test_an_empty_run_after_a_full_one_and_a_full_one_after_that():
    shape = (20, 33)
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 100.0), np.full(shape, 2.0))
    chain = open_finder("cpu", FinderParameters(), shape).chain(pedestal)
    bright, dark = np.full((5, *shape), 900, np.uint16), np.full((5, *shape), 100, np.uint16)
    assert [len(chain.find(frames)) for frames in (bright, dark, bright)] == [bright.size, 0, bright.size]


def test_where_every_pixel_is_far_below_its_pedestal_there_is_no_cluster_and_all_are_counted_blind():
    shape = (20, 33)
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 1000.0), np.full(shape, 2.0))
    frames = np.full((4, *shape), 1000, np.uint16)
    frames[1:3, :, 10:] = 900
    for noise in ("running", "trained"):
        chain = open_finder("cpu", FinderParameters(noise=noise), shape).chain(pedestal)
        chain.update(frames)
        assert len(chain.find(frames)) == 0
        assert np.unique(chain.activity.blind[:, 10:]).tolist() == [2]
        assert not chain.activity.blind[:, :10].any()
        assert np.unique(chain.activity.updated[:, :10]).tolist() == [4]


def test_a_sum_of_minus_zero_keeps_its_sign_where_the_pixel_is_not_quiet():
    shape = (9, 20)
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 50.0), np.full(shape, 2.0))
    pedestal = dataclasses.replace(pedestal, s1=np.full(shape, -0.0, np.float32))
    frames = np.full((2, *shape), 50, np.uint16)
    frames[:, 4, 9] = 900
    fast, plain = (open_finder(name, FinderParameters(), shape).find(frames, pedestal) for name in ("cpu", "reference"))
    assert np.signbit(plain.pedestal.s1).sum() == 9
    assert fast.pedestal.s1.tobytes() == plain.pedestal.s1.tobytes()


@pytest.mark.parametrize(
    ("dtype", "mean"),
    [("uint32", -70_000.0), ("uint32", 2.0**32 + 5), ("int32", 2.0**31 + 5), ("uint16", -(2.0**32)), ("int16", 2e9)],
)
def test_a_pedestal_beyond_the_frames_type_is_still_exact(dtype, mean):
    shape, rng = (9, 21), np.random.default_rng(5)
    pedestal = Pedestal.from_mean_and_noise(rng.normal(mean, 3, shape), np.full(shape, 2.5))
    near = np.clip(rng.normal(mean, 3, (6, *shape)).round(), np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
    far = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (6, *shape), dtype)
    finder = open_finder("cpu", FinderParameters(), shape)
    for frames in (near, far):
        assert_same_as_reference(finder, frames, pedestal)


@pytest.mark.parametrize(("dtype", "mean"), [("uint32", -1.0), ("int16", -2e9), ("int32", -(2.0**31) - 5)])
def test_frames_in_any_memory_order_are_found_alike_where_the_pedestal_is_beyond_their_type(dtype, mean):
    shape, rng = (9, 21), np.random.default_rng(5)
    pedestal = Pedestal.from_mean_and_noise(rng.normal(mean, 3, shape), np.full(shape, 2.5))
    frames = (1000 * rng.integers(0, 30, (6, *shape))).astype(dtype)
    finder = open_finder("cpu", FinderParameters(), shape)
    transposed = frames.transpose(0, 2, 1).copy().transpose(0, 2, 1)
    for given in (np.asfortranarray(frames), transposed, np.repeat(frames, 2, axis=2)[:, :, ::2]):
        assert_same_as_reference(finder, given, pedestal)


def test_rows_beyond_65535_columns_have_wider_coordinates():
    shape, rng = (2, 65_700), np.random.default_rng(6)
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 50.0), np.full(shape, 2.0))
    frames = (rng.normal(50, 2, (2, *shape)) + (rng.random((2, *shape)) < 0.01) * 90).round().astype(np.uint16)
    found = assert_same_as_reference(open_finder("cpu", FinderParameters(), shape), frames, pedestal)
    assert found.x.dtype == np.uint32
    assert found.x.max() > 65_535


@pytest.mark.parametrize("lanes", [8, 16])
def test_the_width_of_the_vectors_changes_nothing(lanes):
    rng = np.random.default_rng(7)
    for width in (1, 15, 16, 17, 40):
        shape = (11, width)
        mask = rng.random(shape) < 0.1
        finder = open_finder("cpu", FinderParameters(cluster_size=(3, 5)), shape, mask)
        finder.kernel = dataclasses.replace(finder.kernel, lanes=lanes)
        pedestal = Pedestal.from_mean_and_noise(np.full(shape, 50.0), np.full(shape, 2.0))
        frames = (rng.normal(50, 2, (9, *shape)) + (rng.random((9, *shape)) < 0.05) * 90).round().astype(np.uint16)
        assert len(assert_same_as_reference(finder, frames, pedestal)) > 0


def test_frames_that_end_where_memory_ends_are_not_read_beyond(tmp_path):
    # A mapped file whose size is a whole number of pages: one pixel further on there is no memory.
    shape = (64, 1)
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 50.0), np.full(shape, 2.0))
    frames = np.full((4096 // 64, *shape), 50, np.uint8)
    (tmp_path / "frames.raw").write_bytes(frames.tobytes())
    mapped = np.memmap(tmp_path / "frames.raw", np.uint8, "r", shape=frames.shape)
    assert_same_as_reference(open_finder("cpu", FinderParameters(), shape), mapped, pedestal)


RUN_ONCE = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(message)s")
import numpy as np
from finder import FinderParameters, Pedestal, open_finder
shape = (5, 20)
pedestal = Pedestal.from_mean_and_noise(np.full(shape, 50.0), np.full(shape, 2.0))
frames = np.full((2, *shape), 50, np.uint16)
frames[:, 2, 7] = 90
batch = open_finder("cpu", FinderParameters(), shape).find(frames, pedestal)
assert (batch.y.tolist(), batch.x.tolist(), batch.signal[:, 1, 1].tolist()) == ([2, 2], [7, 7], [40.0, 40.0])
print("with" if "numba" in sys.modules else "without", "Numba")
"""
COMPILING = re.compile("^compiling the CPU finder for 3x3, running noise .once on this machine, about", re.MULTILINE)


def start(**environment):
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", RUN_ONCE],
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_of_two_processes_one_compiles_and_a_third_needs_no_numba(tmp_path):
    at_once = [start(NUMBA_CACHE_DIR=tmp_path) for _ in range(2)]
    ended = [process.communicate() for process in at_once]
    assert [process.returncode for process in at_once] == [0, 0], ended
    assert sorted(len(COMPILING.findall(log)) for _, log in ended) == [0, 1], ended
    (code,) = tmp_path.rglob("find_clusters*.code")
    assert not list(tmp_path.rglob("*.lock"))

    assert start(NUMBA_CACHE_DIR=tmp_path).communicate() == ("without Numba\n", "")

    code.write_bytes(code.read_bytes()[:-1])
    output, log = start(NUMBA_CACHE_DIR=tmp_path).communicate()
    assert output == "with Numba\n"
    assert f"{code} is damaged" in log
    assert COMPILING.search(log)


@pytest.mark.slow
def test_without_a_place_to_keep_compiled_code_it_is_compiled(tmp_path):
    (tmp_path / "file").touch()
    output, log = start(NUMBA_CACHE_DIR=tmp_path / "file" / "folder").communicate()
    assert output == "with Numba\n"
    assert "compiled code can't be kept" in log


def test_loading_compiled_code_is_not_announced(caplog):
    shape = (5, 20)
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 50.0), np.full(shape, 2.0))
    finder = open_finder("cpu", FinderParameters(), shape)
    finder.find(np.full((1, *shape), 50, np.uint16), pedestal)
    with caplog.at_level(logging.INFO):
        finder.find(np.full((1, *shape), 50, np.uint16), pedestal)
    assert caplog.messages == []
