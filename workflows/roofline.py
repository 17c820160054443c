"""``photonflow roofline``: how fast a machine can be at best, and why."""

from __future__ import annotations

import json

import click

from pipeline.arithmetic_rates import arithmetic_rates
from roofline.machines import GPUS
from workflows.command_line import configure_logging, run
from workflows.matmul_study import MatmulStudy, print_rates, print_study, rates_as_json
from workflows.terminal import stdout_console


@click.group(name="roofline")
def command() -> None:
    """How fast a machine can be at best, and which resource binds."""


@command.command()
@click.option("--machine", type=click.Choice(list(GPUS)), help="A machine by its data sheet.  [default: a100-80]")
@click.option("--peak", type=click.FloatRange(min=0, min_open=True), metavar="FLOP/S", help="A machine of one's own.")
@click.option("--bandwidth", type=click.FloatRange(min=0, min_open=True), metavar="B/S", help="Goes with --peak.")
@click.option(
    "--n", "side", type=click.IntRange(1, 1 << 16), default=4096, show_default=True, help="Side of the matrices."
)
@click.option(
    "--itemsize", type=click.IntRange(min=1), default=2, show_default=True, help="Bytes an element: 2 for FP16."
)
@click.option("--time", "timed", is_flag=True, help="Measure small rates on this machine too (a few seconds).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def matmul(
    machine: str | None,
    peak: float | None,
    bandwidth: float | None,
    side: int,
    itemsize: int,
    timed: bool,
    as_json: bool,
) -> None:
    """Study the traffic of a matrix multiply: tiles, fast memory, batches, and the ridge point.

    The roofline's textbook case, and the model that photonflow's own figures follow.
    """
    configure_logging(0)
    study = _study(machine, peak, bandwidth, side, itemsize)
    rates = arithmetic_rates() if timed else ()
    if as_json:
        measured = {"measured": rates_as_json(rates)} if timed else {}
        click.echo(json.dumps(study.as_json() | measured, indent=2))
        return
    console = stdout_console()
    print_study(study, console)
    if timed:
        console.print()
        print_rates(rates, console)


def _study(machine: str | None, peak: float | None, bandwidth: float | None, side: int, itemsize: int) -> MatmulStudy:
    if peak is None and bandwidth is None:
        sheet = GPUS[machine or "a100-80"]
        return MatmulStudy(sheet.name, sheet.source, sheet.bf16, sheet.bandwidth, side, itemsize)
    if machine is not None or peak is None or bandwidth is None:
        raise click.UsageError("give --machine, or both --peak and --bandwidth")
    return MatmulStudy("given", "--peak and --bandwidth", peak, bandwidth, side, itemsize)


if __name__ == "__main__":
    run(command)
