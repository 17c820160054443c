"""``photonflow report``: a run as a page, as slides and as pictures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from guarded_zarr import enclosing_store
from workflows.command_line import configure_logging, run
from workflows.pictures import require_matplotlib
from workflows.printable import printable
from workflows.whole_files import write_whole


@click.command(name="report")
@click.argument("dataset", type=click.Path())
@click.option(
    "--html", type=click.Path(dir_okay=False), metavar="FILE", help="Write one HTML file that needs no network."
)
@click.option("--pptx", type=click.Path(dir_okay=False), metavar="FILE", help="Write slides.")
@click.option("--png", "folder", type=click.Path(file_okay=False), metavar="DIR", help="Write each picture as a file.")
@click.option("--bench", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Results of a benchmark.")
@click.option("-v", "--verbose", count=True, help="Say more; twice for all.")
def command(
    dataset: str, html: str | None, pptx: str | None, folder: str | None, bench: str | None, verbose: int
) -> None:
    """Report on the run that made DATASET: what it found, how close to the machine's limits, and what held it back.

    What is not in it is named at its end, with why, and how to get it.
    """
    configure_logging(verbose)
    if not (html or pptx or folder):
        raise click.UsageError("give at least one of --html, --pptx and --png")
    _require_places_of_their_own({"--html": html, "--pptx": pptx, "--png": folder, "--bench": bench})
    require_matplotlib()
    # Late: they draw, and `--help` need not wait for that.
    from workflows.reporting.contents import make_report
    from workflows.reporting.deck import deck, require_python_pptx
    from workflows.reporting.page import page
    from workflows.reporting.run_record import read_run

    if pptx is not None:
        require_python_pptx()
    report = make_report(read_run(dataset, bench))
    contents: dict[str, bytes] = {}
    if html is not None:
        contents[html] = page(report).encode()
    if pptx is not None:
        contents[pptx] = deck(report)
    if folder is not None:
        contents |= {str(Path(folder) / f"{picture.name}.png"): picture.png for picture in report.pictures}
    for place, content in contents.items():
        write_whole(Path(place), content)
    click.echo(printable(report.advice))
    for place in contents:
        click.echo(printable(f"written   {place}"))


def _require_places_of_their_own(places: Mapping[str, str | None]) -> None:
    """Refuse places inside the dataset or another store, and two that are one."""
    taken: dict[Path, str] = {}
    for option, given in places.items():
        if given is None:
            continue
        place = Path(given).resolve()
        store = enclosing_store(place / "picture.png" if option == "--png" else place)
        if option != "--bench" and store is not None:
            raise ValueError(f"{given} lies inside {store}, where nothing foreign may lie: choose another place")
        if place in taken:
            raise click.UsageError(f"{taken[place]} and {option} are both {given}: choose another place for one")
        taken[place] = option


if __name__ == "__main__":
    run(command)
