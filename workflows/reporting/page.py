"""The report as one HTML file: nothing is loaded from anywhere, to be read on a phone, on a screen and on paper.

Each picture is in it twice, as wide as a page and as wide as a phone, on which tables of many columns are cards.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from workflows.printable import printable
from workflows.reporting.contents import Part, Picture, Report
from workflows.reporting.style import smallest
from workflows.reporting.tables import Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Tables of more columns than these are cards on a phone.
_MOST_COLUMNS = 4
_LONG = 20
_STYLE = """
:root { color: #1b2a3a; background: #fff; font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.2rem; border-top: 3px solid #c8102e; padding-top: 0.5rem; margin: 2.2rem 0 0.5rem; }
.advice { background: #f2f4f6; border-left: 4px solid #c8102e; padding: 0.7rem 1rem; margin: 1rem 0; font-weight: 600; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: 0.6rem; margin: 1rem 0; }
.facts div { background: #f2f4f6; padding: 0.5rem 0.7rem; }
.facts div:last-child { grid-column: 1 / -1; }
.facts dt { color: #55636f; font-size: 0.8rem; }
.facts dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
nav { font-size: 0.9rem; } nav a { color: #1f5fa8; margin-right: 0.9rem; display: inline-block; line-height: 2; }
figure { margin: 0.8rem 0; }
figure img { display: block; width: 100%; max-width: 46rem; height: auto; }
table { border-collapse: collapse; font-size: 0.88rem; margin: 0.6rem 0; }
th, td { text-align: left; padding: 0.25rem 0.8rem 0.25rem 0; border-bottom: 1px solid #d8dde2; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
td:last-child, th:last-child { padding-right: 0; }
.absent dt { font-weight: 600; margin-top: 0.6rem; }
.absent dd { margin: 0; }
footer { color: #55636f; font-size: 0.8rem; margin-top: 2.5rem; }
@media screen and (max-width: 40rem) {
  .facts { grid-template-columns: repeat(auto-fill, minmax(7.5rem, 1fr)); }
  table { width: 100%; table-layout: fixed; font-size: 0.82rem; }
  th:first-child { width: 31%; }
  th, td { padding-right: 0.25rem; }
  th { font-size: 0.72rem; }
  td.number { white-space: normal; }
  .cards thead { display: none; }
  .cards, .cards tbody, .cards tr, .cards td { display: block; }
  .cards tr { border: 1px solid #d8dde2; padding: 0.4rem 0.7rem; margin-bottom: 0.6rem; }
  .cards td, .cards td.number { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: 0.1rem 0;
    text-align: right; overflow-wrap: anywhere; }
  .cards td::before { content: attr(data-label); color: #55636f; text-align: left; flex: none; }
  .cards td:first-child { font-weight: 700; text-align: left; } .cards td:first-child::before { content: none; }
  .cards td:empty { display: none; }
}
@page { margin: 15mm; }
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  nav { display: none; }
  section, figure, tr { break-inside: avoid; } h2 { break-after: avoid; }
  figure img { width: auto; max-width: 15cm; max-height: 20cm; }
  table { font-size: 8pt; }
  .advice, .facts div { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def page(report: Report) -> str:
    """The whole file."""
    facts = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(said)}</dd></div>" for name, said in report.facts)
    parts = "\n".join(_part(name, part) for name, part in report.parts.items())
    links = "".join(f'<a href="#{name}">{_text(part.title)}</a>' for name, part in report.parts.items())
    left_out = "".join(f"<dt>{_text(what)}</dt><dd>{_text(why)}</dd>" for what, why in report.left_out)
    attrs = report.run.attrs
    runs = str(attrs.get("history", "")).splitlines()
    origin = "<br>".join(map(_text, (*runs, f"{attrs.get('versions', '')} · digest {attrs.get('digest', '')}")))
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
<nav>{links}</nav>
</header>
<main>
{parts}
{f'<section id="absent"><h2>Not in this report</h2><dl class="absent">{left_out}</dl></section>' if left_out else ""}
</main>
<footer>{origin}<br>Report written {written}.</footer>
</body>
</html>
"""


def _part(name: str, part: Part) -> str:
    said = "".join(f"<p>{_text(sentence)}</p>" for sentence in part.says)
    picture = "" if part.picture is None else _figure(part.picture)
    table = "" if part.table is None else _table(part.table)
    return f'<section id="{name}"><h2>{_text(part.title)}</h2>{said}{picture}{table}</section>'


def _figure(picture: Picture) -> str:
    # On paper there is the width of a page, however narrow the screen that it is printed from.
    return (
        f'<figure><picture><source media="screen and (max-width: 40rem)" srcset="{_data(picture.for_phone)}">'
        f'<img alt="{_text(picture.alt)}" src="{_data(picture.figure)}"></picture></figure>'
    )


def _data(figure: Figure) -> str:
    kind, content = smallest(figure)
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _table(rows: Rows) -> str:
    numbers = [all(_is_number(row[k]) for row in rows.rows) for k in range(len(rows.headings))]
    kinds = [' class="number"' * number for number in numbers]
    head = "".join(f"<th{kind}>{_text(cell)}</th>" for kind, cell in zip(kinds, rows.headings, strict=True))
    body = "".join(f"<tr>{_line(rows.headings, kinds, row)}</tr>" for row in rows.rows)
    cards = ' class="cards"' * (len(rows.headings) > _MOST_COLUMNS)
    return f"<table{cards}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _line(headings: Sequence[str], kinds: Sequence[str], row: Sequence[str]) -> str:
    cells = zip(headings, kinds, row, strict=True)
    return "".join(f'<td{kind} data-label="{_text(name)}">{_breakable(cell)}</td>' for name, kind, cell in cells)


def _breakable(text: str) -> str:
    """The text with places where a long name of codecs or files may be broken."""
    cell = _text(text)
    return cell if len(text) < _LONG else cell.replace("+", "+<wbr>").replace("/", "/<wbr>")


def _is_number(text: str) -> bool:
    return text in ("", "–", "not measured") or text.lstrip("×+-")[:1].isdigit()


def _text(text: str) -> str:
    return escape(printable(text))
