"""Every command and every piece of Python in the README and the docs is run, in order, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
# A block that can't be run here says so in the line before it: <!-- not run: why -->
BLOCK = re.compile(r"^(?P<before>[^\n]*)\n```(?P<language>sh|python)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def run_blocks(page: Path, folder: Path) -> int:
    """Run the shell blocks of a page and its Python, each kind as it comes; returns how many blocks were run."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    blocks = [match for match in BLOCK.finditer(page.read_text()) if "<!-- not run: " not in match["before"]]
    for match in blocks:
        if match["language"] == "sh":
            command = ["bash", "-euo", "pipefail", "-c", match["text"]]
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
            )
            assert done.returncode == 0, f"{match['text']}\n{done.stdout}\n{done.stderr}"
    python = "".join(match["text"] for match in blocks if match["language"] == "python")
    if python:
        script = folder / "page.py"
        # Under a guard, as a script that starts workers has to be.
        script.write_text('if __name__ == "__main__":\n' + textwrap.indent(python, "    "))
        command = [sys.executable, "-W", "error", str(script)]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, f"{python}\n{done.stderr}"
    return len(blocks)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_says_works(page, tmp_path):
    assert run_blocks(page, tmp_path) > 0


@pytest.mark.slow
def test_what_the_readme_says_works(tmp_path):
    assert run_blocks(ROOT / "README.md", tmp_path) > 0


def test_links_lead_somewhere():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES):
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
