"""What a dataset is made from: all that its bits depend on, to be the same again before a run goes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import xxhash

from cluster_store import FORMAT_VERSION
from finder import Pedestal
from pipeline.batches.chain_states import pedestal_digest
from pipeline.preparation import PreparedRun, RunOptions

# The options of a run that are part of its result, beside the finder's parameters, all of which are.
OF_THE_RESULT = ("batch_size", "dark_clip", "tracking", "warmup", "recentre", "signal_dtype", "missing_chunks")
# What is known by a digest is not told apart in words.
_DIGESTS = {
    "archive": "the archive's metadata has changed",
    "pedestal": "the pedestal is another: its darks have changed, or come from elsewhere",
    "mask": "the pixel mask is another",
}


def made_from(prepared: PreparedRun, pedestal: Pedestal) -> dict[str, Any]:
    """All that a run's result depends on, as plain values by name."""
    mask = prepared.pixel_mask
    return {
        "format_version": FORMAT_VERSION,
        "archive": prepared.archive.fingerprint,
        "pedestal": pedestal_digest(pedestal),
        "mask": "" if mask is None else xxhash.xxh3_128_hexdigest((mask & 0xFFFF).tobytes()),
        "frames": f"{prepared.plan.first_frame}:{prepared.plan.stop_frame}",
        **_plain_options(prepared.options),
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What tells the run that was broken off from the one that is asked for, each in a few words."""
    found = []
    for name in {**before, **now}:
        was, wanted = before.get(name), now.get(name)
        if was != wanted:
            found.append(_DIGESTS.get(name) or f"{name} was {was} and now is {wanted}")
    return found


def _plain_options(options: RunOptions) -> dict[str, Any]:
    parameters = {
        field.name: getattr(options.parameters, field.name) for field in dataclasses.fields(options.parameters)
    }
    parameters["common_mode"] = str(options.parameters.common_mode or "off")
    if not parameters["gain_bits"]:
        del parameters["gain_bits"]
    named = parameters | {name: getattr(options, name) for name in OF_THE_RESULT}
    if options.products.names:
        named["products"] = options.products.in_words()
    if not options.clusters:
        named["clusters"] = "counted and not listed"
    # As they come back from JSON.
    return {name: _plain(value) for name, value in named.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
