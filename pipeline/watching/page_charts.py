"""The page's charts: what was reached over the time of a run, and how its pedestal fared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bokeh.models import (
    BasicTicker,
    ColumnDataSource,
    CustomJSTickFormatter,
    FixedTicker,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
    TickFormatter,
)
from bokeh.models.annotations.geometry import Span
from bokeh.models.annotations.labels import Title
from bokeh.plotting import figure

from pipeline.watching import page_style
from pipeline.watching.page_text import times_on_axis
from pipeline.watching.run_board import SECONDS_OF_NOW, Point, ShownRun

HEIGHT = 210
# Room for half a label, where the last time stands under the end of the axis.
RIGHT = 28
# Bokeh's own format of large numbers calls a million "m".
_WITH_PREFIXES = """
const [factor, prefix] = [[1e9, " G"], [1e6, " M"], [1e3, " k"], [1, ""]].find(([least]) => tick >= least) ?? [1, ""];
return Number((tick / factor).toPrecision(3)) + prefix;
"""


class RateChart:
    """Frames or clusters a second over the time of a run, with the rate of the whole run.

    Args:
        title: What is drawn.
        color: In which colour.
        of_clusters: Clusters; else frames.
    """

    def __init__(self, title: str, color: str, of_clusters: bool) -> None:
        self._of_clusters = of_clusters
        self._source = ColumnDataSource({"time": [], "rate": []})
        self.figure = _figure(title, CustomJSTickFormatter(code=_WITH_PREFIXES))
        self.figure.varea("time", 0, "rate", source=self._source, fill_color=color, fill_alpha=0.12)
        line = self.figure.line("time", "rate", source=self._source, line_color=color, line_width=2)
        self._mean = Span(
            dimension="width", location=0, line_color=page_style.QUIET, line_dash="dashed", line_width=1, visible=False
        )
        self.figure.add_layout(self._mean)
        self.figure.add_tools(_hover(line, "@rate{0,0}"))

    def update(self, run: ShownRun, now: float) -> None:
        """Draw what is known now."""
        began = run.description.began
        values = [(point.time - began, point.clusters if self._of_clusters else point.frames) for point in run.points]
        times, rates = rates_of(values)
        self._source.data = {"time": times, "rate": rates}
        mean = run.rates(now)[self._of_clusters]
        self._mean.location, self._mean.visible = mean, mean > 0
        _extend(self.figure, run, now)
        self.figure.y_range.end = 1.15 * max([*rates, mean, 1e-9])


class PedestalChart:
    """The pedestal's offset before each batch, and its movement within, in noise widths."""

    def __init__(self) -> None:
        self._source = ColumnDataSource({"time": [], "offset": [], "movement": []})
        self.figure = _figure("Pedestal, noise widths", NumeralTickFormatter(format="+0.00"))
        style: dict[str, Any] = {"source": self._source, "line_width": 2}
        offset = self.figure.line("time", "offset", line_color=page_style.PEDESTAL, legend_label="off before", **style)
        self.figure.line(
            "time",
            "movement",
            line_color=page_style.QUIET,
            line_dash="dotted",
            legend_label="moved within",
            **style,
        )
        self.figure.add_tools(_hover(offset, "@offset{+0.000} off, @movement{+0.000} moved"))
        legend = self.figure.legend[0]
        legend.location, legend.orientation = "top_left", "horizontal"
        # So narrow that it fits beside the axis on a phone.
        legend.margin, legend.glyph_width, legend.spacing = 4, 14, 8
        legend.border_line_color, legend.background_fill_color, legend.padding = None, "white", 0
        legend.label_text_font_size, legend.label_text_color = "11px", page_style.QUIET

    def update(self, run: ShownRun, now: float) -> None:
        """Draw what is known now."""
        points = [point for point in run.points if point.offset == point.offset]
        self._source.data = {
            "time": [point.time - run.description.began for point in points],
            "offset": [point.offset for point in points],
            "movement": [point.movement for point in points],
        }
        _extend(self.figure, run, now)
        largest = max([0.25, *(abs(value) for point in points for value in _finite(point))])
        self.figure.y_range.start, self.figure.y_range.end = -1.1 * largest, 1.4 * largest


def rates_of(values: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Rates at each time but the first, over :data:`SECONDS_OF_NOW` before it, or since the last time before that."""
    times, rates = [], []
    since = 0
    for place in range(1, len(values)):
        time, value = values[place]
        while since + 1 < place and time - values[since + 1][0] >= SECONDS_OF_NOW:
            since += 1
        seconds = time - values[since][0]
        times.append(time)
        rates.append((value - values[since][1]) / seconds if seconds > 0 else 0.0)
    return times, rates


def _figure(title: str, formatter: TickFormatter) -> Any:
    options: dict[str, Any] = {
        "title": Title(text=title, text_font=page_style.FONT, text_font_size="14px", text_color=page_style.INK),
        "tools": "",
        "x_range": Range1d(start=0, end=1),
        "y_range": Range1d(start=0, end=1),
        "styles": page_style.CHART,
    }
    drawn = figure(height=HEIGHT, sizing_mode="stretch_width", toolbar_location=None, min_border_right=RIGHT, **options)
    drawn.outline_line_color = None
    drawn.background_fill_color = drawn.border_fill_color = "white"
    drawn.xgrid.grid_line_color, drawn.ygrid.grid_line_color = None, page_style.LINES
    drawn.yaxis.formatter = formatter
    for axis in (drawn.xaxis, drawn.yaxis):
        axis.axis_line_color = axis.major_tick_line_color = page_style.LINES
        axis.minor_tick_line_color = None
        axis.major_label_text_color, axis.major_label_text_font_size = page_style.QUIET, "11px"
    drawn.xaxis.ticker, drawn.yaxis.ticker = FixedTicker(ticks=[]), BasicTicker(desired_num_ticks=5)
    return drawn


def _hover(line: Any, said: str) -> HoverTool:
    return HoverTool(renderers=[line], tooltips=f"{said} after @time{{00:00:00}}", mode="vline")


def _extend(drawn: Any, run: ShownRun, now: float) -> None:
    seconds = max(run.seconds(now), 1.0)
    marks = times_on_axis(seconds)
    drawn.x_range.end = seconds
    # The labels first: there is none without its text then.
    drawn.xaxis.major_label_overrides = marks
    drawn.xaxis.ticker.ticks = list(marks)


def _finite(point: Point) -> list[float]:
    return [value for value in (point.offset, point.movement) if value == value]
