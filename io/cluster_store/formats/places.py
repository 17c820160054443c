"""Writing a file or a folder so that it is never seen half-written, and never over something of someone else's."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cluster_store.errors import DatasetError
from guarded_zarr import enclosing_store
from object_stores import is_url

_WHAT_TO_DO = "make room or choose another place"


def require_free(place: Path, overwrite: bool, is_ours: Callable[[Path], bool], kind: str) -> None:
    """Make sure that `place` may be written to; nothing is changed.

    Args:
        place: Where a file or folder shall be.
        overwrite: What `is_ours` knows there may be replaced.
        is_ours: Whether an existing file or folder is one that an export has written.
        kind: What is written, in words.

    Raises:
        DatasetError: Something lies there that stays.
    """
    if place.is_symlink():
        raise DatasetError(f"{place} is a symbolic link, and none is ever replaced; choose another place.")
    if not place.exists():
        return
    if not is_ours(place):
        raise DatasetError(f"{place} exists and is no {kind} of photonflow's; choose another place.")
    if not overwrite:
        raise DatasetError(f"{place} exists; choose another place, or ask to overwrite it (--overwrite).")


def local_place(to: str | os.PathLike[str]) -> Path:
    """Where to write to, on this machine's file systems.

    Raises:
        DatasetError: It is the address of an object store.
    """
    if is_url(os.fspath(to)):
        raise DatasetError(f"{to} is on an object store, and exports are written to files; give a local path.")
    return Path(to).absolute()


@contextmanager
def written_aside(
    place: Path, overwrite: bool, is_ours: Callable[[Path], bool], kind: str, within: str = ""
) -> Iterator[Path]:
    """Give a name beside `place` to write to, and move what was written there to `place` once it is whole.

    Args:
        place: As for :func:`require_free`, like the arguments after it.
        overwrite: See there.
        is_ours: See there.
        kind: See there.
        within: A store of ours in which nothing foreign may lie.

    Raises:
        DatasetError: Something lies at `place` that stays, or it cannot be written.
    """
    inside = within and place.resolve().is_relative_to(Path(within).resolve())
    store = within if inside else enclosing_store(place)
    if store is not None:
        raise DatasetError(f"{place} lies inside {store}, where nothing foreign may lie; choose another place.")
    require_free(place, overwrite, is_ours, kind)
    aside = place.with_name(f".{place.name}.partial-{secrets.token_hex(4)}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        yield aside
        # Again, for writing takes a while.
        require_free(place, overwrite, is_ours, kind)
        _move(aside, place)
    except OSError as error:
        raise DatasetError(f"{place} cannot be written ({_why(error)}); {_WHAT_TO_DO}.") from error
    finally:
        with suppress(OSError):  # what there was to say has been said
            _remove(aside)


def _why(error: OSError) -> str:
    """Of libraries whose message has many parts the one that the system gave."""
    return error.strerror or (os.strerror(error.errno) if error.errno else str(error).splitlines()[0])


def _move(aside: Path, place: Path) -> None:
    if not aside.is_dir():
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        aside.replace(place)
        return
    # A folder that holds something can't be replaced in one step.
    earlier = place.with_name(f".{place.name}.replaced-{secrets.token_hex(4)}")
    try:
        if place.exists():
            place.rename(earlier)
        aside.rename(place)
    except BaseException:
        # Unless another export has put its own folder there in between.
        if earlier.exists() and not place.exists():
            earlier.rename(place)
        raise
    finally:
        _remove(earlier)


def _remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
