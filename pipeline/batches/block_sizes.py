"""How many frames are read at a time for a GPU."""

GPU_BLOCK_BYTES = 32 << 20
"""Bytes of frames that a GPU is handed at a time, if the archive's chunks allow: several of its own chunks."""

BUFFERS = 2
"""Blocks that a batch has page-locked: one that is searched, one that is read."""
