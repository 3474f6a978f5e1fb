"""A reader for entry points of PTX: parameters, block limits and line numbers."""

from __future__ import annotations

import dataclasses
import math
import re

from tilec_runtime.errors import BundleError, Location

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_ENTRY = re.compile(
    r"\.entry\s+(?P<name>[\w$%]+)\s*(?:\((?P<params>[^)]*)\))?(?P<bounds>[^{;]*)(?P<end>[{;])"
)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?(?:\.v(?P<vector>[248])\s+)?\.(?P<type>[a-z]+[0-9a-z]*)"
    r"(?P<ptr>\s+\.ptr)?(?:\s+\.(?:global|const|local|shared|param|generic)|\s+\.align\s+(?P<target>\d+))*"
    r"\s+(?P<name>[\w$%]+)\s*(?:\[\s*(?P<count>\d+)\s*\])?"
)
_BOUND = re.compile(
    r"\.(?P<name>maxntid|reqntid|reqnctapercluster)\s+(?P<dims>\d+(?:\s*,\s*\d+){0,2})"
)
_SIZE = re.compile(r"[a-z]+(\d+)")
_OPAQUE = ("texref", "samplerref", "surfref")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PtxParam:
    """A declared parameter.

    Attributes:
        type: type without the dot, such as `u64`.
        size, align: in bytes.
        count: number of elements of an array, 0 otherwise.
        pointer: whether it is declared as an address (`.ptr`).
        target_align: declared alignment of the address in bytes.
    """

    name: str
    type: str
    size: int
    align: int
    count: int = 0
    pointer: bool = False
    target_align: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PtxEntry:
    """An entry point.

    Attributes:
        line: line of its declaration.
        max_threads: product of `.maxntid`, or 0 if not declared.
        required_block: `.reqntid`; empty if not declared.
        cluster: `.reqnctapercluster`; empty if not declared.
    """

    name: str
    line: int
    params: tuple[PtxParam, ...]
    max_threads: int = 0
    required_block: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()


def read_entries(text: str, path: str = "") -> tuple[PtxEntry, ...]:
    """Return the entry points that a PTX text defines, in order.

    Raises:
        BundleError: a parameter cannot be read; the error's location is the parameter's.
    """
    plain = without_comments(text)
    # A declaration that ends in a semicolon is defined elsewhere.
    return tuple(_entry(head, plain, path) for head in _ENTRY.finditer(plain) if head["end"] == "{")


def without_comments(text: str) -> str:
    """Return the text with blanks for comments; line numbers stay the same."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])

    return _COMMENT.sub(blank, text)


def line_of(text: str, at: int) -> int:
    """Return the line of an offset, counted from 1."""
    return text.count("\n", 0, at) + 1


def _entry(head: re.Match[str], text: str, path: str) -> PtxEntry:
    bounds = {
        m["name"]: tuple(int(n) for n in m["dims"].split(","))
        for m in _BOUND.finditer(head["bounds"])
    }
    return PtxEntry(
        name=head["name"],
        line=line_of(text, head.start()),
        params=tuple(_params(head, text, path)),
        max_threads=math.prod(bounds["maxntid"]) if "maxntid" in bounds else 0,
        required_block=(*bounds["reqntid"], 1, 1)[:3] if "reqntid" in bounds else (),
        cluster=(*bounds["reqnctapercluster"], 1, 1)[:3] if "reqnctapercluster" in bounds else (),
    )


def _params(head: re.Match[str], text: str, path: str) -> list[PtxParam]:
    params = []
    listed = head["params"] or ""
    at = head.start("params")
    for part in listed.split(",") if listed.strip() else ():
        match = _PARAM.fullmatch(part.strip())
        size = _size(match["type"]) if match else 0
        if match is None or not size:
            line = line_of(text, at + len(part) - len(part.lstrip()))
            message = f"parameter {' '.join(part.split())!r} of {head['name']} cannot be read"
            raise BundleError(message, location=Location(file=path or "PTX", line=line))
        one = size * int(match["vector"] or 1)
        params.append(
            PtxParam(
                name=match["name"],
                type=match["type"]
                if not match["vector"]
                else f"v{match['vector']}.{match['type']}",
                size=one * int(match["count"] or 1),
                align=int(match["align"] or one),
                count=int(match["count"] or 0),
                pointer=bool(match["ptr"]),
                target_align=int(match["target"] or 0) or 1,
            )
        )
        at += len(part) + 1
    return params


def _size(name: str) -> int:
    if name in _OPAQUE:
        return 8
    match = _SIZE.match(name)
    return int(match[1]) // 8 if match else 0
