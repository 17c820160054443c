"""The report as slides: one look, every figure from what was measured, and a sentence where nothing was."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workflows import run_figures
from workflows.printable import printable
from workflows.reporting.bench_charts import ladder_chart, rungs, tiny
from workflows.reporting.bench_results import Rung
from workflows.reporting.contents import Report
from workflows.reporting.run_record import AbsentError
from workflows.reporting.style import ACCENT, FAINT, INK, PAGE, look, png
from workflows.reporting.tables import Rows
from workflows.run_figures import microseconds

if TYPE_CHECKING:
    from pptx.presentation import Presentation as Slides
    from pptx.slide import Slide

# Inches, of a slide of 16:9.
WIDTH, HEIGHT, MARGIN = 13.333, 7.5, 0.6
TOP = 1.45  # Of what is below the title.
MOST_TABLE_ROWS = 18

HOW_TO = (
    "pip install 'photonflow[report]'",
    "photonflow simulate demo.zarr --frames 4000",
    "photonflow roofline measure demo.zarr",
    "photonflow process demo.zarr",
    "photonflow inspect demo.clusters.zarr --png pictures",
    "photonflow report demo.clusters.zarr --html report.html",
    "import analysis, xarray as xr",
    "xr.open_zarr('demo.clusters.zarr').photons.spectrum().plot()",
)
KNOBS = Rows(
    ("knob", "choose", "what it costs"),
    [
        (
            "--batch-size",
            "2000; fewer frames for few batches or a pedestal that moves",
            "part of the result; small: a start for each",
        ),
        ("--cpus", "one worker a core", "memory for each; see --dry-run"),
        ("--n-sigma", "5; not below 3 with --noise running", "lower: false clusters, larger output"),
        ("--cluster-size", "3x3; larger for thick sensors", "output and time grow with its area"),
        ("--products, --no-clusters", "when counts are enough", "no list of clusters; nearly no writing"),
        ("--tracking chain", "drift over many batches", "batches one after the other"),
        ("--recentre, --warmup", "a pedestal that has moved", "a warm-up reads its frames twice"),
    ],
)


def require_python_pptx() -> None:
    """Refuse to make slides where there is nothing to make them with.

    Raises:
        RuntimeError: python-pptx is not installed.
    """
    if importlib.util.find_spec("pptx") is None:
        raise RuntimeError("slides need python-pptx, which is not installed: pip install 'photonflow[report]'")


def deck(report: Report) -> bytes:
    """The slides, as a file of PowerPoint's format.

    Raises:
        RuntimeError: python-pptx is not installed.
    """
    require_python_pptx()
    slides = _Deck(report)
    slides.title_slide()
    slides.text_slide("Problem and baseline", _problem(report))
    slides.part_slides("ladder")
    slides.text_slide("Methodology", _methodology(report))
    slides.rung_slides()
    slides.facts_slide("Results", report.facts, report.advice)
    slides.part_slides("stages", "roofline", "time", "timeline")
    slides.part_slides("counts", "spectra", "cancellation", "spectrum", "hit_map", "eta", of="Validation")
    slides.code_slide("How to use it", HOW_TO)
    slides.table_slide("Choosing the knobs, and what each costs", KNOBS)
    if report.left_out:
        slides.text_slide("Not in these slides", [f"{what}. {why}" for what, why in report.left_out], size=16)
    slides.text_slide("Next steps", _next_steps(report))
    return slides.content()


class _Deck:
    def __init__(self, report: Report) -> None:
        from pptx import Presentation

        self._report = report
        self._deck: Slides = Presentation()
        self._deck.slide_width, self._deck.slide_height = _inches(WIDTH), _inches(HEIGHT)

    def content(self) -> bytes:
        content = io.BytesIO()
        self._deck.save(content)
        return content.getvalue()

    def title_slide(self) -> None:
        slide = self._deck.slides.add_slide(self._deck.slide_layouts[6])
        _bar(slide, 0, 2.6, WIDTH, 0.08)
        _write(slide, [self._report.title], (MARGIN, 1.2, WIDTH - 2 * MARGIN, 1.3), size=36, bold=True, bottom=True)
        about = [self._report.advice, self._report.origin]
        _write(slide, about, (MARGIN, 2.9, WIDTH - 2 * MARGIN, 2.5), size=20)

    def text_slide(self, title: str, lines: Sequence[str], size: float = 20) -> None:
        slide = self._slide(title)
        _write(slide, lines, (MARGIN, TOP, WIDTH - 2 * MARGIN, HEIGHT - TOP - 0.8), size=size, gap=10)

    def code_slide(self, title: str, lines: Sequence[str]) -> None:
        slide = self._slide(title)
        _write(
            slide, lines, (MARGIN, TOP, WIDTH - 2 * MARGIN, HEIGHT - TOP - 0.8), size=18, gap=8, font="DejaVu Sans Mono"
        )

    def facts_slide(self, title: str, facts: Sequence[tuple[str, str]], advice: str) -> None:
        slide = self._slide(title)
        _write(slide, [advice], (MARGIN, TOP, WIDTH - 2 * MARGIN, 1.0), size=18, bold=True)
        size = 13 if len(facts) <= 12 else 11
        _table(slide, Rows(("of the run", ""), list(facts)), (MARGIN, TOP + 1.2, WIDTH - 2 * MARGIN), size=size)

    def table_slide(self, title: str, rows: Rows) -> None:
        size = 13 if len(rows.rows) <= 14 else 11
        for first in range(0, max(len(rows.rows), 1), MOST_TABLE_ROWS):
            part = Rows(rows.headings, rows.rows[first : first + MOST_TABLE_ROWS])
            heading = f"{title}, continued" if first else title
            _table(self._slide(heading), part, (MARGIN, TOP, WIDTH - 2 * MARGIN), size=size)

    def part_slides(self, *names: str, of: str = "") -> None:
        """A slide for each of these parts that shows something, under a common heading."""
        for name in names:
            part = self._report.parts.get(name)
            if part is not None and part.picture is not None:
                heading = f"{of}: {part.title[0].lower()}{part.title[1:]}" if of else part.title
                self._picture_slide(heading, part.picture.png, part.says)
                if part.table is not None:
                    # Beside a picture its figures would be too small to be read.
                    self.table_slide(f"{heading}: figures", part.table)

    def _picture_slide(self, title: str, content: bytes, says: Sequence[str]) -> None:
        """The picture at the left, what is said at its right."""
        slide = self._slide(title)
        room = HEIGHT - TOP - 0.7
        left, width = MARGIN, 7.6
        picture = slide.shapes.add_picture(io.BytesIO(content), _inches(left), _inches(TOP), width=_inches(width))
        if picture.height > _inches(room):
            ratio = picture.width / picture.height
            picture.height, picture.width = _inches(room), _inches(room * ratio)
        left = left + width + 0.3
        _write(slide, says, (left, TOP, WIDTH - left - MARGIN, 2.2), size=14, gap=6)

    def rung_slides(self) -> None:
        try:
            steps = rungs(self._report.run)
        except AbsentError:
            return
        for place, step in enumerate(steps):
            lines = [
                f"{microseconds(step.microseconds)} µs a frame, quartiles {microseconds(step.lowest)} to "
                f"{microseconds(step.highest)}.",
                _found(step),
            ]
            if place:
                lines.insert(1, _faster(step, steps[place - 1], steps[0]))
            if about := tiny(self._report.run):
                lines.append(about.strip())
            with look():
                figure = ladder_chart(self._report.run, PAGE, place)
            self._picture_slide(f"Rung {place + 1}: {step.idea}", png(figure), lines)

    def _slide(self, title: str) -> Slide:
        slide: Slide = self._deck.slides.add_slide(self._deck.slide_layouts[6])
        size = 28 if len(title) <= 52 else 20
        _write(slide, [title], (MARGIN, 0.35, WIDTH - 2 * MARGIN, 0.8), size=size, bold=True, bottom=True)
        _bar(slide, MARGIN, 1.18, WIDTH - 2 * MARGIN, 0.05)
        footer = f"{self._report.run.name}    {len(self._deck.slides)}"
        _write(slide, [footer], (MARGIN, HEIGHT - 0.5, WIDTH - 2 * MARGIN, 0.35), size=10, colour=FAINT, right=True)
        return slide


def _found(step: Rung) -> str:
    found = f"{step.clusters:,} clusters in {step.frames:,} frame{'s' * (step.frames != 1)}"
    if step.is_reference and step.identical:
        return f"{found}: what every other rung has to find in them."
    return f"{found}, {'the same as' if step.identical else 'NOT those of'} the reference."


def _faster(step: Rung, before: Rung, first: Rung) -> str:
    of_first = f"{first.microseconds / step.microseconds:,.1f} times as fast as the first rung"
    if before is first:
        return f"{of_first}."
    if step.decodes and not before.decodes:
        return f"{of_first}. It decodes its frames besides, which the rung before had in memory."
    return f"{before.microseconds / step.microseconds:,.2f} times as fast as the rung before, {of_first}."


def _problem(report: Report) -> list[str]:
    run = report.run
    y, x = run.attrs["frame_shape"]
    lines = [
        f"{run.n_frames:,} frames of {y}×{x} pixels, each with photons that light a few neighbouring pixels.",
        f"Wanted: every photon once, with its frame, its pixel and its {run.window[0]}×{run.window[1]} window.",
    ]
    try:
        first = rungs(run)[0]
        conditions = run.bench.conditions if run.bench is not None else ""
        lines.append(
            f"Baseline of the benchmark: {first.idea}, {microseconds(first.microseconds)} µs a frame. It has frames of "
            f"its own, {conditions}: its times compare with each other, and not with this run's.{tiny(run)}"
        )
    except AbsentError as absent:
        lines.append(f"No baseline to compare with. {absent}")
    return lines


def _methodology(report: Report) -> list[str]:
    run = report.run
    lines = [
        "Every stage is timed on the worker that does it; bytes and clusters are checked against archive and dataset.",
        "Ceilings are measured on the same machine, medians of repeats, never taken from a data sheet.",
        "The bound: each stage at its ceiling, what one resource does hidden behind the busiest other.",
    ]
    kept = run.account.get("ceilings")
    lines.append(f"Ceilings measured {kept['measured']}." if kept else "Ceilings were not measured on this machine.")
    return [*lines, f"Versions: {run.attrs.get('versions', 'unknown')}."]


def _next_steps(report: Report) -> list[str]:
    lines = [report.advice]
    if not report.run.account.get("ceilings"):
        lines.append(f"Ceilings were not measured: {run_figures.how_to_know(report.run.account)}.")
    if not report.run.bench:
        lines.append("Run the benchmark, and give its results with --bench.")
    return lines


def _inches(length: float) -> Any:
    from pptx.util import Inches

    return Inches(length)


def _bar(slide: Slide, left: float, top: float, width: float, height: float) -> None:
    from pptx.dml.color import RGBColor
    from pptx.enum.shapes import MSO_SHAPE

    shape = slide.shapes.add_shape(MSO_SHAPE.RECTANGLE, *map(_inches, (left, top, width, height)))
    shape.fill.solid()
    shape.fill.fore_color.rgb = RGBColor.from_string(ACCENT[1:].upper())
    shape.line.fill.background()


def _write(
    slide: Slide,
    lines: Sequence[str],
    place: tuple[float, float, float, float],
    *,
    size: float,
    bold: bool = False,
    colour: str = INK,
    gap: float = 0,
    right: bool = False,
    bottom: bool = False,
    font: str = "DejaVu Sans",
) -> None:
    from pptx.dml.color import RGBColor
    from pptx.enum.text import MSO_ANCHOR, PP_ALIGN
    from pptx.util import Pt

    frame = slide.shapes.add_textbox(*map(_inches, place)).text_frame
    frame.word_wrap = True
    frame.vertical_anchor = MSO_ANCHOR.BOTTOM if bottom else MSO_ANCHOR.TOP
    for number, line in enumerate(lines):
        paragraph = frame.paragraphs[0] if number == 0 else frame.add_paragraph()
        paragraph.text = printable(line)
        paragraph.space_after = Pt(gap)
        paragraph.alignment = PP_ALIGN.RIGHT if right else PP_ALIGN.LEFT
        paragraph.font.size, paragraph.font.bold, paragraph.font.name = Pt(size), bold, font
        paragraph.font.color.rgb = RGBColor.from_string(colour[1:].upper())


def _table(slide: Slide, rows: Rows, place: tuple[float, float, float], size: float = 13) -> None:
    from pptx.dml.color import RGBColor
    from pptx.util import Pt

    shown = rows.rows[:MOST_TABLE_ROWS]
    left, top, width = place
    height = 0.024 * size * (len(shown) + 1)
    shape = slide.shapes.add_table(len(shown) + 1, len(rows.headings), *map(_inches, (left, top, width, height)))
    table = shape.table
    # A long text may take several lines, a number none but its own.
    lengths = [min(max(len(row[k]) for row in (rows.headings, *shown)), 24) + 4 for k in range(len(rows.headings))]
    for k, length in enumerate(lengths):
        table.columns[k].width = _inches(width * length / sum(lengths))
    for i, row in enumerate((rows.headings, *shown)):
        for k, text in enumerate(row):
            cell = table.cell(i, k)
            cell.text = printable(text)
            cell.margin_top = cell.margin_bottom = _inches(0.03)
            cell.margin_left = cell.margin_right = _inches(0.05)
            cell.fill.solid()
            cell.fill.fore_color.rgb = RGBColor.from_string("F2F4F6" if i % 2 or i == 0 else "FFFFFF")
            paragraph = cell.text_frame.paragraphs[0]
            paragraph.font.size, paragraph.font.bold, paragraph.font.name = Pt(size), i == 0, "DejaVu Sans"
            paragraph.font.color.rgb = RGBColor.from_string(INK[1:].upper())
