"""The report as one HTML file: nothing is loaded from anywhere, to be read on a phone, on a screen and on paper."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from html import escape

from workflows.printable import printable
from workflows.reporting.contents import Part, Picture, Report, Rows

_STYLE = """
:root { color: #1b2a3a; background: #fff; font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; border-top: 3px solid #c8102e; padding-top: 0.5rem; margin: 2.2rem 0 0.5rem; }
.advice { background: #f2f4f6; border-left: 4px solid #c8102e; padding: 0.7rem 1rem; margin: 1rem 0; font-weight: 600; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 0.6rem; margin: 1rem 0; }
.facts div { background: #f2f4f6; padding: 0.5rem 0.7rem; }
.facts dt { color: #55636f; font-size: 0.8rem; }
.facts dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
figure { margin: 0.8rem 0; overflow-x: auto; }
figure img { display: block; width: 100%; max-width: 46rem; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.88rem; margin: 0.6rem 0; }
th, td { text-align: left; padding: 0.25rem 0.8rem 0.25rem 0; border-bottom: 1px solid #d8dde2; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
footer { color: #55636f; font-size: 0.8rem; margin-top: 2.5rem; overflow-wrap: anywhere; }
@media (max-width: 40rem) { figure img { min-width: 30rem; } }
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  section { break-inside: avoid; }
  figure, .scroll { overflow: visible; }
  figure img { min-width: 0; max-width: 15cm; }
  table { font-size: 8pt; }
  .advice, .facts div { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def page(report: Report) -> str:
    """The whole file."""
    facts = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(said)}</dd></div>" for name, said in report.facts)
    parts = "\n".join(_part(name, part) for name, part in report.parts.items())
    attrs = report.run.attrs
    origin = f"{attrs.get('history', '')} · {attrs.get('versions', '')} · digest {attrs.get('digest', '')}"
    written = datetime.now(UTC).isoformat(timespec="seconds")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{_text(report.title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>{_text(report.title)}</h1>
<p class="advice">{_text(report.advice)}</p>
<dl class="facts">{facts}</dl>
</header>
<main>
{parts}
</main>
<footer>{_text(origin)}<br>Report written {written}.</footer>
</body>
</html>
"""


def _part(name: str, part: Part) -> str:
    said = "".join(f"<p>{_text(sentence)}</p>" for sentence in part.says)
    picture = "" if part.picture is None else _figure(part.picture)
    table = "" if part.table is None else _table(part.table)
    return f'<section id="{name}"><h2>{_text(part.title)}</h2>{said}{picture}{table}</section>'


def _figure(picture: Picture) -> str:
    # A map is an image of its pixels either way, and as SVG many times larger.
    kind, content = ("png", picture.png) if len(picture.svg) > 2 * len(picture.png) else ("svg+xml", picture.svg)
    encoded = base64.b64encode(content).decode()
    return f'<figure><img alt="{_text(picture.alt)}" src="data:image/{kind};base64,{encoded}"></figure>'


def _table(rows: Rows) -> str:
    numbers = [all(_is_number(row[k]) for row in rows.rows) for k in range(len(rows.headings))]

    def line(tag: str, cells: tuple[str, ...]) -> str:
        kinds = (' class="number"' * number for number in numbers)
        return "".join(f"<{tag}{kind}>{_text(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows.rows)
    head = f"<thead><tr>{line('th', rows.headings)}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'


def _is_number(text: str) -> bool:
    return text in ("", "–", "not measured") or text.lstrip("×+-")[:1].isdigit()


def _text(text: str) -> str:
    return escape(printable(text))
