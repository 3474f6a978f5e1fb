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
from tilec.compile.remote import action_result as codec
from tilec.compile.remote.access import Access, open_store
from tilec.compile.remote.folder import FolderStore
from tilec.compile.remote.http import HttpStore
from tilec.compile.remote.images import WrongEntryError, get_image, name_of, put_image
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
    row = index_row(KEY, image())
    digest = put_image(store, KEY, row, image().data, seconds=1.5)
    assert digest == sha256(row)
    for wanted in (digest, ""):
        entry = get_image(store, KEY, row=wanted)
        assert entry
        assert (entry.row, entry.digest, entry.data) == (row, digest, image().data)
        assert entry.seconds == 1.5
    with pytest.raises(WrongEntryError, match="another image than the one that tilec"):
        get_image(store, KEY, row="0" * 64)


@pytest.mark.parametrize("evicted", ["row", "image"])
def test_an_evicted_object_is_a_miss(evicted: str, server: CacheServer) -> None:
    store = open_store(Access(url=RemoteUrl.parse(server.url)))
    row = index_row(KEY, image())
    put_image(store, KEY, row, image().data)
    del server.objects["cas", sha256(row if evicted == "row" else image().data)]
    assert get_image(store, KEY) is None
    store.close()


# --- entries of a hostile store ---


NOT_ITS = "its image is not that of its index row"
UNREAD = "its index row cannot be read"


@pytest.mark.parametrize(
    ("row", "data", "why"),
    [
        (index_row(OTHER, image()), image().data, "it belongs to another key"),
        (index_row(KEY, image()), b"other code", NOT_ITS),
        (index_row(KEY, sized(7)), image().data, NOT_ITS),
        (b"<html>", image().data, UNREAD),
        (b"[" * 100_000, image().data, UNREAD),
        (b"[1]", image().data, UNREAD),
        (b" " * ((1 << 20) + 1), image().data, "it claims 1048577 bytes, and the most is 1048576"),
    ],
    ids=range(7),
)
def test_refuses_entries_of_something_else(
    row: bytes, data: bytes, why: str, tmp_path: Path
) -> None:
    store = FolderStore(tmp_path)
    put_image(store, KEY, row, data)
    with pytest.raises(WrongEntryError, match=why):
        get_image(store, KEY)


@pytest.mark.parametrize(
    "message",
    [
        b"<!doctype html>",
        b"",
        b"\x12",
        codec.encode(codec.ActionResult(files={"a": codec.Digest("0" * 64, 1)})),
        codec.encode(codec.ActionResult(files={"row.json": codec.Digest("../../x", 1)})),
        bytes(codec.LIMIT + 1),
    ],
)
def test_refuses_what_is_no_action_result_of_tilec(message: bytes, tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("ac", name_of(KEY), message)
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


def http(server: CacheServer, seconds: float = 5.0) -> HttpStore:
    return HttpStore(server.url, headers={}, connections=2, seconds=seconds)


@pytest.mark.parametrize("fault", ["500", "cut", "truncated"])
def test_a_passing_failure_is_tried_again(fault: str, server: CacheServer) -> None:
    server.objects["cas", KEY] = bytes(300)
    server.fault = lambda _: fault if len(server.requests) == 1 else ""
    store = http(server)
    assert store.get("cas", KEY, 300) == bytes(300)
    assert len(server.requests) == 2
    store.close()


def test_a_password_of_a_proxy_is_decoded() -> None:
    proxy = "http://me:p%40ss@127.0.0.1:1"
    store = HttpStore("http://h", headers={}, connections=1, seconds=1.0, proxy=proxy)
    assert isinstance(store._pool, urllib3.ProxyManager)
    assert store._pool.proxy_headers == {"proxy-authorization": basic("me", "p@ss")}


# --- the action result ---


DIGESTS = st.builds(
    codec.Digest,
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.integers(0, 2**63 - 1),
)
RESULTS = st.builds(
    codec.ActionResult,
    files=st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1), DIGESTS, min_size=1, max_size=4
    ),
    seconds=st.integers(0, 10**6 * 64).map(lambda n: n / 64),
)


@examples(100)
@given(RESULTS)
def test_protobuf_reads_what_is_encoded(result: codec.ActionResult) -> None:
    message = ActionResult()
    message.ParseFromString(codec.encode(result))
    assert {one.path: codec.Digest(one.digest.hash, one.digest.size_bytes)
            for one in message.output_files} == result.files  # fmt: skip
    taken = message.execution_metadata.virtual_execution_duration
    assert taken.seconds + taken.nanos / 1e9 == result.seconds
    assert message.execution_metadata.worker == "tilec"
    # A server writes the message again, with fields of its own.
    message.exit_code, message.stdout_raw = 3, b"\x12\x00"
    assert codec.decode(message.SerializeToString()) == result
    assert codec.decode(codec.encode(result)) == result


@examples(100)
@given(st.binary(max_size=200))
@example(b"\xff" * 11)
@example(b"\x12\x00")
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        result = codec.decode(data)
    except ValueError:
        return
    assert result.files
