"""Facts about a store: printed as tables for a person, as JSON for a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from object_stores import is_url
from roofline.stage_use import json_number
from workflows.printable import printable
from workflows.terminal import facts_table, print_table, stdout_console


@dataclass(frozen=True)
class Fact:
    """One thing known: `value` is for programs, `text` for people (the value itself, if left out), or lines of it."""

    key: str
    value: Any
    text: str | tuple[str, ...] | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """What a person reads."""
        if isinstance(self.text, tuple):
            return self.text
        return (str(self.value) if self.text is None else self.text,)


@dataclass(frozen=True)
class Section:
    """Facts that belong together; `as_named` where their names are a user's own, to be shown as they are."""

    title: str
    facts: Sequence[Fact]
    as_named: bool = False


@dataclass(frozen=True)
class Page:
    """All facts about one store; `open_with` is the line of Python that opens it."""

    kind: str
    path: str
    sections: Sequence[Section]
    open_with: str
    pictures: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The page as nested plain values; what is not a number is ``None``."""
        sections = {
            section.title: {fact.key: _json_able(fact.value) for fact in section.facts} for section in self.sections
        }
        return {
            "kind": self.kind,
            "path": self.path,
            **sections,
            "open_with": self.open_with,
            "pictures": self.pictures,
        }

    def print(self) -> None:
        """Print the page on stdout."""
        console = stdout_console()
        console.print(printable(f"{self.kind}  {self.path}"), style="bold", markup=False)
        for section in self.sections:
            console.print()
            console.print(section.title, style="bold cyan", markup=False)
            rows = [
                ("" if number else fact.key if section.as_named else fact.key.replace("_", " "), line)
                for fact in section.facts
                for number, line in enumerate(fact.lines)
            ]
            print_table(console, facts_table(rows, indent=2))
        console.print()
        console.print(printable(f"open it   {self.open_with}"), markup=False)
        for picture in self.pictures:
            console.print(printable(f"picture   {picture}"), markup=False)


def _json_able(value: Any) -> Any:
    """The value, in which JSON has a number for every number: an attribute may hold anything."""
    if isinstance(value, dict):
        return {key: _json_able(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_able(item) for item in value]
    return json_number(value) if isinstance(value, float) else value


def sizes(stored: int, raw: int) -> tuple[Fact, Fact, Fact]:
    """Bytes on disk, decoded, and their ratio."""
    ratio = raw / stored if stored else None
    return (
        Fact("bytes_on_disk", stored, human_bytes(stored)),
        Fact("bytes_decoded", raw, human_bytes(raw)),
        Fact("ratio", ratio, "–" if ratio is None else f"{ratio:.2f}"),
    )


def opening_line(dataset: str, clusters_listed: bool) -> str:
    """The line of Python that opens a dataset, or what was counted where it has no list of clusters."""
    if is_url(dataset):
        if clusters_listed:
            return f"from cluster_store import open_clusters; clusters = open_clusters({dataset!r})"
        return f"from cluster_store import read_table; products = read_table({dataset!r}, 'products')"
    if clusters_listed:
        return f"import xarray as xr; clusters = xr.open_zarr({dataset!r})"
    return f"import xarray as xr; products = xr.open_zarr({dataset!r}, group='products')"


def bytes_on_disk(place: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in ([place] if place.is_file() else place.rglob("*")) if file.is_file())


def human_bytes(n: float) -> str:
    """Bytes in decimal units, three figures."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 999.5:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB" if n < 999.5 else f"{n:,.0f} TB"


def times(shape: Sequence[int]) -> str:
    """A shape in words: 400 × 400."""
    return " × ".join(f"{side:,}" for side in shape)


def missing_fact(missing: Sequence[str]) -> Fact:
    """Chunks that are not there, the first three by name."""
    named = f"{', '.join(missing[:3])}{' and others' if len(missing) > 3 else ''}"
    return Fact("missing_chunks", list(missing), named or "none")
