"""Reads what NVIDIA's compute-sanitizer leaves of a launch, its records in XML and its log: in a few forms, with nothing made up."""

from __future__ import annotations

import dataclasses
import enum
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Place = tuple[int, int, int]
PRINTED = 1000  # records that a run may print; equal ones are merged, so more of them would tell nothing new


class Tool(enum.Enum):
    """The tools of compute-sanitizer; the value is what `--tool` takes."""

    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"
    INITCHECK = "initcheck"
    SYNCCHECK = "synccheck"


# Calls of the driver that fail are told by the driver's own users, which know what they asked for.
_OPTIONS: dict[Tool, tuple[str, ...]] = {
    Tool.MEMCHECK: ("--report-api-errors", "no"),
    Tool.RACECHECK: ("--racecheck-report", "analysis"),
    Tool.INITCHECK: (),
    Tool.SYNCCHECK: (),
}
HAZARDS = ("--racecheck-report", "hazard")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """Where in a kernel something happened.

    Attributes:
        function: the entry point or device function, as the code calls it.
        file, line: of the source; empty and 0 where the code does not say.
        offset: of the instruction in its function, such as `0x140`.
    """

    function: str = ""
    file: str = ""
    line: int = 0
    offset: str = ""


NOWHERE = Site()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One record of a report.

    Attributes:
        kind: as the tool calls it (`Precise`, `Initcheck`, `Analysis`, …); `error` says what of that, where it does.
        text: its sentence.
        warning: the tool takes it for less than an error.
        space: of memory, such as `global`. direction: `read`, `write` or `atomic`.
        address: of the access; None where there is none. size: its bytes.
        site: where. callers: of the function, innermost first.
        thread, block: x, y, z; None where none is named.
        other: the other access of a race, with what it does in `other_direction`, and its thread.
        count: how often the tool saw it.
    """

    kind: str
    text: str = ""
    error: str = ""
    warning: bool = False
    space: str = ""
    direction: str = ""
    address: int | None = None
    size: int = 0
    site: Site = NOWHERE
    callers: tuple[Site, ...] = ()
    thread: Place | None = None
    block: Place | None = None
    other: Site | None = None
    other_direction: str = ""
    other_thread: Place | None = None
    count: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """What a log says beside the records.

    Attributes:
        ended: the tool came to its summary.
        errors: how many records it counts, with those that it did not print.
        unprinted, skipped: records beyond `--print-limit`, and beyond the tool's own memory.
        troubles: its own words on what it could not do.
        heads: the sentence of the first record at each (function, offset): it says more than the report's does of some.
    """

    ended: bool
    errors: int = 0
    unprinted: int = 0
    skipped: int = 0
    troubles: tuple[str, ...] = ()
    heads: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)


def tool_command(program: str, tool: Tool, *, report: Path, log: Path, launch: Sequence[str], hazards: bool = False) -> list[str]:
    """The command line that watches a launch: records go to `report`, all else to `log`.

    With `hazards`, racecheck tells of single accesses, with their threads, and not of the pairs of lines that they come down to.
    """
    shown = ("--print-limit", str(PRINTED), "--show-backtrace", "device", "--strip-paths", "no")
    # After an error the kernel ends, not the context: what the process has to say of itself is said.
    ending = ("--destroy-on-device-error", "kernel")
    files = ("--xml", "--save", str(report), "--log-file", str(log))
    own = HAZARDS if hazards else _OPTIONS[tool]
    return [program, "--tool", tool.value, *own, *shown, *ending, *files, *launch]


def read_report(path: Path) -> tuple[tuple[Record, ...], bool]:
    """The records of a report, and whether it is whole: what stands before the place where it breaks off is read."""
    found: list[Record] = []
    try:
        for _, element in ET.iterparse(path):  # noqa: S314 - a tool that tilec has started wrote it
            if element.tag == "record":
                found.extend(_records(element))
                element.clear()
    except (OSError, ET.ParseError):
        return tuple(found), False
    return tuple(found), True


_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: ([\d,]+) (?:error|hazard)s?(?: displayed)?(?: \(.*\))?")
_UNPRINTED = re.compile(r"([\d,]+) errors? (?:was|were) not printed")
_SKIPPED = re.compile(r"([\d,]+) errors? (?:was|were) skipped")
_AT = re.compile(r"\s+at (.+)\+(0x[0-9a-f]+)(?: in .*)?$")
_RACE = re.compile(r"(?:Error|Warning|Info): (?:Race reported|Potential )")
_TROUBLE = re.compile(
    r"^(?:Error|Warning)\b|^Internal|Internal Sanitizer|[Nn]ot supported|unsupported|disabled|^Unable|^Failed|^Couldn't|timed.out|too many"
    r"|out of (?:host |device )?memory|insufficient|[Ss]aniti[sz]er error"
)


def read_log(text: str) -> Log:
    """What a log says beside the records."""
    ended, errors, unprinted, skipped = False, 0, 0, 0
    troubles: dict[str, None] = {}
    heads: dict[tuple[str, str], str] = {}
    before = ""
    for line in text.splitlines():
        said = re.sub(r"^=+ ?", "", line)
        if match := _AT.match(said):
            heads.setdefault((match[1], match[2]), before)
        before = said.strip()
        if match := _UNPRINTED.search(said):
            unprinted += _count(match[1])
        elif match := _SKIPPED.search(said):
            skipped += _count(match[1])
        elif match := _SUMMARY.fullmatch(said.strip()):
            ended, errors = True, errors + _count(match[1])
        elif said[:1].strip() and _TROUBLE.search(said) and not _RACE.match(said):
            troubles[said.strip()] = None
    return Log(ended=ended, errors=errors, unprinted=unprinted, skipped=skipped, troubles=tuple(troubles), heads=heads)


def _records(element: ET.Element) -> list[Record]:
    """A record as one value; one of several destinations of a race as one each."""
    what = element.find("what")
    what = ET.Element("what") if what is None else what
    common: dict[str, Any] = {
        "kind": _text(element, "kind"),
        "warning": _text(element, "level").lower() in ("warning", "info"),
        "text": " ".join(_text(what, "text").split()),
        "callers": tuple(_site(frame) for frame in element.findall("deviceStack/frame")),
    }
    source = what.find("source")
    if what.find("thread0") is not None and what.find("thread1") is not None:
        return [_hazard(what, common)]
    if source is not None:
        return [
            Record(
                **common,
                site=_site(source.find("where")),
                direction=_text(source, "direction").lower(),
                other=_site(destination.find("where")),
                other_direction=_text(destination, "direction").lower(),
                count=int(_text(destination, "count") or 1),
                space="shared",
            )
            for destination in what.findall("destination")
        ]
    address = _text(what, "address") or _text(what, "accessAddress")
    return [
        Record(
            **common,
            error=_text(what, "error"),
            space=_text(what, "space").strip("_"),
            direction=_text(what, "direction").lower(),
            address=_address(address),
            size=int(size) if (size := _text(what, "size") or _text(what, "accessSize")).isdecimal() else 0,
            site=_site(element.find("where")),
            thread=_place(element.find("who/threadIdx")),
            block=_place(element.find("who/blockIdx")),
        )
    ]


def _hazard(what: ET.Element, common: dict[str, Any]) -> Record:
    one, two = what.find("thread0"), what.find("thread1")
    assert one is not None
    assert two is not None
    return Record(
        **common,
        space="shared",
        direction=_text(one, "access").lower(),
        address=_address(_text(what, "common/address")),
        block=_place(what.find("common/blockIdx")),
        site=_site(one.find("where")),
        thread=_place(one.find("threadIdx")),
        other=_site(two.find("where")),
        other_direction=_text(two, "access").lower(),
        other_thread=_place(two.find("threadIdx")),
    )


def _address(text: str) -> int | None:
    return int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]+", text) else None


def _text(element: ET.Element, name: str) -> str:
    return (element.findtext(name) or "").strip()


def _site(element: ET.Element | None) -> Site:
    if element is None:
        return NOWHERE
    line = _text(element, "line")
    return Site(
        function=_text(element, "func"),
        file=_text(element, "path"),
        line=int(line) if line.isdecimal() else 0,
        offset=_text(element, "pc"),
    )


def _place(element: ET.Element | None) -> Place | None:
    if element is None:
        return None
    x, y, z = (int(text) if (text := _text(element, axis)).isdecimal() else 0 for axis in "xyz")
    return x, y, z


def _count(text: str) -> int:
    return int(text.replace(",", ""))
