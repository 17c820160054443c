"""What workers compile is shown; what has been compiled they load without Numba."""

from __future__ import annotations

import logging
import shutil
import sys

import numpy as np
import pytest

from finder import FinderParameters, Pedestal, open_finder
from finder.code_store import CodeStore
from pipeline import ClusterConfig, RunOptions, execute, open_cluster, prepare


class ListOfWords(logging.Handler):
    """What was logged."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.words = []

    def emit(self, record):
        self.words.append(record.getMessage())


def has_numba():
    return "numba" in sys.modules


def compile_all_but_the_median(folder):
    """Fill a folder with what has been compiled for this machine, the finder for 3×3 in any case."""
    shape = (20, 30)
    pedestal = Pedestal.from_mean_and_noise(np.full(shape, 50.0), np.full(shape, 2.0))
    chain = open_finder("cpu", FinderParameters(), shape).chain(pedestal)
    chain.find(np.full((1, *shape), 50, np.uint16))
    assert chain.activity.n_frames == 1
    folder.mkdir(parents=True)
    for found in CodeStore()._folders:
        for code in found.glob("*.code"):
            if not code.name.startswith("lower_median"):
                shutil.copy(code, folder)


@pytest.mark.parametrize("told_of_steps", [True, False])
def test_a_run_shows_what_one_worker_compiles_and_the_other_needs_no_numba(
    make_archive, tmp_path, monkeypatch, told_of_steps
):
    compile_all_but_the_median(tmp_path / "compiled" / "photonflow")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "compiled"))
    # A logger's own handlers: Dask silences those of all loggers while a cluster that it started runs.
    logged, steps = ListOfWords(), []
    monkeypatch.setattr(logging.getLogger("pipeline"), "handlers", [logged])
    archive = make_archive()
    with open_cluster(ClusterConfig(workers=2)) as client:
        prepared = prepare(RunOptions(archive.path, batch_size=20))
        execute(prepared, client, on_step=steps.append if told_of_steps else None)
        assert sorted(client.run(has_numba).values()) == [False, True]
    said = steps if told_of_steps else logged.words
    median = "compiling the median of a batch's first frames (once on this machine, about 3 s)"
    assert [words for words in said if words.startswith("compiling the")][:1] == [median]
    assert not [words for words in said if "CPU finder" in words]
    if told_of_steps:
        assert steps.index("preparing the workers") < steps.index(median) < steps.index("finding clusters")
        assert logged.words == []
