"""Tables on terminals of any width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from roofline import StageUse
from roofline.accounting import StageCeiling, account
from workflows.matmul_study import MatmulStudy, print_study
from workflows.stage_table import stage_table
from workflows.terminal import facts_table, print_columns, print_table

DECODE = "decode uint16 20×400×400 bytes+blosc-lz4-bitshuffle+crc32c"


def terminal(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, soft_wrap=True)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [1, 20, 80, 200])
def test_no_terminal_is_so_narrow_that_a_figure_is_cut_or_left_out(width):
    console = terminal(width)
    uses = (StageUse("decode", 1234.5, 10**12), StageUse("find", 0.5, 10**12))
    kept = account(uses, [StageCeiling(DECODE, 1e9)] * 2, workers=2, frames=200, seconds=700, idle_at_end=[0, 0])
    print_table(console, stage_table(kept.as_dict()))
    print_study(MatmulStudy("given", "numbers of one's own", 1e14, "", 1e12, 4096, 2), console)
    print_table(console, facts_table([("source", "data sheet"), ("ridge point", "100.0 FLOP/B")]))
    said = shown(console)
    assert "…" not in said
    for figure in ("1234.50", "6,172,500", "137,438,953,472", "682.67", "100,663,296"):
        assert figure in said, figure
    assert console.width == width


def test_a_row_of_columns_stays_a_line_on_a_narrow_terminal():
    console = terminal(20)
    print_columns(console, ("work", "median", "against"), [("3×3 running, one core", "1,234.5", "aare 2026.9.30")])
    assert shown(console).splitlines()[1] == "3×3 running, one core  1,234.5  aare 2026.9.30"
