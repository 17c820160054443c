"""What every command's log shows."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOG = """
import logging
from workflows.command_line import configure_logging

configure_logging({verbosity})
import distributed

for name in ("distributed.core", "distributed.client", "tornado.application", "asyncio", "pipeline.run"):
    logging.getLogger(name).error("said by %s", name)
"""


@pytest.mark.parametrize(("verbosity", "n_said"), [(0, 1), (1, 1), (2, 5)])
def test_what_runs_underneath_is_heard_at_vv_only(verbosity, n_said):
    said = subprocess.run(
        [sys.executable, "-c", LOG.format(verbosity=verbosity)], capture_output=True, text=True, check=True
    ).stderr
    assert "ERROR pipeline.run: said by pipeline.run" in said
    assert said.count("said by") == n_said
