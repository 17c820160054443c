"""The journal of a run: a folder beside the dataset from which a run that was broken off can go on.

It holds ``run.json`` (which run, what it was made from), ``batches.log`` (a line for each batch that was found or
skipped), and with ``--tracking chain`` the pedestal after the batches that may be needed again. Lines are appended with
one write each and carry a checksum, so that a torn last line is known for what it is, and its batch is found again. No
line says which chunks were written: the chunks themselves do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import xxhash

from object_stores import StoreFaultError
from pipeline.batches.flat_counts import COLUMNS, count_of, values_of
from pipeline.batches.plan import BatchPlan
from pipeline.batches.reports import BatchCount
from pipeline.faults import writing
from pipeline.output.products import FILE_NAME
from pipeline.output.side_folder import PARTIAL, LineLog, SideFolder
from pipeline.output.side_places import side_folder

JOURNAL_VERSION = 1
_KIND = "photonflow journal"
_HEADER, _LINES = "run.json", "batches.log"
_OURS = re.compile(rf"({re.escape(_HEADER)}|{re.escape(_LINES)}|state-\d+\.bin|{re.escape(FILE_NAME)}){PARTIAL}")


def journal_place(out: str) -> str:
    """Where the journal of the dataset at ``out`` lies: a path, or an address."""
    return f"{out}.journal"


def journal_folder(out: str) -> Path:
    """Where the journal of a local dataset at ``out`` lies."""
    return Path(journal_place(out))


@dataclass(frozen=True)
class RunHeader:
    """Which run a journal is of, and what it was made from.

    Args:
        run_ids: Of the run and of all that went on with it: a dataset of any of them is this run's.
        made_from: See :func:`pipeline.resuming.made_from.made_from`.
        replaces: The ``run_id`` of the dataset that the run was told to overwrite; None if the place was free.
        created: Whether the dataset has been created, with its pedestal.
    """

    run_ids: tuple[str, ...]
    made_from: Mapping[str, Any]
    replaces: str | None = None
    created: bool = False


class RunJournal:
    """A run's journal, open for appending.

    Args:
        out: The dataset.
        header: What it says of the run.
    """

    def __init__(self, out: str, header: RunHeader) -> None:
        self.folder = side_folder(journal_place(out))
        self.header = header
        self._lines: LineLog | None = None

    @classmethod
    def begin(cls, out: str, header: RunHeader, counts: Iterable[BatchCount] = ()) -> Self:
        """Make the journal of a run, in place of one that lies there; ``counts`` are of batches known already.

        What was there stays valid until it is replaced, in one step, by what is valid from then on.

        Raises:
            FileExistsError: What lies there is no journal.
            OutputError: It can't be written.
        """
        journal = cls(out, header)
        require_journal_place(out)
        with writing(journal.folder.place):
            journal.folder.make()
            lines = b"".join([_line(list(COLUMNS)), *(_line(values_of(count)) for count in counts)])
            journal.folder.begin_log(_LINES, lines)
            journal._write_header()
        return journal

    def mark_created(self) -> None:
        """Note that the dataset has been created."""
        self.header = dataclasses.replace(self.header, created=True)
        with writing(self.folder.place):
            self._write_header()

    def append(self, count: BatchCount) -> None:
        """Note a batch that was found or skipped.

        Raises:
            OutputError: It can't be written.
        """
        with writing(self.folder.place):
            if self._lines is None:
                self._lines = self.folder.log(_LINES)
            self._lines.append(_line(values_of(count)))

    def close(self) -> None:
        """Close the file; the journal stays.

        Raises:
            OutputError: What was noted can't be written.
        """
        if self._lines is not None:
            lines, self._lines = self._lines, None
            with writing(self.folder.place):
                lines.close()

    def _write_header(self) -> None:
        content = {"kind": _KIND, "version": JOURNAL_VERSION, **dataclasses.asdict(self.header)}
        self.folder.replace(_HEADER, json.dumps(content, indent=2).encode())


def require_journal_place(out: str) -> None:
    """Make sure that nothing of anybody else's lies where the journal of ``out`` is to be.

    Raises:
        FileExistsError: Something does.
    """
    folder = side_folder(journal_place(out))
    if folder.is_there() and not _is_ours(folder):
        raise FileExistsError(
            f"{folder.place} is in the way: a run keeps its journal there, and that is none of photonflow's; move it, "
            "or give --out another place"
        )


def _is_ours(folder: SideFolder) -> bool:
    """Whether a folder is a journal, of any version and in any state that a run may have left it in."""
    if not folder.is_folder():
        return False
    try:
        if folder.is_file(_HEADER):
            return bool(json.loads(folder.read(_HEADER))["kind"] == _KIND)
        # One that was begun or half removed has no header; then nothing else may lie there either.
        first = _first_line(folder)
    except StoreFaultError:
        raise
    except (OSError, ValueError, TypeError, KeyError):
        return False
    is_foreign = first is not None and _parsed(first) is None
    return not is_foreign and all(_OURS.fullmatch(name) for name in folder.names())


def _first_line(folder: SideFolder) -> bytes | None:
    try:
        return folder.read_log(_LINES).partition(b"\n")[0]
    except FileNotFoundError:
        return None


def read_header(out: str) -> RunHeader | None:
    """The header of the journal beside ``out``; None where there is none, or it isn't one of ours or this version's."""
    try:
        content = json.loads(side_folder(journal_place(out)).read(_HEADER))
        if content["kind"] != _KIND or content["version"] != JOURNAL_VERSION:
            return None
        return RunHeader(
            tuple(content["run_ids"]), dict(content["made_from"]), content["replaces"], bool(content["created"])
        )
    except StoreFaultError:
        raise
    except (OSError, ValueError, TypeError, KeyError):
        return None


def read_counts(out: str, plan: BatchPlan) -> dict[int, BatchCount]:
    """What the journal beside ``out`` says of each batch; lines that are torn or damaged are left out."""
    counts = {}
    try:
        lines = side_folder(journal_place(out)).read_log(_LINES).split(b"\n")
    except StoreFaultError:
        raise
    except OSError:
        return {}
    known = [values for line in lines if (values := _parsed(line)) is not None]
    if not known or known[0] != list(COLUMNS):
        return {}
    for values in known[1:]:
        with contextlib.suppress(IndexError, ValueError, TypeError):
            count = count_of(values, plan)
            counts[count.batch.index] = count
    return counts


def remove_journal(out: str) -> None:
    """Remove the journal beside ``out``, if there is one; files that are not ours stay, and so does their folder."""
    folder = side_folder(journal_place(out))
    if not _is_ours(folder):
        return
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        # The header first: without it the rest says nothing.
        folder.remove(_HEADER)
        if all(_OURS.fullmatch(name) for name in folder.names()):
            folder.remove_all()


def _line(values: Sequence[Any]) -> bytes:
    text = json.dumps(values, separators=(",", ":")).encode()
    return b"%s %s\n" % (xxhash.xxh32_hexdigest(text).encode(), text)


def _parsed(line: bytes) -> list[Any] | None:
    checksum, _, text = line.partition(b" ")
    if not text or checksum != xxhash.xxh32_hexdigest(text).encode():
        return None
    values = json.loads(text)
    return values if isinstance(values, list) else None
