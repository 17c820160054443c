"""A small archive and a small dataset to be damaged, the real commands in this process, and what may come of it."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import random
import shutil
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from numcodecs import Blosc, Delta, Zlib
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from cluster_store import (
    ClusterWriter,
    DatasetLayout,
    create_dataset,
    finish_dataset,
    write_pedestal,
    write_table,
)
from finder import FinderParameters, Pedestal, open_finder
from frame_archive import create_archive
from workflows.__main__ import main

SHAPE = (12, 10)
METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs")
WRONG: list[Any] = [
    None, True, -1, 0, 1, 2, 3.5, 1e308, float("inf"), float("nan"), 10**15, 10**30, 2**31, 2**63, "", "x", "a\nb",
    "\ud800", "\x1b[31mred", "../../etc", "O", "|O", ">f4", "i4,f4", "float64", "uint8", "complete", "running", "NaN",
    [], {}, [1], [[]], [0, 0, 0], [-1, 4, 4], [10**12, 4, 5], [1, 1, 1], {"name": "bytes"}, {"configuration": None},
    {"name": "blosc", "configuration": {}}, {"name": "numcodecs.zlib", "configuration": {"level": 1}},
    {"name": "numcodecs.pickle"}, {"id": "pickle", "protocol": 5},
]  # fmt: skip


def clear(place: Path) -> None:
    """Remove whatever is at `place`."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


@dataclass
class Store:
    """A store whose files are damaged one after the other, and put back."""

    path: Path
    files: dict[str, bytes] = field(init=False)

    def __post_init__(self):
        self.files = {str(f.relative_to(self.path)): f.read_bytes() for f in self.path.rglob("*") if f.is_file()}

    @property
    def names(self) -> list[str]:
        return sorted(self.files)

    def chunks(self) -> list[str]:
        return [name for name in self.names if Path(name).name not in METADATA]

    def metadata(self) -> list[str]:
        return [name for name in self.names if Path(name).name in METADATA]

    def restore(self) -> None:
        for place in sorted(self.path.rglob("*"), reverse=True):
            if not self._is_as_it_was(place):
                clear(place)
        for name, content in self.files.items():
            place = self.path / name
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)

    def _is_as_it_was(self, place: Path) -> bool:
        content = self.files.get(str(place.relative_to(self.path)))
        if place.is_symlink():
            return False
        if place.is_dir():
            return content is None
        return place.is_file() and place.read_bytes() == content

    def replace(self, name: str, content: bytes) -> None:
        place = self.path / name
        clear(place)
        place.write_bytes(content)


def _places(document: Any, place: tuple[Any, ...] = ()):
    yield place
    if isinstance(document, dict | list):
        for key, child in document.items() if isinstance(document, dict) else enumerate(document):
            yield from _places(child, (*place, key))


def _with_wrong_json(content: bytes, chance: random.Random) -> bytes:
    document = json.loads(content)
    place, wrong = chance.choice(list(_places(document))), copy.deepcopy(chance.choice(WRONG))
    if not place:
        return json.dumps(wrong).encode()
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    if chance.random() < 0.2:
        holder.pop(place[-1])
    else:
        holder[place[-1]] = wrong
    return json.dumps(document).encode()


KINDS = (
    "flip",
    "cut",
    "grow",
    "swap",
    "delete",
    "folder",
    "pipe",
    "link out",
    "link in",
    "json",
    "json",
    "json",
    "json",
)


def damage(store: Store, chance: random.Random) -> str:
    """Damage `store` in a way that `chance` chooses, and say how."""
    kind = chance.choice(KINDS)
    name = chance.choice(store.metadata() if kind == "json" else store.names)
    place = store.path / name
    content = place.read_bytes() if place.is_file() else b""
    match kind:
        case "flip" if content:
            # Headers, middles, and the last four bytes, where checksums are.
            at = chance.choice([0, chance.randrange(len(content)), chance.randrange(-4, 0) % len(content)])
            flipped = bytearray(content)
            flipped[at] ^= 1 << chance.randrange(8)
            store.replace(name, bytes(flipped))
        case "cut":
            store.replace(name, content[: chance.randrange(max(1, len(content)))])
        case "grow":
            store.replace(name, content + chance.randbytes(chance.randrange(1, 40)))
        case "swap":
            other = chance.choice(store.names)
            if (store.path / other).is_file():
                there = (store.path / other).read_bytes()
                store.replace(other, content)
                store.replace(name, there)
        case "delete":
            clear(place)
        case "folder":
            clear(place)
            place.mkdir(exist_ok=True)
        case "pipe":
            clear(place)
            os.mkfifo(place)
        case "link out":
            clear(place)
            place.symlink_to("/etc/hostname")
        case "link in":
            clear(place)
            place.symlink_to(store.path / chance.choice(store.names))
        case "json" if content:
            try:
                changed = _with_wrong_json(content, chance)
            except (ValueError, TypeError):  # damaged before, or a value that JSON has no way to write
                return f"{kind} {name}: left alone"
            store.replace(name, changed)
    return f"{kind} {name}"


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    def require_clean(self) -> None:
        """It did what it should, or said in one sentence why not; nothing raw reached the terminal."""
        lines = [line for line in self.stderr.splitlines() if not line.startswith("photonflow: warning: ")]
        if self.code == 0:
            assert lines == [], self.stderr
        else:
            assert self.code == 1, self
            assert len(lines) == 1, self.stderr
            assert lines[0].startswith("photonflow: "), self.stderr
            assert "a fault in photonflow" not in lines[0], self.stderr
            assert len(lines[0]) < 5000
        for text in (self.stdout, self.stderr):
            assert all(char == "\n" or ord(char) >= 32 for char in text), repr(text)


