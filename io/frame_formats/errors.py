"""The one kind of error that this package raises about other people's files."""


class SourceError(ValueError):
    """A file that cannot be read as frames, or does not hold what it says.

    The message is one sentence or two for a person: what was found, where, and what to do about it.
    """


def cause(error: BaseException) -> str:
    """Return what `error` says, in one line; its kind where it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__
