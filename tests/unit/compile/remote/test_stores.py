"""Stores of every kind keep one contract, and images in them are believed only as far as digests go."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
import urllib3
from hypothesis import example, given
from hypothesis import strategies as st

from tests.amount import examples
from tests.remote_server import ActionResult, CacheServer, basic
from tilec.compile.cache import index_row
from tilec.compile.remote.access import Access, open_store
from tilec.compile.remote.action_result import LIMIT, decode, encode
from tilec.compile.remote.folder import FolderStore
from tilec.compile.remote.http import HttpStore
from tilec.compile.remote.images import (
    WrongEntryError,
    get_image,
    has_image,
    put_image,
)
from tilec.compile.remote.store import RemoteError, RemoteStore, TooLargeError
from tilec.model.remote_url import RemoteUrl
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import Image, ImageInfo, Resources

KEY, OTHER = "ab" * 32, "cd" * 32


def image(data: bytes = b"code" * 100) -> Image:
    info = ImageInfo(
        target=Target.parse("sm_90"),
        digest=sha256(data),
        size=len(data),
        symbol="add",
        ptx_isa=None,
        cuda=(12, 0),
        resources=Resources(registers=16),
    )
    return Image(info=info, data=data, abi=())


def sized(size: int) -> Image:
    """An image that lies about its size."""
    return dataclasses.replace(image(), info=dataclasses.replace(image().info, size=size))


def test_a_store_gives_what_was_put(store: RemoteStore) -> None:
    name = sha256(b"bytes")
    assert store.get("cas", name, 100) is None
    assert not store.has("cas", name)
    store.put("cas", name, b"bytes")
    store.put("cas", name, b"bytes")
    assert store.has("cas", name)
    assert store.get("cas", name, 5) == b"bytes"
    assert store.get("cas", name, 100) == b"bytes"
    assert store.get("ac", name, 100) is None
    with pytest.raises(TooLargeError):
        store.get("cas", name, 4)


def test_images_go_through_every_store(store: RemoteStore) -> None:
    assert get_image(store, KEY) is None
    assert not has_image(store, KEY)
    row = index_row(KEY, image())
    put_image(store, KEY, row, image().data, seconds=1.5)
    assert has_image(store, KEY)
    for wanted in (sha256(row), ""):
        found = get_image(store, KEY, row=wanted)
        assert found
        entry, data = found
        assert (entry.row, entry.seconds, data) == (row, 1.5, image().data)
    with pytest.raises(WrongEntryError, match="another image than the one that tilec"):
        get_image(store, KEY, row="0" * 64)


def test_an_evicted_image_is_a_miss(server: CacheServer) -> None:
    store = open_store(Access(url=RemoteUrl.parse(server.url)))
    put_image(store, KEY, index_row(KEY, image()), image().data, seconds=1.5)
    del server.objects["cas", sha256(image().data)]
    assert get_image(store, KEY) is None
    assert not has_image(store, KEY)
    store.close()


# --- entries of a hostile store ---


UNREAD = "its index row cannot be read"
NO_IMAGE = "its index row names no image"
LARGER, OTHER_BYTES = "it is larger than it says", "its bytes are not those of its digest"


def entry(row: bytes) -> bytes:
    return encode(row, digest=sha256(image().data), size=len(image().data), seconds=1.5)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (index_row(OTHER, image()), "it belongs to another key"),
        (index_row(KEY, sized(7)), LARGER),
        (index_row(KEY, sized(1000)), OTHER_BYTES),
        (index_row(KEY, sized((256 << 20) + 1)), NO_IMAGE),
        (index_row(KEY, sized(-1)), NO_IMAGE),
        (index_row(KEY, image()).replace(b'"size":400', b'"size":400.0'), NO_IMAGE),
        (index_row(KEY, image()).replace(sha256(image().data).encode(), b"../../x"), NO_IMAGE),
        (b"<html>", UNREAD),
        (b"[" * 100_000, UNREAD),
        (b"[1]", UNREAD),
        (b" " * (1 << 20), LARGER),
    ],
    ids=range(11),
)
def test_refuses_entries_of_something_else(row: bytes, why: str, tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("cas", sha256(image().data), image().data)
    store.put("ac", KEY, entry(row))
    with pytest.raises(WrongEntryError, match=why):
        get_image(store, KEY)
    assert why in (LARGER, OTHER_BYTES) or not has_image(store, KEY)


@pytest.mark.parametrize(
    "message",
    [b"<!doctype html>", b"", b"\x12", entry(b"")[:40], b"\x28\x01", bytes(LIMIT + 1)],
)
def test_refuses_what_is_no_action_result_of_tilec(message: bytes, tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("ac", KEY, message)
    with pytest.raises(WrongEntryError):
        get_image(store, KEY)


def test_a_url_of_a_folder_is_decoded(tmp_path: Path) -> None:
    for url, root in ((f"file://{tmp_path}/a%20b%C3%A9", tmp_path / "a bé"), ("file:///", "/")):
        store = open_store(Access(url=RemoteUrl.parse(url)))
        assert isinstance(store, FolderStore)
        assert store._root == Path(root)


def test_a_folder_follows_no_link_and_waits_for_no_pipe(tmp_path: Path) -> None:
    root, victim = tmp_path / "remote", tmp_path / "victim"
    store = FolderStore(root)
    name = sha256(b"new")
    store.put("cas", OTHER, b"old")
    victim.write_text("mine")
    (root / "cas" / name).symlink_to(victim)
    with pytest.raises(RemoteError, match="symbolic links"):
        store.get("cas", name, 100)
    assert not store.has("cas", name)
    store.put("cas", name, b"new")
    assert (victim.read_text(), store.get("cas", name, 100)) == ("mine", b"new")
    os.mkfifo(root / "cas" / KEY)
    assert store.get("cas", KEY, 100) is None
    (root / "ac").symlink_to(tmp_path)
    with pytest.raises(RemoteError, match="cannot be used"):
        store.put("ac", KEY, b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["remote", "victim"]


# --- over HTTP ---


@pytest.mark.parametrize("fault", ["500", "cut", "truncated"])
def test_a_passing_failure_is_tried_again(fault: str, server: CacheServer) -> None:
    server.objects["cas", KEY] = bytes(300)
    server.fault = lambda _: fault if len(server.requests) == 1 else ""
    store = HttpStore(server.url, headers={}, connections=2, seconds=5.0)
    assert store.get("cas", KEY, 300) == bytes(300)
    assert len(server.requests) == 2
    store.close()


def test_a_password_of_a_proxy_is_decoded() -> None:
    proxy = "http://me:p%40ss@127.0.0.1:1"
    store = HttpStore("http://h", headers={}, connections=1, seconds=1.0, proxy=proxy)
    assert isinstance(store._pool, urllib3.ProxyManager)
    assert store._pool.proxy_headers == {"proxy-authorization": basic("me", "p@ss")}


# --- the action result ---


@examples(100)
@given(
    st.binary(min_size=1, max_size=300),
    st.integers(0, 2**40),
    st.integers(0, 10**6 * 64).map(lambda n: n / 64),
)
def test_protobuf_reads_what_is_encoded(row: bytes, size: int, seconds: float) -> None:
    data = encode(row, digest=KEY, size=size, seconds=seconds)
    message = ActionResult()
    message.ParseFromString(data)
    (file,) = message.output_files
    assert (file.path, file.digest.hash, file.digest.size_bytes) == ("image.bin", KEY, size)
    assert (message.stdout_raw, float(message.stderr_raw)) == (row, seconds)
    # A server writes the message again, with fields of its own.
    message.exit_code, message.execution_metadata.worker = 3, "host"
    assert decode(message.SerializeToString()) == decode(data) == (row, seconds)


@examples(100)
@given(st.binary(max_size=200))
@example(b"\xff" * 11)
@example(b"\x12\x00")
@example(entry(b"{}").replace(b"1.5", b"nan"))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        _, seconds = decode(data)
    except ValueError:
        return
    assert 0 <= seconds <= 1e6
