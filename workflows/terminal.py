"""Printing tables on stdout: folded for a person at a terminal, one row a line in a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from workflows.printable import printable

_LONGEST_LINE = 100_000
_LEAST_TEXT = 12  # Characters of a text that is folded.


def stdout_console() -> Console:
    """A console on stdout that folds nothing where nobody reads along."""
    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _LONGEST_LINE)


def facts_table(rows: list[tuple[str, str]], indent: int = 0) -> Table:
    """A table of names and what they are."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, indent))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(printable(name)), Text(printable(text)))
    return table


def print_table(console: Console, table: Table) -> None:
    """Print a table without the blanks that Rich pads its lines with.

    Where a terminal is narrower than it, texts and headings are folded, and no figure is: rather than to cut one, as
    Rich would, lines go on in the next.
    """
    width = console.width
    console.width = max(width, _folded(console, table))
    with console.capture() as captured:
        console.print(table)
    console.width = width
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)


def print_columns(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of text: the first column to the left, numbers to the right."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    print_table(console, table)


def _folded(console: Console, table: Table) -> int:
    """Fix the columns of a table that is wider than the console, and return the width that it has at least."""
    options = console.options.update(max_width=_LONGEST_LINE)

    def room(cells: Iterable[RenderableType]) -> Measurement:
        measured = [Measurement.get(console, options, cell) for cell in cells]
        return Measurement(max(m.minimum for m in measured), max(m.maximum for m in measured))

    whole = Measurement.get(console, options, table).maximum
    if whole <= console.width:
        return whole
    widths = [room([column.header, *column.cells]).maximum for column in table.columns]
    least = whole - sum(widths)  # Between the columns.
    for column, natural in zip(table.columns, widths, strict=True):
        if column.no_wrap:
            column.width = natural
        elif column.justify == "right":
            column.width = max(room(column.cells).maximum, room([column.header]).minimum)
        least += min(natural, _LEAST_TEXT) if column.width is None else column.width
    return least
