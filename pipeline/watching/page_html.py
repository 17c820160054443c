"""The parts of the page that are text and bars, as HTML."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from pipeline.watching.page_text import NONE, bytes_in_units, duration, share, whole, widths
from pipeline.watching.run_board import ShownRun
from pipeline.watching.run_state import StageState

# Of more workers those that are slowest are shown.
WORKERS_SHOWN = 24
# A table of more needs a card for each row sooner.
MOST_COLUMNS = 6


@dataclass(frozen=True)
class WorkerOnScheduler:
    """What the scheduler knows of a worker.

    Args:
        name: Its name.
        host: The machine that it is on.
        threads: Its threads.
        memory: Bytes that its process takes.
        memory_limit: Bytes that it may take; 0 is no limit.
        device: What its GPU is called; "" without one.
        device_memory: Bytes in use on the GPU.
        device_limit: Bytes that the GPU has.
    """

    name: str
    host: str
    threads: int
    memory: int
    memory_limit: int
    device: str = ""
    device_memory: int = 0
    device_limit: int = 0


def head(run: ShownRun, now: float) -> str:
    """What the run is, and how far it is."""
    what, state = run.description, run.state
    done = state.frames / what.frames if what.frames else 1.0
    why = f'<div class="why">{escape(state.message)}</div>' if state.message and state.outcome != "complete" else ""
    kept = f" · {whole(what.frames_kept)} of an earlier run" if what.frames_kept else ""
    width = f"{100 * min(done, 1.0):.1f}%"
    return (
        f'<div class="head"><span class="name">{escape(what.name)}</span>{_pill(run)}'
        f'<span class="quiet">run {escape(what.run_id)} · {escape(what.backend)} finder · '
        f"began {time.strftime('%H:%M:%S', time.localtime(what.began))}</span></div>"
        f'<div class="quiet">{escape(what.archive)} → {escape(what.out)}</div>{why}'
        f'<div class="track whole"><i class="{escape(state.outcome)}" style="width:{width}"></i></div>'
        f'<div class="under quiet"><span>{state.frames:,} of {what.frames:,} frames{kept}</span>'
        f"<span>{done:.1%}</span></div>"
    )


def tiles(run: ShownRun, now: float) -> str:
    """The figures of a run."""
    what, state, going = run.description, run.state, run.ended is None
    frames_now, clusters_now = run.rates_now(now)
    frames, clusters = run.rates(now)
    left, seconds = run.seconds_left(now), run.seconds(now)
    retries = sum(run.retries.values())
    failed = f'<span class="{"bad" if state.skipped else ""}">{state.skipped:,} failed</span>'
    batches = f"{len(run.at_work):,} in flight · {failed}"
    if retries:
        batches += f" · {retries:,} begun again"
    each = state.clusters / state.frames if state.frames else float("nan")
    now_or_not = " now" if going else ""
    cells = [
        (f"frames/s{now_or_not}", whole(frames_now if going else frames), f"{whole(frames)} over the run"),
        (f"clusters/s{now_or_not}", whole(clusters_now if going else clusters), f"{whole(clusters)} over the run"),
        ("batches", f"{state.batches - state.skipped:,} of {what.batches:,}", batches),
        ("clusters", whole(state.clusters), f"{each:,.1f} a frame" if state.frames else ""),
        ("pedestal off", widths(state.offset), f"moved {widths(state.movement)} within"),
        (
            ("time left", duration(left), f"{duration(seconds)} so far")
            if going
            else ("took", duration(seconds), f"ended {time.strftime('%H:%M:%S', time.localtime(run.ended))}")
        ),
    ]
    return '<div class="tiles">' + "".join(_tile(*cell) for cell in cells) + "</div>"


def stages(run: ShownRun) -> str:
    """The stages against their ceilings, the tallest marked."""
    state = run.state
    rows = [*state.stages]
    frames = max(state.frames - run.description.frames_kept, 0)
    longest = max((stage.seconds for stage in rows), default=0.0)
    # What waits is as long beside the stages as it was beside them.
    scale = max(longest, state.idle_seconds)
    measured = any(stage.floor_seconds == stage.floor_seconds for stage in rows)
    key = (
        '<span class="key"><i style="background:#4a90d9"></i>at its ceiling</span> '
        '<span class="key"><i style="background:#a5c8ec"></i>beyond</span>'
        if measured
        else "·&nbsp;ceilings are not measured: photonflow roofline measure ARCHIVE"
    )
    body = "".join(_stage(stage, stage.name == state.binds, scale, frames) for stage in rows)
    if longest > 0:
        body += _bar("idle", "stage idle", [("", state.idle_seconds / scale)], _each(state.idle_seconds, frames), "")
    return f"<h3>Stages<small>worker time {key}</small></h3>{body}"


def workers(run: ShownRun, there: Sequence[WorkerOnScheduler], now: float) -> str:
    """What each worker does, and the memory that it takes."""
    known = {worker.name for worker in there}
    there = [*there, *(WorkerOnScheduler(name, "gone", 1, 0, 0) for name in run.state.workers if name not in known)]
    rates = {worker.name: run.worker_rates(worker.name, now) for worker in there}
    shown = sorted(there, key=_order)
    more = ""
    if len(there) > WORKERS_SHOWN:
        shown = sorted(there, key=lambda worker: rates[worker.name][0])[:WORKERS_SHOWN]
        more = f"<small>the {WORKERS_SHOWN} slowest of {len(there):,}</small>"
    fastest = max((frames for frames, _ in rates.values()), default=0.0)
    gpus = any(worker.device for worker in there)
    headings = ["frames/s", "clusters/s", "batches", "busy", "memory", *(["GPU memory"] if gpus else [])]
    rows = []
    for worker in shown:
        totals = run.state.workers.get(worker.name)
        frames, clusters = rates[worker.name]
        busy = totals.busy_seconds / run.seconds(now) / worker.threads if totals and run.seconds(now) > 0 else 0.0
        name = _called(worker)
        cells = [
            whole(frames) + _track(frames / fastest if fastest else 0.0),
            whole(clusters),
            f"{totals.batches:,}" if totals else "0",
            share(min(busy, 1.0)),
            _memory(worker.memory, worker.memory_limit),
        ]
        if gpus:
            cells.append(_memory(worker.device_memory, worker.device_limit) if worker.device else NONE)
        rows.append([name, *cells])
    title = "Workers and GPUs" if gpus else "Workers"
    return f"<h3>{title}{more}</h3>{table(['worker', *headings], rows)}"


def earlier(runs: Iterable[ShownRun], now: float) -> str:
    """Runs that have ended, a line each."""
    rows = []
    for run in runs:
        frames, _ = run.rates(now)
        ended = "" if run.ended is None else time.strftime("%H:%M:%S", time.localtime(run.ended))
        rows.append(
            [
                f"{escape(run.description.name)} {_pill(run)} <span class='quiet'>{escape(run.state.message)}</span>",
                f"{run.state.frames:,} of {run.description.frames:,}",
                whole(run.state.clusters),
                whole(frames),
                duration(run.seconds(now)),
                ended,
            ]
        )
    return f"<h3>Other runs</h3>{table(['run', 'frames', 'clusters', 'frames/s', 'took', 'ended'], rows)}"


def nothing() -> str:
    """What is shown before the first run."""
    return "<h3>No run yet</h3><div class='quiet'>Runs that use this scheduler appear here by themselves.</div>"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of HTML cells, the first column to the left; where it has no room, a card for each row."""

    def line(tag: str, cells: Sequence[str]) -> str:
        first, *others = cells
        figures = (f'<{tag} data-of="{of}">{cell}</{tag}>' for of, cell in zip(headings[1:], others, strict=True))
        return f'<tr><{tag} class="left">{first}</{tag}>{"".join(figures)}</tr>'

    body = f"<thead>{line('th', headings)}</thead><tbody>{''.join(line('td', row) for row in rows)}</tbody>"
    return f'<table class="{"wide" if len(headings) > MOST_COLUMNS else ""}">{body}</table>'


