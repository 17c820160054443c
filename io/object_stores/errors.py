"""What a store answers, or doesn't, as one sentence without anything that is secret.

An error of the library quotes the server's answer, and with it keys, signatures and tokens. Nothing of that text is
passed on but the host and port that were asked: it is only looked at for what kind of failure it tells of.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager


class StoreFaultError(OSError):
    """A store that can't be reached, refuses, or fails; the message is one sentence without secrets.

    Args:
        place: the address of what was asked for.
        task: what can't be done: "read", "written", "listed", "removed".
        why: why, and what to do about it; `strerror`.
    """

    def __init__(self, place: str, task: str, why: str) -> None:
        super().__init__(errno.EIO, why)
        self.place, self.task = place, task

    def __str__(self) -> str:
        return f"{self.place} can't be {self.task}: {self.strerror}"

    def __reduce__(self) -> tuple[type[StoreFaultError], tuple[str, str, str]]:
        return type(self), (self.place, self.task, str(self.strerror))


class BrokenOffError(StoreFaultError):
    """An answer that broke off, or made no sense."""


class AwayError(StoreFaultError):
    """A store that can't be reached or fails for now: what was asked has not been done, and may be asked again."""


class SilentError(AwayError):
    """A store that gave no answer for now: what was asked may have been done."""


class TakenError(Exception):
    """An object that was to be made is there already, or is no longer what it was."""


# What to set where no keys were found.
_KEYS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a bucket that is open to all,",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_VARIABLES = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}
_STATUS = re.compile(r"status[^0-9]{0,20}(\d{3})|\b([45]\d\d) (?:[A-Z][a-z]+|<)|returned non-2xx status code: (\d{3})")
_NO_KEYS = (
    "169.254.169.254",
    "/latest/api/token",
    "/latest/meta-data",
    "MissingAccount",
    "metadata.google.internal",
    "failed to get credential",
    "missing credentials",
)
_REFUSED = (
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "AccessDenied",
    "PermissionDenied",
    "Unauthenticated",
    "ExpiredToken",
    "Forbidden",
    "AuthenticationFailed",
    "InvalidToken",
)
_NO_BUCKET = "NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"
_UNREACHABLE = "kind: Connect,", "tcp connect error", "dns error"
_SILENT = "kind: Timeout,", "TimedOut", "TimeoutError"
_HUNG_UP = re.compile(r"HttpError \{\s*kind: (?:Request|Interrupted),")
# What goes wrong before anything is asked; the first that is found tells what it is.
_TLS = {
    "InvalidCertificate(Expired": "has expired; see that it and this machine's clock are right",
    "InvalidCertificate(NotValidForName": "is for another name; see that the address is right",
    "InvalidCertificate(": "is not trusted; name a file with that of the authority that signed it in SSL_CERT_FILE, on "
    "every machine that reads it",
}
_NO_TLS = ("InvalidMessage(", "AlertReceived(", "PeerIncompatible(", "PeerMisbehaved(")
_HOST = re.compile(r"Error performing [A-Z]+ https?://(?:[^/\s@]*@)?([^/\s@?]+)")


@contextmanager
def in_one_sentence(place: str, task: str) -> Iterator[None]:
    """Ask a store for something.

    Args:
        place: What is asked for; its URL.
        task: What can't be done if it fails: "read", "written", "listed", "removed".

    Raises:
        FileNotFoundError: There is no such object.
        TakenError: A condition does not hold.
        StoreFaultError: The store can't be reached, refuses or fails.
    """
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    try:
        yield
    except FileNotFoundError as error:
        if any(name in str(error) for name in _NO_BUCKET):
            raise _fault(place, task, str(error)) from None
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place) from None
    except (AlreadyExistsError, PreconditionError):
        raise TakenError(place) from None
    except PermissionError as error:
        raise _fault(place, task, f"PermissionDenied {error}") from None
    except (BaseError, OSError) as error:
        if isinstance(error, StoreFaultError):
            raise
        raise _fault(place, task, f"{type(error).__name__} {error}") from None
    except BaseException as error:
        if not is_panic(error):
            raise
        variables = _VARIABLES.get(place.partition("://")[0])
        which = f"that the {variables}_… variables are" if variables else "that it is"
        raise StoreFaultError(place, task, f"its library can't do it; see {which} right") from None


def is_panic(error: BaseException) -> bool:
    """Whether obstore's compiled part broke down, which is no `Exception`, and has no class to be imported."""
    return type(error).__name__ in ("PanicException", "RustPanic")


def _fault(place: str, task: str, text: str) -> StoreFaultError:
    kind, why = _told(place.partition("://")[0], text)
    return kind(place, task, why)


def _told(scheme: str, text: str) -> tuple[type[StoreFaultError], str]:
    """What kind of fault a text of the library tells of, and why, in words."""
    host = f"the server {found[1]}" if (found := _HOST.search(text)) is not None else "the server"
    if (why := _why_no_tls(host, text)) is not None:
        return StoreFaultError, why
    if any(sign in text for sign in _NO_BUCKET):
        return StoreFaultError, "there is no such bucket; make it, or check its name"
    if (missing := why_no_keys(scheme, text)) is not None:
        return AwayError, missing
    status = _status(text)
    if any(sign in text for sign in _REFUSED) or status in (401, 403):
        return (
            StoreFaultError,
            "the server refuses it; see that the keys in this machine's environment are valid, and allow it",
        )
    if any(sign in text for sign in _UNREACHABLE):
        return AwayError, f"{host} can't be reached; see that it runs, and that its address is right"
    if any(sign in text for sign in _SILENT):
        return SilentError, (
            "the server does not answer in time; see that it is well, or raise PHOTONFLOW_STORE_PATIENCE (seconds)"
        )
    if status is not None and status >= 500:
        return AwayError, f"the server fails (HTTP {status}); see that it is well, and try again"
    if status in (408, 429):
        return AwayError, f"the server is busy (HTTP {status}); try again later"
    if status is not None:
        return StoreFaultError, f"the server refuses it (HTTP {status}); see that the address is right"
    broken = "the connection broke off, or the answer makes no sense; see that the address is that of such a store"
    return (SilentError if _HUNG_UP.search(text) else BrokenOffError), broken


def _why_no_tls(host: str, text: str) -> str | None:
    signs = "".join(text.split())
    for sign, what in _TLS.items():
        if sign in signs:
            return f"the certificate of {host} {what}"
    if any(sign in signs for sign in _NO_TLS):
        return f"{host} does not speak https, or not as this machine does; see that its address should not begin with http://"
    return None


def why_no_keys(scheme: str, text: str) -> str | None:
    """That no keys were found, and which to set, where that is what the library says; else None."""
    if any(sign in text for sign in _NO_KEYS):
        return f"no keys were found; set {_KEYS.get(scheme, 'them')} in the environment of every machine that reads it"
    return None


def _status(text: str) -> int | None:
    match = _STATUS.search(text)
    return None if match is None else int(next(group for group in match.groups() if group))
