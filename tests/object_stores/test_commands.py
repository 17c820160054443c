"""The commands, given addresses; and what the page about object stores says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from s3_server import BUCKET

from pipeline.output.redaction import redacted
from workflows.__main__ import main

PAGE = Path(__file__).parents[2] / "docs" / "object_stores.md"
HIDDEN = re.compile(r"<!-- not run: the server is one of the tests -->\n```(sh|python)\n(.*?)```", re.DOTALL)
# `aws s3 cp --recursive`, as far as the page goes.
AWS = """#!{python}
import sys
from pathlib import Path
from object_stores import Objects, answer
folder, objects = Path(sys.argv[4]), Objects.at(sys.argv[5])
for file in folder.rglob("*"):
    if file.is_file():
        answer(objects.put(str(file.relative_to(folder)), file.read_bytes()))
"""


def run(folder, *command, **more):
    environment = os.environ | {"PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"} | more
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.slow
def test_what_the_page_says_works(s3, tmp_path):
    aws = tmp_path / "aws"
    aws.write_text(AWS.format(python=sys.executable))
    aws.chmod(0o755)
    made = run(tmp_path, "photonflow", "simulate", "run.zarr", "--frames", "200", "--dark", "200", "--shape", "60x70")
    assert made.returncode == 0, made.stderr
    blocks, said = HIDDEN.findall(PAGE.read_text()), ""
    assert {kind for kind, _ in blocks} == {"sh", "python"}
    for kind, text in blocks:
        if kind == "sh":
            done = run(tmp_path, "bash", "-euo", "pipefail", "-c", text)
        else:
            (tmp_path / "page.py").write_text(text)
            done = run(tmp_path, sys.executable, "-W", "error", "page.py")
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            assert os.environ[name] not in done.stdout + done.stderr
        said += done.stdout
    assert (
        f"open it   from cluster_store import open_clusters; clusters = open_clusters('s3://{BUCKET}/run.clusters.zarr')"
        in said
    )


@pytest.fixture
def photonflow(capfd, monkeypatch, tmp_path):
    """Run ``photonflow …`` in this process; returns its exit code, and what it said on stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["photonflow", *arguments])
        with pytest.raises(SystemExit) as exit_:
            main()
        return exit_.value.code, *capfd.readouterr()

    return call


def test_a_command_says_what_it_would_read_and_write_and_no_secret(photonflow, archive):
    out = archive.replace(".zarr", ".clusters.zarr")
    said = [photonflow("process", archive, "--batch-size", "20", "--dry-run", "--json")]
    plan = json.loads(said[-1][1])
    assert [plan[name] for name in ("archive", "out", "batches")] == [archive, out, 3]
    said.append(photonflow("inspect", archive, "--json", "-vv"))
    assert json.loads(said[-1][1])["path"] == archive
    for code, stdout, stderr in said:
        assert code == 0, stderr
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            assert os.environ[name] not in stdout + stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["simulate", "s3://beamtime/x.zarr"], "this takes a local path"),
        (["ingest", "a.npy", "s3://beamtime/x.zarr"], "this takes a local path"),
        (["export", "a.zarr", "--to", "s3://beamtime/x.parquet"], "exports are written to files; give a local path"),
        (["roofline", "measure", "s3://beamtime/x.zarr"], "measure with a local archive"),
        (["process", "s3://id:s3cr3t@beamtime/x.zarr"], "s3://***@beamtime/x.zarr has a key or a password in it"),
        (["process", "https://h/x.zarr?X-Amz-Signature=s3cr3t"], "has a ? or # in it"),
        (["process", "ftp://h/x.zarr"], "give a local path, or one that begins with s3://, gs://, az://"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_what_does_not_go_is_said_in_one_sentence(photonflow, tmp_path, command, said):
    np.save(tmp_path / "a.npy", np.zeros((3, 4, 5), np.uint16))
    code, stdout, stderr = photonflow(*command)
    assert (code, stdout) == (1, "")
    assert len(stderr.splitlines()) == 1
    assert said in stderr
    assert "s3cr3t" not in stderr
    assert not (tmp_path / "s3:").exists()


def test_keys_of_the_environment_are_hidden_wherever_they_got_to(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "never/to+be=seen")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "nor-this-one")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store.example.org")
    assert redacted("it says never/to+be=seen and nor-this-one at https://store.example.org") == (
        "it says *** and *** at https://store.example.org"
    )


def test_an_archive_that_is_not_there_is_said_by_the_command(photonflow, s3):
    said = f"photonflow: {s3}/nothing.zarr does not exist: check the path\n"
    assert photonflow("process", f"{s3}/nothing.zarr") == (1, "", said)
