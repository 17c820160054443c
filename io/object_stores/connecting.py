"""Connections to object stores, with what the environment of this process says of keys and endpoints.

Nothing of it is taken from an address, handed on to another process, or kept: a worker asks its own environment.
"""

from __future__ import annotations

import os
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from object_stores.addresses import ObjectAddress
from object_stores.environment import ENDPOINTS, construction_fault, require_sound
from object_stores.errors import is_panic
from object_stores.waiting import Silence, silence_of

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

PATIENCE = "PHOTONFLOW_STORE_PATIENCE"
"""The variable that says for how many seconds a request that fails is tried again."""

_PATIENCE_SECONDS = 60.0
_LONGEST_REQUEST_SECONDS = 30.0
_OF_STORES = ("AWS_", "GOOGLE_", "AZURE_", "SSL_CERT_", PATIENCE)


class MissingLibraryError(ValueError):
    """obstore is not installed; the message is a sentence."""


def connected(address: ObjectAddress) -> Any:
    """The obstore store at an address; the same again as long as the environment says the same.

    Raises:
        MissingLibraryError: obstore is not installed.
        StoreFaultError: The environment says something of keys, endpoints or options that can't be.
        ValueError: The patience is no number.
    """
    return _connected(address, _environment())


def silence(address: ObjectAddress) -> Silence:
    """What this process knows of how long the store has not answered that an address is on."""
    return silence_of(f"{address.scheme}://{address.bucket}", _environment())


def patience_seconds() -> float:
    """For how long a request that fails is tried again, in s.

    Raises:
        ValueError: The environment says no number.
    """
    text = os.environ.get(PATIENCE, str(_PATIENCE_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 86_400:
        raise ValueError(f"{PATIENCE} is {text!r}: give a number of seconds, such as 60")
    return seconds


def _environment() -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith(_OF_STORES)))


@lru_cache(maxsize=16)
def _connected(address: ObjectAddress, environment: tuple[tuple[str, str], ...]) -> Any:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import AzureStore, GCSStore, HTTPStore, S3Store
    except ImportError as error:
        raise MissingLibraryError(
            f"{address} is on an object store, and obstore is not installed: pip install 'photonflow[objects]'"
        ) from error
    variables = dict(environment)
    require_sound(address, variables)
    patience = patience_seconds()
    options: ClientConfig = {
        "timeout": timedelta(seconds=min(_LONGEST_REQUEST_SECONDS, max(patience / 2, 1.0))),
        "connect_timeout": timedelta(seconds=min(5.0, patience)),
    }
    # Only what passes within a second: how long is waited for a store is said in `object_stores.waiting`.
    retries: RetryConfig = {
        "max_retries": 2,
        "retry_timeout": timedelta(seconds=min(1.0, patience / 2)),
        "backoff": {
            "init_backoff": timedelta(seconds=0.05),
            "max_backoff": timedelta(seconds=0.2),
            "base": 2,
        },
    }
    # Only where a user has written so: keys would travel in the clear.
    if address.scheme == "http" or any(variables.get(name, "").startswith("http://") for name in ENDPOINTS):
        options["allow_http"] = True
    try:
        if address.is_web:
            return HTTPStore(str(address), client_options=options, retry_config=retries)
        kind = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[address.scheme]
        return kind(address.bucket, prefix=address.key or None, client_options=options, retry_config=retries)
    except (BaseError, ValueError) as error:
        raise construction_fault(address, variables, str(error)) from None
    except BaseException as error:
        if not is_panic(error):
            raise
        raise construction_fault(address, variables, "") from None
