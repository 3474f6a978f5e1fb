"""A store behind HTTP, in bazel-remote's layout or on a WebDAV server.

The layout is `/cas/<sha256>` and `/ac/<key>`.

https://github.com/buchgr/bazel-remote#http11-rest-api
"""

from __future__ import annotations

import contextlib
import functools
import io
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import ParamSpec, TypeVar
from urllib.parse import unquote

import urllib3
from urllib3.exceptions import (
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    SSLError,
    TimeoutError,  # noqa: A004 - of urllib3
)

from tilec.compile.remote.store import SLOWEST, Kind, RemoteError, TooLargeError, slow

_CHUNK = 1 << 16
_MOST_ANSWER = 1 << 16  # bytes to read of a response whose body is not needed
_MISSING = frozenset((404, 410))
_PASSING = frozenset((500, 502, 503, 504))
_REFUSED = frozenset((401, 403))
P = ParamSpec("P")
T = TypeVar("T")


class PassingError(RemoteError):
    """A failure that a retry may fix, such as a closed connection or a restart."""


def _retried(call: Callable[P, T]) -> Callable[P, T]:
    """Return a function that calls again after a failure that a retry may fix."""

    @functools.wraps(call)
    def retried(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except PassingError:
            return call(*args, **kwargs)

    return retried


class HttpStore:
    """A store behind HTTP.

    Redirects are not followed, so that credentials reach the intended server only.

    Args:
        url: URL of the directory of `cas` and `ac`, without credentials.
        headers: headers of every request.
        connections: limit of connections.
        seconds: time limit of a response; bodies get more time by their size.
        proxy: URL of the proxy; empty for none.

    Raises:
        RemoteError: the URL of the proxy is invalid.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        connections: int,
        seconds: float,
        proxy: str = "",
    ) -> None:
        self._url = url.rstrip("/")
        self._seconds = seconds
        self._headers = {"Accept-Encoding": "identity", "User-Agent": "tilec", **headers}
        timeout = urllib3.Timeout(connect=seconds / 2, read=seconds)
        if proxy:
            self._pool: urllib3.PoolManager = _proxied(proxy, connections, timeout)
        else:
            self._pool = urllib3.PoolManager(maxsize=connections, timeout=timeout, retries=False)

    @_retried
    def get(self, kind: Kind, name: str, limit: int) -> bytes | None:
        """Return an object; see `RemoteStore`."""
        with self._answer("GET", kind, name) as answer:
            if answer.status in _MISSING:
                self._pass_over(answer)
                return None
            self._require(answer, HTTPStatus.OK)
            return self._body(answer, limit)

    @_retried
    def has(self, kind: Kind, name: str) -> bool:
        """Return whether there is an object; see `RemoteStore`."""
        with self._answer("HEAD", kind, name) as answer:
            self._pass_over(answer)
            if answer.status in _MISSING:
                return False
            self._require(answer, HTTPStatus.OK, HTTPStatus.NO_CONTENT)
            return True

    @_retried
    def put(self, kind: Kind, name: str, data: bytes) -> None:
        """Write an object; see `RemoteStore`."""
        with self._answer("PUT", kind, name, data) as answer:
            self._require(answer, HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT)
            self._pass_over(answer)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    @contextlib.contextmanager
    def _answer(
        self, method: str, kind: Kind, name: str, data: bytes | None = None
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Send a request and yield the response, whose body is not read yet."""
        headers, body = self._headers, None
        if data is not None:
            # A file object is sent in blocks, and the time limit applies to each block. Bytes would
            # be sent as one block.
            body = io.BytesIO(data)
            headers = {
                **headers,
                "Content-Length": str(len(data)),
                "Content-Type": "application/octet-stream",
            }
        answer = None
        try:
            answer = self._pool.request(
                method,
                f"{self._url}/{kind}/{name}",
                body=body,
                headers=headers,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            yield answer
        except TimeoutError as exc:
            if isinstance(exc, NewConnectionError):  # a refused connection, for urllib3 a timeout
                raise _failure(exc) from exc
            raise slow(self._seconds) from exc
        except HTTPError as exc:
            raise _failure(exc) from exc
        finally:
            if answer is not None:
                answer.close()  # no effect after reading, when the connection is back in the pool

    def _body(self, answer: urllib3.BaseHTTPResponse, limit: int) -> bytes:
        length = answer.headers.get("Content-Length", "")
        if length.isdecimal() and int(length[:20]) > limit:
            raise TooLargeError
        deadline = time.monotonic() + self._seconds + limit / SLOWEST
        data = bytearray()
        while part := answer.read1(_CHUNK):
            data += part
            if len(data) > limit:
                raise TooLargeError
            if time.monotonic() > deadline:
                raise slow(self._seconds)
        return bytes(data)

    def _pass_over(self, answer: urllib3.BaseHTTPResponse) -> None:
        """Read a short response, so that its connection can be reused."""
        with contextlib.suppress(TooLargeError):
            self._body(answer, _MOST_ANSWER)

    def _require(self, answer: urllib3.BaseHTTPResponse, *statuses: int) -> None:
        status = answer.status
        if status in statuses:
            return
        if 300 <= status < 400:
            raise RemoteError("it redirects, which is not followed: name the server itself")
        phrase = HTTPStatus(status).phrase if status in {*HTTPStatus} else "no known status"
        reason = f"it answers {status} ({phrase})"
        if status in _REFUSED:
            reason += "; credentials come from ~/.netrc or TILEC_REMOTE_TOKEN"
        raise PassingError(reason) if status in _PASSING else RemoteError(reason)


def _proxied(proxy: str, connections: int, timeout: urllib3.Timeout) -> urllib3.ProxyManager:
    try:
        auth = urllib3.util.parse_url(proxy).auth
        headers = urllib3.make_headers(proxy_basic_auth=unquote(auth)) if auth else None
        return urllib3.ProxyManager(
            proxy, proxy_headers=headers, maxsize=connections, timeout=timeout, retries=False
        )
    except HTTPError as exc:
        raise RemoteError("the proxy of the environment is no http:// or https:// one") from exc


def _failure(exc: HTTPError) -> RemoteError:
    """Return an error with a text of tilec.

    The library's text may quote the server's response.
    """
    if isinstance(exc, NameResolutionError):
        return RemoteError("its name cannot be resolved")
    if isinstance(exc, NewConnectionError):
        return RemoteError("it cannot be reached")
    if isinstance(exc, SSLError):
        why = getattr(exc.args[0], "verify_message", "") if exc.args else ""
        return RemoteError(f"TLS failed{f': {why}' if why else ''}")
    if isinstance(exc, ProtocolError):
        return PassingError("the connection was cut, or its answer is no HTTP")
    return RemoteError(f"the request failed ({type(exc).__name__})")
