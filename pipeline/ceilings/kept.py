"""Ceilings that were measured before, kept in the user's cache folder for the machine that they hold for."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from pipeline.ceilings.machine import machine
from pipeline.ceilings.measured import Ceilings

logger = logging.getLogger(__name__)


def kept_ceilings() -> Ceilings | None:
    """What was measured on this machine as it is now; None if nothing was, or hardware or versions have changed.

    Nor is there anything of a file that can't be read, or holds something else.
    """
    try:
        if not _folder().exists():
            return None  # without asking a driver, which may take a second
        here = machine()
        kept = Ceilings.from_json(json.loads(_file(here).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return kept if kept.machine == here else None


def keep_ceilings(ceilings: Ceilings) -> Path | None:
    """Keep what was measured, beside what was measured before of other archives; None if it can't be kept."""
    before = kept_ceilings()
    merged = {**(before.ceilings if before else {}), **ceilings.ceilings}
    content = json.dumps(Ceilings(ceilings.machine, ceilings.measured, merged).as_json(), indent=2)
    try:
        file = _file(ceilings.machine)
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}.partial")
        try:
            partial.write_text(content, encoding="utf-8")
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        place = f" in {error.filename}" if error.filename else ""
        logger.warning("the measured ceilings can't be kept%s: %s", place, error.strerror)
        return None
    return file


def _file(here: Mapping[str, str]) -> Path:
    digest = hashlib.sha256(json.dumps(here, sort_keys=True).encode()).hexdigest()[:16]
    return _folder() / f"ceilings-{digest}.json"


def _folder() -> Path:
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "photonflow"
    try:
        return Path.home() / ".cache" / "photonflow"
    except RuntimeError as error:
        # Of a user whom the system does not know, as in containers.
        raise FileNotFoundError(errno.ENOENT, "there is no home folder; set XDG_CACHE_HOME") from error
