"""How many gain bits the words of a run's frames have."""

from __future__ import annotations

from finder.gain_bits import checked_gain_bits
from frame_archive import FrameArchive


def gain_bits_of_run(wanted: int | None, archive: FrameArchive) -> int:
    """Bits above the value: those that are wanted, or else those that the archive's metadata tell of.

    Raises:
        ValueError: There can't be so many; the message says what to do.
    """
    gain_bits = archive.gain_bits if wanted is None else checked_gain_bits(wanted)
    if gain_bits and archive.dtype.itemsize < 2:
        raise ValueError(
            f"--gain-bits {gain_bits}: gain bits are those of 16-bit words, and {archive.address.path} has frames of "
            f"{archive.dtype}: give --gain-bits 0"
        )
    return gain_bits
