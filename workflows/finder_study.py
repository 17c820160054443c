"""The roofline of the cluster finder on a machine by its data sheet: what a frame costs at least, and what binds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from roofline import Ceiling, binding, floors, intensity, ridge_point
from roofline.machines import DataSheet, Link
from roofline.stencil import Tiling, finder_operations, finder_traffic
from workflows.facts import human_bytes
from workflows.terminal import facts_table, print_table

FRAMES_A_PASS = (1, 2, 4, 8, 16, 32)
TILES = (8, 16, 32, 64, 128)


@dataclass(frozen=True)
class FinderStudy:
    """Frames of uint16 that come over a link, and a pedestal of two float32 a pixel in the machine's memory.

    Args:
        sheet: The machine.
        link: What the frames come over; None: they lie in its memory.
        shape: (y, x) of a frame.
        window: Rows and columns.
    """

    sheet: DataSheet
    link: Link | None
    shape: tuple[int, int]
    window: tuple[int, int]

    @property
    def operations(self) -> float:
        """Of a frame."""
        return float(self.shape[0] * self.shape[1] * finder_operations(self.window))

    def passes(self) -> list[dict[str, Any]]:
        """For growing numbers of frames a pass: traffic, intensity, time floors in s, and what binds."""
        return [self._pass(frames) for frames in FRAMES_A_PASS]

    def tiles(self) -> list[dict[str, Any]]:
        """For growing tiles: pixels loaded for a frame with their halos, over the frame's own."""
        radius = (self.window[0] // 2, self.window[1] // 2)
        pixels = self.shape[0] * self.shape[1]
        sides = [side for side in TILES if side < max(self.shape)]
        return [
            {
                "tile": side,
                "loads": (loads := Tiling(self.shape, (side, side), radius).loads()),
                "over_the_frame": loads / pixels,
            }
            for side in sides
        ]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "machine": self.sheet.name,
            "link": None if self.link is None else self.link.name,
            "shape": self.shape,
            "window": self.window,
            "operations_a_frame": self.operations,
            "ridge_point": ridge_point(self.sheet.float32, self.sheet.bandwidth),
            "passes": self.passes(),
            "tiles": self.tiles(),
        }

    def _pass(self, frames: int) -> dict[str, Any]:
        traffic = finder_traffic(self.shape, frames_a_pass=frames)
        ceilings = [
            Ceiling("float32", "compute", self.sheet.float32),
            Ceiling("memory", "memory", self.sheet.bandwidth),
        ]
        work = {"float32": self.operations, "memory": traffic.nbytes}
        if self.link is not None:
            ceilings.append(Ceiling(self.link.name, "memory", self.link.bandwidth))
            work[self.link.name] = traffic.frame
        return {
            "frames_a_pass": frames,
            "bytes_a_frame": traffic.nbytes,
            "intensity": intensity(self.operations, traffic.nbytes),
            "floors": {floor.ceiling.name: floor.seconds for floor in floors(work, tuple(ceilings))},
            "binds": binding(work, tuple(ceilings)).ceiling.name,
        }


def print_finder_study(study: FinderStudy, console: Console) -> None:
    """Print the study as tables."""
    sheet, link = study.sheet, study.link
    rows = [
        ("machine", f"{sheet.name}: {sheet.float32 / 1e12:,.1f} TFLOP/s float32, {sheet.bandwidth / 1e9:,.0f} GB/s"),
        ("its source", sheet.source),
    ]
    if link is not None:
        rows += [("frames over", f"{link.name}: {link.bandwidth / 1e9:,.1f} GB/s ({link.source})")]
    rows += [
        ("a frame", f"{study.shape[0]}×{study.shape[1]} of uint16, {study.operations / 1e6:,.2f} million operations"),
        ("ridge point", f"{ridge_point(sheet.float32, sheet.bandwidth):,.1f} op/B"),
    ]
    print_table(console, facts_table(rows))
    console.print()
    passes = _table("frames a pass", "bytes a frame", "op/B", *(f"{name} µs" for name in study.passes()[0]["floors"]))
    passes.add_column("binds", header_style="bold")
    for found in study.passes():
        micros = (f"{seconds * 1e6:,.2f}" for seconds in found["floors"].values())
        passes.add_row(
            str(found["frames_a_pass"]),
            human_bytes(found["bytes_a_frame"]),
            f"{found['intensity']:.2f}",
            *micros,
            found["binds"],
        )
    print_table(console, passes)
    if tiles := study.tiles():
        console.print()
        halos = _table("tile", "pixels loaded", "over the frame")
        for tile in tiles:
            halos.add_row(f"{tile['tile']}×{tile['tile']}", f"{tile['loads']:,}", f"{tile['over_the_frame']:.3f}")
        print_table(console, halos)


def _table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="right", header_style="bold")
    return table
