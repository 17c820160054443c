"""Kernels that run at the speed of compiled code, compiled once a machine for each kind of array they meet."""

from collections.abc import Callable
from typing import Any

from numba import typeof

from finder.stored_code import load_or_compile


class Kernel:
    """A plain loop over NumPy arrays, compiled by Numba for the types it is called with, and stored on disk."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Run it; whatever it fills or returns is the kernel's own affair."""
        types = tuple(typeof(argument) for argument in arguments)
        if types not in self._compiled:
            name = self._function.__name__
            self._compiled[types] = load_or_compile(self._function, name, types, f"{name}{types}")
        return self._compiled[types](*arguments)
