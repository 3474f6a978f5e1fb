"""Findings of compute-sanitizer in a case's own words: which array, which element, how often; and what came of each of its tools."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilec.runner.cases import BoundCase
from tilec.runner.compute_sanitizer import NOWHERE, Log, Place, Record, Site, Tool
from tilec.runner.device import APART
from tilec_runtime.errors import TilecError
from tilec_runtime.model.dtype import DTYPES

CHECKED: dict[Tool, str] = {
    Tool.MEMCHECK: "memcheck: accesses outside of all memory that is allocated, and misaligned ones",
    Tool.RACECHECK: "racecheck: threads of a block that meet in shared memory with no barrier in between",
    Tool.INITCHECK: 'initcheck: reads of global memory that nothing wrote (inputs of a case with dist = "empty")',
    Tool.SYNCCHECK: "synccheck: barriers at which threads of a warp are not together, or that are used otherwise than they may be",
}
NOT_CHECKED = (
    "races in global memory, and between blocks",
    "barriers that threads skip because they end: the hardware counts those as arrived",
    f"accesses that miss their array by more than {APART >> 10} KiB and land in another",
    "inputs other than those of the cases, and other variants than those that they take",
)
_HINTS = {
    "out of bounds": "compare the index with the extent before the access, or launch fewer threads",
    "null pointer": "an address was computed from a pointer that is not set",
    "misaligned address": "a wide access needs an address that its size divides: check offsets and strides",
    "uninitialized read": 'write it first; or, if the kernel adds to it, give the case\'s input values instead of dist = "empty"',
    "write-write race": "put a barrier between the two accesses, or let one thread write",
    "read-write race": "put a barrier (__syncthreads()) between the two accesses",
    "barrier": "let every thread that a barrier waits for reach the same one: take it out of the branch",
}
_NULL = 4096  # addresses below belong to null pointers


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Array:
    """An array that a launch was given: where it lies on the device."""

    name: str
    address: int
    nbytes: int
    bits: int

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.nbytes

    def distance(self, address: int) -> int:
        """How many bytes an address is away from it; 0 inside."""
        return max(self.address - address, address - self.end + 1, 0)

    def element(self, address: int) -> int:
        """The element at an address, in the order of memory; below 0 in front of it."""
        return (address - self.address) * 8 // self.bits


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class GpuFinding:
    """One defect; the same of other threads, blocks or elements is one finding with a count.

    Attributes:
        tool: which found it. kind: what sort of defect. what: what happened, in one sentence.
        warning: the tool takes it for less than an error.
        site: where. callers: of the function there, innermost first.
        block, thread: x, y, z of the first that showed it; None where none is named.
        parameter, index: the array that it is about, and the element in the order of memory; empty and None for none.
        address, size: of the access; None and 0 for none.
        other: the other side of a race, what it does there (`other_what`), and its thread.
        count: how often it was seen. hint: the usual way to mend it.
    """

    tool: Tool
    kind: str
    what: str
    warning: bool = False
    site: Site = NOWHERE
    callers: tuple[Site, ...] = ()
    block: Place | None = None
    thread: Place | None = None
    parameter: str = ""
    index: int | None = None
    address: int | None = None
    size: int = 0
    other: Site | None = None
    other_what: str = ""
    other_thread: Place | None = None
    count: int = 1
    hint: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ToolRun:
    """What came of one tool.

    Attributes:
        tool: the tool. findings: what it found.
        weak: why it may have missed something.
        error: why it could not check at all; None if it did. seconds: how long it took.
    """

    tool: Tool
    findings: tuple[GpuFinding, ...] = ()
    weak: tuple[str, ...] = ()
    error: TilecError | None = None
    seconds: float = 0.0

    @property
    def status(self) -> str:
        """`findings`, `error`, `weak` or `clean`."""
        return "findings" if self.findings else "error" if self.error else "weak" if self.weak else "clean"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CheckedCase:
    """What came of one case.

    Attributes:
        case: the case. variant: what its launch took; empty where there was none. blocks: of it.
        runs: of the tools. notes: what is worth knowing of them together.
        skipped: why it was not checked; empty where it was.
    """

    case: BoundCase
    variant: str = ""
    blocks: int = 0
    runs: tuple[ToolRun, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: str = ""

    @property
    def findings(self) -> tuple[GpuFinding, ...]:
        """Those of all tools."""
        return tuple(finding for run in self.runs for finding in run.findings)

    @property
    def status(self) -> str:
        """The worst of its tools'; `skipped` where there are none."""
        found = {run.status for run in self.runs}
        return next((status for status in ("findings", "error", "weak", "clean") if status in found), "skipped")