def photonflow(*arguments: object) -> Outcome:
    """Run ``photonflow …`` in this process."""
    stdout, stderr, argv = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["photonflow", *map(str, arguments)]
    try:
        with (
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
            warnings.catch_warnings(action="ignore"),
            pytest.raises(SystemExit) as exit_,
        ):
            main()
    finally:
        sys.argv = argv
    return Outcome(exit_.value.code, stdout.getvalue(), stderr.getvalue())


@dataclass(frozen=True)
class Arrays:
    """What the archive was made of."""

    frames: np.ndarray
    dark: np.ndarray
    pixel_mask: np.ndarray
    frame_number: np.ndarray


def make_arrays() -> Arrays:
    rng = np.random.default_rng(7)
    frames = rng.normal(1000, 5, (30, *SHAPE))
    # All over: a pixel that fires in every frame would be warned of.
    frames[np.arange(30), rng.integers(4, 11, 30), rng.integers(1, 9, 30)] += 300
    mask = np.zeros(SHAPE, np.uint32)
    mask[2, 3] = 1
    dark = rng.normal(1000, 5, (100, *SHAPE))
    return Arrays(frames.astype(np.uint16), dark.astype(np.uint16), mask, np.arange(500, 530, dtype=np.uint64))


def make_archive(path: Path, arrays: Arrays) -> Path:
    writer = create_archive(
        path,
        arrays.frames.shape,
        np.uint16,
        n_dark=len(arrays.dark),
        pixel_mask=arrays.pixel_mask,
        frame_numbers=arrays.frame_number,
        attrs={"detector": {"name": "a \x1b[31mred one"}, "photon_energy_keV": 8.0},
    )
    writer.write_dark(0, arrays.dark)
    writer.write_frames(0, arrays.frames)
    return path


def make_dataset(path: Path, arrays: Arrays) -> Path:
    """The dataset of the archive, written as a run writes it."""
    pedestal = Pedestal.from_dark(arrays.dark, n_samples=1000)
    found = open_finder("reference", FinderParameters(), SHAPE, arrays.pixel_mask).find(arrays.frames, pedestal)
    layout = DatasetLayout(len(arrays.frames), 0, 20, SHAPE, (3, 3), rows_per_chunk=16)
    create_dataset(path, layout, {"n_sigma": 5.0, "sample": "a \x1b[31mred one", "archive": "a.zarr"})
    writer = ClusterWriter(path, layout)
    signal = np.rint(found.signal).astype(np.int32)
    y, x = (values.astype(layout.position_dtype) for values in (found.y, found.x))
    writer.write_clusters(0, found.frame_index.astype(np.uint32), y, x, signal)
    writer.write_frames(0, found.n_clusters.astype(np.uint32), arrays.frame_number, np.zeros(30, np.uint8))
    write_pedestal(path, pedestal)
    batches = xr.Dataset({"find_seconds": ("batch", [1.5, 2.0], {"units": "s"}), "total": ((), 3.5)})
    write_table(path, "batches", batches)
    finish_dataset(path, layout, len(x), {"digest": "xxh3-128:0123"})
    return path


@dataclass(frozen=True)
class Tools:
    """What the modules of this folder share."""

    Store: type
    damage: Any
    photonflow: Any
    arrays: Arrays
    make_archive: Any
    make_dataset: Any


@pytest.fixture(scope="session")
def tools() -> Tools:
    return Tools(Store, damage, photonflow, make_arrays(), make_archive, make_dataset)


@pytest.fixture(scope="module")
def archive_store(tools, tmp_path_factory) -> Store:
    return Store(make_archive(tmp_path_factory.mktemp("archives") / "a.zarr", tools.arrays))


OTHER_LAYOUTS = (
    {"compressors": [BloscCodec(cname="zstd")]},
    {"compressors": None},
    {"compressors": [ZstdCodec()], "chunks": (20, 6, 10)},
    {"compressors": [GzipCodec()], "chunks": (5, 12, 10), "shards": (20, 12, 10)},
    {"zarr_format": 2, "compressors": Blosc("lz4")},
    {"zarr_format": 2, "compressors": Zlib(), "filters": [Delta("u2")]},
)


@pytest.fixture(scope="module")
def other_stores(tools, tmp_path_factory) -> list[Store]:
    stores = []
    for layout in OTHER_LAYOUTS:
        options = {"chunks": (20, 12, 10)} | layout
        path = tmp_path_factory.mktemp("others") / "o.zarr"
        group = zarr.create_group(path, zarr_format=options.pop("zarr_format", 3))
        for name in ("frames", "dark"):
            group.create_array(name, data=getattr(tools.arrays, name), **options)
        group.create_array("pixel_mask", data=tools.arrays.pixel_mask)
        stores.append(Store(path))
    return stores


@pytest.fixture(scope="module")
def dataset_store(tools, tmp_path_factory) -> Store:
    return Store(make_dataset(tmp_path_factory.mktemp("datasets") / "c.zarr", tools.arrays))
