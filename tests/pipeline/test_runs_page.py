"""The page ``/photonflow`` in a real browser, while real runs go on."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from pipeline import ClusterConfig, RunOptions, execute, open_cluster, prepare


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
