"""What the environment may say wrong of endpoints, keys and options: one sentence names the variable; no server."""

from __future__ import annotations

import os
import subprocess
import sys

import obstore
import pytest
from obstore.store import S3Store

from frame_archive import ArchiveError, FrameArchive
from object_stores import AddressError, Objects, StoreFaultError
from object_stores.errors import in_one_sentence

SECRET = "c2VjcmV0"


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Whatever else the environment says does not count, and nobody waits."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "GOOGLE_SERVICE_ACCOUNT", "AZURE_STORAGE_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "someone")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", SECRET)
    monkeypatch.setenv("PHOTONFLOW_STORE_PATIENCE", "1")


@pytest.mark.parametrize(
    ("url", "name", "value", "why"),
    [
        (
            "s3://b/run.zarr",
            "AWS_ENDPOINT_URL",
            "127.0.0.1:18333",
            "is '127.0.0.1:18333' and is no address of a server",
        ),
        ("s3://b/run.zarr", "AWS_ENDPOINT_URL", "", "is empty; unset it"),
        ("s3://b/run.zarr", "AWS_ENDPOINT_URL", "http://127.0.0.1:notaport", "is no address of a server"),
        ("s3://b/run.zarr", "AWS_ENDPOINT_URL", "http://127.0.0.1:99999", "is no address of a server"),
        ("s3://b/run.zarr", "AWS_ENDPOINT_URL", "http://", "is no address of a server"),
        ("s3://b/run.zarr", "AWS_ENDPOINT_URL_S3", f"//id:{SECRET}@h", "has a password in it that is not shown"),
        ("s3://b/run.zarr", "AWS_ACCESS_KEY_ID", f"{SECRET}\ncd", "has a line break or another character in it"),
        ("s3://b/run.zarr", "AWS_SECRET_ACCESS_KEY", f"{SECRET}\n", "has a line break or another character in it"),
        ("s3://b/run.zarr", "AWS_SESSION_TOKEN", f"{SECRET}é", "has a line break or"),
        ("s3://b/run.zarr", "AWS_SKIP_SIGNATURE", "maybe", "is neither true nor false"),
        ("gs://b/run.zarr", "GOOGLE_SERVICE_ACCOUNT", "/no/such.json", "which is '/no/such.json'"),
        ("gs://b/run.zarr", "GOOGLE_APPLICATION_CREDENTIALS", "/no/such.json", "which is '/no/such.json'"),
        ("gs://b/run.zarr", "GOOGLE_SERVICE_ACCOUNT_KEY", f'{{"{SECRET}', "is no valid key; set it again"),
        ("az://b/run.zarr", "AZURE_STORAGE_ACCOUNT_KEY", f"{SECRET}!", "is no valid key; set it again"),
        ("az://b/run.zarr", "AZURE_STORAGE_ACCOUNT_NAME", "some\none", "has a line break or another character"),
        ("az://b/run.zarr", "AZURE_STORAGE_ENDPOINT", "h", "is 'h' and is no address of a server"),
    ],
)
def test_a_variable_that_can_not_be_is_named(monkeypatch, capfd, url, name, value, why):
    monkeypatch.setenv(name, value)
    with pytest.raises(ArchiveError) as raised:
        FrameArchive.open(url)
    said = str(raised.value)
    assert said.startswith(f"{url} can't be reached: ")
    assert f"{name} {why}" in said or (name in said and why in said)
    assert SECRET not in said
    assert "\n" not in said
    assert capfd.readouterr().err == ""


def test_variables_of_other_stores_do_not_matter(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "")
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", "/no/such.json")
    assert Objects.at("s3://b/run.zarr").store is not None


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/a.zarr", "http://:0/a.zarr", "https://h:x/a", "https://:8/a"])
def test_an_address_without_a_server_is_named(url):
    with pytest.raises(AddressError, match=f"{url} names no server: give http"):
        Objects.at(url)


def test_a_break_down_of_the_library_is_a_sentence_too(capfd):
    """As of an endpoint that nobody has looked at before."""
    store = S3Store("b", endpoint="127.0.0.1:18333")
    with (
        pytest.raises(StoreFaultError, match=r"s3://b/x can't be read: .* see that the AWS_… variables are right"),
        in_one_sentence("s3://b/x", "read"),
    ):
        obstore.get(store, "x")
    assert "panicked" in capfd.readouterr().err


def test_a_command_says_it_in_one_line(tmp_path):
    command = [sys.executable, "-m", "workflows", "process", "s3://b/run.zarr"]
    environment = os.environ | {"AWS_ENDPOINT_URL": "127.0.0.1:18333"}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "AWS_ENDPOINT_URL is '127.0.0.1:18333'" in done.stderr
