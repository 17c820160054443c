"""What of a run other machines can reach, looked up in the system's table of sockets, and who is let in."""

from __future__ import annotations

import gc
from pathlib import Path

import psutil
import pytest
from distributed import Client, Security

from pipeline import ClusterConfig, ClusterUnavailableError, RunOptions, execute, open_cluster, prepare
from pipeline.output.redaction import redacted
from pipeline.workers.clusters import connect
from pipeline.workers.encryption import ExposedWarning, Tls, exposures


def listening_addresses(client):
    """The addresses on which this process and the workers of a cluster listen."""
    us = [psutil.Process(), *psutil.Process().children(recursive=True)]
    workers = client.run(lambda: None).keys()
    found = {
        socket.laddr.ip
        for process in us
        for socket in process.net_connections(kind="inet")
        if socket.status == psutil.CONN_LISTEN
    }
    assert workers
    assert found
    return found


def test_only_this_machine_reaches_a_run(client):
    assert listening_addresses(client) == {"127.0.0.1"}


@pytest.mark.slow
def test_listening_on_all_interfaces_is_warned_of():
    said = r"listen on 0\.0\.0\.0 without TLS: whoever reaches them can run programs"
    with (
        pytest.warns(ExposedWarning, match=said),
        open_cluster(ClusterConfig(workers=1, host="0.0.0.0")) as client,
    ):
        assert "0.0.0.0" in listening_addresses(client)


@pytest.mark.parametrize(
    ("host", "dashboard", "tls", "said"),
    [
        ("127.0.0.1", None, False, []),
        ("::1", "localhost:8787", False, []),
        ("10.1.2.3", None, True, []),
        ("10.1.2.3", None, False, ["scheduler and workers"]),
        ("127.0.0.1", ":8787", True, ["the dashboard listens on all interfaces"]),
        ("0.0.0.0", "0.0.0.0:8787", False, ["scheduler and workers", "the dashboard listens on 0.0.0.0"]),
    ],
)
def test_what_is_exposed_is_said(host, dashboard, tls, said):
    sentences = exposures(host, dashboard, tls)
    assert len(sentences) == len(said)
    assert all(sentence.startswith(start) for sentence, start in zip(sentences, said, strict=True))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """An authority, and a certificate and key of it, as PEM files."""
    folder = tmp_path_factory.mktemp("certificates")
    made = Security.temporary()
    files = {"tls_ca_file": made.tls_ca_file, "tls_cert": made.tls_client_cert, "tls_key": made.tls_client_key}
    for name, pem in files.items():
        (folder / name).write_text(pem)
    return {name: str(folder / name) for name in files}


def test_a_client_without_the_certificate_is_refused_and_one_with_it_runs(certificates, make_archive):
    archive = make_archive()
    with open_cluster(ClusterConfig(workers=1, **certificates)) as ours:
        address = ours.scheduler.address
        assert address.startswith("tls://")
        with (
            pytest.raises(ClusterUnavailableError, match=r"accepts us .*--tls-ca-file, --tls-cert and --tls-key"),
            open_cluster(ClusterConfig(kind="existing", scheduler=address)),
        ):
            pass
        # A certificate of another authority is no better than none.
        with pytest.raises(ClusterUnavailableError, match="certificates that it accepts") as refusal:
            connect(address, Security.temporary())
        # Its traceback keeps the client that was refused; what is left to the garbage collector may wait for ever.
        refused = [found for found in gc.get_objects() if issubclass(type(found), Client) and found is not ours]
        assert {client.status for client in refused if client._start_arg == address} == {"closed"}, refusal
        joined = ClusterConfig(kind="existing", scheduler=address, **certificates)
        with open_cluster(joined) as client:
            assert execute(prepare(RunOptions(archive.path, batch_size=20)), client).summary.frames == 97


def test_temporary_certificates_are_made_where_none_are_given():
    security = ClusterConfig(tls=True).security
    assert security.require_encryption
    assert "BEGIN CERTIFICATE" in security.tls_ca_file


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ca_file": "here.pem"}, "together, or none"),
        ({"ca_file": "nowhere.pem", "cert": "nowhere.pem", "key": "nowhere.pem"}, "nowhere.pem is no file"),
    ],
)
def test_certificates_that_are_not_there_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        Tls(**options)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("s3://AKIA123:s3cr3t@bucket/a.zarr", "s3://***@bucket/a.zarr"),
        ("https://h/x?a=1&X-Amz-Signature=abc&b=2", "https://h/x?a=1&X-Amz-Signature=***&b=2"),
        ("https://h/x?token=abc --out y.zarr", "https://h/x?token=*** --out y.zarr"),
        ("--storage aws_secret_access_key=abc", "--storage aws_secret_access_key=***"),
        ("no file: https:/id:s3cr3t@h/c.yaml", "no file: https:/***@h/c.yaml"),
        ("or AWS_SKIP_SIGNATURE=true for a bucket", "or AWS_SKIP_SIGNATURE=true for a bucket"),
        ("tcp://10.0.0.1:8786 a@b.zarr --n-sigma=5", "tcp://10.0.0.1:8786 a@b.zarr --n-sigma=5"),
    ],
)
def test_secrets_are_taken_out_and_nothing_else(text, hidden):
    assert redacted(text) == hidden


def test_the_name_of_a_key_is_hidden_where_it_stands_alone_and_its_secret_everywhere(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "minioadmin")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "adminadmin")
    said = "minioadmin of s3://b/a.zarr --out minioadmin.clusters.zarr adminadmin2"
    assert redacted(said) == "*** of s3://b/a.zarr --out minioadmin.clusters.zarr ***2"


def test_no_secret_of_the_command_or_the_environment_is_in_the_dataset(client, make_archive, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "0f-the-env1ronment")
    archive = make_archive(n_frames=20)
    command = "photonflow process s3://id:0f-the-l1nk@b/a.zarr --pedestal https://h/p.npz?token=0f-the-t0ken"
    result = execute(prepare(RunOptions(archive.path, command=command)), client)
    written = b"".join(file.read_bytes() for file in Path(archive.path).parent.rglob("*") if file.is_file())
    assert b"s3://***@b/a.zarr" in written
    for secret in (b"0f-the-env1ronment", b"0f-the-l1nk", b"0f-the-t0ken"):
        assert secret not in written
    assert result.summary.frames == 20
