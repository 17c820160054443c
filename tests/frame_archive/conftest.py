"""Small archives to read: seeded frames in every layout a person may bring."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from frame_archive import create_archive

Frames = np.ndarray


@pytest.fixture
def frames() -> Frames:
    return np.random.default_rng(20).integers(4000, 5000, (50, 11, 13)).astype(np.uint16)


@pytest.fixture
def written(tmp_path: Path, frames: Frames) -> Path:
    """An archive in the default layout: chunks of 20 frames, the last of 10, with 3 darks."""
    path = tmp_path / "run.zarr"
    writer = create_archive(path, frames.shape, frames.dtype, n_dark=3)
    writer.write_frames(0, frames)
    writer.write_dark(0, frames[:3])
    return path


@pytest.fixture
def read_all() -> Callable[[object], Frames]:
    def read(archive) -> Frames:
        out = np.empty((archive.n_frames, *archive.frame_shape), archive.dtype)
        archive.read(0, archive.n_frames, out)
        return out

    return read
