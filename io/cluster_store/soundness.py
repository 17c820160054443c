"""Whether the metadata of a finished dataset says what a dataset of its layout says, before any of it is believed."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from cluster_store.chunks import n_entries
from cluster_store.damage import reading
from cluster_store.dataset_store import ChunkForm
from cluster_store.errors import DatasetError
from cluster_store.layout import DatasetLayout
from cluster_store.run_identity import open_store, root_metadata
from cluster_store.schema import Variable, cluster_variables, frame_variables, window_offsets
from cluster_store.status import read_layout
from guarded_zarr import bound_decoding, cut_short, parsed, require_plain_codecs, store_folder

# What the root repeats of each array, so that opening takes one read; attributes may well have been edited since.
_REPEATED = ("shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "storage_transformers")
# Blosc holds no more.
_LARGEST_CHUNK = 2**31 - 1
_NESTED_KEYS = {"name": "default", "configuration": {"separator": "/"}}
# So many are soon listed, and so is what Dask makes of them.
_MANY_CHUNKS = 50_000
# Rows of 3×3 windows that fill 2**63 bytes, about.
_LONGEST = 2**57


def require_sound(location: str) -> dict[str, ChunkForm]:
    """Make sure that the arrays of a finished dataset fit its layout and each other, and say how they are stored.

    Reads each array's metadata and the two small window coordinates.

    Raises:
        DatasetError: They do not, or the metadata is damaged.
        OSError: It cannot be read.
    """
    layout = read_layout(location)
    with reading(location):
        store = open_store(location)
        root = root_metadata(store)
    repeated = _repeated(root)
    forms: dict[str, ChunkForm] = {}
    n_clusters: int | None = None
    for variable, shape in _expected(layout):
        place = f"{location}/{variable.name}"
        with reading(place):
            document = _document(store, f"{variable.name}/zarr.json", place)
            require_plain_codecs(document)
            _require_same(document, repeated.get(variable.name))
            if variable.dims[0] == "cluster":
                n_clusters = _length(document) if n_clusters is None else n_clusters
                shape = (n_clusters, *shape[1:])
            _require_described(document, variable, shape)
            codecs = [codec.get("name") for codec in document["codecs"]]
            forms[variable.name] = ChunkForm(
                _chunk_bytes(document, variable), codecs[1:2] == ["blosc"], codecs[-1] == "crc32c"
            )
            _require_chunks(location, document, variable, shape[0])
    for variable, offsets in window_offsets(layout):
        _require_offsets(store, location, variable.name, offsets)
    return forms


def _expected(layout: DatasetLayout) -> list[tuple[Variable, tuple[int, ...]]]:
    """Each array with its shape; its length along `cluster` is left to be seen."""
    expected: list[tuple[Variable, tuple[int, ...]]] = []
    for variable in cluster_variables(layout):
        expected.append((variable, (0, *layout.cluster_size) if variable.name == "signal" else (0,)))
    expected += [(variable, (layout.n_frames,)) for variable in frame_variables()]
    return expected + [(variable, (len(offsets),)) for variable, offsets in window_offsets(layout)]


def _repeated(root: Any) -> Mapping[str, Any]:
    consolidated = root.get("consolidated_metadata") or {}
    metadata = consolidated.get("metadata") if isinstance(consolidated, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _document(store: Store, key: str, place: str) -> dict[str, Any]:
    content = sync(store.get(key, default_buffer_prototype()))
    if content is None:
        raise DatasetError(f"{place} is missing; copy the dataset again, or make it anew with `process`.")
    document = parsed(content.to_bytes())
    if not isinstance(document, dict):
        raise TypeError(f"its zarr.json holds {cut_short(document)}")
    return document


def _require_same(document: dict[str, Any], repeated: Any) -> None:
    if repeated is None:
        return
    for name in _REPEATED:
        if not isinstance(repeated, dict) or repeated.get(name) != document.get(name):
            raise ValueError(f"the dataset's consolidated metadata contradicts its {name}")


def _length(document: dict[str, Any]) -> int:
    length = document["shape"][0]
    if type(length) is not int or not 0 <= length <= _LONGEST:
        raise ValueError(f"its shape is {cut_short(document['shape'])}")
    return int(length)


def _require_described(document: dict[str, Any], variable: Variable, shape: tuple[int, ...]) -> None:
    for name, expected in (
        ("node_type", "array"),
        ("data_type", np.dtype(variable.dtype).name),
        ("dimension_names", list(variable.dims)),
        ("shape", list(shape)),
    ):
        if document.get(name) != expected:
            raise ValueError(f"its {name} is {cut_short(document.get(name))}, not {cut_short(expected)}")


def _chunk_bytes(document: dict[str, Any], variable: Variable) -> int:
    sides = document["chunk_grid"]["configuration"]["chunk_shape"]
    if [type(side) for side in sides] != [int] * len(variable.dims) or min(sides) < 1:
        raise ValueError(f"its chunks are of {cut_short(sides)} elements")
    nbytes = int(prod(sides)) * np.dtype(variable.dtype).itemsize
    if nbytes > _LARGEST_CHUNK:
        raise ValueError(f"its chunks are of {cut_short(sides)} elements, more than any codec holds")
    return nbytes


def _require_chunks(location: str, document: dict[str, Any], variable: Variable, n_rows: int) -> None:
    """Make sure that the last chunk is there and, of very many, that there are as many: before anybody lists them."""
    n_chunks = -(-n_rows // document["chunk_grid"]["configuration"]["chunk_shape"][0])
    if document["chunk_key_encoding"] != _NESTED_KEYS:
        if n_chunks > _MANY_CHUNKS:
            raise ValueError(f"it claims {n_chunks} chunks, named in a way that is not this package's")
        return
    folder = store_folder(location)
    last = "/".join([variable.name, "c", str(n_chunks - 1), *["0"] * (len(variable.dims) - 1)])
    if n_chunks and not folder.is_there(last):
        raise DatasetError(
            f"{location} lacks the chunk {last}; copy the dataset again, or make it anew with `process`."
        )
    if n_chunks > _MANY_CHUNKS and (found := n_entries(folder, f"{variable.name}/c")) < n_chunks:
        raise ValueError(f"it claims {n_chunks} chunks and has {found}")


def _require_offsets(store: Store, location: str, name: str, offsets: range) -> None:
    with reading(f"{location}/{name}"):
        array = zarr.open_array(store, path=name, mode="r", zarr_format=3)
        bound_decoding(array)
        if np.asarray(array[...]).tolist() != list(offsets):
            raise ValueError(f"it is not {offsets.start} to {offsets.stop - 1}")
