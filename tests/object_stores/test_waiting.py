"""A store that does not answer is waited for once, by all that ask it; a run that has given up waits no more."""

from __future__ import annotations

import logging
import threading
import time

import obstore
import pytest
from obstore.store import S3Store

from object_stores import Objects, StoreFaultError, answer
from object_stores.waiting import SECONDS_OF_A_SHORT_TRY, Silence, answered
from pipeline.output import ownership
from pipeline.output.ownership import sole_writer

PATIENCE = 600.0


@pytest.fixture
def silence():
    return Silence("s3://b")


@pytest.fixture
def ask():
    """Ask a server that is not there; counts how often."""
    store = S3Store(
        "b",
        endpoint="http://127.0.0.1:1",
        skip_signature=True,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )

    async def ask():
        ask.times += 1
        return await obstore.get_async(store, "x")

    ask.times = 0
    return ask


def test_after_a_silence_of_a_whole_patience_each_request_has_one_short_try(silence, ask):
    assert silence.longest_try(PATIENCE) is None
    assert silence.missed(time.monotonic() - PATIENCE, PATIENCE) <= time.monotonic()
    assert silence.longest_try(PATIENCE) == SECONDS_OF_A_SHORT_TRY
    for times in (1, 2):
        with pytest.raises(StoreFaultError, match="can't be reached"):
            answer(answered("s3://b/x", "read", ask, silence, PATIENCE, repeats=True))
        assert ask.times == times


def test_a_request_that_comes_late_in_a_silence_is_given_up_with_it(silence):
    began = time.monotonic() - PATIENCE / 2
    assert silence.missed(began, PATIENCE) == began + PATIENCE
    assert silence.missed(time.monotonic(), PATIENCE) == began + PATIENCE
    assert silence.longest_try(PATIENCE) <= PATIENCE / 2


def test_any_answer_ends_the_silence(silence):
    silence.missed(time.monotonic() - PATIENCE, PATIENCE)
    silence.heard()
    assert silence.longest_try(PATIENCE) is None
    assert silence.missed(time.monotonic(), PATIENCE) > time.monotonic()


def test_a_failure_of_long_ago_is_another_silence(silence):
    silence.missed(time.monotonic() - 30, PATIENCE)
    later = time.monotonic() + 40
    assert silence.missed(later, PATIENCE) == later + PATIENCE


def test_a_silence_is_told_once(silence, caplog):
    caplog.set_level(logging.WARNING)
    silence.missed(time.monotonic(), PATIENCE)
    assert caplog.messages == []
    silence.heard()
    for _ in range(3):
        silence.missed(time.monotonic() - 9, PATIENCE)
    (told,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert told.getMessage().startswith("s3://b does not answer; trying until ")


def test_a_writer_does_not_wait_for_a_store_that_is_gone_and_leaves_when_it_is_back(s3, relay, monkeypatch):
    monkeypatch.setattr(ownership, "SECONDS_TO_LEAVE", 0.5)
    out = f"{s3}/left/run.clusters.zarr"
    with sole_writer(out, "run"):
        relay.silent = True
        relay.drop_all()
    (leaving,) = [thread for thread in threading.enumerate() if thread.name == "photonflow-leaving"]
    relay.behave()
    relay.drop_all()
    leaving.join()
    assert answer(Objects.at(s3).about("left/run.clusters.zarr.lock")) is None
