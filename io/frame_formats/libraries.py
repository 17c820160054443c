"""Libraries that read formats: only those who read the format need them."""

from __future__ import annotations

import importlib
from types import ModuleType

from frame_formats.errors import SourceError


def library(name: str, reads: str) -> ModuleType:
    """Import the library that reads a format.

    Raises:
        SourceError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise SourceError(f"{reads} needs {package}: pip install 'photonflow[formats]'") from error
