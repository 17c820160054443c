"""Several runs at the same time on the workers of one scheduler."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pipeline import process


def test_two_archives_chained_at_once_on_one_scheduler_are_both_right(client, make_archive):
    archives = [make_archive(name=f"{seed}.zarr", seed=seed, n_frames=60) for seed in (1, 2)]

    def chained(archive):
        return process(archive.path, scheduler=client.scheduler.address, batch_size=10, tracking="chain").load()

    with ThreadPoolExecutor(2) as both:
        results = list(both.map(chained, archives))
    for archive, clusters in zip(archives, results, strict=True):
        expected = archive.chained()
        for name in ("n_clusters", "frame_index", "y", "x"):
            np.testing.assert_array_equal(clusters[name], expected[name])
