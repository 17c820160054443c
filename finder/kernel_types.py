"""What the compiled finder is compiled for, and what it works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import NativeValue, overload_attribute, register_model, typeof_impl, unbox

# Rows of a frame that are worked on together. With the up to 8 rows around them (a window of 9) they fill the ring.
TILE_ROWS = 8
RING_ROWS = 16
RING_MARGIN = 16  # Zeros to the left and right of each ring row: at least half a window, and a full vector.

DIGITS = 8  # Of the kernel's counts of frames, in binary.
LARGEST_COUNT: int = 2**DIGITS - 1


@dataclass(frozen=True)
class Kernel:
    """One compiled finder. Everything else (image size, frame type, mask) is a value at run time.

    Attributes:
        rows, cols: the window, in pixels.
        running: whether the noise is followed.
        lanes: floats in a vector.
        source: a digest of the finder's own source, so that a newer version never takes an older one's compiled code.
    """

    rows: int
    cols: int
    running: bool
    lanes: int
    source: str

    @property
    def name(self) -> str:
        """A name for files."""
        noise = "running" if self.running else "trained"
        return f"{self.rows}x{self.cols}_{noise}_{self.lanes}_{self.source}"


class Planes(NamedTuple):
    """The chain's state, a value a pixel, flat.

    Row q of the image is row q + rows // 2 of a plane, and rows are padded to whole vectors. The padding stays 0, and
    so does all that is computed from it, so that the kernel knows no edges.

    Attributes:
        x0: int32; the bits of uint32 for frames of uint32.
        s1: float32.
        s2: float32; with a trained noise it holds the squared threshold instead.
        present: uint8, a bit a pixel of the image (without the rows above), set where a pixel is to be used.
        row_is_complete: uint8, a value a row of the image: 1 where no pixel of the row is masked.
    """

    x0: Any
    s1: Any
    s2: Any
    present: Any
    row_is_complete: Any


class Scratch(NamedTuple):
    """The chain's working memory, flat.

    Attributes:
        values: float32, v of the last 16 rows; row q lies in slot q % 16, between two margins of zeros.
        differences: float32, y of the same rows, laid out alike.
        row_sums: float32, the last rows − 1 rows' sums over a window's columns, from the tile before.
        row_maxima: float32, likewise their maxima.
        marks: uint64, a bit a pixel of the tile, set where a cluster's centre is; 64 columns a word.
        quiet, blind: uint64, likewise, set where a pixel is to be updated, and where it is far below its pedestal.
        positions: int64, row · 2³² + column of the tile's clusters.
        last_row: uint8, a copy of the last row of the last frame, with room to read on.
    """

    values: Any
    differences: Any
    row_sums: Any
    row_maxima: Any
    marks: Any
    quiet: Any
    blind: Any
    positions: Any
    last_row: Any


class Source(NamedTuple):
    """Frames, C-contiguous and native.

    Attributes:
        code: their type: one of SOURCE_CODES, or READY.
        address: of the first pixel.
        itemsize: bytes a pixel.
        n_frames: how many there are.
        number: what the first one is called in the results.
    """

    code: int
    address: int
    itemsize: int
    n_frames: int
    number: int


class Image(NamedTuple):
    """Sizes of a frame, in pixels.

    Attributes:
        rows, cols: the frame.
        padded: columns rounded up to whole vectors.
        ring_stride: floats from one ring row to the next.
        mark_words: words of marks in a row.
    """

    rows: int
    cols: int
    padded: int
    ring_stride: int
    mark_words: int


class Constants(NamedTuple):
    """The parameters as float32 (numpy.float32): the design's inv_n, ns2, area."""

    inv_n: Any
    ns2: Any
    area: Any


class Task(NamedTuple):
    """What is done with the frames.

    Attributes:
        tracked: 1 if they move the pedestal, else 0.
        searched: 1 if clusters are found and pixels counted, else 0.
    """

    tracked: int
    searched: int


class Counters(NamedTuple):
    """How often pixels went which way, flat.

    A frame adds 0 or 1 to each pixel's count. Counts of up to LARGEST_COUNT are kept bit-sliced: one plane of bits for
    each binary digit, so that one operation on words adds to 64 counts.

    Attributes:
        quiet, blind: uint64 (tile, digit, words of a tile's marks).
        centres: uint32 (y, x), of the image as it is.
    """

    quiet: Any
    blind: Any
    centres: Any


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


# The frames' types. READY stands for frames of y itself, as float32: for a pedestal beyond the type's own range.
UINT8, UINT16, INT16, UINT32, INT32, READY = range(6)
SOURCE_CODES = {"uint8": UINT8, "uint16": UINT16, "int16": INT16, "uint32": UINT32, "int32": INT32}


class KernelType(types.Type):
    """`Kernel` as a Numba type: its fields are part of the type, so that each value is compiled for itself."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        super().__init__(name=f"Kernel({kernel.name})")


@register_model(KernelType)
class _KernelModel(models.OpaqueModel):
    """Nothing of it is left at run time."""


@typeof_impl.register(Kernel)
def _typeof_kernel(value: Kernel, context: Any) -> KernelType:
    return KernelType(value)


def _unboxed(typ: Any, value: Any, unboxing: Any) -> Any:
    native_value: Any = NativeValue
    return native_value(unboxing.context.get_dummy_value())


_unbox: Any = unbox
_unbox(KernelType)(_unboxed)


def _constant(field: str) -> None:
    """Make `kernel.field` a constant in compiled code."""

    def attribute(kernel):  # type: ignore[no-untyped-def] # Numba compares the two signatures, annotations included.
        value = getattr(kernel.kernel, field)
        return lambda kernel: value

    overload_attribute(KernelType, field, inline="always")(attribute)


for _field in ("rows", "cols", "running", "lanes"):
    _constant(_field)


class Fields:
    """The arrays of a named tuple in an intrinsic: LLVM pointers to their elements, by name."""

    def __init__(self, context: Any, builder: Any, typ: Any, value: Any) -> None:
        self._context, self._builder, self._type, self._value = context, builder, typ, value

    def scalar(self, name: str) -> Any:
        """A field that is a number."""
        return self._builder.extract_value(self._value, self._type.fields.index(name))

    def element(self, name: str, index: Any) -> Any:
        """The address of an element of a field that is a flat array."""
        array_type = self._type.types[self._type.fields.index(name)]
        array = self._context.make_array(array_type)(self._context, self._builder, self.scalar(name))
        return self._builder.gep(array.data, [index])


def offset(builder: Any, address: Any, elements: int) -> Any:
    """The address `elements` further on."""
    return builder.gep(address, [ir.Constant(cgutils.intp_t, elements)])
