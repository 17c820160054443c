"""Servers that speak https: one whose certificate nobody trusts, and one that does not speak it, are told at once."""

from __future__ import annotations

import http.server
import ssl
import subprocess
import threading

import pytest

from frame_archive import ArchiveError, FrameArchive


class Unfound(http.server.BaseHTTPRequestHandler):
    """Has nothing."""

    def do_GET(self):
        self.send_error(404)

    def do_HEAD(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Says nothing of clients that hang up."""

    def handle_error(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    """A web server; whoever asks has patience, so that a test lasts where somebody waits."""
    monkeypatch.setenv("PHOTONFLOW_STORE_PATIENCE", "120")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with Server(("127.0.0.1", 0), Unfound) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def with_certificate(server, folder, names="subjectAltName=IP:127.0.0.1"):
    """Let it speak https from now on; returns its certificate, which it has signed itself."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=here"]
    command += ["-keyout", key, "-out", certificate, "-addext", names, "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return certificate


@pytest.mark.parametrize("is_web", [True, False])
def test_a_certificate_that_nobody_trusts_is_told_at_once(server, monkeypatch, tmp_path, is_web):
    certificate = with_certificate(server, tmp_path)
    host = f"127.0.0.1:{server.server_port}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"https://{host}")
    address = f"https://{host}/run.zarr" if is_web else "s3://bucket/run.zarr"
    why = rf"the certificate of the server {host} is not trusted; name .* in SSL_CERT_FILE, on every machine"
    with pytest.raises(ArchiveError, match=why):
        FrameArchive.open(address)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pytest.raises(ArchiveError, match=r"does not exist|HTTP 404"):
        FrameArchive.open(address)


def test_a_certificate_of_another_name_is_told_at_once(server, monkeypatch, tmp_path):
    certificate = with_certificate(server, tmp_path, "subjectAltName=DNS:elsewhere.example.org")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pytest.raises(ArchiveError, match=r"the certificate of the server 127.* is for another name"):
        FrameArchive.open(f"https://127.0.0.1:{server.server_port}/run.zarr")


def test_a_server_that_speaks_no_https_is_told_at_once(server):
    with pytest.raises(ArchiveError, match=rf"the server 127.0.0.1:{server.server_port} does not speak https"):
        FrameArchive.open(f"https://127.0.0.1:{server.server_port}/run.zarr")
