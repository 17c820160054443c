"""What the environment says of endpoints, keys and options, looked at before the library takes it as it is.

A sentence names the variable, and its value only where that is no secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from object_stores.addresses import ObjectAddress
from object_stores.errors import StoreFaultError, why_no_keys

PREFIXES = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}
"""How the names of the variables begin that the stores of a scheme are set up with."""

ENDPOINTS = (
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT",
    "AWS_METADATA_ENDPOINT",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_ENDPOINT",
)
# What is sent in a header or an address as it is; a key of Google's is a text of JSON.
_SENT = re.compile(r"(?:AWS|AZURE)_\w*(?:KEY|KEY_ID|TOKEN|SECRET|REGION|BUCKET|ACCOUNT_NAME|CLIENT_ID|TENANT_ID)")
_UNSENDABLE = re.compile(r"[^\x20-\x7e]")
_BOOLEAN = re.compile(r"failed to parse (\"(?:[^\"\\]|\\.)*\") as boolean")
# Which variables a failure is about, by what the library says of it.
_ABOUT = {
    "Invalid Access Key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY"),
    "service account file": (
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ),
}


def require_sound(address: ObjectAddress, environment: Mapping[str, str]) -> None:
    """Make sure that endpoints are addresses of servers, and that keys can be sent.

    Raises:
        StoreFaultError: a variable says what can't be.
    """
    prefix = PREFIXES.get(address.scheme)
    for name, value in environment.items():
        if prefix is None or not name.startswith(prefix):
            continue
        if name in ENDPOINTS and (fault := _endpoint_fault(name, value)) is not None:
            raise _fault(address, fault)
        if _SENT.fullmatch(name) and _UNSENDABLE.search(value):
            raise _fault(
                address, f"{name} has a line break or another character in it that can't be sent; set it again"
            )


def construction_fault(address: ObjectAddress, environment: Mapping[str, str], text: str) -> StoreFaultError:
    """What the library says of an environment that it makes no store of, as one sentence without secrets.

    Args:
        address: of what was asked for.
        environment: the variables of object stores.
        text: what the library says; nothing of it is passed on.
    """
    prefix = PREFIXES.get(address.scheme)
    if prefix is None:
        return _fault(address, "it is no address of a web server; see that it is right")
    if (missing := why_no_keys(address.scheme, text)) is not None:
        return _fault(address, missing)
    mine = {name: value for name, value in environment.items() if name.startswith(prefix)}
    if (boolean := _BOOLEAN.search(text)) is not None:
        unclear = [name for name, value in mine.items() if f'"{value}"' == boolean[1]]
        return _fault(address, f"{_either(unclear, prefix)} is neither true nor false; give one of these")
    for sign, names in _ABOUT.items():
        if sign in text:
            about = [name for name in names if name in mine]
            # A file is named by what can't be opened.
            named = [name for name in about if mine[name] and f"from {mine[name]}:" in text]
            if named:
                return _fault(address, f"there is no readable file at {named[0]}, which is {mine[named[0]]!r}")
            return _fault(address, f"{_either(about, prefix)} is no valid key; set it again")
    return _fault(address, f"{_either((), prefix)} says what can't be; see that they are right")


def _endpoint_fault(name: str, value: str) -> str | None:
    if not value:
        return f"{name} is empty; unset it, or give the server, such as https://s3.example.org"
    said = "has a password in it that is not shown and" if "@" in value else f"is {value!r} and"
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if good and _UNSENDABLE.search(value) is None and " " not in value:
        return None
    return f"{name} {said} is no address of a server; give one such as https://s3.example.org or http://127.0.0.1:9000"


def _either(names: Iterable[str], prefix: str) -> str:
    return " or ".join(names) or f"one of the {prefix}… variables"


def _fault(address: ObjectAddress, why: str) -> StoreFaultError:
    return StoreFaultError(str(address), "reached", why)
