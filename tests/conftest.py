"""What tests report beside passing: how many inputs they tried, where they say so with `record_property`."""

from __future__ import annotations

INPUTS_TRIED = "inputs tried"


def pytest_terminal_summary(terminalreporter):
    lines = [
        f"{report.nodeid}: {value}"
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for name, value in getattr(report, "user_properties", [])
        if name == INPUTS_TRIED
    ]
    if lines:
        terminalreporter.section("inputs tried")
        for line in sorted(lines):
            terminalreporter.line(line)
