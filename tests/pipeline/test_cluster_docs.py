"""docs/clusters.md tells every key of a cluster configuration."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from pipeline import ClusterConfig
from pipeline.workers.cluster_sections import AdaptiveBounds, KubernetesPods, SlurmJobs, SshHosts, Volume

PAGE = (Path(__file__).parents[2] / "docs" / "clusters.md").read_text()


@pytest.mark.parametrize("section", [ClusterConfig, AdaptiveBounds, SlurmJobs, SshHosts, KubernetesPods, Volume])
def test_every_key_is_told_in_the_docs(section):
    told = set(re.findall(r"`(\w+)[`:]", PAGE))
    assert {field.name for field in fields(section)} <= told
