"""Completion in editors: what pyright's language server offers behind a parameter of a kernel, in
both spellings of its annotation.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

import pytest

import tilec.lang as tl
from tests.typing.test_types import ROOT

SHORT = (
    "z: tl.Mut[T, (BM,)], x: tl.Ref[T, 1], c: tl.MappedMut[T, (BM,)], s: tl.SpanMut[T, (BM,), 0]"
)
LONG = ", ".join(
    f"{name}: Annotated[tl.{marks}]"
    for name, marks in (
        ("z", "Mut, T, (BM,)"),
        ("x", "Ref, T, 1"),
        ("c", "MappedMut, T, (BM,)"),
        ("s", "SpanMut, T, (BM,), 0"),
    )
)
TEXT = """from typing import Annotated
import tilec.lang as tl
T = tl.dtype("T")
BM = tl.size("BM")
@tl.kernel
def k({signature}) -> None:
    z.
    x.
    c.
    s.
    tl.
"""
LIMIT = 120.0
KINDS = {"z": tl.Mut, "x": tl.Ref, "c": tl.MappedMut, "s": tl.SpanMut}


class Server:
    """pyright's language server, spoken to over its standard streams."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "pyright.langserver", "--stdio"]
        environ = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=environ,
            start_new_session=True,
        )
        self._limit = threading.Timer(
            LIMIT, self._kill
        )  # a server that hangs gives no answer, and then has ended
        self._limit.start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: IO[bytes] = self._process.stdin
        self._output: IO[bytes] = self._process.stdout
        self._asked = 0

    def tell(self, method: str, params: dict[str, Any], **more: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        self._input.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._input.flush()

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """The answer; what the server asks meanwhile is answered with nothing."""
        self._asked += 1
        self.tell(method, params, id=self._asked)
        while True:
            length = 0
            while (line := self._output.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                length = int(value) if name == b"Content-Length" else length
            if not length:
                raise EOFError("the server ended")
            message = json.loads(self._output.read(length))
            if message.get("id") == self._asked and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            if "method" in message and "id" in message:
                items = message.get("params", {}).get("items", [])
                answer = json.dumps(
                    {"jsonrpc": "2.0", "id": message["id"], "result": [{} for _ in items] or None}
                ).encode()
                self._input.write(b"Content-Length: %d\r\n\r\n" % len(answer) + answer)
                self._input.flush()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(
                self._process.pid, signal.SIGKILL
            )  # node is a child of the process that was started

    def end(self) -> None:
        self._limit.cancel()
        self._kill()
        self._process.wait(timeout=LIMIT)
        self._input.close()
        self._output.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("editor")
    (folder / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT)]}))
    found = Server(folder)
    try:
        uri = folder.as_uri()
        found.ask(
            "initialize",
            {
                "processId": None,
                "rootUri": uri,
                "capabilities": {},
                "workspaceFolders": [{"uri": uri, "name": "editor"}],
            },
        )
        found.tell("initialized", {})
        yield found, uri
    finally:
        found.end()


@pytest.mark.long
@pytest.mark.parametrize("spelling", ["short", "long"])
def test_parameters_offer_what_they_have(server: Any, spelling: str) -> None:
    speaks, folder = server
    uri, text = (
        f"{folder}/{spelling}.py",
        TEXT.format(signature={"short": SHORT, "long": LONG}[spelling]),
    )
    speaks.tell(
        "textDocument/didOpen",
        {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": text}},
    )
    for line, row in enumerate(text.splitlines()):
        name = row.strip().removesuffix(".")
        if not row.endswith(".") or name not in (*KINDS, "tl"):
            continue
        answer = speaks.ask(
            "textDocument/completion",
            {"textDocument": {"uri": uri}, "position": {"line": line, "character": len(row)}},
        )
        offered = {item["label"] for item in answer["items"]}
        if name == "tl":
            assert offered >= {"Mut", "Ref", "mma", "zeros", "load_tile_like"}
            continue
        public = {attribute for attribute in dir(KINDS[name]) if not attribute.startswith("_")}
        assert {label for label in offered if not label.startswith("_")} == public, name
