"""The report of `gpu_check.py` on the screen."""

from __future__ import annotations

from typing import Any


def table(report: dict[str, Any]) -> str:
    """The report for a person."""
    lines = [f"{report['device']} in {report['host']}, {report['seconds']:.0f} s"]
    lines.append(f"bit for bit: {report['oracle_cases']} oracle and {report['random_cases']} random cases")
    for name, rate in report["ceilings"].items():
        lines.append(f"  {name:<22} {rate['rate'] / 1e9:10.2f} G{rate['unit']}")
    for window in (f"{side}x{side}" for side in report["size"]["windows"]):
        ladder = report[f"ladder_{window}"]
        lines.append(f"{window}: kernels alone {ladder['kernel_microseconds']:.2f} µs a frame")
        lines += [
            f"  {rung['name']:<5} {rung['microseconds_a_frame']:9.2f} µs a frame, {rung['share_of_tallest']:4.0%} of "
            f"{ladder['tallest']}, host {rung['host_share']:4.0%}, {_stages(rung)}: {rung['what']}"
            for rung in ladder["rungs"]
        ]
    lines += [
        f"{rung['name']}: {rung['clusters'] / rung['frames']:.1f} clusters and {rung['microseconds_a_frame']:.2f} µs a "
        f"frame, one plain kernel and its copy; the kernel alone {rung['kernel_microseconds']:.2f} µs"
        for rung in report.get("precision", [])
    ]
    for key in ("sanitizer", "left_out"):
        if report.get(key):
            lines.append(f"{key.replace('_', ' ')}: {report[key]}")
    if "run" in report:
        lines.append(f"process --gpus 1: the CPU's digest {'too' if report['run']['same_digest'] else 'is ANOTHER'}")
    return "\n".join([*lines, *(f"WRONG {what}" for what in report["wrong"])])


def _stages(rung: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in rung["stage_microseconds"].items())
