"""Planes (y, x) in NPY and NPZ files of anybody's: looked at before they are read, and never unpickled."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from guarded_zarr import open_regular, require_holdable

Check = Callable[[tuple[int, ...], "np.dtype[Any]"], None]
"""Told the shape and the type of a plane before it is read; raises if they will not do."""


class UnsafePlaneError(ValueError):
    """A file holds Python objects; the message is the cause alone."""


def read_numpy(path: str, names: Sequence[str], check: Check) -> npt.NDArray[Any]:
    """Read one plane from an NPY file, or from an NPZ file the first of ``names`` that is in it.

    Args:
        path: The file; a link will do.
        names: Of the plane in an NPZ file.
        check: Asked before anything is read.

    Raises:
        UnsafePlaneError: The file holds Python objects.
        Exception: Of any kind, over a file that is damaged or none of NumPy's; also what ``check`` raises.
    """
    with io.BufferedReader(open_regular(path)) as file:
        if not zipfile.is_zipfile(file):
            file.seek(0)
            return _read_npy(file, check)
        with zipfile.ZipFile(file) as archive:
            members = archive.namelist()
            name = next((name for name in names if f"{name}.npy" in members), names[0])
            with archive.open(f"{name}.npy") as member:
                return _read_npy(member, check)


def _read_npy(file: BinaryIO | Any, check: Check) -> npt.NDArray[Any]:
    version = npy.read_magic(file)
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
    shape, fortran_order, dtype = read_header(file)
    if dtype.hasobject:
        raise UnsafePlaneError("it holds Python objects, and unpickling can run any program")
    check(shape, dtype)
    nbytes = prod(shape) * dtype.itemsize
    require_holdable(nbytes)
    # One byte more than is due shows what is left over, and lets a ZIP file compare its checksum.
    content = file.read(nbytes + 1)
    if len(content) != nbytes:
        raise ValueError(f"it has {len(content)} bytes of values or more where {nbytes} are due")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran_order else "C")
