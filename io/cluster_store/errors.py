"""The error of this package."""


class DatasetError(ValueError):
    """A cluster dataset that is absent, not ours, unfinished or damaged; the message names it and what to do."""
