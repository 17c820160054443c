"""Printing tables on stdout: folded for a person at a terminal, one row a line in a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from workflows.printable import printable

_LONGEST_LINE = 100_000


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
    """Print a table without the blanks that Rich pads its lines with."""
    with console.capture() as captured:
        console.print(table)
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
