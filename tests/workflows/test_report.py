"""Reports of real runs, opened in a real browser and rendered by a real office program."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cluster_store import DatasetLayout, create_dataset
from finder.products import ProductOptions
from frame_archive import create_archive
from pipeline import ClusterConfig, RunOptions, execute, open_cluster, prepare
from pipeline.ceilings import Ceilings, MeasuredCeiling, Spread, Subject, keep_ceilings
from pipeline.ceilings.machine import machine
from workflows.pictures import require_matplotlib
from workflows.reporting.cancellation import cancellation
from workflows.reporting.contents import Report, make_report
from workflows.reporting.run_charts import _lanes
from workflows.reporting.run_record import read_run

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
    "spectrum_edges": [0, 100, 200],
    "ladder": [
        {"idea": "plain reference", "us_per_frame": 900.0, "quartiles": [880, 930], "frames": 2, "clusters": 200,
         "identical": True, "spectrum": [40, 160]},
        {"idea": "SIMD", "us_per_frame": 45.0, "quartiles": [44, 47], "frames": 20, "clusters": 2000,
         "identical": True, "spectrum": [400, 1600]},
    ],
}  # fmt: skip


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
    report = make_report(read_run(run("whole", batch_size=20), str(bench)))
    from workflows.reporting.deck import write_deck
    from workflows.reporting.page import page

    (folder / "report.html").write_text(page(report), encoding="utf-8")
    write_deck(report, folder / "deck.pptx")
    return folder, report


def test_the_page_tells_every_figure_and_needs_nothing_from_elsewhere(whole):
    folder, report = whole
    html = (folder / "report.html").read_text()
    assert report.advice in html
    for said in ("60", "not measured", "float32", "plain reference", "another finder", "×20.0", "Report written"):
        assert said in html
    missing = [name for name, part in report.parts.items() if part.picture is None]
    assert missing == []
    # A rung that was timed on fewer frames found fewer clusters, and differs in none.
    assert [row[3] for row in report.parts["counts"].table.rows] == ["+0.0", "+0.0", "+500.0"]
    assert html.count("<img alt=") == len(report.pictures)
    for reference in ("http://", "https://", "<script", "url(", "file:"):
        assert reference not in html.split("<footer>")[0]


def test_a_browser_shows_the_page_on_a_phone_and_prints_it(whole, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright, which drives the browser, is not there")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no Chromium to open the page with (Debian: apt install chromium)")
    folder, report = whole
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            shown = browser.new_page(viewport={"width": 390, "height": 844})
            asked_for, complaints = [], []
            shown.on("request", lambda request: asked_for.append(request.url))
            shown.on("console", lambda message: complaints.append(message.text))
            shown.goto((folder / "report.html").as_uri())
            # Wide figures and tables move within the page, which itself is as wide as the phone.
            assert shown.evaluate("document.documentElement.scrollWidth") == 390
            sizes = shown.evaluate("[...document.images].map(image => image.complete ? image.naturalWidth : 0)")
            assert len(sizes) == len(report.pictures)
            assert min(sizes) > 300
            assert shown.locator("h2").all_inner_texts() == [part.title for part in report.parts.values()]
            assert [url for url in asked_for if not url.startswith("data:")] == [(folder / "report.html").as_uri()]
            assert complaints == []
            shown.pdf(path=str(tmp_path / "page.pdf"), format="A4")
            shown.emulate_media(media="print")
            shown.set_viewport_size({"width": 700, "height": 1000})
            assert shown.evaluate("document.documentElement.scrollWidth") == 700
        finally:
            browser.close()
    assert (tmp_path / "page.pdf").read_bytes().count(b"/Type /Page\n") >= 3


def test_the_slides_are_complete_and_an_office_program_renders_each(whole, tmp_path):
    pptx = pytest.importorskip("pptx", reason="python-pptx, which the extra report brings, is not there")
    folder, _ = whole
    slides = pptx.Presentation(folder / "deck.pptx").slides
    texts = [" ".join(s.text_frame.text for s in slide.shapes if s.has_text_frame).strip() for slide in slides]
    titles = (
        "Photon clusters of whole.clusters.zarr", "Problem and baseline", "The ladder", "Methodology",
        "Rung 1: plain reference", "Rung 2: SIMD", "Results", "Stage by stage", "Roofline", "Where the time went",
        "Batches on workers", "Validation: variants against the reference", "Validation: spectra of the variants",
        "Validation: why float32 is enough", "Validation: spectrum", "Validation: hit map", "How to use it",
        "Choosing the knobs, and what each costs", "Next steps",
    )  # fmt: skip
    assert len(texts) == len(titles)
    for text, title in zip(texts, titles, strict=True):
        assert text.startswith(title)
    assert texts[16].count("\n") == 7  # eight lines
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
    for page, title in zip(pages, titles, strict=True):
        assert " ".join(title.split()) in " ".join(page.split())


def test_the_command_writes_what_it_is_asked_for(photonflow, run, tmp_path):
    dataset = run("commanded", clusters=False, products=ProductOptions(("hitmap",)))
    done = photonflow("report", dataset, "--html", "made/r.html", "--png", "pictures")
    assert done.code == 0, done.stderr
    assert done.stdout.splitlines()[1] == "written   made/r.html"
    names = {path.name for path in (tmp_path / "pictures").iterdir()}
    assert {"stage_by_stage.png", "roofline.png", "batches_on_workers.png", "where_the_time_went.png"} <= names
    assert all((tmp_path / "pictures" / name).read_bytes().startswith(b"\x89PNG") for name in names)
    assert "spectrum.png" not in names
    assert "process with --products" in (tmp_path / "made" / "r.html").read_text()
    page = photonflow("inspect", dataset).stdout
    assert "share of bound" in page
    assert done.stdout.splitlines()[0] in page


def part_says(report: Report, name: str) -> str:
    return " ".join(report.parts[name].says)


def test_a_run_without_ceilings_is_reported_without_them(run):
    report = make_report(read_run(run("bare", measured=False), None), only=("stages", "roofline", "time", "ladder"))
    assert report.parts["stages"].picture is not None
    assert "Without all ceilings there is no bound" in part_says(report, "stages")
    assert report.parts["roofline"].picture is None
    assert "were not measured before the run" in part_says(report, "roofline")
    assert "what one costs on this machine was not measured" in part_says(report, "time")
    assert part_says(report, "ladder").startswith("No benchmark's results were given")
    assert dict(report.facts)["of the bound"] == "not measured"


def test_a_run_that_found_nothing_says_so_in_place_of_pictures(run):
    report = make_report(read_run(run("dark", photons=0), None), only=("spectrum", "hit_map", "stages"))
    assert report.parts["stages"].picture is not None
    for name in ("spectrum", "hit_map"):
        assert report.parts[name].picture is None
        assert part_says(report, name) == "No clusters were found, so there is nothing to draw."


def test_a_run_of_one_batch_has_a_timeline(run):
    report = make_report(read_run(run("single"), None), only=("timeline",))
    assert report.parts["timeline"].picture is not None
    assert part_says(report, "timeline") == "1 batch on 1 worker; the row below: rows written."


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
    assert rows[rows.index("find") :] == ["find", "write", "· H2D", "· kernel", "· D2H", "idle"]
    assert "this run used no GPU" not in str(report.parts["stages"].table.rows)
    pictures = {name: report.parts[name].picture.svg.decode() for name in ("stages", "roofline")}
    assert all(name in pictures["roofline"] for name in ("GPU float32", "H2D, pinned"))
    assert "of one GPU" in pictures["stages"]


def test_batches_that_a_worker_has_at_once_lie_in_lanes():
    workers, began = np.array([0, 0, 1, 0, 0, 1]), np.array([0.0, 1.0, 1.5, 3.0, 2.5, 9.0])
    ended = began + np.array([2.0, 5.0, 1.0, 1.0, 9.0, 1.0])
    assert _lanes(workers, began, ended).tolist() == [0, 1, 0, 2, 0, 0]


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


def test_what_a_report_can_not_be_made_of_is_one_sentence(photonflow, tmp_path, run):
    dataset = run("sound")
    assert "is no cluster dataset" in photonflow("report", "nothing.zarr", "--html", "r.html").sentence
    layout = DatasetLayout(
        n_frames=4, first_frame=0, batch_size=4, frame_shape=(8, 9), cluster_size=(3, 3), signal_dtype="int32"
    )
    create_dataset(str(tmp_path / "half.zarr"), layout, {})
    assert "is not finished" in photonflow("report", "half.zarr", "--html", "r.html").sentence
    inside = photonflow("report", dataset, "--png", f"{dataset}/pictures").sentence
    assert "where nothing foreign may lie" in inside
    (tmp_path / "torn.json").write_text("{")
    assert "is not JSON" in photonflow("report", dataset, "--html", "r.html", "--bench", "torn.json").sentence
    (tmp_path / "other.json").write_text('{"ladder": [{"idea": "x"}]}')
    wrong = photonflow("report", dataset, "--html", "r.html", "--bench", "other.json").sentence
    assert "a rung of the benchmark's ladder can't be read" in wrong
    assert not (tmp_path / "r.html").exists()
    assert photonflow("report", dataset).code == 2


def test_float32_loses_the_variance_of_raw_moments_and_keeps_that_around_the_mean():
    errors = cancellation()
    at_moench = list(errors.means).index(4655)
    assert errors.raw[at_moench] > 0.2
    assert errors.lost[at_moench] > 0.05
    assert (errors.centred < 1e-6).all()
    assert errors.raw[0] < 1e-5
