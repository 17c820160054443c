"""Datasets written to a real S3 server: as complete, as safe and as much one run's as local ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import xarray as xr

import analysis  # noqa: F401 (the accessor `photons`)
from cluster_store import DatasetError, array_storage, dataset_status, open_clusters, read_table
from object_stores import Objects, answer, listed
from pipeline import BatchError, RunOptions, execute, prepare, process
from pipeline.output.lock_objects import LockObject
from pipeline.output.ownership import living_writer, sole_writer
from pipeline.output.side_objects import ObjectSideFolder


def keys_below(address):
    return {key for key, _ in listed(Objects.at(address))}


def test_a_dataset_on_the_store_is_the_local_one_and_holds_no_secret(
    archive, local_clusters, client, download, options
):
    there = process(archive, client=client, **options)
    out = archive.replace(".zarr", ".clusters.zarr")
    xr.testing.assert_identical(there.load().drop_attrs(), local_clusters.drop_attrs())
    assert there.attrs["digest"] == local_clusters.attrs["digest"]
    # What is left beside it: nothing.
    assert {key.partition("/")[0] for key in keys_below(archive.rpartition("/")[0])} == {
        "run.zarr",
        "run.clusters.zarr",
    }
    # It can be copied from there and opened by anybody.
    xr.testing.assert_identical(xr.open_zarr(download(out)).load().drop_attrs(), local_clusters.drop_attrs())
    assert read_table(out, "products")["spectrum"].sum() > 0
    assert not [array.missing for array in array_storage(out) if array.missing]
    assert open_clusters(out).photons.spectrum(bins=10).sum() == there.sizes["cluster"]
    kept = b"".join(file.read_bytes() for file in download(out).rglob("zarr.json"))
    assert archive.encode() in kept
    for secret in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert os.environ[secret].encode() not in kept


@pytest.mark.slow
def test_a_place_that_is_taken_is_kept_and_overwritten_when_told(archive, client):
    first = process(archive, client=client, batch_size=20).attrs["run_id"]
    with pytest.raises(FileExistsError, match=r"exists: give --overwrite"):
        process(archive, client=client, batch_size=20)
    again = process(archive, client=client, batch_size=20, overwrite=True)
    assert again.attrs["run_id"] != first


@pytest.mark.slow
def test_what_is_not_ours_is_left_alone(archive, client, s3):
    with pytest.raises(ValueError, match="lies inside the archive"):
        process(archive, f"{archive}/out.zarr", client=client)
    with pytest.raises(ValueError, match="is the archive itself"):
        process(archive, archive, client=client, overwrite=True)
    mine = Objects.at(archive.replace("run.zarr", "mine"))
    answer(mine.put("thesis.tex", b"years of work"))
    with pytest.raises(FileExistsError, match="is not a dataset of photonflow's"):
        process(archive, mine.place(), client=client, overwrite=True)
    process(archive, client=client, batch_size=20)
    out = Objects.at(archive.replace(".zarr", ".clusters.zarr"))
    answer(out.put("notes.txt", b"mine"))
    with pytest.raises(DatasetError, match=r"is not replaced, for notes.txt in it"):
        process(archive, client=client, overwrite=True)
    assert bytes(answer(out.get("notes.txt"))) == b"mine"


def test_a_whole_bucket_a_web_server_and_a_missing_bucket_are_no_places(archive, client, s3):
    with pytest.raises(ValueError, match="is a whole bucket"):
        process(archive, s3, client=client)
    with pytest.raises(OSError, match=r"https:// addresses are for reading"):
        process(archive, "https://example.org/out.zarr", client=client)
    with pytest.raises(OSError, match="there is no such bucket"):
        process(archive, "s3://no-such-bucket/out.zarr", client=client)


def test_a_run_that_failed_goes_on(archive, client, local_clusters, options):
    """Its last batch can't be read; the chunk comes back, and the run goes on from the journal on the store."""
    objects, out = Objects.at(archive), archive.replace(".zarr", ".clusters.zarr")
    chunk = bytes(answer(objects.get("frames/c/11/0/0")))
    answer(objects.put("frames/c/11/0/0", chunk[:50]))
    with pytest.raises(BatchError, match=r"frames/c/11/0/0, with frames 55:60 .* is damaged"):
        process(archive, client=client, **options)
    assert dataset_status(out) == "running"
    assert {"run.json", "batches.log"} <= keys_below(f"{out}.journal")
    answer(objects.put("frames/c/11/0/0", chunk))
    found = []
    prepared = prepare(RunOptions(archive, batch_size=10, resume=True, products=_products()))
    result = execute(prepared, client, on_progress=lambda done: found.append(done.frames))
    assert result.digest == local_clusters.attrs["digest"]
    assert max(found) <= 60
    assert not keys_below(f"{out}.journal")
    xr.testing.assert_identical(open_clusters(out).load().drop_attrs(), local_clusters.drop_attrs())
    # Once more: there is nothing to do.
    assert execute(prepare(RunOptions(archive, batch_size=10, resume=True, products=_products())), client).was_complete


