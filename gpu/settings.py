"""The knobs of the CUDA finder. None of them changes a result."""

from __future__ import annotations

from dataclasses import dataclass

from finder import FinderParameters

TILE = 32  # Rows and columns of a block's tile, as in kernels/search.cu.
SHARED_NBYTES_A_PIXEL = 17
LARGEST_SHARED_NBYTES = 48 << 10  # What a block may declare on any GPU.
CHUNK_NBYTES = 16 << 20
LARGEST_CHUNK_NBYTES = 64 << 20  # Of frames; one launch takes fewer frames rather than more.
MOST_CHUNK_FRAMES = 256
LARGEST_CHUNK_FRAMES = 32_768  # A grid has no more blocks along y than twice as many.
BY_RADIUS = {1: 4, 2: 2}  # Frames a launch; with larger windows the halo costs more than it saves.


@dataclass(frozen=True)
class GpuSettings:
    """How frames go through a GPU.

    Args:
        n_streams: chains that run side by side; each wants a thread of its own.
        chunk_frames: frames that are staged, searched and collected together, rounded up to a whole and even number of
            launches; None: about 16 MiB of them.
        frames_a_launch: frames that one launch takes a tile through; None: 4 with windows of 3, 2 with 5, else 1.
        graphs: whether a chunk's work is captured once and replayed, or queued piece by piece.
        pinned: whether staging memory is page-locked; where it is not, copies run beside nothing, and into no graph.
        overlap: whether the next chunk is staged while one is searched.
        room: clusters a frame and pixel that buffers have room for at first; they grow where it is too little.

    Raises:
        ValueError: a value is out of its range.
    """

    n_streams: int = 3
    chunk_frames: int | None = None
    frames_a_launch: int | None = None
    graphs: bool = True
    pinned: bool = True
    overlap: bool = True
    room: float = 0.02

    def __post_init__(self) -> None:
        for name in ("n_streams", "chunk_frames", "frames_a_launch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be 1 or more")
        if self.chunk_frames is not None and self.chunk_frames > LARGEST_CHUNK_FRAMES:
            raise ValueError(f"chunk_frames is {self.chunk_frames}; it must be at most {LARGEST_CHUNK_FRAMES}")
        if self.graphs and not self.pinned:
            raise ValueError("graphs copy from and to pinned memory: without it, work without graphs")
        if not 0 < self.room <= 1:
            raise ValueError(f"room is {self.room}; it must be above 0 and at most 1 cluster a pixel")


@dataclass(frozen=True)
class Chunk:
    """How many frames are worked on together.

    Attributes:
        frames_a_launch: frames of one launch of the search.
        launches: launches of a chunk, an even number: the state is then where it was.
    """

    frames_a_launch: int
    launches: int

    @property
    def frames(self) -> int:
        """Frames of a chunk, at most."""
        return self.frames_a_launch * self.launches


def chunk_of(settings: GpuSettings, parameters: FinderParameters, frame_nbytes: int) -> Chunk:
    """The chunk for frames of `frame_nbytes`.

    Raises:
        ValueError: more frames a launch than a block's shared memory holds the halo of.
    """
    rows, cols = parameters.cluster_size
    a_launch = settings.frames_a_launch
    if a_launch is None:
        a_launch = BY_RADIUS.get(max(rows, cols) // 2, 1)
        while a_launch > 1 and 2 * a_launch * frame_nbytes > LARGEST_CHUNK_NBYTES:
            a_launch //= 2
    needed = shared_nbytes(parameters.cluster_size, a_launch)
    if needed > LARGEST_SHARED_NBYTES:
        raise ValueError(
            f"frames_a_launch is {a_launch}: with windows of {rows}x{cols} a block would need {needed} B of shared "
            f"memory, and has {LARGEST_SHARED_NBYTES}: take fewer frames a launch"
        )
    frames = settings.chunk_frames or min(max(CHUNK_NBYTES // frame_nbytes, 1), MOST_CHUNK_FRAMES)
    pairs = -(-frames // (2 * a_launch)) if settings.chunk_frames else max(1, frames // (2 * a_launch))
    return Chunk(a_launch, 2 * pairs)


def shared_nbytes(cluster_size: tuple[int, int], frames_a_launch: int) -> int:
    """Shared memory that a block of the search declares, for its tile and the halo."""
    rows, cols = (TILE + 2 * frames_a_launch * (side // 2) for side in cluster_size)
    return rows * cols * SHARED_NBYTES_A_PIXEL
