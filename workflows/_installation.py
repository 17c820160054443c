"""Says in one sentence what is wrong with the installation, before any import can fail in a traceback."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PACKAGES = ("finder", "gpu", "roofline", "pipeline", "analysis", "frame_archive", "cluster_store", "guarded_zarr")


def require_sound_installation() -> None:
    """End the program with one sentence if photonflow isn't installed, or if a file hides one of its packages."""
    try:
        distribution("photonflow")
    except PackageNotFoundError:
        sys.exit(
            "photonflow is not installed in this Python: run `make demo` in its checkout and use .venv/bin/python, "
            "or `pip install --editable .` there"
        )
    home = Path(__file__).resolve().parent.parent
    for name in PACKAGES:
        spec = PathFinder.find_spec(name)
        if spec is None or spec.origin is None:
            sys.exit(f"photonflow's package {name!r} is missing from its installation: install photonflow again")
        found = Path(spec.origin).resolve()
        if found not in (home / name / "__init__.py", home / "io" / name / "__init__.py"):
            sys.exit(
                f"{found} hides photonflow's own package {name!r}: rename it, or run the `photonflow` program, "
                "which does not look in the current folder"
            )
