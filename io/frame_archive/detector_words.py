"""What an archive's metadata say of the words that its detector writes: how many of their bits tell the gain."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from finder.gain_bits import checked_gain_bits
from frame_archive.errors import ArchiveError
from guarded_zarr import cut_short

GAIN_BITS = "gain_bits"
"""The attribute, of the frames or of the archive."""

_BY_DETECTOR = {"jungfrau": 2}


def gain_bits_of(
    archive: str, of_frames: Mapping[str, Any], of_archive: Mapping[str, Any], dtype: "np.dtype[Any]"
) -> int:
    """Bits above the value, from the attribute `gain_bits`, or by the detector's name in an attribute named after it.

    A name counts for words as the detector writes them, uint16: other types hold what somebody has made of them.

    Args:
        archive: its path, for messages.
        of_frames: attributes of the frames.
        of_archive: attributes of the archive.
        dtype: of the frames.

    Raises:
        ArchiveError: the attribute is no number of bits.
    """
    for attrs in (of_frames, of_archive):
        if GAIN_BITS in attrs:
            try:
                return checked_gain_bits(attrs[GAIN_BITS])
            except ValueError as error:
                raise ArchiveError(
                    f"{archive} has the attribute {GAIN_BITS} {cut_short(attrs[GAIN_BITS])}, and a number of bits from "
                    "0 to 8 is needed: give --gain-bits"
                ) from error
    if dtype != np.uint16:
        return 0
    names = " ".join(
        value.lower()
        for attrs in (of_frames, of_archive)
        for name, value in attrs.items()
        if "detector" in name.lower() and isinstance(value, str)
    )
    return next((bits for detector, bits in _BY_DETECTOR.items() if detector in names), 0)
