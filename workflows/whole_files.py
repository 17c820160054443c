"""Files that are there whole or not at all."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path


def write_whole(place: Path, content: bytes) -> None:
    """Write a file aside and move it to its place: until it is whole, what was there before stays.

    Args:
        place: Where it goes; its folder is made. What is no file, such as ``/dev/stdout``, is written to as it is.
        content: Of the file.

    Raises:
        OSError: It can't be written; the file that the error names is `place`, or its folder.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists() and not place.is_file():
        place.write_bytes(content)
        return
    target = place.resolve()  # A link stays one.
    aside = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        aside.write_bytes(content)
        aside.replace(target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(place)) from error
    finally:
        with suppress(OSError):  # What there was to say has been said.
            aside.unlink(missing_ok=True)
