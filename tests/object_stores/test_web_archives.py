"""Archives on a plain web server, over HTTP and HTTPS: read, and nothing written."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from frame_archive import ArchiveError, FrameArchive
from pipeline import process


class Quiet(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


@pytest.fixture
def web(local_archive):
    """Serves the folder of the archive."""
    servers = []

    def serve(context=None):
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=local_archive.parent))
        server.daemon_threads = True
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
        scheme = "http" if context is None else "https"
        return f"{scheme}://127.0.0.1:{server.server_address[1]}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def read_all(archive):
    opened = FrameArchive.open(archive)
    out = np.empty((opened.n_frames, *opened.frame_shape), opened.dtype)
    opened.read(0, opened.n_frames, out)
    return out


def test_an_archive_is_read_over_https(web, local_archive, tmp_path, monkeypatch):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "server.pem"
    form = serialization.PrivateFormat.PKCS8
    pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    address = f"{web(context)}/run.zarr"
    monkeypatch.setenv("PHOTONFLOW_STORE_PATIENCE", "1")
    # Whom nobody vouches for is not talked to.
    with pytest.raises(ArchiveError, match="can't be"):
        FrameArchive.open(address)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    monkeypatch.setenv("PHOTONFLOW_STORE_PATIENCE", "20")
    assert np.array_equal(read_all(address), read_all(local_archive))


def test_a_run_reads_from_a_web_server_and_writes_elsewhere(web, local_clusters, client, tmp_path, options):
    address = f"{web()}/run.zarr"
    with pytest.raises(ValueError, match="beside which nothing can be written: give --out a place"):
        process(address, client=client)
    with pytest.raises(OSError, match=r"http:// addresses are for reading"):
        process(address, f"{address}.out", client=client)
    there = process(address, tmp_path / "there.zarr", client=client, **options)
    assert there.attrs["digest"] == local_clusters.attrs["digest"]


def test_what_a_web_server_lacks_is_an_error_and_not_zeros(web, local_archive, client, tmp_path):
    address = f"{web()}/run.zarr"
    chunk = local_archive / "frames/c/4/0/0"
    away = chunk.rename(tmp_path / "away")
    try:
        assert FrameArchive.open(address).missing_chunks(0, 60) == ["frames/c/4/0/0"]
        with pytest.raises(ArchiveError, match="frames/c/4/0/0 is missing, with frames 20:25"):
            read_all(address)
        with pytest.raises(ArchiveError, match=r"nothing.zarr does not exist"):
            FrameArchive.open(address.replace("run.zarr", "nothing.zarr"))
    finally:
        away.rename(chunk)
