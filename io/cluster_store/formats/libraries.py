"""Libraries that only some formats need."""

from importlib.util import find_spec

from cluster_store.errors import DatasetError


def required(library: str, kind: str) -> None:
    """Make sure that a library is installed.

    Raises:
        DatasetError: It is not; the sentence says how to get it.
    """
    if find_spec(library) is None:
        raise DatasetError(f"{kind} needs {library}, which is not installed: pip install 'photonflow[formats]'.")
