"""What networks and servers do: nothing hangs, nothing is lost, one sentence without secrets says what was wrong."""

from __future__ import annotations

import logging
import os
import threading

import numpy as np
import pytest
import xarray as xr

from frame_archive import ArchiveError, FrameArchive
from object_stores import Objects, StoreFaultError, answer
from pipeline import OutputError, RunOptions, execute, prepare, process

WRONG = "wrong-and-never-to-be-seen"


def read_all(archive):
    opened = FrameArchive.open(archive)
    out = np.empty((60, 24, 20), np.uint16)
    opened.read(0, 60, out)
    return out


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setenv("PHOTONFLOW_STORE_PATIENCE", "1")


@pytest.fixture
def of_workers(client):
    """Set a variable in the environment of the workers for the test."""
    before = {}

    def change(name, value):
        def swap(name=name, value=value):
            was = os.environ.get(name)
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
            return was

        before.setdefault(name, next(iter(client.run(swap).values())))
        return swap

    yield change
    for name, value in before.items():
        change(name, value)


def test_the_server_is_killed_in_mid_run_and_comes_back(archive, client, gateway, relay, local_clusters):
    """It stays away until requests of the run have been turned away five times; the run takes no notice of it."""
    back = threading.Event()

    def start_again(refused):
        if refused == 5:
            gateway.start()
            back.set()

    def kill(done):
        if not killed:
            killed.append(done)
            gateway.kill()
            relay.drop_all()

    killed = []
    relay.on_refused = start_again
    try:
        result = execute(prepare(RunOptions(archive, batch_size=10)), client, on_progress=kill)
        assert back.is_set()
    finally:
        if not back.is_set():
            gateway.start()
    assert result.digest == local_clusters.attrs["digest"]


@pytest.mark.slow
def test_a_run_whose_server_is_gone_ends_and_goes_on(archive, client, gateway, relay, of_workers, impatient):
    """A run gives up with a sentence when the server stays away for longer than its patience, and loses nothing."""
    of_workers("PHOTONFLOW_STORE_PATIENCE", "1")
    killed = []

    def kill(done):
        if not killed:
            killed.append(done)
            gateway.kill()
            relay.drop_all()

    try:
        with pytest.raises(
            OutputError, match=r"s3://.* can be reached again, go on with: process\(\.\.\., resume=True\)"
        ):
            execute(prepare(RunOptions(archive, batch_size=5)), client, on_progress=kill)
    finally:
        gateway.start()
    result = execute(prepare(RunOptions(archive, batch_size=5, resume=True)), client)
    whole = process(archive, f"{archive}.again", client=client, batch_size=5)
    assert result.digest == whole.attrs["digest"]


def test_answers_that_are_cut_off_are_asked_for_again(archive, relay, local_archive):
    relay.drop_all()
    relay.cut_answers_after, relay.cuts_left = 2000, 5
    assert np.array_equal(read_all(archive), read_all(local_archive))
    assert relay.cuts_left == 0


@pytest.mark.parametrize("fault", ["silent", "slow", "failing"])
def test_a_server_that_is_too_slow_says_nothing_or_fails_ends_in_a_sentence(archive, relay, impatient, fault):
    opened = FrameArchive.open(archive)
    setattr(relay, fault, True)
    relay.drop_all()
    why = r"the server fails \(HTTP 503\)" if fault == "failing" else "the server does not answer in time"
    with pytest.raises(ArchiveError, match=rf"frames/c/0/0/0, with frames 0:5 .*: {why}"):
        opened.read(0, 5, np.empty((5, 24, 20), np.uint16))
    with pytest.raises(ArchiveError, match=why):
        FrameArchive.open(archive)
    with pytest.raises(StoreFaultError, match=f"can't be written: {why}"):
        answer(Objects.at(archive).put("x", b"x"))


def test_a_server_that_is_not_there_is_said(s3, monkeypatch, impatient):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(
        ArchiveError, match=r"the server 127.0.0.1:1 can't be reached; see that it runs, and that its address"
    ):
        FrameArchive.open(f"{s3}/run.zarr")


def test_patience_that_is_no_number_is_said(s3, monkeypatch):
    monkeypatch.setenv("PHOTONFLOW_STORE_PATIENCE", "soon")
    with pytest.raises(ValueError, match="PHOTONFLOW_STORE_PATIENCE is 'soon': give a number of seconds"):
        FrameArchive.open(f"{s3}/run.zarr")


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_wrong_keys_are_refused_and_not_told(archive, monkeypatch, caplog, name):
    caplog.set_level(logging.DEBUG)
    secret = os.environ["AWS_SECRET_ACCESS_KEY"]
    monkeypatch.setenv(name, WRONG)
    with pytest.raises(ArchiveError, match="the server refuses it; see that the keys in this machine's env") as raised:
        FrameArchive.open(archive)
    error, told = raised.value, [caplog.text]
    while error is not None:
        told.append(repr(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert WRONG not in "".join(told)
    assert secret not in "".join(told)


def test_keys_are_those_of_the_workers_environment(archive, client, of_workers, s3):
    """This process may read the archive; its workers have another key, and say so without a word of it."""
    of_workers("AWS_SECRET_ACCESS_KEY", WRONG)
    with pytest.raises(Exception, match="the server refuses it") as raised:
        process(archive, client=client, batch_size=20)
    assert WRONG not in str(raised.value)
    logs = "".join(line for lines in client.get_worker_logs(n=200).values() for _, line in lines)
    assert WRONG not in logs
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in logs


def test_no_keys_at_all_are_said(archive, monkeypatch, impatient):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    # Where a cloud's machines find keys of their own, which this one has none of.
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(ArchiveError, match="no keys were found; set AWS_ACCESS_KEY_ID"):
        FrameArchive.open(archive)


@pytest.mark.parametrize(
    ("address", "names"),
    [("gs://bucket/run.zarr", "GOOGLE_APPLICATION_CREDENTIALS"), ("az://container/run.zarr", "AZURE_STORAGE_ACCOUNT")],
)
def test_stores_of_google_and_azure_without_keys_are_said(address, names, impatient):
    with pytest.raises(ArchiveError, match=rf"{address}.* no keys were found; set {names}"):
        FrameArchive.open(address)


@pytest.mark.slow
def test_a_dataset_is_read_with_xarray_in_other_processes(archive, client):
    """What Dask's workers are sent of the store is its address; they have keys of their own."""
    clusters = process(archive, client=client, batch_size=20)
    lazy = clusters.chunk(frame=20).n_clusters.sum()
    assert int(client.compute(lazy.data).result()) == clusters.sizes["cluster"]
    assert isinstance(clusters, xr.Dataset)
