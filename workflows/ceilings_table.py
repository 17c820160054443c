"""Measured ceilings as a table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from pipeline.ceilings import Ceilings, Spread
from workflows.terminal import facts_table, print_table


def print_ceilings(ceilings: Ceilings, console: Console) -> None:
    """Print what the machine is, and what was measured on it."""
    print_table(console, facts_table([*ceilings.machine.items(), ("measured", ceilings.measured)]))
    console.print()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("ceiling", "one core", "spread", "all cores together", "spread", "unit", "on what"):
        right = heading in ("one core", "all cores together", "spread")
        table.add_column(heading, justify="right" if right else "left", header_style="bold", overflow="fold")
    missing: dict[str, list[str]] = {}
    for ceiling in ceilings.ceilings.values():
        if ceiling.missing is not None:
            missing.setdefault(ceiling.missing, []).append(ceiling.name)
            continue
        scale, unit = {"B/s": (1e9, "GB/s"), "op/s": (1e9, "Gop/s"), "fault/s": (1e6, "million/s")}[ceiling.unit]
        table.add_row(
            ceiling.name, *_figures(ceiling.one_core, scale), *_figures(ceiling.all_cores, scale), unit, ceiling.what
        )
    print_table(console, table)
    for reason, names in missing.items():
        console.print(f"\n{'; '.join(names)}: {reason}", markup=False, highlight=False)


def _figures(spread: Spread | None, scale: float) -> tuple[str, str]:
    return ("–", "") if spread is None else (f"{spread.median / scale:,.2f}", f"±{spread.half_width:.0%}")
