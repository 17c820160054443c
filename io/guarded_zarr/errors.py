"""The error of this package."""


class GuardError(ValueError):
    """Something in a store that is not read on; the message is the cause, for whoever knows the path to precede it."""


class RefusedError(GuardError):
    """A file that is not opened: it is of another kind, or not in the store."""