def arrays_of(case: BoundCase, told: Mapping[str, Any]) -> tuple[Array, ...]:
    """The arrays of a launch, by what it told of them."""
    dtypes = {param.name: param.dtype for param in case.params}
    places: Mapping[str, Sequence[int]] = told.get("tensors") or {}
    return tuple(
        Array(name=name, address=address, nbytes=nbytes, bits=DTYPES[dtypes[name]].bits)
        for name, (address, nbytes) in places.items()
        if nbytes and dtypes.get(name) in DTYPES
    )


def findings_of(tool: Tool, records: Iterable[Record], log: Log, arrays: Sequence[Array]) -> tuple[GpuFinding, ...]:
    """Findings in the order in which they came up; those that differ in thread, block and element alone are one."""
    merged: dict[tuple[Any, ...], GpuFinding] = {}
    for record in records:
        head = log.heads.get((record.site.function, record.site.offset), "")
        longer = head if record.text and head.startswith(record.text) else record.text
        finding = _finding(tool, dataclasses.replace(record, text=longer), arrays)
        # The sentence names the first element; what is left without its numbers is what they have in common.
        same = "" if finding.parameter else re.sub(r"\d+", "#", re.sub(r"0x[0-9a-f]+", "#", finding.what))
        key = (finding.kind, finding.site, finding.other, finding.callers, finding.parameter, finding.size, same)
        known = merged.get(key)
        merged[key] = finding if known is None else dataclasses.replace(known, count=known.count + finding.count)
    return tuple(merged.values())


def with_examples(findings: Iterable[GpuFinding], hazards: Sequence[Record]) -> tuple[GpuFinding, ...]:
    """Races with the block, threads and address of a hazard that comes down to them, where one was told."""
    known: dict[tuple[Site, Site | None], Record] = {}
    for one in hazards:
        known.setdefault((one.site, one.other), one)
        if one.other is not None:
            turned = dataclasses.replace(one, thread=one.other_thread, other_thread=one.thread)
            known.setdefault((one.other, one.site), turned)
    return tuple(_with_example(finding, known.get((finding.site, finding.other))) for finding in findings)


def _with_example(finding: GpuFinding, one: Record | None) -> GpuFinding:
    if one is None or finding.other is None:
        return finding
    return dataclasses.replace(finding, block=one.block, thread=one.thread, other_thread=one.other_thread, address=one.address)


def weaknesses(records: Sequence[Record], log: Log, *, whole: bool, gap: int) -> tuple[str, ...]:
    """Why a tool that ran to its end may have missed something, or not told it.

    Args:
        records: what it told.
        log: what it said beside.
        whole: nothing of its report is missing.
        gap: bytes that the arrays of the launch are apart.
    """
    found = [f"in its words: {trouble}" for trouble in log.troubles]
    if gap < APART:
        found.append(f"arrays lie {gap:,} bytes apart, for want of memory: what misses one by more may land in another, and is not seen")
    if log.unprinted:
        found.append(f"it found {log.unprinted:,} more than it prints: mend what is shown, and check again")
    if log.skipped:
        found.append(f"it lost {log.skipped:,} of what it found for want of memory: take a smaller case")
    unread = log.errors - log.unprinted - len(records)
    if not whole:
        found.append("its report breaks off")
    elif unread > 0 and not log.troubles:
        found.append(f"{unread:,} of what it counts is not in its report: see it with `compute-sanitizer` itself")
    return tuple(found)


def checked_by(results: Sequence[CheckedCase]) -> tuple[Tool, ...]:
    """The tools that could check one case at least."""
    able = {run.tool for result in results for run in result.runs if run.error is None}
    return tuple(tool for tool in Tool if tool in able)


def to_json(results: Sequence[CheckedCase]) -> dict[str, Any]:
    """All results as JSON values."""
    statuses = ("clean", "findings", "weak", "error", "skipped")
    return {
        "ok": all(result.status in ("clean", "skipped") for result in results),
        "counts": {status: sum(result.status == status for result in results) for status in statuses},
        "cases": [_case_json(result) for result in results],
        "checked": [CHECKED[tool] for tool in checked_by(results)],
        "not_checked": list(NOT_CHECKED),
    }


def _finding(tool: Tool, record: Record, arrays: Sequence[Array]) -> GpuFinding:
    kind = _kind(record)
    array = _nearest(record, arrays)
    what, other_what = _sentence(kind, record, array), ""
    if record.other is not None:
        what, other_what = f"one thread {_does(record.direction)} shared memory here", f"another {_does(record.other_direction)} it here"
    return GpuFinding(
        tool=tool,
        kind=kind,
        what=what,
        warning=record.warning,
        site=record.site,
        callers=tuple(site for site in record.callers if site != record.site),
        block=record.block,
        thread=record.thread,
        parameter=array.name if array else "",
        index=array.element(record.address) if array and record.address is not None else None,
        address=record.address,
        size=record.size,
        other=record.other,
        other_what=other_what,
        count=record.count,
        hint=_HINTS.get(kind, ""),
    )


