"""The page ``/photonflow`` in a real browser, while real runs go on."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import pytest

from pipeline import ClusterConfig, RunOptions, execute, open_cluster, prepare
from pipeline.watching.page_html import WorkerOnScheduler, stages, workers
from pipeline.watching.page_text import share, times_on_axis, widths
from pipeline.watching.run_board import ShownRun
from pipeline.watching.run_state import RunDescription, RunState, StageState, WorkerTotals
from pipeline.watching.scheduler_plugin import board_of


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright, which drives the browser, is not there")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no Chromium to open the page with (Debian: apt install chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="module")
def client():
    with open_cluster(ClusterConfig(workers=2, dashboard_address="127.0.0.1:0")) as client:
        yield client


class HeldRun:
    """A run that is held after a number of batches, until it is let go on."""

    def __init__(self, archive, client, after):
        self._archive, self._client, self._after = archive, client, after
        self.held, self.go_on = Event(), Event()

    def __call__(self):
        try:
            prepared = prepare(RunOptions(self._archive.path, batch_size=10))
            return execute(prepared, self._client, on_progress=self._hold)
        finally:
            self.held.set()

    def _hold(self, progress):
        if progress.batches == self._after:
            self.held.set()
            assert self.go_on.wait(120)


def patient_expect():
    """Playwright's, which waits for what is to come for as long as a slow machine takes."""
    from playwright.sync_api import expect

    expect.set_options(timeout=60_000)
    return expect


@pytest.mark.slow
def test_the_page_shows_runs_as_they_go_on_and_how_they_ended(client, make_archive, browser):
    expect = patient_expect()
    # The first batch's report is sent at once, and what is shown of a run that is held there stays as it is.
    runs = [HeldRun(make_archive(name=f"scan-{k}.zarr", seed=k), client, after=1) for k in (1, 2)]
    link = client.dashboard_link
    shown = browser.new_page(viewport={"width": 1500, "height": 1100})
    complaints = []
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    with ThreadPoolExecutor(2) as threads:
        results = [threads.submit(run) for run in runs]
        try:
            for run in runs:
                assert run.held.wait(120)
            shown.goto(link.replace("/status", "/photonflow"))
            for k in (1, 2):
                expect(shown.locator(".name", has_text=f"scan-{k}")).to_be_visible()
            expect(shown.locator(".pill.running")).to_have_count(2)
            expect(shown.locator(".tile", has_text="batches")).to_contain_text(["1 of 10", "1 of 10"])
            expect(shown.locator(".under")).to_contain_text(["10 of 97 frames", "10 of 97 frames"])
            stages = ["read", "decode", "find", "write", "idle"]
            expect(shown.locator(".stage > span:first-child")).to_have_text(stages * 2)
            expect(shown.locator(".stage.tallest")).to_have_count(2)
            expect(shown.locator("tr", has_text=re.compile(r"^[01] 127"))).to_have_count(4)
            expect(shown.locator("canvas").nth(5)).to_be_attached()
            # The stock pages have a link to it.
            assert shown.request.get(link).text().count('href="photonflow"') == 1
        finally:
            for run in runs:
                run.go_on.set()
        done = [result.result() for result in results]
    # The last to begin stays in full, the others become a line.
    expect(shown.locator(".pill.complete")).to_have_count(2)
    expect(shown.locator(".name")).to_have_count(1)
    expect(shown.locator("td.left", has_text="scan-")).to_have_count(1)
    expect(shown.locator(".under")).to_contain_text("97 of 97 frames")
    assert complaints == []
    assert [result.summary.frames for result in done] == [97, 97]
    shown.close()


DESCRIPTION = RunDescription(
    "0123abcd", "wide-" + 20 * "w", "archive.zarr", "out.zarr", "cpu", began=0.0, frames=2_000_000_000, batches=100_000
)
STATE = RunState(
    frames=1_999_999_999,
    clusters=122_542_654_321,
    batches=99_999,
    skipped=1234,
    offset=-12.345,
    movement=-23.456,
    idle_seconds=40.0,
    stages=(StageState("find", 10.0, 1_000_000, "decode uint16 20×512×1024 bytes+blosc-lz4-bitshuffle+crc32c", 5.0),),
    binds="find",
    workers={"tcp://127.0.0.1:38861": WorkerTotals(999_999_999, 61_271_327_160, 49_999, 1e6)},
    outcome="stopped",
    message="49999 of 100000 batches were found",
)


def put_wide_runs(dask_scheduler):
    board = board_of(dask_scheduler)
    for run_id in ("first", "second"):
        board.begin(replace(DESCRIPTION, run_id=run_id))
        board.take(run_id, STATE.as_message())


