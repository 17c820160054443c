"""What Zarr raises over damaged metadata or chunks, as one sentence that says which."""

from collections.abc import Iterator
from contextlib import contextmanager

from cluster_store.errors import DatasetError


@contextmanager
def reading(place: str) -> Iterator[None]:
    """Read what lies at `place`, a dataset or an array in it.

    Raises:
        DatasetError: It is damaged.
        OSError: It cannot be read at all, as the system says.
    """
    try:
        yield
    except DatasetError:
        raise
    except Exception as error:  # a wrong byte in a zarr.json comes out as nearly any of Python's exceptions
        if isinstance(error, OSError) and error.errno is not None:  # the system's own; Zarr's have no number
            raise
        cause = f"{type(error).__name__}: {error}".strip(": ")
        raise DatasetError(
            f"{place} is damaged ({' '.join(cause.split())}); copy the dataset again, or make it anew with `process`."
        ) from error
