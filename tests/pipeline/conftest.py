"""Real Dask clusters, kept for the session, and small archives with photons in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from finder import FinderParameters, Pedestal, open_finder
from frame_archive import FrameArchive, create_archive
from pipeline import ClusterConfig, open_cluster


@pytest.fixture(scope="session")
def client():
    """A client of a cluster of two processes, kept for the session: to start one takes seconds."""
    with open_cluster(ClusterConfig(workers=2)) as client:
        yield client


@dataclass(frozen=True)
class MadeArchive:
    """An archive, and the arrays that it was made of."""

    path: str
    frames: np.ndarray
    dark: np.ndarray

    @property
    def out(self) -> str:
        return str(Path(self.path).with_suffix(".clusters.zarr"))

    def reference(self, batch_size: int, parameters: FinderParameters | None = None, first: int = 0, **finder):
        """What the plain reference finds, batch by batch: n_clusters, frame_index, y, x, signal."""
        parameters = parameters or FinderParameters()
        find = open_finder("reference", parameters, self.frames.shape[1:], **finder).find
        pedestal = Pedestal.from_dark(self.dark, parameters.n_samples)
        frames = self.frames[first:]
        found = [(k, find(frames[k : k + batch_size], pedestal)) for k in range(0, len(frames), batch_size)]
        return {
            "n_clusters": np.concatenate([batch.n_clusters for _, batch in found]),
            "frame_index": np.concatenate([batch.frame_index + np.uint32(k) for k, batch in found]),
            **{name: np.concatenate([getattr(batch, name) for _, batch in found]) for name in ("y", "x", "signal")},
        }

    def chained(self, without=()):
        """What one finder gives that takes all frames in order but those ``without``."""
        find = open_finder("reference", FinderParameters(), self.frames.shape[1:]).find
        taken = np.delete(np.arange(len(self.frames)), list(without))
        batch = find(self.frames[taken], Pedestal.from_dark(self.dark, 1000))
        n_clusters = np.zeros(len(self.frames), np.uint32)
        n_clusters[taken] = batch.n_clusters
        return {
            "n_clusters": n_clusters,
            "frame_index": taken[batch.frame_index],
            **{name: getattr(batch, name) for name in ("y", "x", "signal")},
        }


@pytest.fixture
def make_archive(tmp_path):
    """Make an archive of seeded noise with photons shared by four pixels."""

    def make(
        n_frames=97,
        shape=(20, 30),
        photons=5.0,
        n_dark=120,
        name="a.zarr",
        dtype=np.uint16,
        seed=1,
        change=None,
        **creation,
    ) -> MadeArchive:
        rng = np.random.default_rng(seed)
        mean = rng.normal(200 if np.dtype(dtype).itemsize == 1 else 4600, 10, shape) * (
            0.25 if dtype == np.uint8 else 1
        )
        noise = rng.normal(5, 0.5, shape)

        def expose(n: int, rate: float) -> np.ndarray:
            values = mean + noise * rng.standard_normal((n, *shape))
            hits = rng.poisson(rate * n)
            t, y, x = (rng.integers(0, size, hits) for size in (n, *shape))
            for dy, dx, adu in ((0, 0, 120), (0, 1, 40), (1, 0, 30), (1, 1, 10)):
                inside = (y + dy < shape[0]) & (x + dx < shape[1])
                np.add.at(values, (t[inside], y[inside] + dy, x[inside] + dx), adu)
            return np.clip(np.rint(values), 0, np.iinfo(dtype).max).astype(dtype)

        dark, frames = expose(n_dark, 0), expose(n_frames, photons)
        if change is not None:
            change(frames)
        path = str(tmp_path / name)
        writer = create_archive(path, shape=frames.shape, dtype=frames.dtype, n_dark=n_dark, **creation)
        if n_dark:
            writer.write_dark(0, dark)
        writer.write_frames(0, frames)
        assert FrameArchive.open(path).n_frames == n_frames
        return MadeArchive(path, frames, dark)

    return make
