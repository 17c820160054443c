"""One writer at a time: a living one keeps its place, a dead one loses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from pipeline.output.ownership import living_writer, lock_file, sole_writer

HOLDER = """
import sys
from pipeline.output.ownership import sole_writer
with sole_writer(sys.argv[1], "other"):
    print("mine", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def out(tmp_path):
    return str(tmp_path / "folder of its own" / "c.zarr")


@pytest.fixture
def holder(out):
    """Another process that writes ``out``."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, out], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "mine\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_writer_is_refused_with_the_process_and_machine_of_the_first(out, holder):
    assert living_writer(out).pid == holder.pid
    refusal = f"is being written by process {holder.pid} on {os.uname().nodename}: "
    with pytest.raises(FileExistsError, match=refusal), sole_writer(out, "mine"):
        pass
    # Refused is not removed.
    assert living_writer(out).pid == holder.pid
    holder.communicate("")
    assert living_writer(out) is None
    assert not lock_file(out).exists()


def test_the_place_of_a_writer_that_was_killed_is_taken_also_while_nobody_has_waited_for_it(out, holder):
    holder.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
    with sole_writer(out, "mine") as before:
        assert before.pid == holder.pid
        assert living_writer(out).run_id == "mine"


def test_a_process_that_has_the_number_of_a_dead_writer_is_not_taken_for_it(out, holder):
    said = json.loads(lock_file(out).read_text())
    lock_file(out).write_text(json.dumps(said | {"began": said["began"] - 1}))
    with sole_writer(out, "mine") as before:
        assert before.pid == holder.pid


def test_a_writer_on_another_machine_is_alive_as_long_as_it_touches_its_file(out, holder):
    said = json.loads(lock_file(out).read_text())
    holder.kill()
    lock_file(out).write_text(json.dumps(said | {"host": "node7", "machine": "another"}))
    with pytest.raises(FileExistsError, match=f"process {holder.pid} on node7"), sole_writer(out, "mine"):
        pass
    then = time.time() - 90
    os.utime(lock_file(out), (then, then))
    with sole_writer(out, "mine") as before:
        assert before.host == "node7"


@pytest.mark.parametrize("content", ["", "{", '{"run_id": "a", "ho', "\0" * 100])
def test_a_file_that_says_nothing_stops_nobody(out, content):
    lock_file(out).parent.mkdir()
    lock_file(out).write_text(content)
    with sole_writer(out, "mine") as before:
        assert before is None


@pytest.mark.parametrize("kind", ["a file of somebody's", "a link to one", "a folder"])
def test_what_is_somebody_elses_is_never_taken_for_the_file_of_a_writer(out, tmp_path, kind):
    lock, notes = lock_file(out), tmp_path / "notes.txt"
    lock.parent.mkdir()
    notes.write_text("mine")
    match kind:
        case "a file of somebody's":
            lock.write_text("mine")
        case "a link to one":
            lock.symlink_to(notes)
        case "a folder":
            lock.mkdir()
    said = rf"{lock} is in the way: .* move it, or give --out"
    with pytest.raises(FileExistsError, match=said), sole_writer(out, "me"):
        pass
    assert notes.read_text() == "mine"
    assert lock.is_dir() or lock.read_text() == "mine"


def test_of_many_that_begin_at_once_only_one_has_the_place_at_a_time(out):
    inside, most, times = [], [], []
    gate = threading.Barrier(8)

    def try_it(name):
        gate.wait()
        while name not in times:
            try:
                with sole_writer(out, f"{name}"):
                    inside.append(name)
                    most.append(len(inside))
                    times.append(name)
                    inside.remove(name)
            except FileExistsError:
                pass

    threads = [threading.Thread(target=try_it, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert sorted(times) == list(range(8))
    assert not lock_file(out).exists()


def test_a_run_that_failed_in_this_process_is_over(out):
    with pytest.raises(RuntimeError), sole_writer(out, "first"):
        raise RuntimeError
    with sole_writer(out, "second") as before:
        assert before is None
        with pytest.raises(FileExistsError, match="by this process"), sole_writer(out, "third"):
            pass
