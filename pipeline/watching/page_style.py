"""How the page looks."""

ACCENT = "#d9480f"
FRAMES = "#1c7ed6"
CLUSTERS = "#0b7285"
PEDESTAL = "#7048e8"
INK = "#212529"
QUIET = "#868e96"
LINES = "#e9ecef"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"

# A table with no room for its columns: each row a card, each figure under what it is.
_AS_CARDS = """
  {table} thead {{ display: none; }}
  {table}, {table} tbody {{ display: block; }}
  {table} tr {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(78px, 1fr)); gap: 4px 12px;
    padding: 8px 0; border-top: 1px solid #e9ecef; }}
  {table} td {{ display: block; text-align: left; padding: 0; border: 0; white-space: normal;
    overflow-wrap: anywhere; }}
  {table} td.left {{ grid-column: 1 / -1; }}
  {table} td[data-of]::before {{ content: attr(data-of); display: block; font-size: 12px; color: #868e96; }}
  {table} td .track {{ display: block; width: 100%; margin: 3px 0 0; }}
"""

CSS = f"""
:host {{ font-family: {FONT}; color: {INK}; font-size: 14px; line-height: 1.35; width: 100%;
  container-type: inline-size; }}
.bk-clearfix {{ width: 100%; }}
* {{ box-sizing: border-box; }}
.head {{ display: flex; align-items: baseline; gap: 12px; flex-wrap: wrap; }}
.name {{ font-size: 22px; font-weight: 650; letter-spacing: -0.01em; overflow-wrap: anywhere; }}
.pill {{ font-size: 12px; font-weight: 600; border-radius: 999px; padding: 2px 10px; color: white; }}
.running {{ background: {FRAMES}; }} .complete {{ background: #2b8a3e; }}
.stopped {{ background: #e67700; }} .failed, .lost {{ background: #c92a2a; }}
.quiet {{ color: {QUIET}; font-size: 12.5px; overflow-wrap: anywhere; }}
.why {{ color: #c92a2a; font-size: 13px; margin-top: 4px; overflow-wrap: anywhere; }}
.track {{ position: relative; height: 8px; border-radius: 4px; background: {LINES}; overflow: hidden; }}
.track > i {{ position: absolute; left: 0; top: 0; bottom: 0; border-radius: 4px; background: {FRAMES}; }}
.track > i.complete {{ background: #2b8a3e; }} .track > i.stopped {{ background: #e67700; }}
.track > i.failed, .track > i.lost {{ background: #c92a2a; }} .track > i.memory {{ background: #adb5bd; }}
.whole {{ margin-top: 10px; height: 10px; border-radius: 5px; }}
.under {{ display: flex; justify-content: space-between; margin-top: 4px; }}
.under > span:last-child {{ flex: none; }}
.tiles {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: 12px; margin-top: 14px; }}
.tile {{ border: 1px solid {LINES}; border-radius: 10px; padding: 10px 14px; background: white; }}
.tile b {{ display: block; font-size: 24px; font-weight: 620; letter-spacing: -0.02em;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }}
.tile .label {{ font-size: 12px; color: {QUIET}; font-weight: 600; }}
.bad {{ color: #c92a2a; font-weight: 600; }}
h3 {{ font-size: 14px; font-weight: 650; margin: 0 0 10px; }}
h3 small {{ font-weight: 400; color: {QUIET}; font-size: 12.5px; margin-left: 8px; }}
.stage {{ display: grid; grid-template-columns: 84px 1fr 300px; gap: 12px; align-items: center; margin: 7px 0; }}
.stage .track {{ height: 20px; }}
.stage .track > i {{ background: #a5c8ec; }}
.stage .track > i.floor {{ background: #4a90d9; }}
.stage.tallest .track > i {{ background: #fdc9ae; }}
.stage.tallest .track > i.floor {{ background: {ACCENT}; }}
.stage.inner > span:first-child {{ padding-left: 14px; color: {QUIET}; }} .stage.inner .track {{ height: 12px; }}
.stage.idle .track > i {{ background: #ced4da; }}
.stage .binds {{ color: {ACCENT}; font-weight: 650; }}
.stage > span {{ font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }}
.key {{ display: inline-block; white-space: nowrap; margin-left: 10px; }}
.key i {{ display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 4px; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th {{ text-align: right; font-size: 12px; font-weight: 600; color: {QUIET}; padding: 3px 7px;
  border-bottom: 1px solid {LINES}; }}
td {{ text-align: right; padding: 4px 7px; border-bottom: 1px solid #f1f3f5; white-space: nowrap; }}
th.left, td.left {{ text-align: left; white-space: normal; overflow-wrap: anywhere; }}
td .track {{ display: inline-block; width: 48px; vertical-align: middle; margin-left: 8px; }}
@container (max-width: 550px) {{
  .stage {{ grid-template-columns: 70px minmax(0, 1fr); gap: 4px 12px; }}
  .stage > span:last-child {{ grid-column: 1 / -1; }}
  .tiles {{ grid-template-columns: repeat(2, minmax(0, 1fr)); }}
  .tile {{ padding: 9px 10px; }} .tile b {{ font-size: 19px; }}
  {_AS_CARDS.format(table="table")}
}}
@container (max-width: 700px) {{
  {_AS_CARDS.format(table="table.wide")}
}}
"""

HALF = {"flex": "1 1 420px", "min-width": "0"}
CHART = {"flex": "1 1 300px", "min-width": "0"}
CHARTS = {"flex-wrap": "wrap", "margin-top": "12px"}
HALVES = {"gap": "32px", "flex-wrap": "wrap", "margin-top": "14px"}
CARD = {
    "background-color": "white",
    "border": f"1px solid {LINES}",
    "border-radius": "12px",
    "padding": "14px 18px",
}
