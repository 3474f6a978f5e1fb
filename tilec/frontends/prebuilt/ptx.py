"""Entry points of a PTX text: their parameters, what bounds their blocks, and where they stand."""

from __future__ import annotations

import dataclasses
import re

from tilec.frontends.tools import ptx
from tilec.frontends.tools.compiled_files import fault
from tilec_runtime.model.arch import Target, Version

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+[af]?)\b", re.MULTILINE)
_ADDRESS = re.compile(r"^\s*\.address_size\s+(\d+)", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+(?P<name>[\w$%]+)\s*(?:\((?P<params>[^)]*)\))?(?P<bounds>[^{;]*)(?P<end>[{;])")
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?(?:\.v(?P<vector>[248])\s+)?\.(?P<type>[a-z]+[0-9a-z]*)"
    r"(?P<ptr>\s+\.ptr)?(?:\s+\.(?:global|const|local|shared|param|generic)|\s+\.align\s+\d+)*"
    r"\s+(?P<name>[\w$%]+)\s*(?:\[\s*(?P<count>\d+)\s*\])?"
)
_BOUND = re.compile(r"\.(?P<name>maxntid|reqntid|reqnctapercluster)\s+(?P<dims>\d+(?:\s*,\s*\d+){0,2})")
_SIZE = re.compile(r"[a-z]+(\d+)")
_OPAQUE = ("texref", "samplerref", "surfref")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PtxParam:
    """A parameter as declared: `type` without the dot (`u64`), bytes, and whether it is said to be an address (`.ptr`)."""

    name: str
    type: str
    size: int
    align: int
    count: int = 0
    pointer: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PtxEntry:
    """An entry point: `block` is `.reqntid`, `max_threads` the product of `.maxntid` (0 for none), `cluster` `.reqnctapercluster`."""

    name: str
    line: int
    params: tuple[PtxParam, ...]
    max_threads: int = 0
    block: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PtxModule:
    """What a text says of itself: its ISA, the architecture that it is for (as a PTX target), and its entry points."""

    isa: Version
    target: Target
    entries: tuple[PtxEntry, ...]


def read_ptx(text: str, path: str) -> PtxModule:
    """Read a PTX text.

    Raises:
        CompileError: `.version`, `.target` or every entry point is missing, or one is damaged.
    """
    plain = _without_comments(text)
    try:
        isa = ptx.isa(plain)
    except ValueError as exc:
        raise fault(path, "this PTX has no .version", fix="see that the file is whole") from exc
    found = _TARGET.search(plain)
    if found is None:
        raise fault(path, "this PTX has no .target", fix="see that the file is whole")
    try:
        target = Target.parse(f"compute_{found[1]}")
    except ValueError as exc:
        raise fault(path, f".target sm_{found[1]}: {exc}", line=_line(plain, found.start(1))) from exc
    bits = _ADDRESS.search(plain)
    if bits is not None and bits[1] != "64":
        raise fault(path, f".address_size {bits[1]}: kernels have addresses of 64 bits", line=_line(plain, bits.start(1)))
    # What ends in a semicolon is declared here and defined elsewhere.
    heads = [head for head in _ENTRY.finditer(plain) if head["end"] == "{"]
    if not heads:
        loose = re.search(r"\.entry\b", plain)
        if loose:
            raise fault(path, "this entry point is cut short", line=_line(plain, loose.start()), fix="see that the file is whole")
        has = " (it has device functions alone)" if ".func" in plain else ""
        raise fault(path, f"this PTX declares no entry point{has}", fix="a kernel is a `.visible .entry`")
    return PtxModule(isa=isa, target=target, entries=tuple(_entry(head, plain, path) for head in heads))


def _entry(head: re.Match[str], text: str, path: str) -> PtxEntry:
    bounds = {m["name"]: tuple(int(n) for n in m["dims"].split(",")) for m in _BOUND.finditer(head["bounds"])}
    most = 1
    for extent in bounds.get("maxntid", ()):
        most *= extent
    return PtxEntry(
        name=head["name"],
        line=_line(text, head.start()),
        params=tuple(_params(head, text, path)),
        max_threads=most if "maxntid" in bounds else 0,
        block=(*bounds["reqntid"], 1, 1)[:3] if "reqntid" in bounds else (),
        cluster=(*bounds["reqnctapercluster"], 1, 1)[:3] if "reqnctapercluster" in bounds else (),
    )


def _params(head: re.Match[str], text: str, path: str) -> list[PtxParam]:
    found = []
    listed = head["params"] or ""
    at = head.start("params")
    for part in listed.split(",") if listed.strip() else ():
        match = _PARAM.fullmatch(part.strip())
        size = _size(match["type"]) if match else 0
        if match is None or not size:
            shown = " ".join(part.split())
            raise fault(
                path, f"parameter {shown!r} of {head['name']} cannot be read", line=_line(text, at + len(part) - len(part.lstrip()))
            )
        one = size * int(match["vector"] or 1)
        found.append(
            PtxParam(
                name=match["name"],
                type=match["type"] if not match["vector"] else f"v{match['vector']}.{match['type']}",
                size=one * int(match["count"] or 1),
                align=int(match["align"] or one),
                count=int(match["count"] or 0),
                pointer=bool(match["ptr"]),
            )
        )
        at += len(part) + 1
    return found


def _size(name: str) -> int:
    if name in _OPAQUE:
        return 8
    match = _SIZE.match(name)
    return int(match[1]) // 8 if match else 0


def _without_comments(text: str) -> str:
    """The text with comments blanked; lines stay where they are."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])

    return _COMMENT.sub(blank, text)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
