"""Cluster datasets of photons whose energies and places are known."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy.special import ndtr

import analysis  # noqa: F401  (gives datasets the accessor `photons`)
from cluster_store import ClusterWriter, DatasetLayout, create_dataset, finish_dataset, write_pedestal
from finder import Pedestal

N_FRAMES, SHAPE = 90, (30, 50)
K_ALPHA, NOISE = 804.8, 12.0
NOISE_MAP = np.linspace(40, 80, SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE)


def photons(n: int, seed: int = 11, dtype: str = "int32") -> xr.Dataset:
    """`n` photons of one energy, each with all its charge in the window, noise on every pixel."""
    rng = np.random.default_rng(seed)
    frame = np.sort(rng.integers(0, N_FRAMES, n)).astype(np.uint32)
    y, x = (rng.integers(0, side, n) for side in SHAPE)
    order = np.lexsort((x, y, frame))
    share = rng.dirichlet(np.full(9, 0.5), n).reshape(n, 3, 3)
    signal = K_ALPHA * share + rng.normal(0, NOISE, (n, 3, 3))
    return xr.Dataset(
        {
            "frame_index": ("cluster", frame),
            "y": ("cluster", y[order].astype(np.uint16)),
            "x": ("cluster", x[order].astype(np.uint16)),
            "signal": (("cluster", "cluster_y", "cluster_x"), np.rint(signal).astype(dtype)),
            "n_clusters": ("frame", np.bincount(frame, minlength=N_FRAMES).astype(np.uint32)),
            "frame_status": ("frame", np.zeros(N_FRAMES, np.uint8)),
        },
        attrs={"frame_shape": list(SHAPE), "first_frame": 100},
    )


@pytest.fixture
def make_photons() -> Callable[..., xr.Dataset]:
    return photons


@pytest.fixture(scope="session")
def loaded() -> xr.Dataset:
    return photons(20_000)


@pytest.fixture(scope="session")
def stored(loaded: xr.Dataset, tmp_path_factory: pytest.TempPathFactory) -> xr.Dataset:
    """The same photons in a dataset of 20 chunks, opened lazily."""
    path = Path(tmp_path_factory.mktemp("stored")) / "clusters.zarr"
    layout = DatasetLayout(N_FRAMES, 100, 30, SHAPE, (3, 3), rows_per_chunk=1024)
    create_dataset(path, layout, {})
    writer = ClusterWriter(path, layout)
    writer.write_clusters(0, *(loaded[name].to_numpy() for name in ("frame_index", "y", "x", "signal")))
    writer.write_frames(
        0, loaded.n_clusters.to_numpy(), np.arange(100, 190, dtype=np.uint64), loaded.frame_status.to_numpy()
    )
    write_pedestal(path, Pedestal.from_mean_and_noise(np.zeros(SHAPE), NOISE_MAP, 1000))
    finish_dataset(path, layout, loaded.sizes["cluster"], {})
    return xr.open_zarr(path)


@pytest.fixture(scope="session")
def frames_and_shape() -> tuple[int, tuple[int, int]]:
    return N_FRAMES, SHAPE


@pytest.fixture(scope="session")
def k_alpha() -> float:
    return K_ALPHA


@pytest.fixture(scope="session")
def noise_map() -> np.ndarray:
    return NOISE_MAP


def charge_clouds(
    y: np.ndarray,
    x: np.ndarray,
    *,
    sigma: float = 0.3,
    noise: float = 15.0,
    window: tuple[int, int] = (3, 3),
    dtype: str = "int32",
    seed: int = 3,
    shape: tuple[int, int] = (24, 30),
) -> xr.Dataset:
    """Photons of 800 ADU at known places, each a round Gaussian cloud, in windows about the brightest pixel."""
    rng = np.random.default_rng(seed)
    rows, columns = np.rint(y).astype(int), np.rint(x).astype(int)
    half = (window[0] // 2 + 1, window[1] // 2 + 1)
    shares = [
        np.diff(ndtr((np.arange(-h - 0.5, h + 1)[:, None] - (at - centre)) / sigma), axis=0).T
        for h, at, centre in zip(half, (y, x), (rows, columns), strict=True)
    ]
    wide = 800.0 * shares[0][:, :, None] * shares[1][:, None, :]
    wide += rng.normal(0, noise, wide.shape)
    middle = wide[:, half[0] - 1 : half[0] + 2, half[1] - 1 : half[1] + 2].reshape(len(y), 9)
    step_y, step_x = np.divmod(middle.argmax(axis=1), 3)
    every = np.arange(len(y))[:, None, None]
    signal = wide[
        every,
        step_y[:, None, None] + np.arange(window[0])[:, None],
        step_x[:, None, None] + np.arange(window[1]),
    ]
    return xr.Dataset(
        {
            "signal": (("cluster", "cluster_y", "cluster_x"), np.rint(signal).astype(dtype)),
            "y": ("cluster", (rows + step_y - 1).astype(np.uint16)),
            "x": ("cluster", (columns + step_x - 1).astype(np.uint16)),
        },
        attrs={"frame_shape": list(shape)},
    )


def anywhere(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of a flat field on rows 1.5 to 21.5 and columns 1.5 to 27.5."""
    rng = np.random.default_rng(seed)
    return rng.uniform(1.5, 21.5, n), rng.uniform(1.5, 27.5, n)


@pytest.fixture(scope="session")
def make_clouds() -> Callable[..., xr.Dataset]:
    return charge_clouds


@pytest.fixture(scope="session")
def flat_field() -> xr.Dataset:
    return charge_clouds(*anywhere(300_000, 1), seed=1)


@pytest.fixture(scope="session")
def known() -> tuple[xr.Dataset, np.ndarray, np.ndarray]:
    """Other photons of a flat field than those to learn from, and where they fell."""
    y, x = anywhere(60_000, 2)
    return charge_clouds(y, x, seed=2), y, x
