"""Which run a dataset belongs to: asked of the store each time, for another run may have taken the place."""

import errno
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from cluster_store.errors import DatasetError
from guarded_zarr import GuardedObjectStore, GuardedStore, LocalFolder, guarded_store, parsed, store_folder

ROOT_KEY = "zarr.json"


def root_metadata(store: Store) -> Any:
    """The root's metadata as it lies in the store now, or None if there is none.

    Raises:
        ValueError: It is no JSON.
    """
    content = sync(store.get(ROOT_KEY, default_buffer_prototype()))
    return None if content is None else parsed(content.to_bytes())


def open_store(location: str) -> GuardedStore | GuardedObjectStore:
    """The store at `location`, for reading; of a local one, only ordinary files that lie in it.

    Raises:
        OSError: There is no such folder.
    """
    folder = store_folder(location)
    if isinstance(folder, LocalFolder) and folder.kind() == "absent":
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), location)
    return guarded_store(folder)


@dataclass(frozen=True)
class RunIdentity:
    """The run that a writer writes for.

    Args:
        location: The dataset.
        run_id: What `create_dataset` was given; empty leaves `require` without a check.
    """

    location: str
    run_id: str

    def require(self) -> None:
        """Make sure that the dataset still is this run's; one small read, about 0.5 ms on a local disk.

        Raises:
            DatasetError: Another run has replaced the dataset, or it is gone.
            StoreFaultError: The object store that it lies on does not say.
        """
        if not self.run_id:
            return
        try:
            found = root_metadata(self._store)["attributes"].get("run_id")
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise DatasetError(
                f"{self.location} was removed or damaged while this run went on; this run stops."
            ) from error
        if found != self.run_id:
            raise DatasetError(f"{self.location} was replaced by another run while this one went on; this run stops.")

    @cached_property
    def _store(self) -> Store:
        return open_store(self.location)
