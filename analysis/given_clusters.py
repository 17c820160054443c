"""A dataset of clusters as somebody gave it: brought into the form that all else reckons with, or refused."""

from typing import Any

import numpy as np
import xarray as xr

from analysis.columns import WINDOW

_SIGNAL = ("cluster", *WINDOW)
_POSITIONS = ("frame_index", "y", "x")
_NUMBERS = {"iu": "whole numbers", "iuf": "numbers of 1 to 8 bytes"}


def in_our_form(ds: xr.Dataset) -> xr.Dataset:
    """`ds` with windows (cluster, cluster_y, cluster_x), and numbers in the byte order of this machine.

    The same object where nothing is to be done, as with a dataset that `process` wrote.
    """
    changed: dict[str, Any] = {}
    for name in ("signal", *_POSITIONS):
        if name not in ds.variables:
            continue
        given = found = ds[name]
        if name == "signal" and found.dims != _SIGNAL and set(found.dims) == set(_SIGNAL):
            found = found.transpose(*_SIGNAL)
        if not found.dtype.isnative:
            found = found.astype(found.dtype.newbyteorder("="))
        if found is not given:
            changed[name] = found
    return ds.assign(changed) if changed else ds


def require_usable(ds: xr.Dataset, names: tuple[str, ...]) -> None:
    """Refuse variables that can't be what their names say.

    Raises:
        ValueError: Other dimensions or types than those of clusters.
    """
    for name in names:
        found = ds[name]
        kinds, dims = ("iuf", _SIGNAL) if name == "signal" else ("iu", ("cluster",))
        if name in (*_POSITIONS, "signal") and found.dims != dims:
            raise ValueError(f"{name} has the dimensions {found.dims}; they must be {dims}.")
        if name in (*_POSITIONS, "signal") and not _countable(found.dtype, kinds):
            raise ValueError(
                f"{name} is {found.dtype}, and must be {_NUMBERS[kinds]}; "
                f"convert it, as with ds.assign({name}=ds.{name}.astype({'int32' if kinds == 'iu' else 'float32'!r}))."
            )


def described(ds: xr.Dataset, in_kev: bool, said: tuple[str, ...]) -> str:
    """One line about clusters and what was asked of them (`said`); nothing is computed."""
    if "cluster" not in ds.sizes:
        return f"<photons: no list of clusters, {ds.sizes.get('frame', 0):,} frames>"
    of = [f"{ds.sizes['cluster']:,} clusters"]
    if "signal" in ds.variables:
        rows, columns = (ds["signal"].sizes.get(dim, 0) for dim in WINDOW)
        of.append(f"{rows}×{columns} {ds['signal'].dtype}")
    if "frame" in ds.sizes:
        of.append(f"{ds.sizes['frame']:,} frames")
    if in_kev:
        of.append("in keV")
    return f"<photons: {'; '.join([', '.join(of), *said])}>"


def _countable(dtype: np.dtype[Any], kinds: str) -> bool:
    if dtype.kind == "f":
        return "f" in kinds and dtype.itemsize in (4, 8)
    return dtype.kind in kinds
