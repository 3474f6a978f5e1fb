"""Stores of every kind."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remote_server import CacheServer
from tilec.compile.remote.access import Access, open_store
from tilec.compile.remote.store import RemoteStore
from tilec.model.remote_url import RemoteUrl


@pytest.fixture
def server() -> Iterator[CacheServer]:
    with CacheServer() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Address of a pretended S3."""
    from moto.server import ThreadedMotoServer

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """URL of a bucket of its own, with the environment that its library wants."""
    import s3fs

    env = {
        "AWS_ENDPOINT_URL": s3,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "not-shown",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    name = f"b{abs(hash(tmp_path))}"
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(name)
    return f"s3://{name}/tilec"


@pytest.fixture(params=["http", "file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty store of each kind."""
    if request.param == "http":
        server: CacheServer = request.getfixturevalue("server")
        return server.url
    if request.param == "s3":
        bucket: str = request.getfixturevalue("bucket")
        return bucket
    return f"file://{tmp_path}/remote"


@pytest.fixture
def store(url: str) -> Iterator[RemoteStore]:
    store = open_store(Access(url=RemoteUrl.parse(url)))
    yield store
    store.close()
