"""Turn errors of cuda.tile into located compile errors."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from types import FunctionType

from tilec.frontends.tile import api
from tilec.frontends.tile.misuse import READ_ONLY
from tilec.frontends.tools.python_errors import (
    located,
    parameter_place,
    traced,
    undefined_hint,
)
from tilec.model.job import Source
from tilec_runtime.errors import CompileError, Location
from tilec_runtime.model.suggest import suggestion

# An array of the safe language in cuda.tile's messages, with its fields.
_NESTED = r"(?:[^][]|\[(?:[^][]|\[[^][]*\])*\])*"
_ARRAY = re.compile(rf"\b(\w+)\[_tl_array: Array\[(\w+){_NESTED}\]{_NESTED}\]")

_MEMORY = "tilec.lang has no memory operations: import cuda.tile as ct for those, on a tl.Ptr"
# Names from other libraries, with the cuda.tile operation that replaces each.
_INSTEAD = {
    "sigmoid": "write it out: 1 / (1 + ct.exp(-x))",
    "silu": "write it out: x / (1 + ct.exp(-x))",
    "relu": "write it out: ct.maximum(x, 0)",
    "gelu": "write it out: 0.5 * x * (1 + ct.tanh(0.7978846 * (x + 0.044715 * x * x * x)))",
    "square": "write it out: x * x",
    "erf": (
        "cuda.tile has no such operation: GELU by tanh is "
        "0.5 * x * (1 + ct.tanh(0.7978846 * (x + 0.044715 * x * x * x)))"
    ),
    "dot": "ct.mma(a, b, accumulator) or ct.matmul(a, b)",
    "num_programs": "ct.num_blocks(axis)",
}
_INSTEAD_OF_CT = {"program_id": "ct.bid(axis)"}
_INSTEAD_OF_TL = {
    "program_id": "the block's index is y.index, of an output y: tl.Mut",
    "load": "an input x is loaded by x.load_tile_like(y) or x.load_tile(index, shape)",
    "store": "y.store(tile) writes the block's tile of an output y: tl.Mut",
}
_HINTS = tuple(
    (re.compile(pattern, re.IGNORECASE), hint)
    for pattern, hint in (
        (
            r"(?=.*not supported).*sm_",
            "leave this target out for the kernel with an [[override]], or choose another dtype",
        ),
        (
            r"'Ref' object has no attribute '(?:store|store_tile|load)'",
            READ_ONLY,
        ),
        (
            r"'Ref' object has no attribute '(?:index|tile_shape)'",
            (
                "load_tile_like takes its place from what a block writes, a tl.Mut: "
                "of a tl.Ref, take load_tile(index, shape)"
            ),
        ),
        (
            r"^store\(\): (?:too many|got an unexpected)",
            (
                "a block stores to its own region alone: z.store(tile); "
                "for several tiles of an output: tl.MappedMut"
            ),
        ),
        (
            r"given value has type tl\.",
            (
                "operations of cuda.tile take raw arrays: use the methods of the parameter, "
                "or declare it tl.Ptr[T], which is unsafe"
            ),
        ),
        (
            r"^Index \d+ is out of range for a tuple|^Directly indexing a tile is not",
            (
                "index and shape of a tile are tuples with one number per dimension of the array; "
                "a tuple of one is written (i,)"
            ),
        ),
        (
            r"^Maximum recursion depth",
            (
                "what a kernel calls becomes a part of it, so no function can call itself: "
                "write a loop"
            ),
        ),
        (
            r"Unsupported operand types.*Tuple\[",
            "a tile of a tl.SpanMut is named by its number along the axis, not by a place",
        ),
        (
            r"Unsupported operand types.*\b(?:Ref|Mut|MappedMut|SpanMut)\[",
            (
                "arrays are loaded before they are computed with: "
                "x.load_tile_like(z), x.load_tile(index, shape), z.load()"
            ),
        ),
        (
            r"^(static_\w+)\(\) must be used directly by name",
            r"from tilec.lang import \1, and call it without tl in front",
        ),
        (
            r"'(?:Ref|Mut|MappedMut|SpanMut)' object is not subscriptable",
            (
                "kernels load tiles, not elements: "
                "x.load_tile_like(z), x.load_tile(index, shape), z.load()"
            ),
        ),
        (
            r"^Expected a scalar value, but given value has type Tile\[",
            "an if, a while and a range take one number for the whole block: for each element, tl.where(condition, a, b)",
        ),
        (
            r"^Unsupported syntax",
            "kernels take a part of Python: numbers, tuples, if, while, for over range, functions; no lists, dicts or comprehensions",
        ),
        (
            r"numpy\.ufunc",
            "NumPy runs on the host: tl.exp and its like are the operations of tiles",
        ),
        (
            r"cannot implicitly cast",
            "cast it where it is stored: value.astype(array.dtype)",
        ),
    )
)


def export_error(
    exc: Exception,
    *,
    source: Source,
    texts: Mapping[str, str],
    kernel: str,
    at: Location,
    function: FunctionType,
) -> CompileError:
    """Return the error of a kernel (a `function`) that cuda.tile rejected; `at`, its definition,
    stands in for a missing location.
    """
    message_and_places = api.tile_error(exc, texts)
    if message_and_places is None:
        return _other_error(exc, texts=texts, kernel=kernel, at=at)
    message, places = message_and_places
    # Drop its text for an unknown location: `at` is shown instead.
    lines = [line.strip() for line in message.strip().splitlines()]
    first, *more = [
        _ARRAY.sub(r"tl.\1[\2]", line) for line in lines if line != "Unknown location"
    ] or [type(exc).__name__]
    hint = (" ".join(more) if places else "") or _hint(first) or undefined_hint(first, function)
    # Endless recursion repeats one frame a thousand times.
    places[1:] = dict.fromkeys(places[1:])
    diagnostics = traced(texts, places or [(at, "")], first, hint)
    return CompileError(
        f"{source.path}: kernel {kernel!r} does not compile: {first}",
        diagnostics=diagnostics,
        log=f"{type(exc).__name__}: {_told(exc, message)}",
        cause="cuda.tile calls this an error of its own" if api.is_bug(exc) else "",
    )


def _told(exc: Exception, message: str) -> str:
    """Return an error's text with its locations, or the message alone if cuda.tile cannot format
    them.
    """
    try:
        return str(exc)
    except Exception:  # noqa: BLE001 - it is about to be told as an error anyway
        return message


def _other_error(
    exc: Exception, *, texts: Mapping[str, str], kernel: str, at: Location
) -> CompileError:
    name, text = type(exc).__name__, str(exc).strip()
    where = re.search(r"kernel parameter '(\w+)'", text)
    location = parameter_place(texts, at, where[1]) if where and isinstance(exc, TypeError) else at
    known = isinstance(exc, TypeError | ValueError) and bool(where)
    message = text if known else f"{name}: {text or 'no message'}"
    frames = traceback.format_list(traceback.extract_tb(exc.__traceback__)[-3:])
    return CompileError(
        f"kernel {kernel!r} does not compile: {message}",
        diagnostics=(located(texts, location, message),),
        log=f"{name}: {text}" if known else "".join((*frames, f"{name}: {text}\n")),
        cause=""
        if known
        else "cuda.tile failed without a place in the source: an unusual construct, or a bug of it",
    )


def missing_hint(module: str, name: str) -> str:
    """Return a hint for a name that `cuda.tile` or `tilec.lang` does not have."""
    safe = module == "tilec.lang"
    instead = (_INSTEAD_OF_TL if safe else _INSTEAD_OF_CT).get(name, "")
    if instead:
        return instead
    if name in _INSTEAD:
        return _INSTEAD[name].replace("ct.", "tl.") if safe else _INSTEAD[name]
    if safe and hasattr(api.cuda_tile(), name):
        return _MEMORY
    names = dir(api.lang() if safe else api.cuda_tile())
    return suggestion(name, [known for known in names if not known.startswith("_")])


def _hint(message: str) -> str:
    unknown = re.search(r"Module '(cuda\.tile|tilec\.lang)' has no attribute '(\w+)'", message)
    if unknown:
        return missing_hint(unknown[1], unknown[2])
    for pattern, hint in _HINTS:
        found = pattern.search(message)
        if found:
            return found.expand(hint)
    return ""