# All that sticks out of the card that it is in, or is cut there. Of a chart only the legend counts.
WIDER_THAN_ITS_CARD = """
() => {
  const wider = [];
  const look = (root, right, looksAt) => {
    for (const element of root.children) {
      const box = element.getBoundingClientRect(), style = getComputedStyle(element);
      const isCut = style.overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1;
      const classes = element.classList;
      const looks = classes.contains("bk-Figure") ? false : classes.contains("bk-Legend") ? true : looksAt;
      if (looks && box.width > 0 && (box.right > right + 1 || isCut)) wider.push(element.outerHTML.slice(0, 200));
      const isCard = style.borderRightWidth !== "0px" && style.borderLeftWidth !== "0px";
      const inner = isCard ? box.right - parseFloat(style.paddingRight) : right;
      look(element, inner, looks);
      if (element.shadowRoot) look(element.shadowRoot, inner, looks);
    }
  };
  look(document.body, innerWidth, true);
  return wider;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [375, 1280])
def test_nothing_is_wider_than_its_card(client, browser, width):
    expect = patient_expect()
    client.run_on_scheduler(put_wide_runs)
    shown = browser.new_page(viewport={"width": width, "height": 900})
    shown.goto(client.dashboard_link.replace("/status", "/photonflow"))
    expect(shown.locator(".name")).to_have_text(DESCRIPTION.name)
    expect(shown.locator(".stage")).to_have_count(2)
    expect(shown.locator("canvas").nth(2)).to_be_attached()
    assert shown.evaluate(WIDER_THAN_ITS_CARD) == []
    # On a phone each row of a table is a card, with what its figures are.
    expect(shown.locator("thead").first).to_be_visible(visible=width > 375)
    expect(shown.locator("td[data-of=batches]").filter(has_text="49,999")).to_have_count(1)
    shown.close()


def test_a_worker_without_a_name_is_told_by_its_address_once():
    run = ShownRun(DESCRIPTION)
    nameless = WorkerOnScheduler("tcp://127.0.0.1:38861", "127.0.0.1", threads=1, memory=0, memory_limit=0)
    assert re.findall(r'<td class="left">(.*?)</td>', workers(run, [nameless], now=1.0)) == ["127.0.0.1:38861"]
    on_a_gpu, named = replace(nameless, device="H200"), replace(nameless, name="7")
    told = re.findall(r'<td class="left">(.*?)</td>', workers(run, [on_a_gpu, named], now=1.0))
    assert [re.sub("<.*?>", "", each) for each in told] == ["7 127.0.0.1", "127.0.0.1:38861 H200"]


def test_waiting_is_drawn_as_long_as_the_stages_are():
    run = ShownRun(DESCRIPTION)
    run.take(STATE, now=1.0)
    assert re.findall(r"width:([\d.]+)%", stages(run)) == ["25.0", "12.5", "100.0"]
    run.take(replace(STATE, idle_seconds=2.5), now=2.0)
    assert re.findall(r"width:([\d.]+)%", stages(run)) == ["100.0", "50.0", "25.0"]


@pytest.mark.parametrize("seconds", [1.0, 1.3, 4.9, 9, 39, 59.9, 60, 61, 600, 3599, 3600, 5400, 86_400, 172_799, 2e6])
def test_no_two_marks_of_an_axis_are_alike(seconds):
    marks = times_on_axis(seconds)
    assert 2 <= len(marks) <= 6
    assert len(set(marks.values())) == len(marks)
    assert min(marks) == 0
    assert seconds / 2 < max(marks) <= seconds


def test_times_on_an_axis_have_their_unit():
    assert list(times_on_axis(1.3).values()) == ["0.0 s", "0.5 s", "1.0 s"]
    assert list(times_on_axis(39).values()) == ["0 s", "10 s", "20 s", "30 s"]
    assert list(times_on_axis(130).values()) == ["0:00 min", "0:30 min", "1:00 min", "1:30 min", "2:00 min"]
    assert list(times_on_axis(5400).values()) == ["0:00 h", "0:30 h", "1:00 h", "1:30 h"]
    assert list(times_on_axis(3.5 * 86_400).values()) == ["0 d", "1 d", "2 d", "3 d"]


def test_small_figures_are_told_as_such():
    assert (widths(-0.0002), widths(-0.0312)) == ("+0.000 σ", "-0.031 σ")
    assert (share(0.0), share(0.001), share(0.31)) == ("0%", "under 1%", "31%")
