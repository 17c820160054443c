"""Data sheets: what vendors say that their machines reach. Never a measurement, and never in the place of one.

Dense rates without sparsity. GB = 10⁹ B. A link's rate is that of one direction.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.ceilings import Ceiling


@dataclass(frozen=True)
class DataSheet:
    """What a vendor states of a processor.

    Args:
        name: As it is sold.
        bf16: FLOP/s of its matrix units in BF16 and FP16, dense; of a GeForce with accumulation in FP32.
        float32: FLOP/s of its vector units in FP32.
        bandwidth: Of its memory, in B/s.
        source: Where that is written.
    """

    name: str
    bf16: float
    float32: float
    bandwidth: float
    source: str

    @property
    def ceilings(self) -> tuple[Ceiling, ...]:
        """The same as ceilings named ``bf16``, ``float32`` and ``memory``."""
        return (
            Ceiling("bf16", "compute", self.bf16),
            Ceiling("float32", "compute", self.float32),
            Ceiling("memory", "memory", self.bandwidth),
        )


GPUS = {
    "a100-40": DataSheet("A100 40 GB", 312e12, 19.5e12, 1555e9, "NVIDIA A100 Tensor Core GPU data sheet"),
    "a100-80": DataSheet("A100 SXM 80 GB", 312e12, 19.5e12, 2039e9, "NVIDIA A100 Tensor Core GPU data sheet"),
    "h100": DataSheet("H100 SXM", 989.4e12, 66.9e12, 3350e9, "NVIDIA H100 Tensor Core GPU architecture paper"),
    "h200": DataSheet("H200 SXM", 989.4e12, 66.9e12, 4800e9, "NVIDIA H200 Tensor Core GPU data sheet"),
    "b200": DataSheet("B200 (HGX, 1 000 W)", 2250e12, 80e12, 8000e9, "NVIDIA Blackwell architecture technical brief"),
    "rtx4090": DataSheet("GeForce RTX 4090", 165.2e12, 82.6e12, 1008e9, "NVIDIA Ada GPU architecture paper"),
}
"""Processors by the name that the command line takes."""


@dataclass(frozen=True)
class Link:
    """A bus or a memory by its standard.

    Args:
        name: As the standard calls it.
        bandwidth: B/s, of one direction where it has two.
        source: How that comes about.
    """

    name: str
    bandwidth: float
    source: str


def _pcie(generation: int, transfers: float, payload: float, coding: str) -> Link:
    return Link(
        f"PCIe {generation}.0 ×16", transfers * 16 / 8 * payload, f"{transfers / 1e9:g} GT/s · 16 lanes · {coding}"
    )


def _channel(name: str, transfers: float, bits: int, what: str) -> Link:
    return Link(name, transfers * bits / 8, f"{transfers / 1e6:,.0f} MT/s · {bits} bits ({what})")


LINKS = {
    "pcie3": _pcie(3, 8e9, 128 / 130, "128b/130b"),
    "pcie4": _pcie(4, 16e9, 128 / 130, "128b/130b"),
    "pcie5": _pcie(5, 32e9, 128 / 130, "128b/130b"),
    "pcie6": _pcie(6, 64e9, 236 / 256, "236 of a flit's 256 bytes"),
    "ddr4-3200": _channel("DDR4-3200, a channel", 3200e6, 64, "JESD79-4"),
    "ddr5-4800": _channel("DDR5-4800, a channel", 4800e6, 64, "JESD79-5"),
    "ddr5-6400": _channel("DDR5-6400, a channel", 6400e6, 64, "JESD79-5"),
    "hbm2": _channel("HBM2, a stack", 2000e6, 1024, "JESD235"),
    "hbm2e": _channel("HBM2E, a stack", 3600e6, 1024, "JESD235"),
    "hbm3": _channel("HBM3, a stack", 6400e6, 1024, "JESD238"),
}
"""Links and memories by the name that the command line takes."""
