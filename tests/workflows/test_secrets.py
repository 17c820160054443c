"""What is secret in a command is neither said nor logged, however much is asked for."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("verbosity", ["--no-progress", "-v", "-vv"])
@pytest.mark.parametrize(
    "option",
    [
        ("--pedestal", "https://h/p.npz?token=s3cr3t"),
        ("--mask", "s3://id:s3cr3t@bucket/mask.npy"),
        ("--cluster", "https://id:s3cr3t@h/cluster.yaml"),
        ("--frames", "https://id:s3cr3t@h"),
    ],
)
def test_a_secret_is_not_said(photonflow, archive, option, verbosity):
    failed = photonflow("process", archive, *option, verbosity)
    assert failed.code in (1, 2)
    assert "***" in failed.stderr
    assert "s3cr3t" not in failed.stderr + failed.stdout
