"""The roofline of a matrix multiply on one machine: the numbers, and their tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from pipeline.arithmetic_rates import MeasuredRate
from roofline import attainable, bound, ridge_point
from roofline.matmul import (
    Multiply,
    largest_tile,
    smallest_batch_at_ridge,
    smallest_tile_at_ridge,
    tile_nbytes,
)
from workflows.facts import human_bytes
from workflows.terminal import facts_table, print_table

FAST_MEMORIES = (16 << 10, 64 << 10, 256 << 10, 1024 << 10)


@dataclass(frozen=True)
class MatmulStudy:
    """A multiply of n×n matrices on a machine of two levels.

    Args:
        machine: Its name, or what it was given as.
        source: Where its numbers come from.
        peak: FLOP/s.
        precision: What of the machine has that peak, in which numbers; empty where nobody said.
        bandwidth: B/s.
        side: n.
        itemsize: Bytes an element.
    """

    machine: str
    source: str
    peak: float
    precision: str
    bandwidth: float
    side: int
    itemsize: int

    @property
    def ridge(self) -> float:
        """The ridge point in FLOP/B."""
        return ridge_point(self.peak, self.bandwidth)

    @property
    def sizes(self) -> Multiply:
        """The multiply."""
        return Multiply(self.side, self.side, self.side)

    def tiles(self) -> list[dict[str, Any]]:
        """Tiles of growing sides, to the whole matrix: traffic, intensity, what is attainable and what binds."""
        sides = sorted({4**power for power in range(16) if 4**power < self.side} | {self.side})
        return [self._tile(side) for side in sides]

    def fast_memories(self) -> list[dict[str, Any]]:
        """The largest tile that fast memories of some sizes hold."""
        fitting = [(nbytes, min(largest_tile(nbytes, self.itemsize), self.side)) for nbytes in FAST_MEMORIES]
        return [{"fast_bytes": nbytes} | self._reached(self.sizes, tile) for nbytes, tile in fitting if tile]

    def batches(self) -> list[dict[str, Any]]:
        """(m×n)·(n×n) for growing batches m, each element moved once."""
        ridge = smallest_batch_at_ridge(self.side, self.side, self.itemsize, self.ridge)
        sides = {1, 8, 32, 128, 1024} | ({ridge - 1, ridge} - {0} if ridge else set())
        return [{"m": m} | self._reached(Multiply(m, self.side, self.side)) for m in sorted(sides)]

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        sizes = self.sizes
        return {
            "machine": self.machine,
            "source": self.source,
            "peak_flops_a_second": self.peak,
            "precision": self.precision,
            "bandwidth_bytes_a_second": self.bandwidth,
            "ridge_point": self.ridge,
            "n": self.side,
            "itemsize": self.itemsize,
            "flops": sizes.flops,
            "least_bytes": sizes.least_traffic.nbytes(self.itemsize),
            "math_floor_seconds": sizes.flops / self.peak,
            "traffic_floor_seconds_without_reuse": sizes.tiled_traffic(1).nbytes(self.itemsize) / self.bandwidth,
            "traffic_floor_seconds_at_least": sizes.least_traffic.nbytes(self.itemsize) / self.bandwidth,
            "smallest_tile_at_ridge": smallest_tile_at_ridge(sizes, self.itemsize, self.ridge),
            "smallest_batch_at_ridge": smallest_batch_at_ridge(self.side, self.side, self.itemsize, self.ridge),
            "tiles": self.tiles(),
            "fast_memories": self.fast_memories(),
            "batches": self.batches(),
        }

    def _tile(self, tile: int) -> dict[str, Any]:
        traffic, least = self.sizes.tiled_traffic(tile), self.sizes.least_traffic
        return self._reached(self.sizes, tile) | {
            "loads": traffic.loads,
            "stores": traffic.stores,
            "over_least": traffic.elements / least.elements,
            "fast_bytes": tile_nbytes(tile, self.itemsize),
        }

    def _reached(self, sizes: Multiply, tile: int | None = None) -> dict[str, Any]:
        found = sizes.intensity(self.itemsize, tile)
        traffic = sizes.least_traffic if tile is None else sizes.tiled_traffic(tile)
        reached = attainable(self.peak, self.bandwidth, found)
        return ({} if tile is None else {"tile": tile}) | {
            "intensity": found,
            "attainable_flops_a_second": reached,
            "share_of_peak": reached / self.peak,
            "bound": bound(sizes.flops, traffic.nbytes(self.itemsize), self.peak, self.bandwidth),
        }


def print_study(study: MatmulStudy, console: Console) -> None:
    """Print the study as tables."""
    facts = study.as_json()
    tile, batch = facts["smallest_tile_at_ridge"], facts["smallest_batch_at_ridge"]
    rows = [
        ("machine", f"{study.machine}: {study.source}"),
        ("peak", f"{study.peak / 1e12:,.6g} TFLOP/s{f' ({study.precision})' * bool(study.precision)}"),
        ("bandwidth", f"{study.bandwidth / 1e9:,.6g} GB/s"),
        ("ridge point", f"{study.ridge:.1f} FLOP/B: below it memory binds, from it on arithmetic"),
        ("multiply", f"{study.side}×{study.side} by {study.side}×{study.side}, {study.itemsize} bytes an element"),
        ("operations", f"{facts['flops']:,}: at least {_time(facts['math_floor_seconds'])}"),
        ("least traffic", f"{facts['least_bytes']:,} B: at least {_time(facts['traffic_floor_seconds_at_least'])}"),
        ("without reuse", f"at least {_time(facts['traffic_floor_seconds_without_reuse'])}"),
        (
            "tile at the ridge",
            _or_out_of_reach(tile, lambda side: f"{side}, {human_bytes(tile_nbytes(side, study.itemsize))} fast"),
        ),
        (
            "batch at the ridge",
            _or_out_of_reach(batch, lambda m: f"(m×{study.side})·({study.side}×{study.side}): m = {m}"),
        ),
    ]
    print_table(console, facts_table(rows))
    console.print()
    print_table(
        console,
        _table(
            ("tile", "loads", "× least", "FLOP/B", "TFLOP/s", "% of peak", "binds", "fast memory"),
            [
                (
                    f"{row['tile']}",
                    f"{row['loads']:,}",
                    f"{row['over_least']:,.0f}",
                    *_reached(row),
                    human_bytes(row["fast_bytes"]),
                )
                for row in facts["tiles"]
            ],
        ),
    )
    console.print()
    print_table(
        console,
        _table(
            ("fast memory", "largest tile", "FLOP/B", "TFLOP/s", "% of peak", "binds"),
            [(f"{row['fast_bytes'] >> 10:,} KiB", f"{row['tile']}", *_reached(row)) for row in facts["fast_memories"]],
        ),
    )
    console.print()
    print_table(
        console,
        _table(
            ("batch m", "FLOP/B", "TFLOP/s", "% of peak", "binds"),
            [(f"{row['m']:,}", *_reached(row)) for row in facts["batches"]],
        ),
    )


def print_rates(rates: tuple[MeasuredRate, ...], console: Console) -> None:
    """Print what was measured on this machine."""
    console.print("measured on this machine", style="bold")
    print_table(
        console,
        _table(
            ("", "GFLOP/s", "GB/s", "spread"),
            [
                (
                    rate.name,
                    f"{rate.flops_a_second / 1e9:,.3g}",
                    f"{rate.bytes_a_second / 1e9:,.3g}",
                    f"±{rate.spread / 2:.0%}",
                )
                for rate in rates
            ],
        ),
    )


def rates_as_json(rates: tuple[MeasuredRate, ...]) -> list[dict[str, Any]]:
    """What was measured, as plain values."""
    return [
        {
            "name": rate.name,
            "flops_a_second": rate.flops_a_second,
            "bytes_a_second": rate.bytes_a_second,
            "seconds": list(rate.seconds),
        }
        for rate in rates
    ]


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("", "binds") else "right", header_style="bold")
    for row in rows:
        table.add_row(*row)
    return table


def _reached(row: dict[str, Any]) -> tuple[str, str, str, str]:
    return (
        f"{row['intensity']:,.2f}",
        _trillions(row["attainable_flops_a_second"]),
        f"{100 * row['share_of_peak']:.1f}",
        "arithmetic" if row["bound"] == "compute" else "memory",
    )


def _trillions(rate: float) -> str:
    return format(rate / 1e12, ",.2f" if rate >= 1e10 else ".3g")


def _or_out_of_reach(value: int | None, text: Any) -> str:
    return "out of reach" if value is None else str(text(value))


def _time(seconds: float) -> str:
    power = min(max(-math.floor(math.log10(seconds) / 3), 0), 3) if seconds > 0 else 0
    return f"{seconds * 1000**power:.4g} {('s', 'ms', 'µs', 'ns')[power]}"
