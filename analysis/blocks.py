"""Going through a dataset that does not fit into memory, a block of rows at a time."""

from collections.abc import Iterator, Sequence

import xarray as xr

ROWS_AT_ONCE = 4_000_000
"""About how many clusters are in memory at a time: 144 MB of 3×3 windows."""


def blocks(ds: xr.Dataset, names: Sequence[str], dim: str, rows: int = ROWS_AT_ONCE) -> Iterator[xr.Dataset]:
    """Load the variables `names` along `dim`, about `rows` at a time, cutting only where stored chunks end.

    Dask decodes the chunks of one block in parallel; nothing of a block is kept when the next one comes.
    """
    chosen = ds[list(names)]
    start = 0
    for stop in _cuts(chosen, dim, rows):
        yield chosen.isel({dim: slice(start, stop)}).compute()
        start = stop


def _cuts(ds: xr.Dataset, dim: str, rows: int) -> Iterator[int]:
    size = ds.sizes[dim]
    # Variables of one dataset may be chunked differently after the user's own selections: follow the first.
    chunks = next((v.chunksizes[dim] for v in ds.variables.values() if dim in v.chunksizes), ())
    if not chunks:
        yield from (min(start + rows, size) for start in range(0, size, rows))
        return
    start = stop = 0
    for chunk in chunks:
        if stop > start and stop + chunk - start > rows:
            yield stop
            start = stop
        stop += chunk
    if stop > start:
        yield stop
