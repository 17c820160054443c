"""Small datasets with known contents."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cluster_store import ClusterWriter, DatasetLayout, create_dataset, finish_dataset
from cluster_store.formats import ClustLayout, import_clusters


@dataclass(frozen=True)
class Rows:
    """Clusters and frames as plain arrays, in the order in which a dataset holds them."""

    frame_index: np.ndarray
    y: np.ndarray
    x: np.ndarray
    signal: np.ndarray
    n_clusters: np.ndarray
    frame_number: np.ndarray
    frame_status: np.ndarray

    def clusters(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        return tuple(a[start:stop] for a in (self.frame_index, self.y, self.x, self.signal))

    def frames(self, start: int, stop: int) -> tuple[np.ndarray, ...]:
        return tuple(a[start:stop] for a in (self.n_clusters, self.frame_number, self.frame_status))


def rows_for(layout: DatasetLayout, n_clusters: int, seed: int = 3) -> Rows:
    rng = np.random.default_rng(seed)
    frame_index = np.sort(rng.integers(0, max(1, layout.n_frames), n_clusters)).astype(np.uint32)
    signal = rng.normal(300, 200, (n_clusters, *layout.cluster_size))
    return Rows(
        frame_index=frame_index,
        y=rng.integers(0, layout.frame_shape[0], n_clusters).astype(layout.position_dtype),
        x=rng.integers(0, layout.frame_shape[1], n_clusters).astype(layout.position_dtype),
        signal=signal.astype(layout.signal_dtype),
        n_clusters=np.bincount(frame_index, minlength=layout.n_frames).astype(np.uint32),
        frame_number=np.arange(layout.first_frame, layout.first_frame + layout.n_frames, dtype=np.uint64),
        frame_status=np.zeros(layout.n_frames, np.uint8),
    )


def write_all(path: Path, layout: DatasetLayout, rows: Rows) -> None:
    create_dataset(path, layout, {"n_sigma": 5.0})
    writer = ClusterWriter(path, layout)
    writer.write_clusters(0, *rows.clusters(0, len(rows.x)))
    writer.write_frames(0, *rows.frames(0, layout.n_frames))
    finish_dataset(path, layout, len(rows.x), {})


def digests(path: Path) -> dict[str, str]:
    """Every file below `path` with the digest of its bytes."""
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


@pytest.fixture
def layout() -> DatasetLayout:
    return DatasetLayout(
        n_frames=50, first_frame=7, batch_size=20, frame_shape=(40, 60), cluster_size=(3, 3), rows_per_chunk=64
    )


@pytest.fixture
def finished(tmp_path: Path, layout: DatasetLayout) -> tuple[Path, Rows]:
    """A complete dataset of 300 clusters in 5 chunks."""
    path, rows = tmp_path / "clusters.zarr", rows_for(layout, 300)
    write_all(path, layout, rows)
    return path, rows


@pytest.fixture
def make_rows() -> Callable[..., Rows]:
    return rows_for


@pytest.fixture
def write_dataset() -> Callable[[Path, DatasetLayout, Rows], None]:
    return write_all


@pytest.fixture
def file_digests() -> Callable[[Path], dict[str, str]]:
    return digests


@pytest.fixture
def import_back() -> Callable[..., object]:
    """Imports a `.clust` file of a dataset's layout, or of another type: `(source, to, layout, dtype)`."""

    def imported(source: Path, to: Path, layout: DatasetLayout, dtype: str | None = None) -> object:
        return import_clusters(
            source,
            to,
            layout=ClustLayout(layout.cluster_size, dtype or layout.signal_dtype),
            frame_shape=layout.frame_shape,
            attrs={},
        )

    return imported
