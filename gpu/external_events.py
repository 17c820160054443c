"""Events in graphs that the host may look at: the one call of CUDA's that CuPy lacks.

An event that is recorded during a capture only orders the captured work, and asking for its time is an error. As an
external one it becomes a node of the graph, which records it whenever the graph runs. (CUDA Driver API, event
management: `cuEventRecordWithFlags` with `CU_EVENT_RECORD_EXTERNAL`, since CUDA 11.1. The driver's events and streams
are the runtime's.)
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

_DRIVER = "libcuda.so.1"
_EXTERNAL = 1


class DriverCallError(RuntimeError):
    """The driver refused a call.

    Attributes:
        status: its code.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def record_as_external(event: int, stream: int, library: str = _DRIVER) -> None:
    """Record an event on a stream that captures.

    Args:
        event: handle of a timed event.
        stream: handle of the stream.
        library: the driver's.

    Raises:
        DriverCallError: the driver refuses, or there is none.
    """
    status = int(_record(library)(event, stream, _EXTERNAL))
    if status:
        raise DriverCallError(f"cuEventRecordWithFlags gave {status}", status)


@cache
def _record(library: str) -> Any:
    try:
        function = ctypes.CDLL(library).cuEventRecordWithFlags
    except (OSError, AttributeError) as error:
        raise DriverCallError(f"the driver {library} can't be asked: {error}", -1) from error
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    return function
