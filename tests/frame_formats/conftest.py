"""Frames to be written in every format, and how to read them back."""

from __future__ import annotations

import numpy as np
import pytest

from frame_formats import FrameSource, open_source


@pytest.fixture
def frames() -> np.ndarray:
    """Seven frames of 12×10, every value its own."""
    return np.random.default_rng(3).permutation(7 * 12 * 10).reshape(7, 12, 10).astype(np.uint16)


@pytest.fixture
def read():
    """Read all frames of a source, of any number of pieces, in odd steps."""

    def call(source: FrameSource, step: int = 3) -> np.ndarray:
        out = np.empty((source.n_frames, *source.frame_shape), source.dtype)
        for start in range(0, source.n_frames, step):
            stop = min(start + step, source.n_frames)
            part = source.cut(start, stop)
            part.read(0, part.n_frames, out[start:stop])
        return out

    return call


@pytest.fixture
def values(read):
    """Open a file and read all of its frames."""
    return lambda *arguments: read(open_source(*arguments).frames)
