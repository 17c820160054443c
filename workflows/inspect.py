"""``photonflow inspect``: say what is in a frame archive or a cluster dataset, and draw it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import click

from cluster_store import dataset_status, open_dataset, read_table
from finder.bad_pixels import BadPixelThresholds
from frame_archive import ArchiveError, FrameArchive, location_of
from guarded_zarr import enclosing_store
from workflows.archive_facts import archive_page
from workflows.bad_pixel_mask import (
    bad_pixels_section,
    draw_bad_pixels,
    find_bad_pixels,
    require_room_for_mask,
    write_bad_pixels,
)
from workflows.command_line import configure_logging, run
from workflows.dataset_facts import dataset_page
from workflows.exported_files import require_no_export
from workflows.facts import Page
from workflows.option_values import size
from workflows.pictures import require_matplotlib


@click.command(name="inspect")
@click.argument("path", type=click.Path())
@click.option(
    "--png", "folder", metavar="DIR", type=click.Path(file_okay=False), help="Draw pictures into this folder."
)
@click.option(
    "--noise",
    "with_noise",
    is_flag=True,
    help="Measure the noise of an archive's darks and draw it, into NAME.noise unless --png says where.",
)
@click.option(
    "--bad-pixels",
    "mask",
    metavar="MASK.zarr",
    help="Find dead, cold, hot, noisy and flickering pixels by an archive's darks, and write a mask of them.",
)
@click.option(
    "--hot", default=10.0, show_default=True, metavar="WIDTHS", help="For --bad-pixels: the mean off its neighbours'."
)
@click.option("--noisy", default=10.0, show_default=True, metavar="WIDTHS", help="Likewise the noise above theirs.")
@click.option(
    "--flickering",
    default=7.0,
    show_default=True,
    metavar="WIDTHS",
    help="Likewise how far darks that follow each other are alike.",
)
@click.option(
    "--far",
    default=0.01,
    show_default=True,
    metavar="SHARE",
    help="Likewise the share of darks in which it may be far off, or in another gain, more often than they.",
)
@click.option(
    "--tile",
    callback=size,
    default="64x64",
    show_default=True,
    metavar="ROWSxCOLUMNS",
    help="Likewise what a pixel's neighbours are.",
)
@click.option("--overwrite", is_flag=True, help="Replace a mask that photonflow made.")
@click.option("--frames-path", metavar="NAME", help="The array of frames inside the archive, where it isn't obvious.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON on stdout.")
@click.option("-v", "--verbose", count=True, help="Say more; twice for all.")
def command(
    path: str,
    folder: str | None,
    with_noise: bool,
    mask: str | None,
    hot: float,
    noisy: float,
    flickering: float,
    far: float,
    tile: tuple[int, int],
    overwrite: bool,
    frames_path: str | None,
    as_json: bool,
    verbose: int,
) -> None:
    """Say what is in PATH, a frame archive or a cluster dataset.

    With --png: the mean and the noise of an archive's dark frames, or without darks of its first frames; of a dataset
    the hit map, the spectrum with its highest peak, eta, and the clusters a frame and the pedestal over the run.

    With --noise: how the noise of an archive's darks is spread over the pixels, how its tails compare with the
    Gaussian's, what false clusters to expect of it, and pictures of all that.

    With --bad-pixels: pixels that stand out from their neighbours in the darks, by so many robust widths, as a mask
    that `photonflow process --mask` takes; with --png a map of them.
    """
    configure_logging(verbose)
    noise_folder = folder or f"{Path(path).name.removesuffix('.zarr')}.noise" if with_noise else None
    for place in {folder, noise_folder} - {None}:
        require_matplotlib()
        if (store := enclosing_store(Path(str(place)) / "picture.png")) is not None:
            raise ValueError(f"{place} lies inside {store}, where nothing foreign may lie: choose another folder")
    thresholds = BadPixelThresholds(hot, noisy, flickering, far, tile)
    wanted = None if mask is None else _WantedMask(mask, thresholds, overwrite)
    page = _inspect(path, frames_path, folder, noise_folder, wanted)
    if as_json:
        click.echo(json.dumps(page.as_json(), indent=2, default=str))
    else:
        page.print()


@dataclass(frozen=True)
class _WantedMask:
    path: str
    thresholds: BadPixelThresholds
    overwrite: bool


def _inspect(
    path: str, frames_path: str | None, folder: str | None, noise_folder: str | None, mask: _WantedMask | None
) -> Page:
    status = dataset_status(path)
    require_no_export(path)
    if status == "absent":
        raise ValueError(f"{path} is empty or not there: give the path of a frame archive or a cluster dataset")
    if status in ("running", "complete"):
        if noise_folder is not None:
            raise ValueError(f"{path} is a cluster dataset, and --noise looks at darks: give an archive of frames")
        if mask is not None:
            raise ValueError(f"{path} is a cluster dataset, and --bad-pixels looks at darks: give an archive of frames")
        location = location_of(path)
        page = dataset_page(location)
        if folder is not None:
            from workflows.dataset_pictures import draw_dataset

            pictures = draw_dataset(open_dataset(path), location, _made(folder), read_table(path, "products"))
            page.pictures.extend(pictures)
        return page
    try:
        archive = FrameArchive.open(path, frames_path)
    except ArchiveError as error:
        raise ValueError(f"{error} (and it is no cluster dataset either)") from error
    found = None
    if mask is not None:
        require_room_for_mask(mask.path, path, mask.overwrite)
        found = find_bad_pixels(archive, mask.thresholds)
        write_bad_pixels(found, archive, mask.path, mask.overwrite)
    page = archive_page(archive)
    if mask is not None and found is not None:
        page = replace(page, sections=[*page.sections, bad_pixels_section(found, mask.path)])
        if folder is not None:
            page.pictures.append(draw_bad_pixels(found, Path(archive.address.path).name, _made(folder)))
    if folder is not None:
        from workflows.archive_pictures import draw_archive

        page.pictures.extend(draw_archive(archive, _made(folder)))
    if noise_folder is not None:
        from workflows.dark_noise import measure_noise, noise_section
        from workflows.noise_pictures import draw_noise

        noise = measure_noise(archive)
        page = replace(page, sections=[*page.sections, noise_section(noise)])
        page.pictures.extend(draw_noise(noise, Path(archive.address.path).name, _made(noise_folder)))
    return page


def _made(folder: str) -> Path:
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    return place


if __name__ == "__main__":
    run(command)
