"""A real Dask cluster of two worker processes, kept for the session."""

from __future__ import annotations

import pytest

from pipeline import ClusterConfig, open_cluster


@pytest.fixture(scope="session")
def client():
    with open_cluster(ClusterConfig(workers=2)) as client:
        yield client
