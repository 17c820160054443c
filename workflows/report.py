"""``photonflow report``: a run as a page, as slides and as pictures."""

from __future__ import annotations

from pathlib import Path

import click

from workflows.command_line import configure_logging, run
from workflows.pictures import require_matplotlib


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
    for place in (html, pptx, folder):
        if place is not None and Path(place).resolve().is_relative_to(Path(dataset).resolve()):
            raise ValueError(f"{place} lies inside {dataset}, where nothing foreign may lie: choose another place")
    require_matplotlib()
    # Late: they draw, and `--help` need not wait for that.
    from workflows.reporting.contents import make_report
    from workflows.reporting.deck import write_deck
    from workflows.reporting.page import page
    from workflows.reporting.run_record import read_run

    report = make_report(read_run(dataset, bench))
    written: list[Path] = []
    if html is not None:
        written.append(_made(html))
        written[-1].write_text(page(report), encoding="utf-8")
    if pptx is not None:
        written.append(_made(pptx))
        write_deck(report, written[-1])
    if folder is not None:
        for picture in report.pictures:
            written.append(_made(f"{folder}/{picture.name}.png"))
            written[-1].write_bytes(picture.png)
    click.echo(report.advice)
    for path in written:
        click.echo(f"written   {path}")


def _made(path: str) -> Path:
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


if __name__ == "__main__":
    run(command)
