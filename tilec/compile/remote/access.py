"""The choice of a build's remote cache, its trust, and its credentials."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import netrc
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import unquote

from tilec.compile.remote.environment import netrc_file, proxies, proxy_for
from tilec.compile.remote.store import RemoteError, RemoteStore, TooLargeError
from tilec.model.remote_url import RemoteUrl
from tilec_runtime.errors import UsageError
from tilec_runtime.model.digest import sha256

Mode = Literal["off", "read", "write", "fill"]
CONNECTIONS = 32
SECONDS = 10.0
_LONGEST_WAIT = 86400.0
_PROBE = b"tilec doctor\n"
_TOKEN = re.compile(r"[\x21-\x7e]+")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RemoteChoice:
    """The user's settings of the remote cache, from flags and environment.

    Attributes:
        url: URL; empty for the manifest's.
        mode: mode; empty for the manifest's, or `read`.
        own: whether only the user's own builds write to it, so that entries need no pin.
        token: token, sent only to the origin of `token_for`.
        token_for: URL that the token belongs to; empty for `url`.
        netrc: file with credentials by host.
        proxy: returns the URL of the HTTP proxy for a scheme and host; empty for none.
        wait: seconds to wait for uploads at the end of a build.
    """

    url: str = dataclasses.field(default="", repr=False)
    mode: str = ""
    own: bool = False
    token: str = dataclasses.field(default="", repr=False)
    token_for: str = dataclasses.field(default="", repr=False)
    netrc: Path | None = None
    proxy: Callable[[str, str], str] = lambda scheme, host: ""  # noqa: ARG005
    wait: float = 60.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """A remote cache that a build uses.

    Attributes:
        url: URL.
        write: whether compiled images are uploaded.
        fill: whether images of the private cache are uploaded too.
        own: whether entries without a pin are used.
        authorization: value of the HTTP header; empty for none.
        proxy: URL of the HTTP proxy; empty for none.
        notes: texts for the user.
    """

    url: RemoteUrl
    write: bool = False
    fill: bool = False
    own: bool = False
    authorization: str = dataclasses.field(default="", repr=False)
    proxy: str = dataclasses.field(default="", repr=False)
    notes: tuple[str, ...] = ()


def resolve(choice: RemoteChoice, manifest_url: str = "", manifest_mode: str = "") -> Access | None:
    """Return the remote cache to use, or None.

    A remote cache named by the project gives pinned entries only, gets no token, and is not written
    to if it is a directory. The project's mode applies to the project's URL only.

    Raises:
        UsageError: a setting is invalid, or credentials would be sent unencrypted.
    """
    if choice.mode not in ("", *get_args(Mode)):
        raise UsageError(
            f"{choice.mode!r} is no mode of the remote cache", fix="say off, read, write or fill"
        )
    if not 0 <= choice.wait <= _LONGEST_WAIT:  # also refuses NaN
        raise UsageError(
            f"{choice.wait:g} s is no time to wait for uploads", fix="give --remote-wait seconds"
        )
    mode = choice.mode or ("" if choice.url else manifest_mode) or "read"
    if mode == "off" or not (choice.url or manifest_url):
        return None
    url = _parsed(choice.url or manifest_url)
    write, fill = mode in ("write", "fill"), mode == "fill"
    if choice.url:
        return Access(
            url=url,
            write=write,
            fill=fill,
            own=choice.own,
            authorization=_authorization(choice, url),
            proxy=_proxy(choice, url),
        )
    notes = []
    if write and url.scheme == "file" and not choice.mode:
        write = False
        notes.append(
            f"the remote cache {url.shown} is only read: a project writes no directory outside of "
            "it unless --remote-mode write says so"
        )
    known = url.scheme == "https"
    return Access(
        url=url,
        write=write,
        fill=fill,
        authorization=_basic(*_of_netrc(choice.netrc, url.host)) if known else "",
        proxy=_proxy(choice, url),
        notes=tuple(notes),
    )


def worker_access(url: str, environ: Mapping[str, str]) -> Access | None:
    """Return the remote cache of a build for a cluster's worker to write to, or None.

    The worker uses its own credentials, with the same restrictions as a build.

    Args:
        url: the build's URL, without credentials.
        environ: the worker's environment.

    Raises:
        UsageError: the worker's token is invalid, or would be sent unencrypted.
    """
    own = environ.get("TILEC_REMOTE_CACHE", "")
    with contextlib.suppress(ValueError):
        if RemoteUrl.parse(own).shown == url:
            url = own
    choice = RemoteChoice(
        url=url,
        mode="write",
        token=environ.get("TILEC_REMOTE_TOKEN", ""),
        token_for=own,
        netrc=netrc_file(environ, Path()),
        proxy=functools.partial(proxy_for, proxies(environ)),
    )
    return resolve(choice)


def open_store(access: Access, *, seconds: float = SECONDS) -> RemoteStore:
    """Return the store of a URL, without sending a request.

    Args:
        access: URL and credentials.
        seconds: time limit of a response.

    Raises:
        RemoteError: a required package is not installed.
    """
    url = access.url
    if url.scheme in ("http", "https"):
        from tilec.compile.remote.http import HttpStore

        headers = {"Authorization": access.authorization} if access.authorization else {}
        return HttpStore(
            url.shown,
            headers=headers,
            connections=CONNECTIONS,
            seconds=seconds,
            proxy=access.proxy,
        )
    if url.scheme == "file":
        from tilec.compile.remote.folder import FolderStore

        return FolderStore(Path(unquote(url.path) or "/"))
    from tilec.compile.remote.cloud import CloudStore

    return CloudStore(url.scheme, f"{url.host}{url.path}", seconds=seconds)


def try_out(access: Access) -> None:
    """Read from a remote cache, and write a few bytes if builds may write.

    Raises:
        RemoteError: the store failed, as it would in a build.
    """
    store, name = open_store(access, seconds=5.0), sha256(_PROBE)
    try:
        if access.write:
            store.put("cas", name, _PROBE)
        data = store.get("cas", name, len(_PROBE))
    except TooLargeError:
        data = b""
    finally:
        store.close()
    if access.write and data != _PROBE:
        raise RemoteError("it does not give back what was written to it")


def _parsed(text: str) -> RemoteUrl:
    try:
        return RemoteUrl.parse(text)
    except ValueError as exc:
        raise UsageError(
            f"the remote cache: {exc}", fix="write a URL such as https://cache.example/tilec"
        ) from None


def _proxy(choice: RemoteChoice, url: RemoteUrl) -> str:
    http = url.scheme in ("http", "https") and not url.loopback
    return choice.proxy(url.scheme, url.host) if http else ""


def _authorization(choice: RemoteChoice, url: RemoteUrl) -> str:
    """Return the authorization header for a remote cache named by the user.

    Raises:
        UsageError: credentials would be sent unencrypted, or the token is invalid.
    """
    if url.scheme not in ("http", "https"):
        return ""
    bound = not choice.token_for or _origin(choice.token_for) == url.origin
    token = choice.token.strip() if bound else ""
    if token and not _TOKEN.fullmatch(token):
        raise UsageError(
            "TILEC_REMOTE_TOKEN has white space or characters that no token has",
            fix="give the token alone",
        )
    clear = url.scheme == "http" and not url.loopback
    if clear and (token or url.user or url.password):
        raise UsageError(
            f"the credentials of the remote cache {url.shown} would be sent unencrypted",
            fix="name it by https://, or give no credentials",
        )
    if url.user or url.password:
        return _basic(url.user, url.password)
    if token:
        return f"Bearer {token}"
    return "" if clear else _basic(*_of_netrc(choice.netrc, url.host))


def _origin(text: str) -> tuple[str, str, int] | None:
    try:
        return RemoteUrl.parse(text).origin
    except ValueError:
        return None


def _basic(user: str, password: str) -> str:
    if not user and not password:
        return ""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _of_netrc(path: Path | None, host: str) -> tuple[str, str]:
    """Return (user, password) of a host from a netrc file, empty if unknown.

    The entry `default` is ignored, since it is for no specific host. Errors of an unreadable file
    are not shown, since they quote it.
    """
    try:
        row = netrc.netrc(path).hosts.get(host) if path is not None else None
    except (OSError, ValueError, netrc.NetrcParseError):
        return "", ""
    return (row[0], row[2] or "") if row else ("", "")
