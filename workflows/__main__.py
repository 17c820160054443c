"""The ``photonflow`` program: every command of this folder under one name."""

from __future__ import annotations

from importlib import import_module

import click

from workflows.command_line import program_version, run
from workflows.interruptions import interruptions

COMMANDS = {
    "simulate": "Write a simulated frame archive.",
    "ingest": "Make a frame archive of the files that detectors write.",
    "process": "Find the photon clusters of a frame archive.",
    "inspect": "Say what is in an archive or a cluster dataset, with pictures.",
    "cluster": "Check where workers come from, or keep them up for several runs.",
    "roofline": "How fast a machine can be at best, and which resource binds.",
    "benchmark": "Time the finder side by side with its peer (in a checkout).",
    "report": "A run as a page, slides and pictures: what it found, and what held it back.",
    "export": "Write the clusters as Parquet, HDF5 or .clust, or make a dataset of a .clust file.",
}


class _Commands(click.Group):
    """A group that imports a command's module only when that command is asked for, so that ``--help`` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with interruptions.leaving_at_once():
            command: click.Command = import_module(f"workflows.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Commands)
@click.version_option(program_version(), prog_name="photonflow")
def photonflow() -> None:
    """From X-ray detector frames to photon clusters."""


def main() -> None:
    """Run the ``photonflow`` program."""
    run(photonflow, name="photonflow")


if __name__ == "__main__":
    main()
