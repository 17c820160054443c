"""Metadata of a store, parsed: no deeper than metadata is, and not ambiguous."""

import json
import reprlib
from collections.abc import Iterable
from typing import Any

from guarded_zarr.errors import GuardError

METADATA_NAMES = frozenset({"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"})
_DEEPEST_JSON = 64
_TOO_DEEP = f"its JSON is nested more than {_DEEPEST_JSON} deep"
# Codecs that make Python objects of what a store holds. Pickle's runs whatever program it finds there.
_OBJECT_CODECS = ("pickle", "json2", "msgpack", "msgpack2", "categorize", "vlen-array", "vlen-bytes", "vlen-utf8")


def parsed(content: bytes) -> Any:
    """Return the JSON in `content`.

    Raises:
        GuardError: it is nested too deep, or names something twice.
        ValueError: it is no JSON; as all, the message is the cause alone.
    """
    try:
        document = json.loads(content.decode("utf-8"), object_pairs_hook=_object)
    except RecursionError:
        raise GuardError(_TOO_DEEP) from None
    require_shallow(document)
    return document


def require_parsed(name: str, content: bytes) -> None:
    """Refuse a metadata file called `name` that holds no JSON, or an ambiguous one.

    Raises:
        GuardError: it does.
    """
    try:
        parsed(content)
    except ValueError as error:
        raise GuardError(f"{name}: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise GuardError(f"its JSON says {cut_short(twice)} twice")
    return document


def require_shallow(value: object) -> None:
    """Refuse parsed JSON that is nested so deep that no metadata is, and that programs trip over.

    Raises:
        GuardError: it is; the message is the cause alone.
    """
    level = [value]
    for _ in range(_DEEPEST_JSON):
        level = [child for item in level for child in _children(item)]
    if level:
        raise GuardError(_TOO_DEEP)


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def require_plain_codecs(document: dict[str, Any]) -> None:
    """Refuse an array whose metadata asks for a codec that makes objects, among them pickle, which runs programs.

    Args:
        document: an array's metadata, of either Zarr format.

    Raises:
        GuardError: it does; the message is the cause alone.
    """
    for name in _codec_names([document.get(key) for key in ("codecs", "filters", "compressor")]):
        plain = name.lower().removeprefix("numcodecs.")
        if "pickle" in plain:
            raise GuardError("it is stored with a pickle codec, and unpickling can run any program")
        if plain in _OBJECT_CODECS:
            raise GuardError(f"it is stored with the codec {cut_short(name)}, which makes objects and not numbers")


def _codec_names(value: object) -> Iterable[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("id", "name"):
                yield str(item)
            yield from _codec_names(item)
    elif isinstance(value, list):
        for item in value:
            yield from _codec_names(item)


def cut_short(value: object) -> str:
    """`value` as a person may read it in one line, whatever a file holds."""
    return reprlib.repr(value)
