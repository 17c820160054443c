"""TIFF files: stacks of pages, or one page a file."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np

from frame_formats.errors import SourceError, cause
from frame_formats.file_bytes import PlainFrames, whole_frames
from frame_formats.libraries import library
from frame_formats.open_files import OpenFiles
from frame_formats.source import Frames, FrameSource, OpenedSource, SourceFacts, SourceFile, UnreadableFrameError

_LONGEST_DESCRIPTION = 2000


def open_tiff(path: Path) -> OpenedSource:
    """Open a TIFF file, every page (y, x) a frame.

    Raises:
        SourceError: it is not one, or its pages are not frames of one kind.
    """
    tifffile = library("tifffile", f"{path} is TIFF, which")
    try:
        # What is cut short is told here, in words of ours.
        logging.getLogger("tifffile").setLevel(logging.CRITICAL)
        with tifffile.TiffFile(path, _multifile=False) as file:
            first = file.pages.first
            if len(first.shape) != 2:
                raise SourceError(
                    f"{path} has pages of {first.shape} values, colour or planes: a frame is one value a pixel, (y, x)"
                )
            _require_unpacking(path, tifffile, first)
            dtype, shape = np.dtype(first.dtype), (int(first.shape[0]), int(first.shape[1]))
            header = _header_of(first)
            one_piece = _in_one_piece(file)
            if one_piece is not None:
                begin, n = one_piece
                stored = dtype.newbyteorder(file.byteorder)
                there, ended_early = whole_frames(path, begin, first.size * dtype.itemsize, n)
                ended_early = ended_early or _lost_after_last(path, file)
                facts = SourceFacts(
                    "TIFF", header=header, files=(SourceFile(path, there),), ended_early=ended_early, n_lost=n - there
                )
                return OpenedSource(PlainFrames(path, there, shape, stored, begin), facts)
            n, ended_early = _whole_pages(path, file, shape, dtype)
    except SourceError:
        raise
    except Exception as error:  # tifffile raises whatever a damaged file leads it to.
        raise SourceError(f"{path} is not a whole TIFF file: {cause(error)}") from error
    facts = SourceFacts("TIFF", header=header, files=(SourceFile(path, n),), ended_early=ended_early)
    return OpenedSource(_Pages(path, n, shape, dtype), facts)


def _require_unpacking(path: Path, tifffile: Any, page: Any) -> None:
    try:
        tifffile.TIFF.DECOMPRESSORS[page.compression]
    except KeyError as error:
        name = getattr(page.compression, "name", page.compression)
        raise SourceError(f"{path} is packed with {name}, which needs imagecodecs: pip install imagecodecs") from error


def _in_one_piece(file: Any) -> tuple[int, int] | None:
    """Where the frames begin and how many there are, if they follow each other as they are."""
    try:
        series = file.series
    except Exception:  # Of a file that is cut short, and then looked at page by page.
        return None
    if len(series) != 1 or series[0].dataoffset is None:
        return None
    return int(series[0].dataoffset), int(np.prod(series[0].shape)) // file.pages.first.size


def _whole_pages(path: Path, file: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> tuple[int, str]:
    size, index = path.stat().st_size, 0
    while True:
        try:
            page = file.pages[index]
        except IndexError:
            return index, _lost_after_last(path, file)
        except Exception:
            return index, f"{path} is cut short: page {index} and what follows are not there"
        if (page.shape, np.dtype(page.dtype)) != (shape, dtype):
            raise SourceError(
                f"{path} has pages of several kinds: page 0 is {shape} {dtype} and page {index} is "
                f"{page.shape} {page.dtype}"
            )
        ends = [at + count for at, count in zip(page.dataoffsets, page.databytecounts, strict=True)]
        if max(ends, default=0) > size:
            return index, f"{path} is cut short: page {index} and what follows are not there"
        index += 1


def _lost_after_last(path: Path, file: Any) -> str:
    # A page that is there leads to the next: where that lies outside, the rest was lost.
    if _offset_after_last(file) < path.stat().st_size:
        return ""
    return f"{path} is cut short: what follows page {len(file.pages) - 1} is not there"


def _offset_after_last(file: Any) -> int:
    """Return what the last page gives as the place of the next: 0 at the end of a whole file."""
    tiff, handle = file.tiff, file.filehandle
    handle.seek(file.pages[len(file.pages) - 1].offset)
    n_tags = int.from_bytes(handle.read(tiff.tagnosize), "little" if file.byteorder == "<" else "big")
    handle.seek(n_tags * tiff.tagsize, 1)
    return int.from_bytes(handle.read(tiff.offsetsize), "little" if file.byteorder == "<" else "big")


def _header_of(page: Any) -> dict[str, Any]:
    found = {}
    for name in ("ImageDescription", "DateTime", "Make", "Model", "Software", "Artist"):
        tag = page.tags.get(name)
        if tag is not None and str(tag.value).strip():
            found[name] = str(tag.value)[:_LONGEST_DESCRIPTION]
    return found


class _Pages(FrameSource):
    def __init__(self, path: Path, n: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.path = path
        self.n_frames = n
        self.frame_shape = shape
        self.dtype = dtype.newbyteorder("=")

    def read(self, start: int, stop: int, out: Frames) -> None:
        try:
            file = _opened(str(self.path))
        except Exception as error:
            raise UnreadableFrameError(start, f"{self.path} cannot be read: {cause(error)}") from error
        for index in range(start, stop):
            try:
                values = file.pages[index].asarray()
            except Exception as error:
                raise UnreadableFrameError(index, f"page {index} of {self.path} is damaged: {cause(error)}") from error
            if values.shape != self.frame_shape or values.dtype != self.dtype:
                raise UnreadableFrameError(index, f"page {index} of {self.path} is {values.shape} {values.dtype}")
            out[index - start] = values


def _open(path: str) -> Any:
    tifffile = library("tifffile", "TIFF")
    logging.getLogger("tifffile").setLevel(logging.CRITICAL)
    return tifffile.TiffFile(path, _multifile=False)


_opened = OpenFiles(_open)
