"""The stages of a run against their ceilings, and where its time went, as tables on the terminal."""

from __future__ import annotations

from rich.table import Table

from workflows import run_figures
from workflows.run_figures import Values
from workflows.terminal import facts_table


def stage_table(account: Values) -> Table:
    """A row for each stage that did something, and one for the time in none.

    Args:
        account: As :meth:`roofline.accounting.Account.as_dict` gives it.
    """
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in run_figures.STAGE_HEADINGS:
        left = heading in ("stage", "limited by")
        table.add_column(heading, justify="left" if left else "right", header_style="bold", overflow="fold")
    for row in run_figures.stage_rows(account):
        table.add_row(*row)
    return table


def time_table(account: Values) -> Table:
    """The bound beside what was reached, the gap between them, and page faults."""
    rows = {
        "bound": run_figures.bound(account),
        "time": run_figures.time_shares(account),
        "ceilings": run_figures.exceeded(account),
        "page faults": run_figures.page_faults(account),
    }
    return facts_table([(name, text) for name, text in rows.items() if text])
