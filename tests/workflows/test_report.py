"""Reports of real runs, opened in a real browser and rendered by a real office program."""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import zarr
from matplotlib.figure import Figure
from matplotlib.text import Text

from cluster_store import DatasetLayout, create_dataset
from finder.products import ProductOptions
from frame_archive import create_archive
from pipeline import ClusterConfig, RunOptions, execute, open_cluster, prepare
from pipeline.ceilings import Ceilings, MeasuredCeiling, Spread, Subject, keep_ceilings
from pipeline.ceilings.machine import machine
from workflows.pictures import require_matplotlib
from workflows.reporting.cancellation import cancellation
from workflows.reporting.contents import Picture, Report, make_report
from workflows.reporting.deck import deck
from workflows.reporting.page import page
from workflows.reporting.roofline_chart import HOW_TO_READ
from workflows.reporting.run_record import read_run
from workflows.reporting.style import ACCENT, look, svg
from workflows.reporting.timeline_chart import _lanes
from workflows.run_figures import percent

RATES = {
    "memory copy": ("B/s", 4e9), "memory triad": ("B/s", 6e9), "float32": ("op/s", 5e10), "int32": ("op/s", 4e10),
    "page faults": ("fault/s", 4e6),
}  # fmt: skip
BENCH = {
    "measured": "2026-01-01T00:00:00+00:00",
    "machine": {"processor": "a processor of the test", "cores": "2"},
    "rows": [
        {"name": "one core", "rival": "another finder", "is_race": True, "clusters": 2000, "rival_clusters": 2001}
    ],
    "sizes": {"shapes": [[48, 56], [47, 55]]},
    "spectrum_edges": [0, 100, 200],
    "ladder": [
        {"idea": "plain reference", "us_per_frame": 900.0, "quartiles": [880, 930], "frames": 2, "clusters": 200,
         "identical": True, "spectrum": [40, 160]},
        {"idea": "SIMD", "us_per_frame": 45.0, "quartiles": [44, 47], "frames": 20, "clusters": 2000,
         "identical": True, "spectrum": [400, 1600]},
    ],
}  # fmt: skip


