"""Memory: a worker streams its batch, and stays below what a dry run says."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from frame_archive.simulation import SimulatedDetector
from pipeline import ClusterConfig, RunOptions, execute, open_cluster, prepare
from pipeline.checks.forecast import forecast
from pipeline.ingest.planning import IngestOptions, plan_ingest
from pipeline.ingest.run import ingest
from pipeline.simulation import simulate_archive


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.slow
def test_a_worker_stays_below_one_gigabyte_at_the_defaults_and_below_the_forecast(tmp_path):
    # Three batches a worker: one being found while one is held and one is written.
    simulate_archive(tmp_path / "a.zarr", SimulatedDetector(), n_frames=12_000, n_dark=200)
    prepared = prepare(RunOptions(str(tmp_path / "a.zarr")))
    expected = forecast(prepared)
    assert expected.decoded_bytes == 12_000 * 320_000
    with open_cluster(ClusterConfig(workers=2)) as client:
        result = execute(prepared, client)
        peaks = client.run(peak_bytes)
    assert result.summary.clusters == pytest.approx(12_000 * expected.clusters_a_frame, rel=0.02)
    assert max(peaks.values()) < min(1e9, expected.worker_bytes)


@pytest.mark.slow
def test_the_memory_of_ingest_does_not_grow_with_what_is_ingested(tmp_path):
    # The worker comes first: a process begins with the peak of the one that started it.
    with open_cluster(ClusterConfig(workers=1)) as client:
        frames = np.lib.format.open_memmap(tmp_path / "many.npy", "w+", np.uint16, (4000, 400, 400))
        for frame in frames:
            frame[:] = np.random.default_rng(1).integers(0, 1000, frame.shape)
        frames.flush()
        np.save(tmp_path / "few.npy", frames[:100])

        def peak(name: str) -> int:
            ingest(plan_ingest([str(tmp_path / name)], IngestOptions()), tmp_path / f"{name}.zarr", client)
            return max(client.run(peak_bytes).values())

        few, many = peak("few.npy"), peak("many.npy")
    assert few < 0.5 * frames.nbytes
    assert many - few < 0.05 * frames.nbytes
