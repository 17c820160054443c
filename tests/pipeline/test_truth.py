"""What a whole run finds, against the simulated truth of every photon."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

import analysis  # noqa: F401  (gives datasets the accessor `photons`)
from cluster_store import open_clusters
from frame_archive.simulation import SimulatedDetector
from pipeline import RunOptions, execute, prepare
from pipeline.simulation import simulate_archive

# So far apart that neither window sees the other photon's charge.
APART = 5


@pytest.fixture(scope="module")
def run(client, tmp_path_factory):
    """The truth of the photons of a run and its clusters."""
    path = tmp_path_factory.mktemp("truth") / "a.zarr"
    simulate_archive(path, SimulatedDetector(shape=(200, 240)), n_frames=100, n_dark=1000, client=client)
    result = execute(prepare(RunOptions(str(path), batch_size=30)), client)
    return zarr.open_group(path, mode="r"), open_clusters(result.out).load()


def isolated_photons(archive):
    """Frame, y and x of the photons with no other near, nor an edge, nor a masked pixel."""
    x, y = (np.asarray(archive["truth"][name][...]) for name in ("x", "y"))
    masked = np.argwhere(np.asarray(archive["pixel_mask"][...]) != 0)
    rows, columns = archive["pixel_mask"].shape
    for frame in range(len(x)):
        there = np.isfinite(x[frame])
        photons = np.column_stack([y[frame, there], x[frame, there]])
        others = np.abs(photons[:, None] - photons[None]).max(-1)
        np.fill_diagonal(others, np.inf)
        alone = others.min(1) > APART
        if len(masked):
            alone &= np.abs(photons[:, None] - masked[None]).max(-1).min(1) > APART
        inside = ((photons > APART) & (photons < np.array([rows, columns]) - APART)).all(1)
        for row, column in photons[alone & inside]:
            yield frame, row, column


def test_at_least_99_percent_of_isolated_photons_are_found_within_one_pixel(run):
    archive, clusters = run
    found = set(
        zip(clusters.frame_index.values.tolist(), clusters.y.values.tolist(), clusters.x.values.tolist(), strict=True)
    )
    photons = list(isolated_photons(archive))
    assert len(photons) > 10_000
    hit = sum(
        any(
            (frame, row + dy, column + dx) in found
            for dy in (-1, 0, 1)
            for dx in (-1, 0, 1)
            if abs(row + dy - y) <= 1 and abs(column + dx - x) <= 1
        )
        for frame, y, x in photons
        for row, column in [(round(y), round(x))]
    )
    assert hit >= 0.99 * len(photons)


def test_the_k_alpha_peak_of_isolated_clusters_stands_within_1_percent_of_its_energy(run):
    archive, clusters = run
    gain = float(np.mean(archive["truth"]["gain"][...]))
    alone = clusters.photons.isolated(4).dataset()
    assert alone.photons.peak(bins=240, range=(0, 1200)).position == pytest.approx(8.048 * gain, rel=0.01)


def test_clusters_are_photons_and_hardly_any_is_noise(run):
    archive, clusters = run
    n_photons = int(np.asarray(archive["truth"]["n_photons"][...]).sum())
    assert 0.9 * n_photons < clusters.sizes["cluster"] < 1.05 * n_photons
