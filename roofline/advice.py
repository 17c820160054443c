"""One line for who wants a run to be faster: what binds it, by how much, and what would help."""

from __future__ import annotations

import math

from roofline.accounting import Account, StageBar

# From this share of the stages' time on, a run is said to be dominated by first touches of memory.
DOMINATED = 0.3
# Each batch begins with memory for its pedestal and a look at its first frames: as much time as 200 frames take.
FRAMES_OF_LONG_BATCHES = 1000

_CURES = {
    "read": "faster storage or chunks that pack better would help; a faster GPU would not",
    "read, page cache": "more cores or chunks that pack better would help; faster storage would not",
    "decode": "more cores or an uncompressed archive would help; a faster GPU would not",
    "read + decode": "more cores, or an archive in photonflow's own layout, would help; a faster GPU would not",
    "find": "more cores would help; faster storage would not",
    "find, short batches": "larger batches (--batch-size) or more cores would help; faster storage would not",
    "find, beside a GPU": "more cores, or more --streams, would help: the GPU waited for most of it",
    "H2D": "a faster bus, or more GPUs on buses of their own, would help; more cores would not",
    "kernel": "a faster GPU, or more of them, would help; more cores would not",
    "D2H": "counting without a list (--products, --no-clusters), or more GPUs, would help; more cores would not",
    "write": "more cores, or counting without a list (--products, --no-clusters), would help; a faster GPU would not",
}


def advice(account: Account) -> str:
    """What binds a run and what would help, such as ``decode binds: 1.9 of 2.6 GB/s; more cores would help``."""
    tallest = account.tallest
    if tallest is None:
        return "nothing was done, so nothing binds"
    parts = [_binds(account, tallest)]
    if account.share_of_faults >= DOMINATED:
        parts.append(
            f"first touches of memory took {account.share_of_faults:.0%} of the stages' time "
            f"({account.faults.count:,} page faults of {account.faults.seconds_each * 1e6:.2f} µs): "
            "a longer run, or the same again, will be faster"
        )
    return ". ".join(parts)


def stage_advice(account: Account, bar: StageBar) -> str:
    """What a stage reached of its ceiling, and what would help it."""
    cure = _CURES.get(_kind(account, bar), "more workers would help")
    return f"{bar.name} binds: {_figures(account, bar)}; {cure}"


def _binds(account: Account, tallest: StageBar) -> str:
    split, workers = account.split, account.workers
    whole = split.start_up + workers * account.seconds
    working = workers * account.seconds - split.finishing
    of_stages = f"of the stages {tallest.name} binds"
    if split.start_up > 0.5 * whole:
        share = split.start_up / whole
        return f"start-up took {share:.0%} of the wall time: more frames in one run would help; {of_stages}"
    if split.finishing > 0.5 * whole:
        share = split.finishing / whole
        return f"finishing took {share:.0%} of the wall time: more frames in one run would help; {of_stages}"
    if account.idle_seconds > 0.5 * working:
        stragglers = split.stragglers >= split.waiting
        cure = "more frames, or smaller batches" if stragglers else "fewer workers, or larger batches"
        share = account.idle_seconds / working
        idle = f"the workers were idle for {share:.0%} of the time"
        return f"{idle}: {cure}, would help; faster hardware would not; {of_stages}"
    return stage_advice(account, tallest)


def _figures(account: Account, bar: StageBar) -> str:
    """What the stage reached on a worker, of its ceiling."""
    reached, ceiling = bar.use.bytes_a_second / 1e9, bar.ceiling.bytes_a_second
    if not math.isfinite(reached) or bar.use.nbytes == 0:
        return f"{bar.seconds / account.busy_seconds:.0%} of the stages' time"
    whose = "a worker" if bar.use.within is None else "a GPU"
    if ceiling is None:
        return f"{_rounded(reached)} GB/s {whose}, its ceiling not measured"
    if bar.exceeds_ceiling:
        return f"{_rounded(reached)} GB/s {whose}, more than its ceiling: measure that again"
    return f"{_rounded(reached)} of {_rounded(ceiling / 1e9)} GB/s {whose}"


def _rounded(value: float) -> str:
    return f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _kind(account: Account, bar: StageBar) -> str:
    """The stage, and what is beside it."""
    if bar.name == "read" and bar.ceiling.resource == "core":
        return "read, page cache"
    if bar.name != "find":
        return bar.name
    if account.gpus:
        return "find, beside a GPU"
    return "find, short batches" if account.frames < FRAMES_OF_LONG_BATCHES * account.batches else "find"
