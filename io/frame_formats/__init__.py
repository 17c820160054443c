"""Other people's files: frames read as they are from what detectors and programs write."""

from frame_formats.errors import SourceError
from frame_formats.gathering import Gathered, gather
from frame_formats.opening import SourceOptions, files_meant, open_source
from frame_formats.source import FrameSource, FrameStatus, OpenedSource, SourceFacts, SourceFile, UnreadableFrameError

__all__ = [
    "FrameSource",
    "FrameStatus",
    "Gathered",
    "OpenedSource",
    "SourceError",
    "SourceFacts",
    "SourceFile",
    "SourceOptions",
    "UnreadableFrameError",
    "files_meant",
    "gather",
    "open_source",
]
