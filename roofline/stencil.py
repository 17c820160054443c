"""The traffic of the cluster finder: a window over each pixel, and a pedestal that is read and written.

A frame is worked on in tiles; a tile needs the pixels around it too, as far as half a window (the halo), as far as the
image goes. K frames a pass keep the pedestal in fast memory for K frames; with every frame of the pass the region whose
pedestal is right shrinks by half a window at each side, so the pass begins with a halo K times as wide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FLOAT32 = 4


@dataclass(frozen=True)
class Tiling:
    """An image cut into tiles, seen through a window.

    Args:
        shape: (y, x) of the image.
        tile: (y, x) of a tile; those at the far edges may be smaller.
        radius: (y, x) half a window, rounded down: (1, 1) for 3×3.

    Raises:
        ValueError: A side of the image or of a tile below 1, or a radius below 0.
    """

    shape: tuple[int, int]
    tile: tuple[int, int]
    radius: tuple[int, int]

    def __post_init__(self) -> None:
        if min(*self.shape, *self.tile) < 1 or min(self.radius) < 0:
            raise ValueError(f"{self}: sides are at least 1, radii at least 0")

    def loads(self, n_frames: int = 1) -> int:
        """Pixels loaded for one frame, whose halo is `n_frames` radii wide; in closed form.

        Along an axis each border between tiles is crossed from both sides, as far as the image goes. The two axes
        multiply.
        """
        rows, columns = (
            _loads_along(side, tile, n_frames * radius)
            for side, tile, radius in zip(self.shape, self.tile, self.radius, strict=True)
        )
        return rows * columns

    def counted_loads(self, n_frames: int = 1) -> int:
        """The same number, counted: every tile is cut out of an image with its halo, and its pixels are counted."""
        image = np.zeros(self.shape, np.uint8)
        (height, width), (tile_rows, tile_columns) = self.shape, self.tile
        halo_y, halo_x = (n_frames * radius for radius in self.radius)
        loads = 0
        for y in range(0, height, tile_rows):
            for x in range(0, width, tile_columns):
                rows = slice(max(y - halo_y, 0), y + tile_rows + halo_y)
                columns = slice(max(x - halo_x, 0), x + tile_columns + halo_x)
                loads += image[rows, columns].size
        return loads

    def pass_loads(self, frames_a_pass: int) -> int:
        """Pixels of frames loaded for a pass: the first of its frames with the widest halo, the last with one radius.

        Raises:
            ValueError: Less than one frame a pass.
        """
        _require_pass(frames_a_pass)
        return sum(self.loads(frame) for frame in range(frames_a_pass, 0, -1))


def inner_tile_loads(tile: int, radius: int) -> int:
    """Pixels loaded for a square tile away from the image's edges: (b + 2ρ)²."""
    return (tile + 2 * radius) ** 2


@dataclass(frozen=True)
class FinderTraffic:
    """Bytes of slow-memory traffic for one frame of the finder, without halos.

    Args:
        frame: The frame itself, read once.
        offsets: X0, read.
        state: The running pedestal, read and written.
    """

    frame: float
    offsets: float
    state: float

    @property
    def nbytes(self) -> float:
        """All of it."""
        return self.frame + self.offsets + self.state


def finder_traffic(
    shape: tuple[int, int],
    *,
    frame_itemsize: int = 2,
    offset_itemsize: int = 2,
    n_states: int = 2,
    frames_a_pass: int = 1,
) -> FinderTraffic:
    """Traffic of one frame when a pass over the image takes `frames_a_pass` frames along.

    The pedestal is `n_states` float32 a pixel, each read and written once a pass: 16 B for s1 and s2. A pass divides
    that, and the reading of X0, by its frames.

    Raises:
        ValueError: Less than one frame a pass.
    """
    _require_pass(frames_a_pass)
    pixels = shape[0] * shape[1]
    return FinderTraffic(
        frame=pixels * frame_itemsize,
        offsets=pixels * offset_itemsize / frames_a_pass,
        state=pixels * n_states * 2 * FLOAT32 / frames_a_pass,
    )


def finder_operations(window: tuple[int, int]) -> int:
    """Arithmetic of one pixel of one frame: additions, multiplications, comparisons and maxima, each counted as one.

    As the finder's equations have them (docs/finder.md): 8 to subtract the pedestal and to get the squared threshold,
    11 to compare with it, 5 to update the pedestal, and for the window's sum and maximum a row of it, then the rows.

    Args:
        window: Rows and columns.
    """
    rows, columns = window
    return 8 + 11 + 5 + 1 + 2 * (rows - 1 + columns - 1)


def _loads_along(side: int, tile: int, halo: int) -> int:
    borders = range(tile, side, tile)
    return side + sum(
        # The tile before a border reaches beyond it, the one after it reaches back.
        min(halo, side - border) + min(halo, border)
        for border in borders
    )


def _require_pass(frames_a_pass: int) -> None:
    if frames_a_pass < 1:
        raise ValueError(f"a pass of {frames_a_pass} frames: it is at least one")
