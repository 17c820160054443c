"""Finding an archive's arrays, and saying in one sentence why something is not an archive."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store

from frame_archive.complete_store import CompleteStore
from frame_archive.errors import ArchiveError, cause
from frame_archive.metadata import Node, arrays_below, is_own_archive, node_at
from frame_archive.other_files import advice
from frame_archive.stored_array import MissingChunks, StoredArray
from guarded_zarr import (
    GuardError,
    StoreFolder,
    cut_short,
    guarded_store,
    opened_array,
    require_plain_codecs,
    require_shallow,
)
from object_stores import StoreFaultError

FRAME_DTYPES = ("uint8", "uint16", "uint32", "int16", "int32")
_EXACT = "the finder's arithmetic is exact for integers"


@dataclass(frozen=True)
class ArchiveArrays:
    """The arrays of an archive, checked against each other.

    Attributes:
        frames: (frame, y, x).
        dark: (dark_frame, y, x), or None.
        pixel_mask: (y, x), or None.
        frame_number: (frame), or None.
        attrs: the attributes of the group that holds `frames`, or of a bare array.
        documents: the metadata of each array, by name.
    """

    frames: StoredArray
    dark: StoredArray | None
    pixel_mask: StoredArray | None
    frame_number: StoredArray | None
    attrs: dict[str, Any]
    documents: dict[str, Any]


def find_arrays(archive: StoreFolder, frames_path: str | None, missing_chunks: MissingChunks) -> ArchiveArrays:
    """Open the archive in the folder `archive` and check that its arrays fit together.

    Raises:
        ArchiveError: it is no archive; the sentence says what was found and what to do.
    """
    if missing_chunks not in ("error", "fill"):
        raise ValueError(f"missing_chunks is 'error' or 'fill', not {missing_chunks!r}")
    root = root_node(archive)
    if root.kind == "array":
        if frames_path is not None:
            raise ArchiveError(f"{archive.path} is itself an array, so there is no {frames_path!r} in it: leave it out")
        location, frames = "", root
    else:
        location = _location(archive, frames_path)
        frames = _frames_in(archive, location, asked=frames_path is not None)
    _check_frames(archive, location, frames)
    opener = _Opener(archive)
    arrays: dict[str, StoredArray | None] = {"dark": None, "pixel_mask": None, "frame_number": None}
    documents = {"frames": frames.document}
    if root.kind == "group":
        parent = location.rpartition("/")[0]
        for name, check in (("dark", _check_dark), ("pixel_mask", _check_mask), ("frame_number", _check_numbers)):
            path = f"{parent}/{name}" if parent else name
            node = _node(archive, path)
            if node is None:
                _require_absent(archive, path)
            if node is None or (name == "dark" and node.kind == "array" and node.shape[:1] == (0,)):
                continue
            check(archive, path, node, frames)
            documents[name] = node.document
            # zarr's own writer leaves out chunks of zeros, and a mask is mostly zeros: there a missing chunk says so.
            may_lack = name == "pixel_mask" and not is_own_archive(root)
            arrays[name] = opener.open(path, node, "fill" if may_lack else missing_chunks)
        attrs = opener.group_attributes(parent)
        stored_frames = opener.open(location, frames, missing_chunks)
        if arrays["dark"] is not None:
            _check_packing(archive, opener, stored_frames, arrays["dark"])
    else:
        stored_frames = opener.open(location, frames, missing_chunks)
        attrs = opener.array_attributes(stored_frames)
    if root.kind == "group":
        _require_finished(archive, attrs)
    return ArchiveArrays(stored_frames, **arrays, attrs=attrs, documents=documents)


def _require_finished(archive: StoreFolder, attrs: dict[str, Any]) -> None:
    made = attrs.get("ingest")
    if isinstance(made, dict) and made.get("status") == "running":
        raise ArchiveError(
            f"{archive.path} is unfinished: ingest is still writing it, or was broken off, and then goes on with "
            "--resume"
        )


def root_node(archive: StoreFolder) -> Node:
    """Return the group or array at the root of the Zarr store `archive`.

    Raises:
        ArchiveError: it is no Zarr store.
    """
    try:
        kind = archive.kind()
    except StoreFaultError as error:
        raise ArchiveError(str(error)) from error
    if kind == "absent":
        raise ArchiveError(f"{archive.path} does not exist: check the path")
    if kind == "file":
        raise ArchiveError(f"{archive.path} is a file, not a Zarr store: {advice(archive)}")
    root = _node(archive, "")
    if root is None:
        raise ArchiveError(
            f"{archive.path} is not a Zarr store, for there is neither a zarr.json nor a .zgroup or .zarray in it: "
            f"{advice(archive)}"
        )
    return root


def _location(archive: StoreFolder, frames_path: str | None) -> str:
    location = (frames_path if frames_path is not None else "frames").strip("/")
    if location and any(part in ("", ".", "..") for part in location.split("/")):
        raise ArchiveError(
            f"{frames_path!r} is not the name of an array in {archive.path}: give one such as `frames` or `entry/data`"
        )
    return location


def _require_absent(archive: StoreFolder, path: str) -> None:
    if archive.is_there(path):
        raise ArchiveError(
            f"{archive.place(path)} is there, but no Zarr array: its metadata is lost, so restore it, or remove what "
            "is left of it"
        )


def _node(archive: StoreFolder, path: str) -> Node | None:
    try:
        return node_at(archive, path)
    except OSError as error:
        raise ArchiveError(f"{archive.place(path)} cannot be read: {error.strerror or error}") from error
    except GuardError as error:
        raise ArchiveError(f"the Zarr metadata in {archive.place(path)} is not read: {cause(error)}") from error
    except ValueError as error:
        raise ArchiveError(f"the Zarr metadata in {archive.place(path)} is damaged: {cause(error)}") from error


def _frames_in(archive: StoreFolder, location: str, asked: bool) -> Node:
    node = _node(archive, location) if location else None
    if node is not None and node.kind == "array":
        return node
    stacks = [
        f"{path} {array.shape} {array.type_name}"
        for path, array in arrays_below(archive)
        if len(array.shape) == 3 and array.dtype is not None and array.dtype.kind in "iu"
    ]
    missing = f"{archive.path} holds no array {location!r}" if asked else f"{archive.path} holds no `frames`"
    if stacks:
        raise ArchiveError(f"{missing}: choose one of its 3-D integer arrays with --frames-path: {', '.join(stacks)}")
    raise ArchiveError(f"{missing}, nor any other 3-D integer array (frame, y, x): it is not a frame archive")


def _check_frames(archive: StoreFolder, location: str, node: Node) -> None:
    where = archive.place(location)
    _check_stack(where, node)
    if node.shape[0] == 0:
        raise ArchiveError(f"{where} holds no frames: its shape is {node.shape}")
    if 0 in node.shape:
        raise ArchiveError(f"{where} has frames without pixels: its shape is {node.shape}")


def _check_stack(where: str, node: Node) -> None:
    if node.kind != "array":
        raise ArchiveError(f"{where} is a group, not an array of frames (frame, y, x)")
    _check_safe(where, node)
    if len(node.shape) != 3:
        raise ArchiveError(f"{where} has the shape {node.shape}: frames are three-dimensional, (frame, y, x)")
    kind = node.dtype.kind if node.dtype is not None else "?"
    if kind == "f":
        raise ArchiveError(
            f"{where} holds {node.type_name} values, and {_EXACT}: store the detector's raw integers, or round them "
            "to int32, scaled up so that rounding is far below the noise"
        )
    if kind == "b":
        raise ArchiveError(
            f"{where} holds booleans, not the detector's integers: convert them to uint8 if they are frames"
        )
    if kind == "c":
        raise ArchiveError(f"{where} holds {node.type_name} values, and {_EXACT}: store their real part as int32")
    if kind in "iu" and node.type_name not in FRAME_DTYPES:
        raise ArchiveError(
            f"{where} holds {node.type_name} values, which do not fit the finder's exact arithmetic: store them as "
            f"one of {', '.join(FRAME_DTYPES)}"
        )
    if kind not in "iu":
        raise ArchiveError(f"{where} holds elements of type {node.type_name}, not the detector's integers")


def _check_safe(where: str, node: Node) -> None:
    try:
        require_plain_codecs(node.document)
    except GuardError as error:
        raise ArchiveError(f"{where} is not read: {error}; store plain integers instead") from error


def _check_dark(archive: StoreFolder, path: str, node: Node, frames: Node) -> None:
    where = archive.place(path)
    _check_stack(where, node)
    if node.shape[1:] != frames.shape[1:]:
        raise ArchiveError(
            f"{where} has dark frames of {_pixels(node.shape[1:])}, but the frames have {_pixels(frames.shape[1:])}: "
            "use the darks of the same detector and region"
        )


def _check_packing(archive: StoreFolder, opener: "_Opener", frames: StoredArray, dark: StoredArray) -> None:
    # Values are read as stored, so that darks fit the frames only if both were packed alike.
    packing_of_frames, packing_of_dark = (_packing(opener.array_attributes(array)) for array in (frames, dark))
    if packing_of_frames != packing_of_dark:
        raise ArchiveError(
            f"{archive.place(frames.name)} is packed with {_described(packing_of_frames)}, but "
            f"{archive.place(dark.name)} with {_described(packing_of_dark)}, and values are read as stored: store both "
            "as the detector's integers"
        )


def _packing(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: attributes.get(name, plain) for name, plain in (("scale_factor", 1), ("add_offset", 0))}


def _described(packing: dict[str, Any]) -> str:
    return " and ".join(f"{name} {cut_short(value)}" for name, value in packing.items())


def _check_mask(archive: StoreFolder, path: str, node: Node, frames: Node) -> None:
    where = archive.place(path)
    if node.kind != "array" or node.dtype is None or node.dtype.kind not in "iub":
        raise ArchiveError(
            f"{where} holds {node.type_name} values: a pixel mask is an integer array (y, x) of NeXus bits"
        )
    _check_safe(where, node)
    if node.shape != frames.shape[1:]:
        raise ArchiveError(
            f"{where} is a mask of {_pixels(node.shape)}, but the frames have {_pixels(frames.shape[1:])}: "
            "use the mask of the same detector and region"
        )


def _check_numbers(archive: StoreFolder, path: str, node: Node, frames: Node) -> None:
    where = archive.place(path)
    if node.kind != "array" or node.dtype is None or node.dtype.kind not in "iu":
        raise ArchiveError(f"{where} holds {node.type_name} values: frame numbers are integers, one a frame")
    _check_safe(where, node)
    if node.shape != frames.shape[:1]:
        raise ArchiveError(f"{where} has the shape {node.shape}, but there are {frames.shape[0]} frames to number")


def _pixels(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) + " pixels"


def open_array(archive: StoreFolder, path: str, missing_chunks: MissingChunks) -> StoredArray | None:
    """Return the array at `path` of the Zarr store `archive`, or None if there is none.

    Raises:
        ArchiveError: it is damaged, or stored with a codec that makes objects.
    """
    node = _node(archive, path)
    if node is None or node.kind != "array":
        return None
    _check_safe(archive.place(path), node)
    return _Opener(archive).open(path, node, missing_chunks)


@dataclass(frozen=True)
class _Opener:
    archive: StoreFolder

    def open(self, path: str, node: Node, missing_chunks: MissingChunks) -> StoredArray:
        where = self.archive.place(path)
        guarded = guarded_store(self.archive)
        store: Store = CompleteStore(guarded) if missing_chunks == "error" else guarded
        # zarr and its codecs raise errors of every kind over metadata that they do not understand.
        try:
            array = opened_array(store, path, node.zarr_format, guarded.limit_chunks)
            dtype = np.dtype(array.dtype)
            sides = (*array.chunks, *(array.shards or ()))
        except Exception as error:
            raise ArchiveError(f"zarr cannot open {where}: {cause(error)}") from error
        if dtype != node.dtype:
            raise ArchiveError(f"zarr reads {where} as {dtype}, its metadata says {node.type_name}")
        if min(sides) < 1:
            raise ArchiveError(f"the Zarr metadata in {where} is damaged: it has chunks of {array.chunks} elements")
        try:
            return StoredArray(array, self.archive, missing_chunks)
        except ArchiveError:
            raise
        except Exception as error:
            raise ArchiveError(f"the Zarr metadata in {where} is damaged: {cause(error)}") from error

    def array_attributes(self, array: StoredArray) -> dict[str, Any]:
        return self._attributes(array.array.path, array.array)

    def group_attributes(self, path: str) -> dict[str, Any]:
        node = _node(self.archive, path)
        if node is None:
            return {}
        store = guarded_store(self.archive)
        try:
            group = zarr.open_group(store, path=path, mode="r", zarr_format=node.zarr_format, use_consolidated=False)
        except Exception as error:
            raise ArchiveError(f"zarr cannot open the group {self.archive.place(path)}: {cause(error)}") from error
        return self._attributes(path, group)

    def _attributes(self, path: str, node: "zarr.Array[Any] | zarr.Group") -> dict[str, Any]:
        try:
            attributes = dict(node.attrs)
            require_shallow(attributes)
        except Exception as error:
            raise ArchiveError(f"the attributes of {self.archive.place(path)} are damaged: {cause(error)}") from error
        return attributes
