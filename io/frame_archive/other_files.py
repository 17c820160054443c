"""What to do with files that hold frames and are no Zarr store."""

from pathlib import Path

from guarded_zarr import LocalFolder, StoreFolder

_FORMATS = {
    "NumPy": (".npy", ".npz"),
    "HDF5": (".h5", ".hdf5", ".hdf", ".nxs", ".cxi"),
    "TIFF": (".tif", ".tiff"),
    "FITS": (".fits", ".fit"),
    "raw": (".raw", ".bin", ".dat"),
}
_LOOKED_AT = 1000


def advice(archive: StoreFolder) -> str:
    """What to do with `archive`, a file or a folder that is no Zarr store, by the names of what it is or holds."""
    if not isinstance(archive, LocalFolder):
        return "give the address of a Zarr store, below which lies a zarr.json"
    path = Path(archive.path)
    if path.suffix.lower() == ".zip":
        return "unpack it, for a Zarr store is read as a folder"
    if path.is_dir():
        names = (entry for _, entry in zip(range(_LOOKED_AT), path.iterdir(), strict=False))
        found = next((entry for entry in names if _format(entry)), None)
    else:
        found = path if _format(path) else None
    if found is None:
        return "give the folder of a Zarr store, which holds a zarr.json"
    return (
        f"make an archive of the {_format(found)} file{'s' if found != path else ''} with `photonflow ingest` "
        "(docs/ingest.md)"
    )


def _format(path: Path) -> str | None:
    return next((name for name, suffixes in _FORMATS.items() if path.suffix.lower() in suffixes), None)
