"""Who may name a remote cache, and where credentials go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.remote_server import CacheServer, basic
from tilec.compile.remote.access import (
    RemoteChoice,
    open_store,
    resolve,
    worker_access,
)
from tilec.compile.remote.store import RemoteError
from tilec.model.remote_url import RemoteUrl, redacted
from tilec_runtime.errors import UsageError

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "shown", "origin"),
    [
        ("https://c.example/tilec/", "https://c.example/tilec", ("https", "c.example", 443)),
        ("https://C.example:443", "https://c.example", ("https", "c.example", 443)),
        ("http://[::1]:8080/a", "http://[::1]:8080/a", ("http", "::1", 8080)),
        ("s3://bucket/a/b", "s3://bucket/a/b", ("s3", "bucket", 0)),
        ("file:///mnt/cache", "file:///mnt/cache", ("file", "", 0)),
        (f"https://me:{SECRET}@h:1/x", "https://h:1/x", ("https", "h", 1)),
    ],
)
def test_urls(text: str, shown: str, origin: tuple[str, str, int]) -> None:
    url = RemoteUrl.parse(text)
    assert (url.shown, url.origin) == (shown, origin)
    assert SECRET not in repr(url)


@pytest.mark.parametrize(
    "text",
    [
        "c.example/tilec",
        "ftp://h/x",
        "https://",
        "https:///path",
        "https://h/x?y=1",
        "https://h/x#y",
        "https://h/a/../b",
        "https://h/a b",
        "https://h/a\nb",
        "https://h:port/x",
        "https://h:0/x",
        "file:///a/%2e%2e/b",
        "https://[::1/x",
        "file://host/x",
        "file:x",
        "simplecache::s3://bucket",
        "s3://bucket/a::zip://b",
        "s3://key:secret@bucket",
        "https://c.example;x/y",
        "https://c%2eexample/x",
        "https://c.example&d/x",
        "",
    ],
)
def test_what_is_no_url_of_a_remote_cache(text: str) -> None:
    with pytest.raises(ValueError):
        RemoteUrl.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        f"https://me:{SECRET}@h:port/",
        f"https://me:{SECRET}/{SECRET}@h/x",
        f"https://me:a@{SECRET}@h/x y",
        f"ftp://me:{SECRET}@h",
        f"s3://me:{SECRET}@h",
        f"https://me:{SECRET}@h/?x",
        f"https:me:{SECRET}@h",
        f"me:{SECRET}@h",
        f"https://h/x?sig={SECRET}",
        f"https://h/x?sig=a@{SECRET}",
        f"https://me:a?{SECRET}@h",
        f"https://h/x#{SECRET}",
    ],
)
def test_errors_about_a_url_hide_its_password(text: str) -> None:
    assert SECRET not in redacted(text)
    with pytest.raises(ValueError) as caught:
        RemoteUrl.parse(text)
    assert SECRET not in str(caught.value)
    with pytest.raises(UsageError) as refused:
        resolve(RemoteChoice(url=text))
    assert SECRET not in str(refused.value)


@pytest.fixture
def netrc(tmp_path: Path) -> Path:
    path = tmp_path / "netrc"
    path.write_text(
        f"machine c.example login me password {SECRET}\n"
        "machine 127.0.0.1 login local password pw\n"
        "default login any password given-for-no-host\n"
    )
    return path


MINE, OF_FILE = basic("u", SECRET), basic("me", SECRET)
TOKEN = {"token": "tok", "token_for": ""}


@pytest.mark.parametrize(
    ("said", "manifest", "header"),
    [
        # The user's words.
        ({"url": f"https://u:{SECRET}@c.example"}, "", MINE),
        ({"url": "https://c.example", **TOKEN}, "", "Bearer tok"),
        ({"url": "https://c.example"}, "", OF_FILE),
        ({"url": "https://c.example:8443"}, "", OF_FILE),
        ({"url": "https://other.example"}, "", ""),
        ({"url": "http://c.example"}, "", ""),
        ({"url": "http://127.0.0.1:80", **TOKEN}, "", "Bearer tok"),
        ({"url": "http://127.0.0.1:80"}, "", basic("local", "pw")),
        ({"url": "s3://bucket", **TOKEN}, "", ""),
        # A token that was given with another place.
        ({"url": "https://c.example", "token": "tok", "token_for": "https://c.example/x"}, "", "Bearer tok"),
        ({"url": "https://x.example", "token": "tok", "token_for": "https://c.example"}, "", ""),
        ({"url": "https://x.example", "token": "tok", "token_for": "http://x.example"}, "", ""),
        ({"url": "https://x.example", "token": "tok", "token_for": "https://x.example:444"}, "", ""),
        # The project's words: never the token, and what the file has for that very host.
        (TOKEN, "https://c.example", OF_FILE),
        (TOKEN, "https://evil.example", ""),
        (TOKEN, "https://c.example.evil.example", ""),
        (TOKEN, "http://c.example", ""),
        (TOKEN, "http://127.0.0.1:80", ""),
    ],
)  # fmt: skip
def test_credentials_go_to_the_host_that_they_were_given_for(
    said: dict[str, Any], manifest: str, header: str, netrc: Path
) -> None:
    access = resolve(RemoteChoice(netrc=netrc, **said), manifest)
    assert access
    assert access.authorization == header
    assert SECRET not in repr(access)
    assert "tok" not in repr(RemoteChoice(netrc=netrc, **said))


@pytest.mark.parametrize(
    "said",
    [
        {"url": f"http://me:{SECRET}@c.example"},
        {"url": "http://c.example", "token": SECRET},
        {"url": "https://c.example", "token": f"{SECRET}\r\nX: y"},
        {"url": "https://c.example", "token": f"{SECRET} more"},
        {"url": "https://c.example", "mode": "both"},
        {"url": "https://c.example", "wait": float("nan")},
        {"url": "https://c.example", "wait": -1.0},
    ],
)
def test_refuses_credentials_in_clear_and_odd_words(said: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(RemoteChoice(**said))
    assert SECRET not in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("said", "manifest", "mode", "result"),
    [
        ({}, "", "", None),
        ({"mode": "off", "url": "https://a"}, "https://b", "write", None),
        ({}, "https://b", "off", None),
        ({}, "https://b", "", ("https://b", False, False)),
        ({}, "https://b", "write", ("https://b", True, False)),
        ({"mode": "read"}, "https://b", "write", ("https://b", False, False)),
        # A project says neither what is written to the user's remote nor whom the user trusts.
        ({"url": "https://a"}, "https://b", "write", ("https://a", False, False)),
        ({"url": "https://a", "mode": "write", "own": True}, "", "", ("https://a", True, True)),
        ({"own": True}, "https://b", "", ("https://b", False, False)),
        ({}, "file:///x", "write", ("file:///x", False, False)),
        ({"mode": "write"}, "file:///x", "", ("file:///x", True, False)),
    ],
)
def test_what_is_used_and_how_far(
    said: dict[str, Any], manifest: str, mode: str, result: tuple[str, bool, bool] | None
) -> None:
    access = resolve(RemoteChoice(**said), manifest, mode)
    assert (access and (access.url.shown, access.write, access.own)) == result


def test_a_server_that_echoes_credentials_shows_none(server: CacheServer) -> None:
    server.authorization = basic("u", "right")
    access = resolve(RemoteChoice(url=server.url.replace("//", f"//u:{SECRET}@")))
    assert access
    store = open_store(access)
    with pytest.raises(RemoteError, match="it answers 401") as caught:
        store.get("ac", "0" * 64, 10)
    assert SECRET not in repr(caught.value)
    assert server.requests[0].authorization == basic("u", SECRET)
    store.close()


def test_no_request_follows_a_redirect(server: CacheServer) -> None:
    server.fault = lambda _: "redirect"
    access = resolve(RemoteChoice(url=server.url.replace("//", "//u:pw@")))
    assert access
    store = open_store(access)
    for call in (lambda: store.get("ac", "0" * 64, 10), lambda: store.has("ac", "0" * 64)):
        with pytest.raises(RemoteError, match="it redirects"):
            call()
    assert len(server.requests) == 2
    store.close()


def test_a_package_that_is_missing_is_named() -> None:
    access = resolve(RemoteChoice(url="gs://bucket/x"))
    assert access
    with pytest.raises(RemoteError, match="pip install 'gcsfs'"):
        open_store(access)


def test_a_worker_uses_its_own_credentials(tmp_path: Path) -> None:
    """They go to the host that they were given for, as those of a build do."""
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"machine c.example login me password {SECRET}\n")
    home = {"HOME": str(tmp_path)}
    own = {"TILEC_REMOTE_CACHE": "https://c.example/tilec", "TILEC_REMOTE_TOKEN": SECRET}
    named = {"TILEC_REMOTE_CACHE": f"https://you:{SECRET}@c.example/tilec"}
    sent = {
        "none": worker_access("https://c.example/tilec", {}),
        "netrc": worker_access("https://c.example/tilec", home),
        "token": worker_access("https://c.example/other", own),
        "other host": worker_access("https://d.example/tilec", {**home, **own}),
        "URL": worker_access("https://c.example/tilec", named),
    }
    assert {name: access and access.authorization for name, access in sent.items()} == {
        "none": "",
        "netrc": basic("me", SECRET),
        "token": f"Bearer {SECRET}",
        "other host": "",
        "URL": basic("you", SECRET),
    }
