"""An HTTP server in bazel-remote's layout that checks what it gets, and fails on demand."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PATH = re.compile(r"/(?:[^?#]*/)?(ac|cas)/([0-9a-f]{64})")
HTML = b"<!doctype html><title>Sign in</title>"


class Request(NamedTuple):
    """One request: what was asked of what, and its header of credentials."""

    method: str
    kind: str
    name: str
    authorization: str


Fault = Callable[[Request], str]


class CacheServer:
    """A server on this machine, as a context manager.

    Attributes:
        objects: what it holds, by kind and name.
        requests: everything that it was asked.
        fault: names the fault of a request; empty for none. See `_Handler.fail`.
        authorization: header that it wants; empty for none.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], bytes] = {}
        self.requests: list[Request] = []
        self.fault: Fault = lambda _: ""
        self.authorization = ""
        self.closing = threading.Event()
        handler = type("Handler", (_Handler,), {"cache": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/tilec"

    def asked(self, method: str) -> int:
        """Number of requests."""
        return sum(one.method == method for one in self.requests)

    def __enter__(self) -> CacheServer:  # noqa: PYI034 - nothing is derived from it
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two packets
    cache: CacheServer

    def do_GET(self) -> None:
        self._serve(self._give)

    def do_HEAD(self) -> None:
        self._serve(self._give)

    def do_PUT(self) -> None:
        self._serve(self._take)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - of the base class
        """Print nothing."""

    def _serve(self, answer: Callable[[Request], None]) -> None:
        match = _PATH.fullmatch(self.path)
        if match is None:
            self._answer(400, b"resource name must be a SHA256 hash in hex")
            return
        credentials = self.headers.get("Authorization", "")
        request = Request(self.command, match[1], match[2], credentials)
        self.cache.requests.append(request)
        if self.cache.authorization not in ("", credentials):
            self._answer(401, b"no " + credentials.encode())
            return
        fault = self.cache.fault(request)
        if fault:
            self.fail(fault, request)
        else:
            answer(request)

    def _give(self, request: Request) -> None:
        data = self.cache.objects.get((request.kind, request.name))
        if data is None:
            self._answer(404, b"Not found")
        else:
            self._answer(200, data)

    def _take(self, request: Request) -> None:
        length = self.headers.get("Content-Length")
        data = self.rfile.read(int(length or 0))
        if length is None or not accepts(request, data):
            self._answer(400, b"not valid")
            return
        self.cache.objects[request.kind, request.name] = data
        self._answer(201 if request.kind == "cas" else 204)

    def fail(self, fault: str, request: Request) -> None:
        data = self.cache.objects.get((request.kind, request.name), b"x" * 300)
        if fault.isdecimal():
            self._answer(int(fault), HTML)
        elif fault == "cut":
            self.close_connection = True
        elif fault == "slow":
            self.cache.closing.wait(30)
            self.close_connection = True
        elif fault == "drip headers":
            self.close_connection = True
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            while not self.cache.closing.wait(0.02):
                self.wfile.write(b"x")
        elif fault == "truncated":
            self._head(200, len(data))
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        elif fault == "wrong":
            self._answer(200, data[:-1] + bytes([data[-1] ^ 1]))
        elif fault == "html":
            self._answer(200, HTML)
        elif fault == "endless":
            self._endless()
        elif fault == "redirect":
            self.send_response(307)
            self.send_header("Location", f"http://127.0.0.2:1{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif fault == "noise":
            self.wfile.write(b"\x00\xffnonsense\r\n\r\n")
            self.close_connection = True
        else:
            raise AssertionError(fault)

    def _endless(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        while not self.cache.closing.is_set():
            self.wfile.write(b"10000\r\n" + bytes(1 << 16) + b"\r\n")

    def _answer(self, status: int, data: bytes = b"") -> None:
        if self.command == "PUT" and status >= 400:
            self.close_connection = True  # what it sends is not read
        self._head(status, len(data))
        if self.command != "HEAD":
            self.wfile.write(data)

    def _head(self, status: int, length: int) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(length))
        self.end_headers()


def accepts(request: Request, data: bytes) -> bool:
    """Return whether bazel-remote takes an object: it hashes `cas`, and parses `ac`."""
    if request.kind == "cas":
        return hashlib.sha256(data).hexdigest() == request.name
    message = ActionResult()
    try:
        message.ParseFromString(data)
    except Exception:  # noqa: BLE001 - a server refuses whatever it cannot read
        return False
    return bool(data) and all(
        one.path
        and not one.path.startswith("/")
        and re.fullmatch("[0-9a-f]{64}", one.digest.hash)
        and one.digest.size_bytes >= 0
        for one in message.output_files
    )


def basic(user: str, password: str) -> str:
    """Header of a user with a password."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _action_result() -> Any:
    """The messages of the Remote Execution API that the cache uses, as protobuf builds them."""
    number, text, message, boolean = 3, 9, 11, 8
    one, many = 1, 3
    tables: dict[str, list[tuple[str, int, int, int, str]]] = {
        "Digest": [("hash", 1, one, text, ""), ("size_bytes", 2, one, number, "")],
        "OutputFile": [
            ("path", 1, one, text, ""),
            ("digest", 2, one, message, ".r.Digest"),
            ("is_executable", 4, one, boolean, ""),
        ],
        "ExecutedActionMetadata": [("worker", 1, one, text, "")],
        "ActionResult": [
            ("output_files", 2, many, message, ".r.OutputFile"),
            ("exit_code", 4, one, 5, ""),
            ("stdout_raw", 5, one, 12, ""),
            ("stderr_raw", 7, one, 12, ""),
            ("execution_metadata", 9, one, message, ".r.ExecutedActionMetadata"),
        ],
    }
    file = descriptor_pb2.FileDescriptorProto(name="r.proto", package="r", syntax="proto3")
    for name, fields in tables.items():
        row = file.message_type.add(name=name)
        for field, place, label, kind, of in fields:
            row.field.add(name=field, number=place, label=label, type=kind, type_name=of or None)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("r.ActionResult"))


ActionResult = _action_result()
