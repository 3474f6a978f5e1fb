"""The linker of device code: LTO-IR to PTX in this process, whatever else there is to machine code
in one of its own.
"""

from __future__ import annotations

import base64
import ctypes
import dataclasses
import functools
import importlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilec.frontends.tools.run import run_tool
from tilec_runtime.errors import ToolchainError

_FIX = "pip install 'tilec[build]'"
# Fixed words of nvJitLink, where it is asked for PTX of code that holds none.
_NO_LTOIR = "requires that all inputs have LTOIR"
_CHILD = (
    "import json, sys; asked = json.load(open('asked.json')); sys.path[:] = asked['path']; "
    "from tilec.frontends.tools.nvjitlink import answer; answer(asked)"
)
_MAGIC = ((b"!<arch>\n", "LIBRARY"), (b"\x50\xed\x55\xba", "FATBIN"), (b"\xedCN\x7f", "LTOIR"))
_CUDA_MACHINE = b"\xbe\x00"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """What is linked: its name for messages, its bytes, and what nvJitLink calls its kind."""

    name: str
    kind: str
    data: bytes


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of a link: PTX or a cubin (empty where it failed), one module of LTO-IR where that
    was asked for, the linker's words.
    """

    data: bytes = b""
    ltoir: bytes = b""
    log: str = ""
    timed_out: bool = False

    @property
    def needs_ltoir(self) -> bool:
        """Whether it failed because a piece holds no LTO-IR."""
        return _NO_LTOIR in self.log


def kind_of(data: bytes) -> str:
    """nvJitLink's kind of a file, by its first bytes; empty where it is nothing that can be linked."""
    if data.startswith(b"\x7fELF"):
        return "CUBIN" if data[18:20] == _CUDA_MACHINE else "OBJECT"
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return kind
    return (
        "PTX"
        if re.search(rb"^\s*\.version\b", data, re.MULTILINE) and b"\0" not in data.rstrip(b"\0")
        else ""
    )


def link_ptx(library: str, pieces: Sequence[Piece], options: Sequence[str]) -> Outcome:
    """Link LTO-IR, whole or in libraries, to one PTX text.

    Raises:
        ToolchainError: nvJitLink cannot be used.
    """
    return _link(_load(library), pieces, ["-lto", "-ptx", *options])


def link_ltoir(
    library: str, pieces: Sequence[Piece], options: Sequence[str], *, whole: bool
) -> Outcome:
    """As `link_ptx`, with the linked LTO-IR where it is asked for `whole`; empty from an nvJitLink
    that gives none.

    Raises:
        ToolchainError: nvJitLink cannot be used.
    """
    return _link(_load(library), pieces, ["-lto", "-ptx", *options], ltoir=whole)


def link_code(
    library: str, pieces: Sequence[Piece], options: Sequence[str], *, timeout: float
) -> Outcome:
    """Link PTX, machine code and libraries to one cubin.

    In a process of its own: a failed link of machine code leaves nvJitLink in a state in which the
    next one crashes, and of what is defined twice it tells on the standard error output alone.

    Raises:
        ToolchainError: nvJitLink cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="tilec-link-") as folder:
        rows = [[piece.name, piece.kind, base64.b64encode(piece.data).decode()] for piece in pieces]
        asked = {"path": sys.path, "library": library, "pieces": rows, "options": list(options)}
        Path(folder, "asked.json").write_text(json.dumps(asked), encoding="utf-8")
        done = run_tool([sys.executable, "-I", "-c", _CHILD], timeout=timeout, cwd=folder)
        made, log = Path(folder, "linked.cubin"), Path(folder, "log.txt")
        told = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        words = "\n".join(part for part in (told.strip(), done.stderr.strip()) if part)
        good = (
            done.rc == 0
            and made.is_file()
            and not re.search(r"^(?:@E@)?(?:error|fatal)\s*:", done.stderr, re.MULTILINE)
        )
        return Outcome(data=made.read_bytes() if good else b"", log=words, timed_out=done.timed_out)


def answer(asked: Any) -> None:
    """What the process of `link_code` does: it leaves the cubin and the log in its directory."""
    pieces = [
        Piece(name=name, kind=kind, data=base64.b64decode(data))
        for name, kind, data in asked["pieces"]
    ]
    done = _link(_load(asked["library"]), pieces, asked["options"])
    Path("log.txt").write_text(done.log, encoding="utf-8")
    if done.data:
        Path("linked.cubin").write_bytes(done.data)


def _link(
    nvjitlink: Any, pieces: Sequence[Piece], options: Sequence[str], *, ltoir: bool = False
) -> Outcome:
    handle = nvjitlink.create(len(options), list(options))
    try:
        for piece in pieces:
            nvjitlink.add_data(
                handle,
                getattr(nvjitlink.InputType, piece.kind),
                piece.data,
                len(piece.data),
                piece.name,
            )
        nvjitlink.complete(handle)
        if "-ptx" in options:
            data = taken(nvjitlink.get_linked_ptx_size, nvjitlink.get_linked_ptx, handle).rstrip(
                b"\0 "
            )
        else:
            data = taken(nvjitlink.get_linked_cubin_size, nvjitlink.get_linked_cubin, handle)
        return Outcome(
            data=data,
            ltoir=_linked_ltoir(nvjitlink, handle) if ltoir else b"",
            log=_log(nvjitlink, handle),
        )
    except nvjitlink.nvJitLinkError as exc:
        return Outcome(log=_log(nvjitlink, handle) or str(exc))
    finally:
        nvjitlink.destroy(handle)


def _linked_ltoir(nvjitlink: Any, handle: Any) -> bytes:
    try:
        return taken(nvjitlink.get_linked_ltoir_size, nvjitlink.get_linked_ltoir, handle)
    except (AttributeError, RuntimeError):  # neither older bindings nor older libraries have it
        return b""


def _log(nvjitlink: Any, handle: Any) -> str:
    return words(nvjitlink.get_error_log_size, nvjitlink.get_error_log, handle)


def words(size: Callable[[Any], int], get: Callable[[Any, bytearray], None], handle: Any) -> str:
    """Return a text that a library of the toolkit holds for a handle."""
    return taken(size, get, handle).rstrip(b"\0").decode("utf-8", "replace").strip()


def taken(size: Callable[[Any], int], get: Callable[[Any, bytearray], None], handle: Any) -> bytes:
    """Return the bytes that a library of the toolkit holds for a handle."""
    buffer = bytearray(size(handle))
    get(handle, buffer)
    return bytes(buffer)


@functools.lru_cache(maxsize=2)
def _load(library: str) -> Any:
    try:
        # The binding takes the library that is loaded already: the one whose digest is in the keys.
        ctypes.CDLL(library)
        return importlib.import_module("cuda.bindings.nvjitlink")
    except (ImportError, OSError) as exc:
        raise ToolchainError(f"libnvJitLink cannot be used: {exc}", fix=_FIX) from exc
