"""The tuning file, such as `tuning/gemm.json`: reading it, and its canonical text.

What does not fit is reported with line and column.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from tilec.model.tuning import Candidate, Clocks, Status, TunedDevice, TunedEntry, TuningRecord
from tilec_runtime.bundle.codec import (
    Codec,
    Misfit,
    enumeration,
    integer,
    literal,
    optional,
    parsed,
    record,
    row,
    sequence,
    shown,
    text,
    unfit,
)
from tilec_runtime.errors import Diagnostic, ExpressionError, Location, ManifestError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.expr import parse
from tilec_runtime.model.kernel import ToolInfo

SCHEMA_VERSION = 1
# Longest line that holds a whole object or array.
_WIDTH = 200
_MOST = 64 << 20


def read_record(data: bytes, path: str) -> TuningRecord:
    """Read a tuning file.

    Args:
        data: its bytes.
        path: its name, for messages.

    Raises:
        ManifestError: it is no JSON, of another schema version, or something in it is unknown,
            missing, of the wrong type or contradicts the rest; with line and column.
    """
    if len(data) > _MOST:
        _refuse(path, "", 0, f"the file has {len(data)} bytes, more than {_MOST}")
    try:
        source = data.decode()
    except UnicodeDecodeError as error:
        _refuse(path, data[: error.start].decode(), error.start, "the file is not UTF-8")
    plain = _parse(source, path)
    if type(plain) is not dict:
        _refuse(path, source, 0, f"must be an object, is {shown(plain)}")
    version = plain.pop("schema_version", None)
    if version != SCHEMA_VERSION or type(version) is not int:
        newer = type(version) is int and version > SCHEMA_VERSION
        fix = "update tilec, or tune again with this one" if newer else _AGAIN
        what = f"schema version {version!r}: this tilec reads version {SCHEMA_VERSION}"
        _refuse(path, source, _place(source, ["schema_version"]), what, fix)
    try:
        found: TuningRecord = _RECORD.read(plain)
        _check(found)
    except Misfit as misfit:
        where = misfit.where
        _refuse(
            path,
            source,
            _place(source, _steps(where)),
            f"{where}: {misfit.what}" if where else misfit.what,
        )
    return found


def record_text(found: TuningRecord) -> str:
    """Return the file's text; equal records have equal texts.

    Short objects and arrays stand on one line.

    Raises:
        ValueError: the record breaks a rule that reading checks.
    """
    try:
        _check(found)
    except Misfit as misfit:
        raise ValueError(f"{misfit.where}: {misfit.what}") from None
    return "".join(_lines({"schema_version": SCHEMA_VERSION, **_RECORD.write(found)}, 0)) + "\n"


def _lines(value: Any, depth: int) -> Iterator[str]:
    flat = json.dumps(value, ensure_ascii=True, allow_nan=False)
    if (
        not isinstance(value, dict | list)
        or not value
        or (depth and len(flat) + 2 * depth <= _WIDTH)
    ):
        yield flat
        return
    inner, (opening, closing) = "  " * (depth + 1), "{}" if isinstance(value, dict) else "[]"
    yield opening
    items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for number, (key, item) in enumerate(items):
        yield f"{',' if number else ''}\n{inner}"
        if key is not None:
            yield f"{json.dumps(key)}: "
        yield from _lines(item, depth + 1)
    yield f"\n{'  ' * depth}{closing}"


def _mapping(item: Codec, what: str) -> Codec:
    """Return a codec of pairs as an object, in their order."""

    def read(value: Any) -> Any:
        if type(value) is not dict or not all(name.isidentifier() for name in value):
            raise Misfit(f"must be an object of {what}, is {shown(value)}")
        found = []
        for name, entry in value.items():
            try:
                found.append((name, item.read(entry)))
            except Misfit as misfit:
                misfit.path.append(f".{name}")
                raise
        return tuple(found)

    return Codec(lambda pairs: {name: item.write(value) for name, value in pairs}, read)


def _read_time(value: Any) -> Any:
    if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
        raise Misfit(f"must be a time in microseconds, is {shown(value)}")
    return float(value)


def _read_capability(value: Any) -> Any:
    parts = value.split(".") if type(value) is str else []
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 4 for part in parts):
        raise Misfit(f"must be a compute capability such as '9.0', is {shown(value)}")
    return int(parts[0]), int(parts[1])


def _older(codec: Codec, **absent: Any) -> Codec:
    """Return a codec that also reads objects of older files, which lack some keys."""
    return Codec(
        codec.write, lambda value: codec.read({**absent, **value} if type(value) is dict else value)
    )


_SIZE = integer(0)
_TIME = Codec(lambda value: round(value, 4), _read_time)
_INTERVAL = row(_TIME, _TIME)
_RANGE = row(_SIZE, _SIZE)
_POINT = _mapping(literal, "axes")
_DIGEST = text(pattern=r"[0-9a-f]{64}", what="a SHA-256 in hex")
_CANDIDATE = record(
    Candidate,
    point=_POINT,
    status=enumeration(Status),
    reason=text(),
    median_us=optional(_TIME),
    interval_us=optional(_INTERVAL),
    samples=integer(0),
)
_ENTRY = _older(
    record(
        TunedEntry,
        case=text(most=500),
        ranges=sequence(_RANGE, most=64),
        at=sequence(_SIZE, most=64),
        point=_POINT,
        variant=text(most=10_000),
        code=text(pattern=r"([0-9a-f]{64})?", what="a SHA-256 in hex"),
        hints=_mapping(integer(), "compiler hints"),
        median_us=_TIME,
        interval_us=_INTERVAL,
        samples=integer(1),
        candidates=sequence(_CANDIDATE, most=1_000_000),
    ),
    code="",
)
_DEVICE = record(
    TunedDevice,
    name=text(most=500),
    cc=Codec(lambda cc: f"{cc[0]}.{cc[1]}", _read_capability),
    multiprocessors=integer(1, 1 << 20),
    driver=text(most=100),
    clocks=optional(record(Clocks, sm=_RANGE, memory=_RANGE)),
    target=parsed(Target.parse),
    entries=sequence(_ENTRY, most=100_000),
)
_RECORD = record(
    TuningRecord,
    kernel=text(most=500),
    kernel_digest=_DIGEST,
    space_digest=_DIGEST,
    toolchain=sequence(
        record(ToolInfo, name=text(), version=text(), digest=text(most=200)), most=1000
    ),
    sizes=sequence(text(most=1000), most=64),
    devices=sequence(_DEVICE, most=1000),
)


def _check(found: TuningRecord) -> None:
    """Check the rules over several fields. Raises Misfit."""
    for number, size in enumerate(found.sizes):
        try:
            kind = parse(size).kind
        except ExpressionError as error:
            unfit(f"sizes[{number}]", error.what)
        if kind not in ("number", "any"):
            unfit(f"sizes[{number}]", f"{size!r} is no number")
    names: set[str] = set()
    for number, device in enumerate(found.devices):
        here = f"devices[{number}]"
        if device.name in names:
            unfit(f"{here}.name", f"device {device.name!r} appears twice")
        names.add(device.name)
        for clock, (low, high) in (
            (("sm", device.clocks.sm), ("memory", device.clocks.memory)) if device.clocks else ()
        ):
            if low > high:
                unfit(f"{here}.clocks.{clock}", f"the least, {low}, is above the greatest, {high}")
        for place, entry in enumerate(device.entries):
            _check_entry(f"{here}.entries[{place}]", entry, len(found.sizes))


def _check_entry(here: str, entry: TunedEntry, sizes: int) -> None:
    for name, count in (("ranges", len(entry.ranges)), ("at", len(entry.at))):
        if count != sizes:
            unfit(f"{here}.{name}", f"has {count} items, and there are {sizes} size expressions")
    for place, ((low, high), at) in enumerate(zip(entry.ranges, entry.at, strict=True)):
        if not low <= at <= high:
            unfit(
                f"{here}.ranges[{place}]",
                f"{low} to {high} does not hold {at}, where it was measured",
            )
    _check_interval(here, entry.median_us, entry.interval_us)
    best = [candidate for candidate in entry.candidates if candidate.status is Status.BEST]
    if entry.candidates and [candidate.point for candidate in best] != [entry.point]:
        unfit(
            f"{here}.candidates",
            f"{len(best)} of them are the best, where one is due: that of the entry's point",
        )
    for place, candidate in enumerate(entry.candidates):
        there = f"{here}.candidates[{place}]"
        measured = candidate.status in (Status.BEST, Status.MEASURED)
        if measured and (
            candidate.median_us is None or candidate.interval_us is None or not candidate.samples
        ):
            unfit(there, f"is {candidate.status.value}, and has no time, interval or samples")
        if not measured and not candidate.reason:
            unfit(f"{there}.reason", f"is empty, and the candidate is {candidate.status.value}")
        if candidate.median_us is not None and candidate.interval_us is not None:
            _check_interval(there, candidate.median_us, candidate.interval_us)


def _check_interval(here: str, median: float, interval: Sequence[float]) -> None:
    if not interval[0] <= median <= interval[1]:
        unfit(
            f"{here}.interval_us",
            f"{interval[0]} to {interval[1]} does not hold the median {median}",
        )


_AGAIN = "restore the committed file, or remove it and write it anew with `tilec tune`"


def problem_at(source: str, path: str, where: str, what: str) -> Diagnostic:
    """Return a problem of a file that was read.

    Args:
        source: its text.
        path: its name.
        where: what the problem concerns: `devices[0].entries[2].point`.
        what: the problem.
    """
    return _problem(path, source, _place(source, _steps(where)), f"{where}: {what}")


def _refuse(path: str, source: str, at: int, what: str, fix: str = _AGAIN) -> NoReturn:
    raise ManifestError((_problem(path, source, at, what),), fix=fix)


def _problem(path: str, source: str, at: int, what: str) -> Diagnostic:
    line, start = source.count("\n", 0, at) + 1, source.rfind("\n", 0, at) + 1
    end = source.find("\n", at)
    excerpt = source[start : end if end >= 0 else len(source)][:_WIDTH] if source else ""
    place = Location(file=path, line=line, column=at - start + 1)
    return Diagnostic(message=what, location=place, excerpt=excerpt)


def _parse(source: str, path: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            _refuse(path, source, source.rfind(json.dumps(twice)), f"key {twice!r} appears twice")
        return found

    def constant(word: str) -> NoReturn:
        _refuse(path, source, max(source.find(word), 0), f"{word} is no number")

    try:
        return json.loads(source, object_pairs_hook=once, parse_constant=constant)
    except json.JSONDecodeError as error:
        merged = error.doc[error.pos : error.pos + 7] in ("<<<<<<<", "=======", ">>>>>>>")
        what = (
            "a conflict of a merge is left in the file"
            if merged
            else f"the file is not JSON: {error.msg}"
        )
        _refuse(path, source, error.pos, what)
    except (RecursionError, ValueError) as error:
        _refuse(path, source, 0, f"the file is not JSON: {error}")


def _steps(where: str) -> list[str | int]:
    """Return the steps of `devices[0].name`."""
    parts = where.replace("[", ".[").split(".")
    return [int(part[1:-1]) if part.startswith("[") else part for part in parts if part]


def _place(source: str, steps: Sequence[str | int]) -> int:
    """Return the offset of a path's value in a JSON text, or of as much as there is."""
    decoder, at = json.JSONDecoder(), _blank(source, 0)
    for step in steps:
        items = _items(source, at, decoder)
        found = next((begins for name, begins in items if name == step), None)
        if found is None:
            break
        at = found
    return at


def _items(source: str, at: int, decoder: json.JSONDecoder) -> Iterator[tuple[str | int, int]]:
    """Yield key or index of each item of the object or array at `at`, with its offset."""
    closing = {"{": "}", "[": "]"}.get(source[at : at + 1], "")
    at, number = _blank(source, at + 1), 0
    while closing and source[at] != closing:
        step: str | int = number
        if closing == "}":
            step, at = decoder.raw_decode(source, at)
            at = _blank(source, _blank(source, at) + 1)  # behind the colon
        yield step, at
        _, at = decoder.raw_decode(source, at)
        at, number = _blank(source, at), number + 1
        if source[at] == ",":
            at = _blank(source, at + 1)


def _blank(source: str, at: int) -> int:
    while at < len(source) and source[at] in " \t\r\n":
        at += 1
    return at
