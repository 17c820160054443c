"""What a user may give as the place of an archive."""

from urllib.parse import unquote

from frame_archive.errors import ArchiveError

_THIS_HOST = ("", "localhost")


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
            f"{address} is a {scheme}:// address, and only local paths are supported at present: copy or mount it and "
            "give its path"
        )
    host, _, path = rest.partition("/")
    if host not in _THIS_HOST:
        raise ArchiveError(
            f"{address} is on the host {host!r}, and only local paths are supported at present: a file:// address of "
            "this machine has three slashes, file:///folder/run.zarr"
        )
    return unquote(f"/{path}")