ALL_PARTS = [
    "stages", "roofline", "time", "timeline", "spectrum", "hit_map", "eta", "ladder", "counts", "spectra",
    "cancellation",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def drawing():
    require_matplotlib()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Process a small archive on one worker that all runs share; returns the dataset's path."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch, open_cluster(ClusterConfig(workers=1)) as client:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))

        def process(name: str, photons: int = 60, change=lambda path: None, measured: bool = True, **options) -> str:
            rng = np.random.default_rng(3)
            frames = rng.normal(1000, 5, (60, 24, 30))
            places = rng.permutation(frames[0].size * 60)[:photons]
            frames.reshape(-1)[places] += 300
            path = folder / f"{name}.zarr"
            writer = create_archive(path, shape=frames.shape, dtype=np.uint16, n_dark=100, frames_per_chunk=10)
            writer.write_dark(0, rng.normal(1000, 5, (100, 24, 30)).astype(np.uint16))
            writer.write_frames(0, frames.astype(np.uint16))
            prepared = prepare(RunOptions(str(path), **options))
            change(path)
            shutil.rmtree(folder / "cache", ignore_errors=True)
            if measured:
                subject = Subject(prepared.archive, prepared.layout, prepared.out, prepared.options.parameters)
                names = [subject.read(cold=True), subject.read(cold=False), subject.decode(apart=True), subject.write()]
                rates = RATES | dict.fromkeys(names, ("B/s", 1e9))
                found = {n: MeasuredCeiling(n, "", unit, Spread(r, r, r)) for n, (unit, r) in rates.items()}
                found["device memory"] = MeasuredCeiling("device memory", "", "B/s", missing="not measured: no GPU")
                keep_ceilings(Ceilings(machine(), "2026-01-02T03:04:05+00:00", found))
            return execute(prepared, client).out

        yield process


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    """A report with everything: the files that it wrote."""
    folder = tmp_path_factory.mktemp("report")
    bench = folder / "bench.json"
    bench.write_text(json.dumps(BENCH))
    # Of so many clusters there is an eta.
    report = make_report(read_run(run("whole", photons=1500, batch_size=20), str(bench)))
    (folder / "report.html").write_text(page(report), encoding="utf-8")
    (folder / "deck.pptx").write_bytes(deck(report))
    return folder, report


def test_the_page_tells_every_figure_and_needs_nothing_from_elsewhere(whole):
    folder, report = whole
    html = (folder / "report.html").read_text()
    assert report.advice in html
    for said in ("60", "no GPU", "float32", "plain reference", "another finder", "×20.0", "Report written"):
        assert said in html
    assert list(report.parts) == ALL_PARTS
    assert all(part.picture is not None for part in report.parts.values())
    assert report.left_out == [
        ("The stages of a GPU (H2D, kernel, D2H)", "This run used no GPU."),
        ("Ceilings of device memory", "Not measured: no GPU."),
    ]
    # A rung that was timed on fewer frames found fewer clusters, and nothing is compared with itself.
    assert [row[3] for row in report.parts["counts"].table.rows] == ["+500.0"]
    assert all(report.parts[name].says for name in ("spectrum", "hit_map", "eta"))
    assert "of 48×56 pixels on a processor of the test" in html
    facts = dict(report.facts)
    assert facts["seconds to start up"] == f"{report.run.account['worker_seconds']['start-up']:.2f}"
    assert html.count("<img alt=") == len(report.pictures)
    for reference in ("http://", "https://", "<script", "url(", "file:"):
        assert reference not in html.split("<footer>")[0]


# Of what is wider than the screen, or could be moved sideways.
TOO_WIDE = """[...document.querySelectorAll("body *")].filter(element =>
    element.getBoundingClientRect().right > innerWidth + 0.5
    || (element.scrollWidth > element.clientWidth && !["visible", "clip"].includes(getComputedStyle(element).overflowX))
).map(element => element.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright, which drives the browser, is not there")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no Chromium to open the page with (Debian: apt install chromium)")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


def test_a_browser_shows_the_page_and_asks_for_nothing_else(browser, whole):
    folder, report = whole
    shown = browser.new_page(viewport={"width": 1280, "height": 900})
    asked_for, complaints = [], []
    shown.on("request", lambda request: asked_for.append(request.url))
    shown.on("console", lambda message: complaints.append(message.text))
    shown.goto((folder / "report.html").as_uri())
    sizes = shown.evaluate("[...document.images].map(image => image.complete ? image.naturalWidth : 0)")
    assert len(sizes) == len(report.pictures)
    assert min(sizes) > 600
    titles = [part.title for part in report.parts.values()]
    assert shown.locator("h2").all_inner_texts() == [*titles, "Not in this report"]
    assert [url for url in asked_for if not url.startswith("data:")] == [(folder / "report.html").as_uri()]
    assert complaints == []


@pytest.mark.parametrize("width", [320, 375, 639])
def test_on_a_phone_nothing_moves_sideways_and_every_picture_has_its_size(browser, whole, width):
    folder, report = whole
    shown = browser.new_page(viewport={"width": width, "height": 800})
    shown.goto((folder / "report.html").as_uri())
    assert shown.evaluate("[document.scrollingElement.scrollWidth, innerWidth]") == [width, width]
    assert shown.evaluate(TOO_WIDE) == []
    scales = shown.evaluate("[...document.images].map(i => [i.width, i.naturalWidth, i.currentSrc.slice(5, 14)])")
    assert len(scales) == len(report.pictures)
    for at, natural, kind in scales:
        # Text is as large as it says, or but little smaller; a map is so fine that it is sharp on a phone.
        assert at >= (0.75 if kind == "image/svg" else 0.35) * natural
    # A table of many columns is cards, which say what each figure is.
    card = shown.locator(".cards tr").nth(1)
    assert card.evaluate("row => getComputedStyle(row).display") == "block"
    label = card.locator("td").nth(2).evaluate("cell => getComputedStyle(cell, '::before').content")
    assert label == '"µs a frame"'


def test_the_page_is_printed_with_the_pictures_of_a_page(browser, whole, tmp_path):
    folder, _ = whole
    shown = browser.new_page(viewport={"width": 375, "height": 800})
    shown.goto((folder / "report.html").as_uri())
    shown.emulate_media(media="print")
    shown.wait_for_function("[...document.images].every(image => image.complete && image.naturalWidth > 600)")
    shown.pdf(path=str(tmp_path / "page.pdf"), format="A4")
    assert (tmp_path / "page.pdf").read_bytes().count(b"/Type /Page\n") >= 3
    shown.set_viewport_size({"width": 700, "height": 1000})
    assert shown.evaluate("document.documentElement.scrollWidth") == 700


@dataclass(frozen=True)
class Label:
    """A text that is drawn: how it leans, and the corners (corner, xy) of what it covers, in pixels."""

    text: str
    lean: float
    corners: np.ndarray

    def is_apart_from(self, other: Label) -> bool:
        """Whether a straight line passes between the two."""
        for lean in (self.lean, other.lean):
            for across in (np.array([np.cos(lean), np.sin(lean)]), np.array([-np.sin(lean), np.cos(lean)])):
                mine, its = self.corners @ across, other.corners @ across
                if mine.max() <= its.min() + 1 or its.max() <= mine.min() + 1:
                    return True
        return False


def labels(figure: Figure) -> list[Label]:
    """Every text of a picture that is to be seen."""
    figure.draw_without_rendering()
    beyond = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            beyond |= {t for tick in ticks if not low <= tick.get_loc() <= high for t in (tick.label1, tick.label2)}
    texts = [text for text in figure.findobj(Text) if text not in beyond and text.get_visible()]
    return [_label(text) for text in texts if text.get_text().strip()]


def _label(text: Text) -> Label:
    box, lean = text.get_window_extent(), np.radians(text.get_rotation())
    text.set_rotation(0)
    level = text.get_window_extent()
    text.set_rotation(np.degrees(lean))
    along, up = np.array([np.cos(lean), np.sin(lean)]), np.array([-np.sin(lean), np.cos(lean)])
    first = np.array([box.x0 + level.height * np.sin(lean), box.y0])
    whole = [first, first + level.width * along]
    return Label(text.get_text(), lean, np.array([*whole, *(corner + level.height * up for corner in whole)]))


@pytest.mark.parametrize("part", ALL_PARTS)
def test_no_label_is_cut_or_lies_on_another(whole, part):
    assert_legible(whole[1].parts[part].picture)


def test_the_roofline_of_stages_whose_ceilings_were_not_measured_says_so(whole):
    run = whole[1].run
    decode = run.account["stages"]["decode"] | {
        "ceiling": "decode uint16 20×400×400 bytes+blosc-lz4-bitshuffle+crc32c", "ceiling_bytes_a_second": None,
        "share_of_ceiling": None,
    }  # fmt: skip
    account = run.account | {"stages": run.account["stages"] | {"decode": decode}}
    picture = make_report(replace(run, account=account), only=("roofline",)).parts["roofline"].picture
    assert_legible(picture)
    for figure in (picture.figure, picture.for_phone):
        said = [text.get_text() for text in figure.legends[0].get_texts()]
        assert "decode: its ceiling not measured" in said
        assert "find: float32 50.00 Gop/s" in said


def test_each_dot_lies_below_its_ring_by_what_the_table_says(whole):
    report = whole[1]
    account, reached = (
        report.run.account,
        {row[0].removesuffix(" ◀"): row[5] for row in report.parts["stages"].table.rows},
    )
    for figure in (report.parts["roofline"].picture.figure, report.parts["roofline"].picture.for_phone):
        (axes,) = figure.axes
        marks = [line for line in axes.lines if line.get_linestyle() == "None"]
        dots = {str(mark.get_label()).split(":")[0]: mark for mark in marks if ":" in str(mark.get_label())}
        rings = {
            ring.get_markeredgecolor(): ring.get_xydata()[0] for ring in marks if ring.get_markerfacecolor() == "none"
        }
        assert list(dots) == ["read", "decode", "find", "write", "the run"]
        for name, dot in dots.items():
            (where, rate), (above, most) = dot.get_xydata()[0], rings[dot.get_color()]
            share = account["share_of_bound"] if name == "the run" else account["stages"][name]["share_of_ceiling"]
            assert (above, rate / most) == (where, pytest.approx(share))
            said = percent(share) if name == "the run" else reached[name]
            assert f"{name} {said}" in [text.get_text() for text in axes.texts]
            if name in ("read", "decode", "write"):
                # The ring is the end of a line of slope 1 of the stage's colour, the ceiling in bytes a second.
                assert most / where == pytest.approx(account["stages"][name]["ceiling_bytes_a_second"])
                (line,) = (x for x in axes.lines if x.get_color() == dot.get_color() and x.get_linestyle() == "-")
                assert line.get_xydata()[1] == pytest.approx([above, most])
        # Of 24×30 pixels with 33 operations each; X0 and the pedestal cross to the cache once in twenty frames.
        find, ring = dots["find"].get_xydata()[0], rings[dots["find"].get_color()]
        assert find[0] == pytest.approx(33 / (2 + 18 / 20))
        assert ring[1] == pytest.approx(RATES["float32"][1])
        assert ring[1] < RATES["memory triad"][1] * ring[0]
    assert HOW_TO_READ in (whole[0] / "report.html").read_text().replace("&#x27;", "'")


CROWDED = {
    "memory copy": ("B/s", 5.1e9), "memory triad": ("B/s", 5.2e9), "decode lz4": ("B/s", 1.49e9),
    "decode zstd": ("B/s", 1.35e9), "decode uncompressed": ("B/s", 1.51e9), "float32": ("op/s", 14.2e9),
    "int32": ("op/s", 15.9e9), "page faults": ("fault/s", 4e6),
}  # fmt: skip


@pytest.mark.parametrize("closer", [1.0, 0.2, 0.01, 3.0])
def test_lines_that_lie_together_are_named_each_with_its_own_value(whole, closer):
    run = whole[1].run
    mean = 3e9
    rates = {
        name: (unit, rate if unit != "B/s" else mean * (rate / mean) ** closer)
        for name, (unit, rate) in CROWDED.items()
    }
    ceilings = [
        MeasuredCeiling(name, "", unit, Spread(rate, rate, rate)).as_json() for name, (unit, rate) in rates.items()
    ]
    find = run.account["stages"]["find"] | {"ceiling_bytes_a_second": 14.2e9 * 2 / 33, "share_of_ceiling": 0.5}
    write = run.account["stages"]["write"] | {"ceiling_bytes_a_second": 0.46e9}
    stages = run.account["stages"] | {"find": find, "write": write}
    account = run.account | {"stages": stages, "ceilings": {"ceilings": ceilings}}
    picture = make_report(replace(run, account=account), only=("roofline",)).parts["roofline"].picture
    assert_legible(picture)
    for figure in (picture.figure, picture.for_phone):
        said = [text.get_text() for text in figure.legends[0].get_texts()]
        slopes = sorted((name for name in rates if rates[name][0] == "B/s"), key=lambda name: -rates[name][1])
        # From top to bottom, as the lines lie.
        assert said[-6:] == ["int32 15.90 Gop/s", *(f"{name} {rates[name][1] / 1e9:.2f} GB/s" for name in slopes)]
        assert {"find: float32 14.20 Gop/s", "write: 0.46 GB/s", "decode: 1.00 GB/s"} <= set(said)
        drawn = {str(line.get_label()): line for line in figure.axes[0].lines}
        dashes = [drawn[name]._dash_pattern for name in said[-6:]]
        assert all(dash != other for dash, other in combinations(dashes, 2))


def assert_legible(picture: Picture) -> None:
    for figure in (picture.figure, picture.for_phone):
        with look():
            found = labels(figure)
        assert len(found) > 4
        for label in found:
            assert (label.corners >= -1).all(), label.text
            assert (label.corners <= np.array(figure.bbox.size) + 1).all(), label.text
        for label, other in combinations(found, 2):
            assert label.is_apart_from(other), f"{label.text} lies on {other.text}"
        for axes in figure.axes:
            # A name beside a point is on no point.
            points = [line for line in axes.lines if line.get_marker() in ("o", "*") and line.get_label()[0] != " "]
            for at in [axes.transData.transform(xy) for line in points for xy in line.get_xydata()]:
                mark = Label("a point", 0.0, at + 3 * np.array([[-1, -1], [1, -1], [-1, 1], [1, 1]]))
                for label in found:
                    assert label.is_apart_from(mark), f"{label.text} lies on a point"


def test_the_slides_are_complete_and_an_office_program_renders_each(whole, tmp_path):
    pptx = pytest.importorskip("pptx", reason="python-pptx, which the extra report brings, is not there")
    folder, _ = whole
    slides = pptx.Presentation(folder / "deck.pptx").slides
    texts = [" ".join(s.text_frame.text for s in slide.shapes if s.has_text_frame).strip() for slide in slides]
    titles = (
        "Photon clusters of whole.clusters.zarr", "Problem and baseline", "The ladder", "The ladder: figures",
        "Methodology", "Rung 1: plain reference", "Rung 2: SIMD", "Results", "Stage by stage",
        "Stage by stage: figures", "Roofline", "Roofline: figures", "Where the time went", "Batches on workers",
        "Validation: variants against the reference", "Validation: variants against the reference: figures",
        "Validation: spectra of the variants",
        "Validation: why float32 is enough", "Validation: spectrum", "Validation: hit map", "Validation: eta",
        "How to use it", "Choosing the knobs, and what each costs", "Not in these slides", "Next steps",
    )  # fmt: skip
    assert len(texts) == len(titles)
    for text, title in zip(texts, titles, strict=True):
        assert text.startswith(title)
    assert texts[titles.index("How to use it")].count("\n") == 7  # eight lines
    # The title says when and on what; the baseline, on what it was measured, which is not what the run was of.
    assert re.search(r"Run of \d{4}-\d\d-\d\d on \w", texts[0])
    assert "2 to 20 frames of 48×56 pixels on a processor of the test, 2 cores, 2026-01-01" in texts[1]
    assert "not with this run's" in texts[1]
    figures = {
        title: shape.table for slide, title in zip(slides, titles, strict=True) for shape in slide.shapes
        if shape.has_table
    }  # fmt: skip
    assert [cell.text for cell in figures["Stage by stage: figures"].rows[0].cells][-2:] == ["reached", "limited by"]
    sizes = {
        paragraph.font.size.pt for table in figures.values() for cell in table.iter_cells()
        for paragraph in cell.text_frame.paragraphs
    }  # fmt: skip
    assert min(sizes) >= 11
    for slide in slides:
        for shape in slide.shapes:
            assert shape.left >= 0
            assert shape.left + shape.width <= 12_192_000 + 1
            assert shape.top + shape.height <= 6_858_000
    if (soffice := shutil.which("soffice")) is None or (to_text := shutil.which("pdftotext")) is None:
        pytest.skip(
            "there is no LibreOffice to render slides with (apt install libreoffice-impress-nogui poppler-utils)"
        )
    subprocess.run(
        [soffice, "--headless", f"-env:UserInstallation={(tmp_path / 'office').as_uri()}", "--convert-to", "pdf",
         "--outdir", str(tmp_path), str(folder / "deck.pptx")],
        check=True, capture_output=True, timeout=240,
    )  # fmt: skip
    pages = subprocess.run(
        [to_text, "-layout", str(tmp_path / "deck.pdf"), "-"], check=True, capture_output=True, text=True
    ).stdout.split("\f")[:-1]
    assert len(pages) == len(titles)
    for shown, title in zip(pages, titles, strict=True):
        assert " ".join(title.split()) in " ".join(shown.split())


def test_the_command_writes_what_it_is_asked_for(photonflow, run, tmp_path):
    dataset = run("commanded", clusters=False, products=ProductOptions(("hitmap",)))
    done = photonflow("report", dataset, "--html", "made/r.html", "--png", "pictures")
    assert done.code == 0, done.stderr
    assert done.stdout.splitlines()[1] == "written   made/r.html"
    names = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert {"stage_by_stage.png", "roofline.png", "batches_on_workers.png", "where_the_time_went.png"} <= names
    assert all((tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG") for name in names)
    assert "spectrum.png" not in names
    html = (tmp_path / "made" / "r.html").read_text()
    assert "process with --products" in html
    # Nothing of a benchmark that there wasn't, but once that there wasn't.
    assert html.count("photonflow benchmark") == 1
    assert "float32 is enough" not in html.split("Not in this report")[0]
    assert done.stdout.splitlines()[0] in photonflow("inspect", dataset).stdout


def part_says(report: Report, name: str) -> str:
    return " ".join(report.parts[name].says)


def test_a_run_without_ceilings_is_reported_without_them(run):
    report = make_report(read_run(run("bare", measured=False), None), only=("stages", "roofline", "time", "ladder"))
    assert report.parts["stages"].picture is not None
    assert "Without all ceilings there is no bound" in part_says(report, "stages")
    assert "what they cost was not measured" in part_says(report, "time")
    assert "at the bound" not in page(report).replace("at the bound of", "")
    assert "in the stages" in [label.text for label in labels(report.parts["time"].picture.figure)]
    assert list(report.parts) == ["stages", "time"]
    assert "were not measured before the run" in report.absent["Roofline"]
    assert report.absent["The ladder"].startswith("No benchmark's results were given")
    assert dict(report.facts)["share of the bound"] == "not measured"


def test_a_run_that_found_nothing_says_so_in_place_of_pictures(run):
    report = make_report(read_run(run("dark", photons=0), None), only=("spectrum", "hit_map", "eta", "stages"))
    assert list(report.parts) == ["stages"]
    assert report.left_out[0] == ("Spectrum; Hit map; Eta", "No clusters were found.")
    assert "write" not in [row[0] for row in report.parts["stages"].table.rows]


def test_few_clusters_have_no_eta_and_their_count_is_said(run):
    report = make_report(read_run(run("few"), None), only=("eta",))
    assert report.absent["Eta"] == "Eta is drawn of 1,000 clusters or more."


def test_a_run_of_one_batch_has_a_timeline(run):
    report = make_report(read_run(run("single"), None), only=("timeline",))
    assert report.parts["timeline"].picture is not None
    assert part_says(report, "timeline").startswith("1 batch, each as the sum of its stages")


def test_a_worker_that_was_idle_all_the_time_has_a_row_and_the_legend_says_what_is_written(run):
    record = read_run(run("idler", batch_size=20), None)
    batches = record.batches.assign_attrs(worker_names=[*record.batches.attrs["worker_names"], "17"])
    report = make_report(replace(record, batches=batches), only=("timeline",))
    assert "Without a batch: worker 17." in part_says(report, "timeline")
    picture = report.parts["timeline"].picture
    for figure in (picture.figure, picture.for_phone):
        assert "worker 17" in [label.text for label in labels(figure)]
        said = [text.get_text() for text in figure.legends[0].get_texts()]
        assert said == ["idle or writing", "finishing", "read", "decode", "find", "write", "rows written"]
    # It ends where the table's seconds do.
    seconds = record.account["seconds"]
    assert f"after {seconds:.2f} s" in part_says(report, "timeline")
    assert picture.figure.axes[0].get_xlim()[1] == pytest.approx(1.02 * seconds)


def test_batches_of_an_earlier_run_and_a_damaged_table_are_told_of_and_not_drawn(run):
    record = read_run(run("resumed", batch_size=20), None)
    batches = record.batches.copy(deep=True)
    later = float(batches["began"][0]) + 86_400
    batches["began"][1:] = later
    began = [datetime.fromtimestamp(at, UTC).isoformat() for at in (later - 90_000, later - 5)]
    attrs = record.attrs | {"runs": json.dumps([{"began": at} for at in began])}
    report = make_report(replace(record, batches=batches, attrs=attrs), only=("timeline",))
    assert "2 batches, each as" in part_says(report, "timeline")
    assert report.parts["timeline"].picture.figure.axes[0].get_title(loc="left").endswith(", the last run's")
    assert "Of an earlier run 1 more: not shown." in part_says(report, "timeline")
    assert report.parts["timeline"].picture.figure.axes[0].get_xlim()[1] < 60
    report = make_report(replace(record, batches=batches.drop_vars("find_seconds")), only=("timeline",))
    assert "table of its batches is damaged" in report.absent["Batches on workers"]
    report = make_report(replace(record, batches=batches.isel(batch=[])), only=("timeline",))
    assert report.absent["Batches on workers"] == "The run had no batches."


def test_the_frames_that_were_decoded_are_told_and_not_the_chunks_that_were_read_for_them(run):
    # Of ten frames of a chunk five batches take two each.
    record = read_run(run("within", batch_size=2), None)
    assert record.stages["read"]["nbytes"] > 60 * 24 * 30 * 2
    assert dict(make_report(record, only=()).facts)["frames decoded"] == "86.4 kB"


def test_a_run_on_gpus_shows_their_stages_within_the_one_that_waits_for_them(run):
    record = read_run(run("gpu", batch_size=20), None)
    account, find = record.account, record.account["stages"]["find"]
    # As a run on GPUs keeps them: half the time of finding, a rate, a ceiling.
    gpu = {
        name: find | {"busy_seconds": find["busy_seconds"] * share, "ceiling": ceiling, "within": "find"}
        for name, share, ceiling in (
            ("H2D", 0.5, "H2D, pinned"), ("kernel", 0.3, "device memory"), ("D2H", 0.1, "D2H, pinned"),
        )
    }  # fmt: skip
    rates = {"H2D, pinned": ("B/s", 5e10), "device memory": ("B/s", 2e12), "GPU float32": ("op/s", 1e13)}
    ceilings = account["ceilings"]["ceilings"] + [
        MeasuredCeiling(name, "", unit, Spread(rate, rate, rate)).as_json() for name, (unit, rate) in rates.items()
    ]
    record = replace(
        record,
        account=account
        | {"stages": account["stages"] | gpu, "binds": "H2D", "ceilings": {"ceilings": ceilings}, "gpus": 1},
    )
    report = make_report(record)
    rows = [row[0] for row in report.parts["stages"].table.rows]
    assert rows[rows.index("find") :] == ["find", "write", "· H2D ◀", "· kernel", "· D2H", "idle"]
    assert "This run used no GPU." not in report.absent.values()
    pictures = {name: svg(report.parts[name].picture.figure).decode() for name in ("stages", "roofline")}
    assert all(name in pictures["roofline"] for name in ("GPU float32", "H2D, pinned"))
    assert "of one GPU" in pictures["stages"]


def test_batches_that_a_worker_has_at_once_lie_in_lanes():
    workers, began = np.array([0, 0, 1, 0, 0, 1]), np.array([0.0, 1.0, 1.5, 3.0, 2.5, 9.0])
    ended = began + np.array([2.0, 5.0, 1.0, 1.0, 9.0, 1.0])
    assert _lanes(workers, began, ended).tolist() == [0, 1, 0, 2, 0, 0]


def test_the_mark_of_a_ceiling_is_where_it_is_though_it_was_exceeded(run):
    record = read_run(run("exceeding"), None)
    longest = max(stage["microseconds_a_frame"] for stage in record.account["stages"].values())

    def marks(**shares):
        stages = {
            name: stage | {"microseconds_a_frame": longest * 0.2, "share_of_ceiling": shares.get(name, 0.5)}
            for name, stage in record.account["stages"].items()
        }
        for name in shares:
            stages[name]["exceeds_ceiling"] = True
        stages["find"] |= {"microseconds_a_frame": longest}
        part = make_report(
            replace(record, account=record.account | {"stages": stages, "idle_seconds": 0.0}), only=("stages",)
        ).parts["stages"]
        assert_legible(part.picture)
        (axes,) = part.picture.figure.axes
        at = [line.get_xdata()[0] / longest for line in axes.lines if line.get_xdata()[0] == line.get_xdata()[1]]
        return pytest.approx(at), " ".join(part.says), axes.figure.get_supxlabel()

    places, said, label = marks(decode=5.87)
    assert places == [0.1, 0.2 * 5.87, 0.5, 0.1]
    assert (
        "Decode did more than was measured on this machine, which was busy then, perhaps, or had files in its page "
        in said
    )
    assert "A ceiling beyond the picture has none" not in label
    # Not so far that nothing else is to be seen.
    places, said, label = marks(decode=500.0)
    assert places == [0.1, 0.5, 0.1]
    assert "A ceiling beyond the picture has none" in label.replace("\n", " ")


def test_failed_batches_are_told_with_their_cause(run):
    def damage(path: Path) -> None:
        chunk = path / "frames" / "c" / "3" / "0" / "0"
        chunk.write_bytes(chunk.read_bytes()[:50])

    dataset = run("damaged", change=damage, batch_size=20, on_bad_batch="skip")
    report = make_report(read_run(dataset, None), only=("timeline", "stages", "time"))
    assert all(part.picture is not None for part in report.parts.values())
    assert "1 of them failed, and their frames are not in the dataset: batch 1 (frames 20:40)" in part_says(
        report, "timeline"
    )
    assert report.run.account["frames"] == 40
    legend = report.parts["timeline"].picture.figure.legends[0]
    marks = {text.get_text(): mark for text, mark in zip(legend.get_texts(), legend.legend_handles, strict=True)}
    assert marks["failed"].get_color() == ACCENT


def test_each_run_of_a_history_has_a_line(photonflow, run, tmp_path):
    dataset = run("history")
    commands = [
        f"2026-01-0{day}T00:00:00+00:00: photonflow process a.zarr{more}" for day, more in ((1, ""), (2, " --resume"))
    ]
    shutil.copytree(dataset, tmp_path / "two.zarr")
    zarr.open_group(str(tmp_path / "two.zarr"), mode="r+").attrs["history"] = "\n".join(commands)
    assert "<br>".join(commands) in page(make_report(read_run(str(tmp_path / "two.zarr"), None), only=("time",)))
    lines = [line.strip() for line in photonflow("inspect", tmp_path / "two.zarr").stdout.splitlines()]
    assert lines[lines.index(commands[1]) - 1] == f"history                {commands[0]}"


def test_what_a_report_can_not_be_made_of_is_one_sentence(photonflow, tmp_path, run):
    dataset = run("sound")
    assert "nothing.zarr is not there" in photonflow("report", "nothing.zarr", "--html", "r.html").sentence
    assert "is no cluster dataset" in photonflow("report", str(tmp_path), "--html", "r.html").sentence
    layout = DatasetLayout(
        n_frames=4, first_frame=0, batch_size=4, frame_shape=(8, 9), cluster_size=(3, 3), signal_dtype="int32"
    )
    create_dataset(str(tmp_path / "half.zarr"), layout, {})
    assert "is not finished" in photonflow("report", "half.zarr", "--html", "r.html").sentence
    inside = photonflow("report", dataset, "--png", f"{dataset}/pictures").sentence
    assert "where nothing foreign may lie" in inside
    archive = dataset.replace(".clusters.zarr", ".zarr")
    for command in (("report", dataset), ("inspect", dataset)):
        assert f"lies inside {archive}" in photonflow(*command, "--png", f"{archive}/pictures").sentence
    (tmp_path / "torn.json").write_text("{")
    assert "is not JSON" in photonflow("report", dataset, "--html", "r.html", "--bench", "torn.json").sentence
    (tmp_path / "other.json").write_text('{"ladder": [{"idea": "x"}]}')
    wrong = photonflow("report", dataset, "--html", "r.html", "--bench", "other.json").sentence
    assert "can't be read as results of a benchmark (it lacks 'us_per_frame')" in wrong
    assert not (tmp_path / "r.html").exists()
    assert photonflow("report", dataset).code == 2


def test_what_cannot_be_written_leaves_nothing_new_and_what_was_there(photonflow, run, tmp_path):
    dataset = run("written")
    (tmp_path / "file").write_text("not a folder")
    assert photonflow("report", dataset, "--html", "file/r.html").sentence.startswith("file")
    # Room for what is said, and not for a report: as on a disk that is full.
    (tmp_path / "r.html").write_text("an earlier report")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        full = photonflow("report", dataset, "--html", "r.html", "--pptx", "r.pptx")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert full.sentence == "r.html: File too large"
    assert (tmp_path / "r.html").read_text() == "an earlier report"
    assert {path.name for path in tmp_path.iterdir()} == {"file", "r.html"}


HOSTILE = '<script>alert(1)</script> $\\frac{$ \x1b[31m 光子 & "x"'


def test_names_from_elsewhere_are_spelled_and_never_obeyed(run, tmp_path):
    ladder = [rung | {"idea": f"{HOSTILE} {place}"} for place, rung in enumerate(BENCH["ladder"])]
    rows = [row | {"rival": HOSTILE} for row in BENCH["rows"]]
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(BENCH | {"ladder": ladder, "rows": rows, "machine": {"processor": HOSTILE}}))
    record = read_run(run("hostile"), str(file))
    batches = record.batches.assign_attrs(worker_names=[HOSTILE * 20])
    named = {"device": HOSTILE, "history": HOSTILE, "n_sigma": HOSTILE}
    report = make_report(replace(record, batches=batches, attrs=record.attrs | named))
    html = page(report)
    assert "<script" not in html
    assert "\x1b" not in html
    assert "&lt;script&gt;alert(1)" in html
    for name in ("ladder", "counts", "timeline"):
        picture = report.parts[name].picture
        for figure in (picture.figure, picture.for_phone):
            assert any("frac" in label.text or "script" in label.text for label in labels(figure)), name


def test_two_options_that_name_one_file_are_refused(photonflow, run, tmp_path):
    dataset = run("twice")
    (tmp_path / "bench.json").write_text(json.dumps(BENCH))
    for options in (("--html", "r", "--pptx", "./r"), ("--html", "bench.json", "--bench", "bench.json")):
        assert photonflow("report", dataset, *options).code == 2
    assert json.loads((tmp_path / "bench.json").read_text()) == BENCH
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]


def test_float32_loses_the_variance_of_raw_moments_and_keeps_that_around_the_mean():
    errors = cancellation()
    at_moench = list(errors.means).index(4655)
    assert errors.raw[at_moench] > 0.2
    assert errors.lost[at_moench] > 0.05
    assert (errors.centred < 1e-6).all()
    assert errors.raw[0] < 1e-5
