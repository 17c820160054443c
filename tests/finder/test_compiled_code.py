"""Functions that are compiled once a machine: how they are kept, and how they are called."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import textwrap
from typing import NamedTuple

import numpy as np
import pytest

from finder.call_signature import CallSignature
from finder.code_compilation import object_code
from finder.code_store import CodeStore
from finder.compiled_code import Code, compiled, name_in_store
from finder.compiling_notices import compiling_told_to, tell


class Weights(NamedTuple):
    values: object
    factor: object
    offset: object


def weighted_sum(weights, image, first, exponent, total):
    total[0] = exponent
    for y in range(first, image.shape[0]):
        for x in range(image.shape[1]):
            total[0] += weights.values[x] * image[y, x] * weights.factor + weights.offset


WEIGHTED_SUM = Code("weighted_sum", lambda: weighted_sum, (), "a sum", 1)


def arguments():
    weights = Weights(np.array([1, 2, 3], np.uint8), np.float32(0.5), 7)
    return weights, np.arange(6, dtype=np.uint16).reshape(2, 3), 1, 0.25, np.zeros(1)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "store"))
    return CodeStore()


def test_arrays_numbers_and_tuples_of_them_arrive_as_they_are():
    given = arguments()
    function = compiled(WEIGHTED_SUM, *given)
    function(*given)
    assert given[-1].tolist() == [0.25 + 0.5 * (3 + 8 + 15) + 3 * 7]
    first, rest = given[:2], given[2:]
    function.bound(*first)(0, *rest[1:])
    assert given[-1].tolist() == [0.25 + 0.5 * (2 + 6 + 3 + 8 + 15) + 6 * 7]


def test_what_the_code_was_not_compiled_for_is_refused():
    given = arguments()
    function = compiled(WEIGHTED_SUM, *given)
    others = {
        1: [given[1].astype(np.int16), given[1][0], np.asfortranarray(given[1]), given[1][:, ::-1], [[1, 2, 3]]],
        2: [0.5, "1"],
        3: [None],
        4: [np.zeros(1, np.float32)],
    }
    for place, values in others.items():
        for value in values:
            wrong = [*given]
            wrong[place] = value
            with pytest.raises((TypeError, ValueError)):
                function(*wrong)
    assert given[-1].tolist() == [0]
    for wrong in (given[:-1], (*given, 1)):
        with pytest.raises((TypeError, ValueError)):
            function(*wrong)


def test_other_kinds_of_arguments_are_compiled_for_themselves():
    weights, image, *rest = arguments()
    wide = image.astype(np.int64)
    function = compiled(WEIGHTED_SUM, weights, wide, *rest)
    assert function is not compiled(WEIGHTED_SUM, weights, image, *rest)
    assert function is compiled(WEIGHTED_SUM, weights, wide, *rest)
    function(weights, wide, *rest)
    assert rest[-1].tolist() == [0.25 + 0.5 * (3 + 8 + 15) + 3 * 7]


def makes_an_array(target):
    target[0] = np.ones(3).sum()


def prints(target):
    print(target[0])  # noqa: T201


@pytest.mark.parametrize("function", [makes_an_array, prints])
def test_code_that_needs_numba_at_run_time_is_not_kept(function):
    with pytest.raises(Exception, match=r"returning of array|compiled code calls"):
        object_code(function, CallSignature.of((np.zeros(1),)))


def test_what_was_written_is_read_and_what_is_damaged_is_not(store, tmp_path, caplog):
    assert store.read("a") is None
    store.write("a", b"code")
    store.write("a", b"newer code")
    assert store.read("a") == b"newer code"
    (path,) = (tmp_path / "store").rglob("a*")
    path.write_bytes(path.read_bytes()[:-1])
    assert store.read("a") is None
    assert f"{path} is damaged" in caplog.text


def test_where_nothing_can_be_kept_that_is_said(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "folder"))
    store = CodeStore()
    with store.alone("a", pytest.fail):
        store.write("a", b"code")
    assert store.read("a") is None
    assert "compiled code can't be kept" in caplog.text


def folders_that_take_nothing(tmp_path, monkeypatch):
    """Only temporary files are left: the source's folder and the home are files."""
    (tmp_path / "file").touch()
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("finder.code_store.__file__", str(tmp_path / "file" / "code_store.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"photonflow-{os.getuid()}"


def test_with_a_home_that_is_read_only_code_is_kept_among_temporary_files(tmp_path, monkeypatch):
    folder = folders_that_take_nothing(tmp_path, monkeypatch)
    CodeStore().write("a", b"code")
    assert CodeStore().read("a") == b"code"
    assert folder.stat().st_mode & 0o777 == 0o700


def test_no_code_is_taken_from_a_temporary_folder_that_others_can_write_to(tmp_path, monkeypatch, caplog):
    folder = folders_that_take_nothing(tmp_path, monkeypatch)
    CodeStore().write("a", b"code")
    folder.chmod(0o777)
    assert CodeStore().read("a") is None
    CodeStore().write("b", b"code")
    assert "is not this user's alone" in caplog.text
    folder.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").chmod(0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert CodeStore().read("a") is None


# Says that it is there, and stays until it is killed.
HOLD = """
import sys
from finder.code_store import CodeStore
with CodeStore().alone(sys.argv[1], lambda: None):
    print("holding", flush=True)
    sys.stdin.read()
"""


def test_a_process_waits_for_another_that_compiles_and_goes_on_when_that_is_killed(store):
    given = arguments()
    code = Code("waited_for", lambda: weighted_sum, (), "a sum", 1)
    name = name_in_store(code, CallSignature.of(given))
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "holding\n"
        told = []

        def hear(words):
            told.append(words)
            holder.kill()

        with compiling_told_to(hear):
            compiled(code, *given)(*given)
        holder.stdin.close()
    about = "compiling a sum (once on this machine, about 1 s)"
    assert told == [f"another process is {about}", about]
    assert store.read(name) is not None


def test_what_another_process_has_compiled_meanwhile_is_not_compiled_again(store):
    given = arguments()
    code = Code("compiled_meanwhile", lambda: pytest.fail("compiled again"), (), "a sum", 1)
    signature = CallSignature.of(given)
    name = name_in_store(code, signature)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "holding\n"

        def finish(words):
            store.write(name, object_code(weighted_sum, signature))
            holder.stdin.close()

        with compiling_told_to(finish):
            compiled(code, *given)(*given)
    assert given[-1].tolist() == [0.25 + 0.5 * (3 + 8 + 15) + 3 * 7]


def test_only_what_takes_long_is_told_where_no_log_was_asked_for(caplog):
    tell("compiling something small", 2)
    tell("compiling something large", 20)
    assert [record.levelno for record in caplog.records if record.levelno >= logging.WARNING] == [logging.WARNING]
    assert "something large" in caplog.text


def test_importing_the_finder_and_the_pipeline_loads_neither_llvm_nor_numba():
    script = """
        import sys
        import finder, finder.offset, finder.rounding, finder.gain_bits, pipeline
        loaded = {"numba", "llvmlite"} & set(sys.modules)
        assert not loaded, loaded
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