def _kind(record: Record) -> str:
    """What sort of defect a record is of; its own name where there is no word for it."""
    text = f"{record.text} {record.error}".lower()
    if record.other is not None:
        return "write-write race" if record.direction == record.other_direction == "write" else "read-write race"
    if record.kind == "Initcheck" or "uninitialized" in text:
        return "uninitialized read"
    if record.address is not None and record.address < _NULL and record.space == "global":
        return "null pointer"
    words = (
        ("misaligned", "misaligned address"),
        ("out of bounds", "out of bounds"),
        ("barrier", "barrier"),
        ("divergent", "barrier"),
        ("stack overflow", "stack overflow"),
        ("leak", "leak"),
    )
    return next((kind for word, kind in words if word in text), record.error or record.kind.lower() or "defect")


def _nearest(record: Record, arrays: Sequence[Array]) -> Array | None:
    """The array that an access of global memory is in, or just misses."""
    if record.address is None or record.space not in ("global", "") or record.address < _NULL:
        return None
    address = record.address
    near = min(arrays, key=lambda array: array.distance(address), default=None)
    return near if near is not None and near.distance(address) <= APART else None


def _sentence(kind: str, record: Record, array: Array | None) -> str:
    if kind == "null pointer":
        return f"{record.direction or 'access'} of {_bytes(record.size)} at {record.address:#x}"
    if array is None or record.address is None:
        at = f" at {record.address:#x}" if record.address is not None and f"{record.address:x}" not in record.text else ""
        return f"{record.text.removeprefix('Barrier error detected. ') or record.error or record.kind}{at}"
    whole, index = array.nbytes * 8 // array.bits, array.element(record.address)
    if kind == "uninitialized read":
        return f"reads {array.name}[{index}], which nothing has written"
    access = f"{record.direction or 'access'} of {_bytes(record.size)} at {array.name}[{index}]"
    if kind == "misaligned address":
        return f"{access}, at address {record.address:#x}"
    if kind != "out of bounds":
        return f"{access}: {record.text or kind}"
    side = f"{_elements(index - whole + 1)} behind the last" if index >= whole else f"{_elements(-index)} in front of the first"
    return f"{access}, {side} ({array.name} has {whole:,})"


def _does(direction: str) -> str:
    return {"write": "writes", "read": "reads"}.get(direction, direction or "accesses")


def _bytes(size: int) -> str:
    return f"{size} byte{'' if size == 1 else 's'}"


def _elements(count: int) -> str:
    return f"{count:,} element{'' if count == 1 else 's'}"


def _case_json(result: CheckedCase) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": result.case.name,
        "kernel": result.case.kernel,
        "variants": [result.variant] if result.variant else [],
        "status": result.status,
        "blocks": result.blocks,
        "tools": [_run_json(run) for run in result.runs],
        "findings": [_finding_json(finding) for finding in result.findings],
        "notes": list(result.notes),
    }
    if result.skipped:
        row["skipped"] = result.skipped
    return row


def _run_json(run: ToolRun) -> dict[str, Any]:
    row: dict[str, Any] = {"tool": run.tool.value, "status": run.status, "seconds": round(run.seconds, 3), "weak": list(run.weak)}
    if run.error is not None:
        row["error"] = {"type": type(run.error).__name__, "message": str(run.error)}
    return row


def _finding_json(finding: GpuFinding) -> dict[str, Any]:
    row: dict[str, Any] = {
        "tool": finding.tool.value,
        "kind": finding.kind,
        "severity": "warning" if finding.warning else "error",
        "what": finding.what,
        "location": _site_json(finding.site),
        "function": finding.site.function,
        "callers": [_site_json(site) for site in finding.callers],
        "block": list(finding.block or ()),
        "thread": list(finding.thread or ()),
        "parameter": finding.parameter,
        "index": [] if finding.index is None else [finding.index],
        "address": None if finding.address is None else f"{finding.address:#x}",
        "size": finding.size,
        "count": finding.count,
        "hint": finding.hint,
    }
    if finding.other is not None:
        row["other"] = {"what": finding.other_what, "location": _site_json(finding.other), "thread": list(finding.other_thread or ())}
    return row


def _site_json(site: Site) -> dict[str, Any] | None:
    return {"file": site.file, "line": site.line, "column": 0} if site.file else None
