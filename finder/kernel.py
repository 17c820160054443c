"""The compiled finder's loops over frames, tiles of rows, and vectors of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from finder.code_compilation import part
from finder.kernel_count import count_marks
from finder.kernel_decide import decide
from finder.kernel_instructions import (
    copied,
    copy_window_row,
    count_ones,
    lowest_one,
    prefetch,
    prefetch_signal,
)
from finder.kernel_subtract import subtract_row
from finder.kernel_types import N_MARKS, RING_MARGIN, RING_ROWS, SLOTS, TILE_ROWS

CACHE_LINE = 64
PREFETCH_ROWS = 8
PREFETCH_CLUSTERS = 16
ALWAYS_WRITTEN = 3


def find_clusters(
    kernel: Any,
    image: Any,
    planes: Any,
    scratch: Any,
    constants: Any,
    counters: Any,
    source: Any,
    found: Any,
    room: Any,
    place: Any,
) -> None:
    """Find clusters in frames one after the other, as long as there is room for them.

    Args:
        kernel: the `Kernel` this is compiled for.
        image, planes, scratch, constants, counters, source, found: see kernel_types.
        room: clusters that `found` has room for.
        place: int64 (frame, row, n_found): where to begin, 0, 0 and the clusters found before, and where it ended. The
            frame is source.n_frames when all is done; otherwise the tile that begins at `row` comes next, and the call
            is to be repeated with room for n_found and all pixels of a tile.
    """
    up = kernel.rows // 2
    frame, row, n_found = place[0], place[1], place[2]
    while frame < source.n_frames:
        if row == 0:
            start_frame(kernel, image, scratch)
        while row < image.rows + up:
            if n_found + TILE_ROWS * image.cols > room:
                place[0], place[1], place[2] = frame, row, n_found
                return
            subtract_tile(kernel, source, image, planes, scratch, constants, counters, frame, row)
            marks = (counters.n_marked[0] * image.tiles + row // TILE_ROWS) * N_MARKS * TILE_ROWS * image.mark_words
            ring, ring_before = ring_start(image, row), ring_start(image, row - TILE_ROWS)
            for column in range(0, image.padded, kernel.lanes):
                decide(
                    kernel,
                    image,
                    column,
                    row * image.padded,
                    marks,
                    ring,
                    ring_before,
                    planes,
                    scratch,
                    counters,
                    constants,
                )
            if source.searched:
                number = source.number + frame
                n_before = n_found
                n_found = collect(kernel, image, scratch, counters, marks, found, number, row - up, n_found)
                found.n_clusters[number] += np.uint32(n_found - n_before)
            row += TILE_ROWS
        frame += 1
        if source.searched:
            counters.n_marked[0] += 1
            if counters.n_marked[0] == SLOTS:
                count_marks(kernel, image, counters)
        row = 0
    place[0], place[1], place[2] = frame, row, n_found


@part
def ring_start(image: Any, row: Any) -> Any:
    """Index of a row's first pixel in the rings."""
    return (row & (RING_ROWS - 1)) * image.ring_stride + RING_MARGIN


@part
def start_frame(kernel: Any, image: Any, scratch: Any) -> Any:
    """Nothing is above a frame's first row: no values, no sums, no maxima."""
    clear_ring_rows(image, scratch, -(kernel.rows // 2), 0)
    clear(scratch.row_sums, 0, len(scratch.row_sums))
    clear(scratch.row_maxima, 0, len(scratch.row_maxima))


@part
def clear_ring_rows(image: Any, scratch: Any, first: Any, end: Any) -> Any:
    """Make rows absent."""
    for row in range(first, end):
        start = ring_start(image, row)
        clear(scratch.values, start, start + image.padded)
        clear(scratch.limits, start, start + image.padded)
        clear(scratch.steps, start, start + image.padded)


@part
def clear(array: Any, first: Any, end: Any) -> Any:
    """0 in a part of a flat array. (A slice assignment says the same, but takes longer to compile.)"""
    for index in range(first, end):
        array[index] = 0


@part
def subtract_tile(
    kernel: Any, source: Any, image: Any, planes: Any, scratch: Any, constants: Any, counters: Any, frame: Any,
    first_row: Any,
) -> Any:  # fmt: skip
    """v, limits and steps of a tile's rows, into the rings."""
    row_bytes, read_bytes = image.cols * source.itemsize, image.padded * source.itemsize
    end_of_memory = source.address + source.n_frames * image.rows * row_bytes
    end = min(first_row + TILE_ROWS, image.rows)
    for row in range(first_row, end):
        address = source.address + (frame * image.rows + row) * row_bytes
        if kernel.prefetching:
            for line in range(0, row_bytes, CACHE_LINE):
                prefetch(address + PREFETCH_ROWS * row_bytes + line)
        if address + read_bytes > end_of_memory:
            address = copied(scratch.last_row, address, row_bytes)
        subtract_row(kernel, source, address, row, image, planes, scratch, constants, counters)
    clear_ring_rows(image, scratch, end, first_row + TILE_ROWS)


@part
def unsigned(index: Any) -> Any:
    """An index that is never negative, for which Numba need not look whether it counts from the end."""
    return np.uint64(index)


@part
def collect(
    kernel: Any, image: Any, scratch: Any, counters: Any, marks: Any, found: Any, number: Any, first_row: Any,
    n_found: Any,
) -> Any:  # fmt: skip
    """Append the tile's clusters to `found`, from its marks; returns how many there are now."""
    n = n_found + list_positions(kernel, image, scratch, counters, marks, first_row)
    up, left, area = kernel.rows // 2, kernel.cols // 2, kernel.rows * kernel.cols
    for index in range(n_found, n):
        if kernel.prefetching:
            prefetch_signal(found, (index + PREFETCH_CLUSTERS) * area)
        position = scratch.positions[unsigned(index - n_found)]
        row, column = position >> 32, position & 0xFFFFFFFF
        found.frame_index[unsigned(index)] = number
        found.y[unsigned(index)] = row
        found.x[unsigned(index)] = column
        for window_row in range(kernel.rows):
            start = ring_start(image, row - up + window_row) + column - left
            copy_window_row(kernel, scratch, start, found, index * area + window_row * kernel.cols)
    return n


@part
def list_positions(kernel: Any, image: Any, scratch: Any, counters: Any, first_word: Any, first_row: Any) -> Any:
    """The positions of the tile's centres, in order, into scratch; returns their number.

    Most words of marks hold none to three, unpredictably: three positions are written in any case, and those that were
    none are overwritten by the next word's. A branch a mark would be mispredicted about as often as not.
    """
    n = 0
    for row in range(TILE_ROWS):
        position = (first_row + row) << 32
        for word in range(row * image.mark_words, (row + 1) * image.mark_words):
            marks = counters.marks[unsigned(first_word + word)]
            n_marks = count_ones(marks)
            index = 0
            if kernel.branchless:
                for index in range(ALWAYS_WRITTEN):
                    scratch.positions[unsigned(n + index)] = position + lowest_one(marks)
                    marks &= marks - np.uint64(1)
                index = ALWAYS_WRITTEN
            while marks != np.uint64(0):
                scratch.positions[unsigned(n + index)] = position + lowest_one(marks)
                marks &= marks - np.uint64(1)
                index += 1
            n += n_marks
            position += 64
    return n
