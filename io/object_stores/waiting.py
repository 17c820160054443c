"""How long is waited for a store that does not answer: all requests of a process that go to it wait together.

A store that has died is missed by every request at once, and by those that come after them. Were each of them to wait
for itself, and a task that failed so to be run again, the waits would add up. So there is one wait for a store: it
begins with the first request that gets no answer, and ends with any that gets one.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from itertools import count
from typing import TypeVar

from object_stores.errors import AwayError, BrokenOffError, SilentError, StoreFaultError, TakenError, in_one_sentence

logger = logging.getLogger(__name__)

SECONDS_OF_A_SHORT_TRY = 3.0
_SECONDS_TO_NOTICE = 4.0
# Of an answer that breaks off; beyond them it is not by chance.
_TRIES = 6
# Failures that lie further apart are of no one silence: what waits asks more often.
_LONGEST_GAP_SECONDS = 10.0

_T = TypeVar("_T")


class Silence:
    """Since when a store has not answered any request of this process.

    Args:
        name: of the store, for people.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._since: float | None = None
        self._missed = -math.inf
        self._given_up = -math.inf
        self._told = False

    def longest_try(self, patience: float) -> float | None:
        """For how many s a request may wait for its answer, beside what the library allows it.

        In a silence that is until its end, and after a store has not answered for a whole patience what comes next has
        a short try only, for two patiences.
        """
        short = min(SECONDS_OF_A_SHORT_TRY, patience)
        if self._is_given_up(patience):
            return short
        now = time.monotonic()
        if self._since is None or now > self._missed + _LONGEST_GAP_SECONDS:
            return None
        return max(short, self._since + patience - now)

    def heard(self) -> None:
        """A request was answered."""
        if self._told:
            logger.info("%s answers again", self._name)
        self._since, self._given_up, self._told = None, -math.inf, False

    def missed(self, began: float, patience: float) -> float:
        """A request that was sent at `began` was not answered; returns until when to go on, by the monotonic clock."""
        now = time.monotonic()
        if self._is_given_up(patience):
            return now
        if self._since is None or began > self._missed + _LONGEST_GAP_SECONDS:
            self._since, self._told = began, False
        self._missed = now
        until = self._since + patience
        if now >= until:
            self._given_up = now
        elif now - self._since > _SECONDS_TO_NOTICE and not self._told:
            self._told = True
            clock = time.strftime("%H:%M:%S", time.localtime(time.time() + until - now))
            logger.warning("%s does not answer; trying until %s", self._name, clock)
        return until

    def _is_given_up(self, patience: float) -> bool:
        return time.monotonic() < self._given_up + 2 * patience


@lru_cache(maxsize=64)
def silence_of(name: str, environment: tuple[tuple[str, str], ...]) -> Silence:
    """What is known of a store's silence; of another one where the environment has changed."""
    return Silence(name)


async def answered(
    place: str, task: str, ask: Callable[[], Awaitable[_T]], silence: Silence, patience: float, *, repeats: bool
) -> _T:
    """What is asked for; it is asked for again while the store does not answer, or its answers break off.

    Args:
        place: what is asked for; its URL.
        task: what can't be done if it fails, as in `in_one_sentence`.
        ask: asks once.
        silence: the store's.
        patience: for how long in all, in s.
        repeats: whether it may be asked for again where no answer says that it has not been done already.

    Raises:
        FileNotFoundError: there is no such object.
        TakenError: a condition does not hold.
        StoreFaultError: the store can't be reached, refuses or fails.
    """
    first = time.monotonic()
    for again in count():
        began = time.monotonic()
        try:
            with in_one_sentence(place, task):
                async with asyncio.timeout(silence.longest_try(patience)):
                    found = await ask()
        except AwayError as fault:
            until = min(silence.missed(began, patience), first + patience)
            if time.monotonic() >= until or (isinstance(fault, SilentError) and not repeats):
                raise
            await asyncio.sleep(min(_pause_seconds(again, patience), max(until - time.monotonic(), 0.0)))
        except BrokenOffError:
            silence.heard()
            if again >= _TRIES or time.monotonic() > first + patience:
                raise
            await asyncio.sleep(0.05 * 2**again)
        except (FileNotFoundError, TakenError, StoreFaultError):
            silence.heard()
            raise
        else:
            silence.heard()
            return found
    raise AssertionError


def _pause_seconds(tries: int, patience: float) -> float:
    """How long to wait after so many tries: the longer the more, and not as long as others do."""
    longest = min(0.5 * 2.0 ** min(tries, 4), 2.0, patience / 4)
    return longest * random.uniform(0.5, 1.0)
