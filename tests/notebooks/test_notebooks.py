"""The notebooks run from a clean kernel in an empty folder, and are kept with what they showed, and nothing else."""

from __future__ import annotations

import re
import socket
from importlib import metadata
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
# Paths and names of the machine that a notebook was last run on.
OF_A_MACHINE = re.compile(
    r"/(?:tmp|home|root|work|Users|private|var)/|\w+\.local\b|127\.0\.0\.1|" + socket.gethostname()
)


def outputs(notebook):
    return [(cell, output) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def test_there_are_notebooks():
    assert [path.name for path in NOTEBOOKS] == ["first_spectrum.ipynb", "watching_a_run.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
# Of the kernel's own connection, on this machine.
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:ResourceWarning")
def test_a_notebook_runs_from_a_clean_kernel(path, tmp_path):
    if path.stem == "first_spectrum":
        try:
            metadata.distribution("msfc-ccd")
        except metadata.PackageNotFoundError:
            pytest.skip("the CCD frames are not there: pip install --no-deps msfc-ccd==1.2.0")
    kept = path.read_bytes()
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = nbformat.reads(kept.decode(), as_version=4)
    assert pictures(notebook) == pictures(shown)
    assert path.read_bytes() == kept


def pictures(notebook):
    """Which cells show a picture."""
    return [cell.id for cell, output in outputs(notebook) if "image/png" in output.get("data", {})]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_with_its_pictures_and_without_errors_or_names_of_a_machine(path):
    assert path.stat().st_size < 1_000_000
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    assert len(pictures(notebook)) >= 3
    for _, output in outputs(notebook):
        assert output.output_type != "error"
        assert output.get("name") != "stderr"
        said = [output.get("text", ""), *(v for k, v in output.get("data", {}).items() if k.startswith("text/"))]
        assert not OF_A_MACHINE.search("\n".join(map(str, said))), said


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_read_in_small_steps(path):
    for cell in nbformat.read(path, as_version=4).cells:
        assert len(cell.source.splitlines()) <= 18, cell.source
