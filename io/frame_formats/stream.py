"""Streams of frames without a word about them: shape, type and where each pixel lies come from the user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from frame_formats.errors import SourceError, cause
from frame_formats.file_bytes import PlainFrames, whole_frames
from frame_formats.source import OpenedSource, SourceFacts, SourceFile

if TYPE_CHECKING:
    from frame_formats.opening import SourceOptions

_ROUGHER = 8
PixelMap = npt.NDArray[np.integer[Any]]


def open_stream(path: Path, options: SourceOptions) -> OpenedSource:
    """Open a file of frames one after the other, as `options` describe them.

    Raises:
        SourceError: what describes them is missing, or does not fit.
    """
    shape = options.shape
    if shape is None and options.pixel_map is not None:
        shape = (int(options.pixel_map.shape[0]), int(options.pixel_map.shape[1]))
    if shape is None or options.dtype is None:
        raise SourceError(
            f"{path} is of no format that is known here; if it is a stream of frames without headers, say "
            "what they are: --shape ROWSxCOLUMNS --dtype uint16"
        )
    if min(shape) < 1 or options.dtype.kind not in "iuf":
        raise SourceError(f"--shape {shape[0]}x{shape[1]} --dtype {options.dtype} describe no frames of numbers")
    pixel_map = options.pixel_map
    if pixel_map is not None and pixel_map.shape != shape:
        raise SourceError(
            f"the pixel map has the shape {pixel_map.shape}, and --shape says {shape}: give the one that fits"
        )
    nbytes = options.header_nbytes + shape[0] * shape[1] * options.dtype.itemsize
    there, ended_early = whole_frames(path, options.file_header_nbytes, nbytes, None)
    if ended_early:
        ended_early += (
            f"; or its frames are not {shape[0]}×{shape[1]} {options.dtype} with {options.header_nbytes} bytes before"
        )
    frames = PlainFrames(
        path, there, shape, options.dtype, options.file_header_nbytes, options.header_nbytes, pixel_map
    )
    problems = _byte_order(path, frames, options.dtype) if there else ()
    files = (SourceFile(path, there),)
    return OpenedSource(frames, SourceFacts("stream", files=files, ended_early=ended_early, problems=problems))


def _byte_order(path: Path, frames: PlainFrames, dtype: np.dtype[Any]) -> tuple[str, ...]:
    """A sentence if the first frame would be much smoother in the other byte order."""
    if dtype.kind not in "iu" or dtype.itemsize == 1:
        return ()
    first = np.empty((1, *frames.frame_shape), frames.dtype)
    frames.read(0, 1, first)
    rough, swapped = (float(np.abs(np.diff(each.astype(np.float64))).mean()) for each in (first, first.byteswap()))
    if rough <= _ROUGHER * swapped or not np.isfinite(rough):
        return ()
    other = dtype.newbyteorder("S").str
    return (
        f"{path} looks as if it were in the other byte order: neighbouring pixels differ much less with "
        f"--dtype '{other}'",
    )


def pixel_map_of(given: str) -> PixelMap:
    """Return a pixel map: of an NPY file, or by its name (`moench03`).

    Returns:
        (y, x), at which place in a stored frame, counted from 0, each pixel's value lies.

    Raises:
        SourceError: it is none.
    """
    if given == "moench03":
        return moench03_pixel_map()
    try:
        pixel_map: PixelMap = np.load(given, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise SourceError(f"--pixel-map {given} cannot be read as an NPY file: {cause(error)}") from error
    if pixel_map.ndim != 2 or pixel_map.dtype.kind not in "iu":
        raise SourceError(f"--pixel-map {given} is {pixel_map.shape} {pixel_map.dtype}: a map is (y, x) integers")
    if not np.array_equal(np.sort(pixel_map, axis=None), np.arange(pixel_map.size)):
        raise SourceError(
            f"--pixel-map {given} does not name each of its {pixel_map.size:,} values once, counted from 0: some pixel "
            "would be lost"
        )
    return np.asarray(pixel_map, np.int64)


def moench03_pixel_map() -> PixelMap:
    """Return where in a stored frame of a Mönch 03 each pixel of its 400×400 lies.

    32 converters of 25×200 pixels each are read at once, one value of each after the other; four side by side make
    100 columns of one half. Converters 4 to 7, 12 to 15 and so on read the lower half downwards, the others the upper
    half upwards, both from the middle (as aare's pixel map has it, which slsDetectorPackage's calibration uses).
    """
    n_converters, width, height = 32, 25, 200
    converter = np.arange(n_converters)
    first_column = 100 * (3 - converter // 8) + width * (converter % 4)
    is_lower = converter // 4 % 2 == 1
    sample = np.arange(width * height)
    place = sample[:, np.newaxis] * n_converters + converter
    column = sample[:, np.newaxis] % width + first_column
    away = sample[:, np.newaxis] // width
    row = np.where(is_lower, height + away, height - 1 - away)
    pixel_map = np.empty((2 * height, 400), np.int64)
    pixel_map[row, column] = place
    return pixel_map
