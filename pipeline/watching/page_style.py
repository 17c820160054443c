"""How the page looks."""

ACCENT = "#d9480f"
FRAMES = "#1c7ed6"
CLUSTERS = "#0b7285"
PEDESTAL = "#7048e8"
INK = "#212529"
QUIET = "#868e96"
LINES = "#e9ecef"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"

CSS = f"""
:host {{ font-family: {FONT}; color: {INK}; font-size: 14px; line-height: 1.35; width: 100%; }}
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
.tiles {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); gap: 12px; margin-top: 14px; }}
.tile {{ border: 1px solid {LINES}; border-radius: 10px; padding: 10px 14px; background: white; }}
.tile b {{ display: block; font-size: 24px; font-weight: 620; letter-spacing: -0.02em;
  font-variant-numeric: tabular-nums; white-space: nowrap; }}
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
.stage > span {{ font-variant-numeric: tabular-nums; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }}
.key {{ display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 4px 0 10px; }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }}
th {{ text-align: right; font-size: 12px; font-weight: 600; color: {QUIET}; padding: 3px 10px;
  border-bottom: 1px solid {LINES}; }}
td {{ text-align: right; padding: 4px 10px; border-bottom: 1px solid #f1f3f5; white-space: nowrap; }}
th.left, td.left {{ text-align: left; white-space: normal; overflow-wrap: anywhere; }}
td .track {{ display: inline-block; width: 74px; vertical-align: middle; margin-left: 8px; }}
.scroll {{ overflow-x: auto; max-width: 100%; }}
@media (max-width: 700px) {{
  .stage {{ grid-template-columns: 70px 1fr; gap: 4px 12px; }} .stage > span:last-child {{ grid-column: 1 / -1; }}
  .tiles {{ grid-template-columns: 1fr 1fr; }} td.left {{ min-width: 110px; }}
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
