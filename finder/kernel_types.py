"""What the compiled finder is compiled for, and what it works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

# Rows of a frame that are worked on together. With the up to 8 rows around them (a window of 9) they fill the ring.
TILE_ROWS = 8
RING_ROWS = 16
RING_MARGIN = 16  # Zeros to the left and right of each ring row: at least half a window, and a full vector.

CENTRE, QUIET = range(2)  # The marks of a pixel.
N_MARKS = 2
SLOTS = 15  # Frames whose marks are kept until they are counted: as many as four binary digits can hold.
DIGITS = 8
LARGEST_COUNT: int = 2**DIGITS - 1


@dataclass(frozen=True)
class Kernel:
    """One compiled finder. Everything else (image size, frame type, mask) is a value at run time.

    Attributes:
        rows, cols: the window, in pixels.
        running: whether the noise is followed.
        tracked: whether frames move the pedestal.
        lanes: floats in a vector.
        gain_bits: bits above the value in a 16-bit word; 0 compiles nothing for them.
        prefetching, branchless: False leaves out what they stand for (see kernel.py); the benchmark shows what each
            brings.
    """

    rows: int
    cols: int
    running: bool
    tracked: bool
    lanes: int
    gain_bits: int = 0
    prefetching: bool = True
    branchless: bool = True

    @property
    def description(self) -> str:
        """What it is, for people."""
        noise = "running" if self.running else "trained"
        words = f"the CPU finder for {self.rows}x{self.cols}, {noise} noise" + ("" if self.tracked else ", untracked")
        return words + (f", {self.gain_bits} gain bits" if self.gain_bits else "")

    @property
    def name(self) -> str:
        """A name for files."""
        noise = "running" if self.running else "trained"
        tracking = "tracked" if self.tracked else "untracked"
        gain = f"_{self.gain_bits}gain" if self.gain_bits else ""
        without = "" if self.prefetching else "_unprefetched"
        without += "" if self.branchless else "_branching"
        return f"{self.rows}x{self.cols}_{noise}_{tracking}_{self.lanes}{gain}{without}"


class Planes(NamedTuple):
    """The chain's state, a value a pixel, flat.

    Row q of the image is row q + rows // 2 of a plane, and rows are padded to whole vectors. The padding stays 0, and
    so does all that is computed from it, so that the kernel knows no edges.

    Attributes:
        s1: float32.
        s2: float32; with a trained noise it holds the squared threshold instead.
        present: uint8, a bit a pixel of the image (without the rows above), set where a pixel is to be used.
        row_is_complete: uint8, a value a row of the image: 1 where no pixel of the row is masked.
    """

    s1: Any
    s2: Any
    present: Any
    row_is_complete: Any


class Scratch(NamedTuple):
    """The chain's working memory, flat.

    Attributes:
        values: float32, v of the last 16 rows; row q lies in slot q % 16, between two margins of zeros.
        limits: float32, t of the same rows, laid out alike; −1 where a pixel is blind, NaN where it is in another gain.
        steps: float32, likewise y·y − m: what s2 gains where a pixel is quiet.
        row_sums: float32, the last rows − 1 rows' sums over a window's columns, from the tile before.
        row_maxima: float32, likewise their maxima.
        positions: int64, row · 2³² + column of the tile's clusters.
        last_row: uint8, a copy of the last row of the last frame, with room to read on.
    """

    values: Any
    limits: Any
    steps: Any
    row_sums: Any
    row_maxima: Any
    positions: Any
    last_row: Any


class Source(NamedTuple):
    """Frames, C-contiguous and native.

    Attributes:
        code: their type: one of SOURCE_CODES, or READY.
        address: of the first pixel.
        itemsize: bytes a pixel.
        x0: address of X0, laid out as a state plane, in the frames' own type.
        n_frames: how many there are.
        number: what the first one is called in the results.
        searched: 1 if clusters are found and pixels counted, 0 if the frames only move the pedestal.
    """

    code: int
    address: int
    itemsize: int
    x0: int
    n_frames: int
    number: int
    searched: int


class Image(NamedTuple):
    """Sizes of a frame, in pixels.

    Attributes:
        rows, cols: the frame.
        padded: columns rounded up to whole vectors.
        ring_stride: floats from one ring row to the next.
        mark_words: words of marks in a row: a bit a pixel, 64 columns a word.
        tiles: tiles of rows in a state plane.
    """

    rows: int
    cols: int
    padded: int
    ring_stride: int
    mark_words: int
    tiles: int

    @property
    def tile_words(self) -> int:
        """Words of marks in a tile."""
        return TILE_ROWS * self.mark_words


class Constants(NamedTuple):
    """The parameters as float32 (numpy.float32): the design's inv_n, ns2, area."""

    inv_n: Any
    ns2: Any
    area: Any


class Counters(NamedTuple):
    """Which way pixels went in the last frames, and how often before, flat.

    Attributes:
        marks: uint64 (slot, tile, mark, word), a bit a pixel, a slot a frame: where a cluster's centre is (CENTRE)
            and where a pixel is quiet (QUIET).
        digits: uint64 (tile, mark, digit, word): counts of up to LARGEST_COUNT of the marks of earlier frames,
            bit-sliced: each word holds one binary digit of 64 pixels' counts.
        n_marked: int64, one value: slots in use.
        blind: uint32, laid out as a state plane: how often each pixel was blind. Few are, so they are counted plainly.
    """

    marks: Any
    digits: Any
    n_marked: Any
    blind: Any


class Found(NamedTuple):
    """Where the clusters go; arrays with room for more than there are yet.

    Attributes:
        frame_index, y, x: (cluster).
        signal: float32, flat, rows · cols values a cluster.
        n_clusters: uint32 (frame).
    """

    frame_index: Any
    y: Any
    x: Any
    signal: Any
    n_clusters: Any


# The frames' types. READY stands for frames of y itself, as float32: for a pedestal beyond the type's own range. With
# gain bits, y is NaN where a pixel is in another gain.
UINT8, UINT16, INT16, UINT32, INT32, READY = range(6)
SOURCE_CODES = {"uint8": UINT8, "uint16": UINT16, "int16": INT16, "uint32": UINT32, "int32": INT32}
