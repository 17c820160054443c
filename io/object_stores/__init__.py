"""Object stores: S3 and what speaks like it, Google's, Azure's; and plain web servers, for reading."""

from object_stores.addresses import SCHEMES, AddressError, ObjectAddress, is_url
from object_stores.ahead import FetchedAhead
from object_stores.connecting import PATIENCE, MissingLibraryError
from object_stores.errors import StoreFaultError
from object_stores.objects import AT_ONCE, About, Objects, TooLargeError, answer, listed
from object_stores.zarr_store import RemoteStore

__all__ = [
    "AT_ONCE",
    "PATIENCE",
    "SCHEMES",
    "About",
    "AddressError",
    "FetchedAhead",
    "MissingLibraryError",
    "ObjectAddress",
    "Objects",
    "RemoteStore",
    "StoreFaultError",
    "TooLargeError",
    "answer",
    "is_url",
    "listed",
]
