"""What stands in a YAML file, taken into frozen dataclasses: unknown keys and wrong types are refused by name."""

from __future__ import annotations

import difflib
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Config = TypeVar("Config")


def take(kind: type[Config], content: Mapping[Any, Any], within: str = "") -> Config:
    """The dataclass ``kind`` with the values of ``content``.

    Types are those of the class: int, float, str, bool, None, literals, ``tuple[X, ...]`` for lists, ``dict[str, X]``
    for mappings, other dataclasses for sections.

    Args:
        kind: A dataclass, each field of which is a key.
        content: What was read.
        within: The section that this is, such as ``slurm.``.

    Raises:
        ValueError: A key that the class doesn't have, with the nearest that it has; or a value of another type.
    """
    hints = get_type_hints(kind)
    known = list(hints)
    for key in content:
        if key not in known:
            nearest = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {within + nearest[0]!r}?" if nearest else f"known are {', '.join(known)}"
            raise ValueError(f"unknown key {f'{within}{key}'!r}: {hint}")
    return kind(**{key: _value(hints[key], value, f"{within}{key}") for key, value in content.items()})


def _value(hint: Any, value: Any, name: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        options = get_args(hint)
        if value is None and type(None) in options:
            return None
        options = tuple(option for option in options if option is not type(None))
        matching = [option for option in options if _looks_like(option, value)]
        return _value((matching or options)[0], value, name)
    if not _looks_like(hint, value):
        raise ValueError(f"{name}: {value!r} is not {_in_words(hint)}")
    if isinstance(hint, type) and is_dataclass(hint):
        return take(hint, value, f"{name}.")
    if get_origin(hint) is tuple:
        return tuple(_value(get_args(hint)[0], entry, f"{name}[{k}]") for k, entry in enumerate(value))
    if get_origin(hint) is dict:
        return {str(key): _value(get_args(hint)[1], entry, f"{name}.{key}") for key, entry in value.items()}
    return float(value) if hint is float else value


def _looks_like(hint: Any, value: Any) -> bool:
    origin = get_origin(hint)
    if origin is Literal:
        return value in get_args(hint)
    if is_dataclass(hint) or origin is dict:
        return isinstance(value, Mapping)
    if origin is tuple:
        return isinstance(value, list | tuple)
    if hint is float:
        return type(value) in (int, float)
    # bool is an int to Python, and no number to anybody else.
    return type(value) is hint


def _in_words(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if is_dataclass(hint):
        return f"a section with keys ({', '.join(field.name for field in fields(hint))})"
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    return names.get(hint) or {tuple: "a list", dict: "a section of keys and values"}.get(get_origin(hint), str(hint))
