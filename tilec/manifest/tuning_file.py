"""Read tuning files such as `tuning/gemm.json`, and write their canonical text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from tilec.model.tuning import Candidate, Clocks, Status, TunedDevice, TunedEntry, TuningRecord
from tilec_runtime.bundle.codec import (
    Codec,
    Misfit,
    digest,
    enumeration,
    integer,
    is_digest,
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
from tilec_runtime.errors import Diagnostic, Location, ManifestError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.kernel import ToolInfo

SCHEMA_VERSION = 1
# Longest line that holds a whole object or array.
_WIDTH = 200
_AGAIN = "restore the committed file, or remove it and write it anew with `tilec tune`"


def read_record(data: bytes, path: str) -> TuningRecord:
    """Read a tuning file.

    Args:
        data: its bytes.
        path: its name, for messages.

    Raises:
        ManifestError: it is no JSON, has another schema version, or a value is unknown, missing, of
            the wrong type or contradicts others.
    """
    try:
        plain = json.loads(data)
        version = plain.pop("schema_version", None) if type(plain) is dict else SCHEMA_VERSION
        if version != SCHEMA_VERSION or type(version) is not int:
            message = f"schema version {version!r}: this tilec reads version {SCHEMA_VERSION}"
            newer = type(version) is int and version > SCHEMA_VERSION
            fix = "update tilec, or tune again with this one" if newer else _AGAIN
            raise ManifestError((problem_at(path, "", message),), fix=fix)
        record: TuningRecord = _RECORD.read(plain)
        _check(record)
    except Misfit as misfit:
        raise ManifestError((problem_at(path, misfit.where, misfit.what),), fix=_AGAIN) from None
    except (ValueError, RecursionError) as error:
        # The line helps to find a merge conflict.
        location = Location(file=path)
        if isinstance(error, json.JSONDecodeError):
            location = Location(file=path, line=error.lineno, column=error.colno)
        problem = Diagnostic(message=f"the file is not JSON: {error}", location=location)
        raise ManifestError((problem,), fix=_AGAIN) from error
    return record


def problem_at(path: str, where: str, message: str) -> Diagnostic:
    """Return a problem of a file.

    Args:
        path: its name.
        where: the value that the problem concerns: `devices[0].entries[2].point`.
        message: the problem.
    """
    return Diagnostic(
        message=f"{where}: {message}" if where else message, location=Location(file=path)
    )


def record_text(record: TuningRecord) -> str:
    """Return the canonical text of a record; short objects and arrays are on one line."""
    return "".join(_lines({"schema_version": SCHEMA_VERSION, **_RECORD.write(record)}, 0)) + "\n"


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


def _mapping(item: Codec, noun: str) -> Codec:
    """Return a codec of ordered pairs as a JSON object."""

    def read(value: Any) -> Any:
        if type(value) is not dict or not all(name.isidentifier() for name in value):
            raise Misfit(f"must be an object of {noun}, is {shown(value)}")
        decoded = []
        for name, entry in value.items():
            try:
                decoded.append((name, item.read(entry)))
            except Misfit as misfit:
                misfit.path.append(f".{name}")
                raise
        return tuple(decoded)

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


_SIZE = integer(0)
_TIME = Codec(lambda value: round(value, 4), _read_time)
_INTERVAL = row(_TIME, _TIME)
_RANGE = row(_SIZE, _SIZE)
_POINT = _mapping(literal, "axes")
_CANDIDATE = record(
    Candidate,
    point=_POINT,
    status=enumeration(Status),
    reason=text(),
    median_us=optional(_TIME),
    interval_us=optional(_INTERVAL),
    samples=integer(0),
)
_ENTRY = record(
    TunedEntry,
    case=text(most=500),
    ranges=sequence(_RANGE, most=64),
    at=sequence(_SIZE, most=64),
    point=_POINT,
    variant=text(most=10_000),
    code=text(check=lambda value: not value or is_digest(value), what="a SHA-256 in hex"),
    hints=_mapping(integer(), "compiler hints"),
    median_us=_TIME,
    interval_us=_INTERVAL,
    samples=integer(1),
    candidates=sequence(_CANDIDATE, most=1_000_000),
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
    kernel_digest=digest,
    space_digest=digest,
    toolchain=sequence(
        record(ToolInfo, name=text(), version=text(), digest=text(most=200)), most=1000
    ),
    sizes=sequence(text(most=1000), most=64),
    devices=sequence(_DEVICE, most=1000),
)


def _check(record: TuningRecord) -> None:
    """Check the rules over several fields.

    Raises:
        Misfit: a rule is broken.
    """
    names = [device.name for device in record.devices]
    for number, device in enumerate(record.devices):
        if device.name in names[:number]:
            unfit(f"devices[{number}].name", f"device {device.name!r} appears twice")
        for index, entry in enumerate(device.entries):
            here = f"devices[{number}].entries[{index}]"
            if not len(entry.ranges) == len(entry.at) == len(record.sizes):
                unfit(f"{here}.ranges", f"there are {len(record.sizes)} size expressions")
            for (low, high), at in zip(entry.ranges, entry.at, strict=True):
                if not low <= at <= high:
                    message = f"{low} to {high} does not hold {at}, where it was measured"
                    unfit(f"{here}.ranges", message)
