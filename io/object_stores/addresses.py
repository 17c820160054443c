"""Addresses of what lies on object stores: what they may say, and what they may not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

SCHEMES = ("s3", "gs", "az", "https", "http")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)


class AddressError(ValueError):
    """An address that is none of an object store; the message is a sentence."""


def is_url(place: str) -> bool:
    """Whether a place is an address with a scheme other than `file`, and not a path."""
    match = _URL.fullmatch(place)
    return match is not None and match["scheme"].lower() != "file"


@dataclass(frozen=True)
class ObjectAddress:
    """The address of what lies on an object store.

    Attributes:
        scheme: `s3`, `gs`, `az`, `https` or `http`.
        bucket: the bucket or container, or of a web server the host and port.
        key: where in it, without slashes at its ends; empty is all of it.
    """

    scheme: str
    bucket: str
    key: str

    @classmethod
    def parse(cls, url: str) -> ObjectAddress:
        """Take an address apart.

        Raises:
            AddressError: it is of no store that is known here, names no bucket or server, or holds a key or a token.
        """
        match = _URL.fullmatch(url)
        if match is None or (scheme := match["scheme"].lower()) not in SCHEMES:
            raise AddressError(
                f"{url} is no address that is known here: give a local path, or one that begins with "
                f"{', '.join(f'{name}://' for name in SCHEMES)}"
            )
        if "@" in match["rest"].partition("/")[0]:
            raise AddressError(
                f"{url} has a key or a password in it, and addresses are kept in metadata: leave it out, and give keys "
                "in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
            )
        if "?" in match["rest"] or "#" in match["rest"]:
            raise AddressError(
                f"{url} has a ? or # in it, and a signed link opens one object of many: give the address of the folder "
                "without it, and keys in the environment"
            )
        bucket, _, key = match["rest"].partition("/")
        parts = [part for part in key.split("/") if part]
        if not bucket or any(part in (".", "..") for part in parts):
            raise AddressError(f"{url} does not say where: give {scheme}://bucket/folder/run.zarr")
        if scheme in ("https", "http") and not _is_host(bucket):
            raise AddressError(
                f"{url} names no server: give {scheme}://host/folder/run.zarr, or host:port with a port of 1 to 65535"
            )
        return cls(scheme, bucket, "/".join(parts))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}" + (f"/{self.key}" if self.key else "")

    @property
    def is_web(self) -> bool:
        """Whether it is on a plain web server, which lists nothing and takes nothing."""
        return self.scheme in ("https", "http")

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def parents(self) -> list[ObjectAddress]:
        """What lies above it in the bucket, the outermost first; without the bucket itself."""
        parts = self.key.split("/")[:-1]
        return [ObjectAddress(self.scheme, self.bucket, "/".join(parts[: k + 1])) for k in range(len(parts))]


def _is_host(text: str) -> bool:
    try:
        parts = urlsplit(f"//{text}")
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
