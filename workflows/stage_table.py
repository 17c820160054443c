"""The stages of a run against their ceilings, and where its time went, as tables."""

from __future__ import annotations

import math

from rich.table import Table

from roofline.accounting import Account, StageBar
from workflows.terminal import facts_table


def stage_table(account: Account) -> Table:
    """A row for each stage, and one for the time in none."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("stage", "worker seconds", "µs a frame", "GB/s a worker", "ceiling", "reached", "limited by"):
        left = heading in ("stage", "limited by")
        table.add_column(heading, justify="left" if left else "right", header_style="bold")
    for bar in account.bars:
        use = bar.use
        table.add_row(
            f"{'· ' * (use.within is not None)}{bar.name}{' ◀' * (bar is account.tallest)}",
            f"{bar.seconds:.2f}",
            number(use.microseconds_a_frame(account.frames), ".1f"),
            number(use.bytes_a_second / 1e9, ".2f"),
            "–" if bar.ceiling.bytes_a_second is None else f"{bar.ceiling.bytes_a_second / 1e9:.2f}",
            number(bar.share_of_ceiling, ".0%"),
            _limit(bar),
        )
    if account.frames:
        idle = account.idle_seconds
        table.add_row("idle", f"{idle:.2f}", f"{idle / account.frames * 1e6:.1f}", "", "", "", "")
    return table


def time_table(account: Account) -> Table:
    """What binds, the bound beside what was reached, the gap between them, and page faults."""
    bound, reached = account.bound_frames_a_second, account.frames_a_second
    rows = []
    if math.isfinite(bound):
        rows.append(("bound", f"{bound:,.0f} frames/s; reached {reached:,.0f}, {account.share_of_bound:.0%} of it"))
    else:
        rows.append(("bound", "not known: a ceiling was not measured (photonflow roofline measure ARCHIVE)"))
    total = account.split.total
    if total > 0:
        parts = [(name, seconds / total) for name, seconds in account.split.parts.items()]
        rows.append(("time", ", ".join(f"{name} {share:.0%}" for name, share in parts if abs(share) >= 0.005)))
    if exceeded := [bar.name for bar in account.bars if bar.exceeds_ceiling]:
        what = f"{' and '.join(exceeded)} did more than was measured on this machine, which was busy then, perhaps"
        rows.append(("ceilings", f"{what}: measure again (photonflow roofline measure ARCHIVE)"))
    rows.append(("page faults", _faults(account)))
    return facts_table(rows)


def number(value: float, form: str) -> str:
    """The number in this form, or a dash."""
    return format(value, form) if math.isfinite(value) else "–"


def _limit(bar: StageBar) -> str:
    if bar.ceiling.bytes_a_second is None:
        return f"{bar.ceiling.name}: not measured"
    return f"{bar.ceiling.name}{': exceeded' * bar.exceeds_ceiling}"


def _faults(account: Account) -> str:
    faults = account.faults
    if math.isnan(faults.seconds_each):
        return f"{faults.count:,}; what they cost was not measured"
    cost = f"{faults.seconds_each * 1e6:.2f} µs each, {faults.seconds:.2f} worker seconds"
    return f"{faults.count:,}, {cost}: {account.share_of_faults:.0%} of the stages' time"
