"""Batches on their way through the workers: planned, read, found, written and reported."""
