"""What a user may give as the place of an archive."""

from pathlib import Path
from urllib.parse import unquote

from frame_archive.errors import ArchiveError
from object_stores import AddressError, ObjectAddress, is_url

_THIS_HOST = ("", "localhost")


def location_of(address: str) -> str:
    """Return where `address` is: the address of an object store as it is, anything else as an absolute local path.

    Raises:
        ArchiveError: it is empty, or an address of nothing that is known here.
    """
    if not is_url(address):
        return str(Path(local_path(address)).absolute())
    try:
        return str(ObjectAddress.parse(address))
    except AddressError as error:
        raise ArchiveError(str(error)) from error


def local_path(address: str) -> str:
    """Return the local path that `address` means: a path is itself, `file://` addresses lose what a path lacks.

    Raises:
        ArchiveError: it is empty, or the address of something that is not on this machine's file systems.
    """
    if not address:
        raise ArchiveError("the path of the archive is empty: name a Zarr store")
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    if scheme.lower() != "file":
        raise ArchiveError(
            f"{address} is a {scheme}:// address, and this takes a local path: give one, and copy or upload what lies "
            "there"
        )
    host, _, path = rest.partition("/")
    if host not in _THIS_HOST:
        raise ArchiveError(
            f"{address} is on the host {host!r}, and only this machine's files are read: a file:// address of them has "
            "three slashes, file:///folder/run.zarr"
        )
    return unquote(f"/{path}")