def _called(worker: WorkerOnScheduler) -> str:
    """A worker, by its address where it has no name, and where it is: its GPU, or its machine if that was not said."""
    name = worker.name.rpartition("://")[2]
    where = worker.device or ("" if worker.host in name else worker.host)
    return f"{escape(name)} <span class='quiet'>{escape(where)}</span>" if where else escape(name)


def _pill(run: ShownRun) -> str:
    word = run.state.outcome or "running"
    return f'<span class="pill {escape(word)}">{escape(word)}</span>'


def _tile(label: str, figure: str, below: str) -> str:
    return (
        f'<div class="tile"><span class="label">{label}</span><b>{figure}</b><span class="quiet">{below}</span></div>'
    )


def _stage(stage: StageState, binds: bool, longest: float, frames: int) -> str:
    scale = longest or 1.0
    bars = [("", stage.seconds / scale)]
    said = "ceiling not measured" if stage.seconds else "nothing yet"
    if stage.seconds and stage.floor_seconds == stage.floor_seconds:
        bars.append(("floor", stage.floor_seconds / scale))
        said = f"{share(stage.share_of_ceiling)} of {escape(stage.ceiling)}"
    mark = '<span class="binds">◀ binds</span> · ' if binds else ""
    kind = f"stage{' tallest' * binds}{' inner' * bool(stage.within)}"
    return _bar(stage.name, kind, bars, mark + _each(stage.seconds, frames), said)


def _bar(name: str, kind: str, bars: Sequence[tuple[str, float]], said: str, below: str) -> str:
    filled = "".join(f'<i class="{which}" style="width:{100 * min(max(part, 0), 1):.1f}%"></i>' for which, part in bars)
    below = f'<br><span class="quiet">{below}</span>' if below else ""
    return (
        f'<div class="{kind}"><span>{escape(name)}</span><div class="track">{filled}</div>'
        f"<span>{said}{below}</span></div>"
    )


def _each(seconds: float, frames: int) -> str:
    if not frames:
        return NONE
    each = seconds / frames * 1e6
    return f"{each:,.1f} µs a frame" if each < 1000 else f"{each / 1000:,.2f} ms a frame"


def _track(part: float, kind: str = "") -> str:
    return f'<span class="track"><i class="{kind}" style="width:{100 * min(max(part, 0.0), 1.0):.0f}%"></i></span>'


def _memory(used: int, limit: int) -> str:
    if not used:
        return NONE
    return bytes_in_units(used) + (_track(used / limit, "memory") if limit else "")


def _order(worker: WorkerOnScheduler) -> tuple[int, str]:
    return (int(worker.name), "") if worker.name.isdigit() else (1 << 62, worker.name)