def _products():
    from finder.products import ProductOptions

    return ProductOptions(("spectrum", "hitmap"))


@pytest.mark.slow
def test_a_chain_keeps_its_states_on_the_store(archive, local_archive, client, tmp_path):
    there = process(archive, client=client, batch_size=20, tracking="chain")
    here = process(local_archive, tmp_path / "chain.zarr", client=client, batch_size=20, tracking="chain")
    assert there.attrs["digest"] == here.attrs["digest"]


@pytest.mark.slow
def test_a_chunk_that_is_lost_later_is_an_error_and_not_zeros(archive, client):
    process(archive, client=client, batch_size=20)
    out = archive.replace(".zarr", ".clusters.zarr")
    answer(Objects.at(out).delete("n_clusters/c/1"))
    with pytest.raises(DatasetError, match=r"lacks the chunk n_clusters/c/1"):
        open_clusters(out).n_clusters.values  # noqa: B018


def test_the_lines_of_a_journal_are_kept_in_parts_and_those_of_an_earlier_one_forgotten(archive):
    folder = ObjectSideFolder(Objects.at(f"{archive}.journal"))
    lines = [b"%d %s\n" % (k, b"x" * 1000) for k in range(1200)]
    folder.begin_log("batches.log", lines[0])
    for _ in range(2):  # A run, and one that goes on with its journal.
        half, lines_left = lines[1:600], lines[600:]
        log = folder.log("batches.log")
        for line in half:
            log.append(line)
        log.close()
        lines = [lines[0], *lines_left]
    whole = folder.read_log("batches.log").splitlines(keepends=True)
    assert len(whole) == 1 + 599 + 599
    assert [int(line.split()[0]) for line in whole[:600]] == list(range(600))
    assert len(folder.names()) >= 4
    folder.begin_log("batches.log", b"new\n")
    assert folder.read_log("batches.log") == b"new\n"
    assert len(folder.names()) == 2
    folder.remove_all()
    assert not folder.is_there()
    with pytest.raises(FileNotFoundError):
        folder.read_log("batches.log")


HOLDER = """
import sys
from pipeline.output.ownership import sole_writer
with sole_writer(sys.argv[1], "other"):
    print("mine", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_refused_and_a_dead_ones_place_is_taken(archive, client, s3):
    out = archive.replace(".zarr", ".clusters.zarr")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, out], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "mine\n"
        with pytest.raises(FileExistsError, match=f"is being written by process {holder.pid} on"):
            process(archive, client=client)
    finally:
        holder.kill()
        holder.communicate()
    with sole_writer(out, "me") as before:
        assert before.pid == holder.pid
        assert living_writer(out).run_id == "me"
    assert living_writer(out) is None


def test_a_writer_of_another_machine_counts_as_dead_by_the_stores_own_clock(archive, s3):
    out = f"{archive}.out"
    with sole_writer(out, "first"):
        said = json.loads(bytes(answer(Objects.at(archive.rpartition("/")[0]).get("run.zarr.out.lock"))))
    elsewhere = json.dumps(said | {"host": "node7", "machine": "another"}).encode()
    answer(Objects.at(archive.rpartition("/")[0]).put("run.zarr.out.lock", elsewhere))
    with pytest.raises(FileExistsError, match="on node7"), sole_writer(out, "second"):
        pass
    lock = LockObject(Objects.at(f"{out}.lock").address)
    assert 0 <= lock.age() < 60


def test_of_two_that_take_the_place_at_once_one_gets_it(archive, s3):
    """The other looked before the first wrote: what it writes then is written on the condition that nobody has."""
    address = Objects.at(f"{archive}.out.lock").address
    first, second = LockObject(address), LockObject(address)
    seen = []

    def may(before):
        seen.append(before)
        if len(seen) == 1:
            first.take(b"first", lambda before: None)

    assert second.take(b"second", may) == b"first"
    assert seen == [None, b"first"]
    first.touch(b"first")
    assert second.read() == b"second"
    first.remove(b"first")
    assert second.read() == b"second"
    second.touch(b"second")
    second.remove(b"second")
    assert second.read() is None
