"""Link LTO-IR to PTX with nvJitLink, in this process."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

from tilec_runtime.errors import ToolchainError

_FIX = "pip install 'tilec[build]'"
_MAGIC = (
    (b"!<arch>\n", "LIBRARY"),
    (b"\x50\xed\x55\xba", "FATBIN"),
    (b"\xedCN\x7f", "LTOIR"),
    (b"\x7fELF", "OBJECT"),
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """An input of a link: name for messages, kind as nvJitLink calls it, and bytes."""

    name: str
    kind: str
    data: bytes


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Linked:
    """The result of a link: PTX and, on request, LTO-IR; both empty if it failed."""

    text: str = ""
    ltoir: bytes = b""
    log: str = ""


def kind_of(data: bytes) -> str:
    """Return nvJitLink's kind of a file that may hold LTO-IR, or an empty string."""
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), "")


def link_ptx(
    library: str, pieces: Sequence[Piece], options: Sequence[str], *, whole: bool = False
) -> Linked:
    """Link LTO-IR to one PTX text, and with `whole` also to one module of LTO-IR.

    Raises:
        ToolchainError: nvJitLink cannot be used.
    """
    nvjitlink = _load(library)
    options = ["-lto", "-ptx", *options]
    handle = nvjitlink.create(len(options), options)
    try:
        for piece in pieces:
            kind = getattr(nvjitlink.InputType, piece.kind)
            nvjitlink.add_data(handle, kind, piece.data, len(piece.data), piece.name)
        nvjitlink.complete(handle)
        data = taken(nvjitlink.get_linked_ptx_size, nvjitlink.get_linked_ptx, handle)
        module = _linked_ltoir(nvjitlink, handle) if whole else b""
        text = data.rstrip(b"\0 ").decode("utf-8", "surrogateescape")
        return Linked(text=text, ltoir=module, log=_log(nvjitlink, handle))
    except nvjitlink.nvJitLinkError as exc:
        return Linked(log=_log(nvjitlink, handle) or str(exc))
    finally:
        nvjitlink.destroy(handle)


def words(size: Callable[[Any], int], get: Callable[[Any, bytearray], None], handle: Any) -> str:
    """Return a text of a toolkit library, read by a pair of size and get functions."""
    return taken(size, get, handle).rstrip(b"\0").decode("utf-8", "replace").strip()


def taken(size: Callable[[Any], int], get: Callable[[Any, bytearray], None], handle: Any) -> bytes:
    """Return bytes of a toolkit library, read by a pair of size and get functions."""
    buffer = bytearray(size(handle))
    get(handle, buffer)
    return bytes(buffer)


def _linked_ltoir(nvjitlink: Any, handle: Any) -> bytes:
    try:
        return taken(nvjitlink.get_linked_ltoir_size, nvjitlink.get_linked_ltoir, handle)
    except (AttributeError, RuntimeError):  # bindings or libraries before CUDA 13.4 lack it
        return b""


def _log(nvjitlink: Any, handle: Any) -> str:
    return words(nvjitlink.get_error_log_size, nvjitlink.get_error_log, handle)


@functools.lru_cache(maxsize=2)
def _load(library: str) -> Any:
    try:
        # The binding uses a library that is loaded already. Load the one whose digest is in the
        # cache keys.
        ctypes.CDLL(library)
        return importlib.import_module("cuda.bindings.nvjitlink")
    except (ImportError, OSError) as exc:
        raise ToolchainError(f"libnvJitLink cannot be used: {exc}", fix=_FIX) from exc
