"""Reads `--sweep`: `n=256..8192` with `--set x=[n,2*n]` gives settings for each point."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence

from tilec.model.literal import read_number
from tilec_runtime.errors import ExpressionError, UsageError
from tilec_runtime.model import expr

FORMS = (
    "n=256,512,1024, n=256..8192 (each twice the one before), n=256..65536*4 or n=1000..5000+500"
)
MOST = 64
_RANGE = re.compile(r"(?P<first>\d+)\.\.(?P<last>\d+)(?:(?P<step>[*+])(?P<by>\d+))?")
_SHAPE = re.compile(r"(?P<before>[^\[]*)\[(?P<extents>[^\]]*)\](?P<behind>.*)")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """One `--sweep NAME=VALUES`.

    Attributes:
        text: as on the command line, with the option.
        name: of an input or an axis, or of a number that `--set` uses.
        values: of each point, as `--set` takes them.
    """

    text: str
    name: str
    values: tuple[str, ...]


def parse_sweep(text: str) -> Sweep:
    """Read `--sweep`.

    Raises:
        UsageError: it has another form, or fewer than 2 or more than 64 points.
    """
    option = f"--sweep {text}"
    name, equals, rest = (part.strip() for part in text.partition("="))
    if not equals or not name.isidentifier() or not rest:
        raise UsageError(f"{option!r} is not NAME=VALUES", fix=f"take {FORMS}")
    match = _RANGE.fullmatch(rest)
    if not match and ".." in rest:
        raise UsageError(f"{option}: {rest!r} is no range", fix=f"take {FORMS}")
    if match:
        values = [str(value) for value in itertools.islice(_range(option, match), MOST + 1)]
    else:
        values = [value.strip() for value in rest.split(",")]
    if not all(values) or "[" in rest:
        raise UsageError(
            f"{option}: takes numbers or words",
            fix=f"take {FORMS}; shapes go to --set, which may use {name}: --set x=[{name}]",
        )
    if len(set(values)) < len(values):
        raise UsageError(f"{option}: a value stands there twice")
    if not 2 <= len(values) <= MOST:
        count = f"more than {MOST} points" if len(values) > MOST else "1 point"
        raise UsageError(f"{option} has {count}: a sweep has 2 to {MOST}", fix=f"take {FORMS}")
    return Sweep(text=option, name=name, values=tuple(values))


def settings_at(settings: Sequence[str], sweep: Sweep, value: str) -> tuple[str, ...]:
    """Return the `--set` texts at one point, with the sweep's value filled in.

    If no setting uses the sweep's name, the name itself is set.

    Raises:
        UsageError: an extent cannot be evaluated.
    """
    word = re.compile(rf"\b{re.escape(sweep.name)}\b")
    chosen, used = [], False
    for text in settings:
        name, equals, rest = text.partition("=")
        if not equals or not word.search(rest):
            chosen.append(text)
            continue
        used = True
        if shape := _SHAPE.fullmatch(rest):
            parts = _split(shape["extents"])
            extents = ",".join(_evaluate(part.strip(), text, sweep, value) for part in parts)
            rest = f"{shape['before']}[{extents}]{shape['behind']}"
        else:
            rest = _evaluate(rest, text, sweep, value)
        chosen.append(f"{name}={rest}")
    return tuple(chosen) if used else (*chosen, f"{sweep.name}={value}")


def refused_point(error: UsageError, sweep: Sweep, value: str) -> UsageError:
    """Return the error of a point in terms of `--sweep`, if the user wrote no such `--set`."""
    prefix = f"--set {sweep.name}={value}: "
    if not error.what.startswith(prefix):
        return error
    fix = f"sweep an input or an axis, or let --set use {sweep.name}: --set x=[{sweep.name}]"
    return UsageError(f"{sweep.text}: {error.what.removeprefix(prefix)}", fix=fix)


def _range(option: str, match: re.Match[str]) -> Iterator[int]:
    first, last = int(match["first"]), int(match["last"])
    step, by = match["step"] or "*", int(match["by"] or 2)
    if first >= last or (step == "*" and (by < 2 or first == 0)) or by < 1:
        raise UsageError(f"{option}: goes nowhere", fix=f"take {FORMS}")
    while first <= last:
        yield first
        first = first * by if step == "*" else first + by


def _split(extents: str) -> list[str]:
    """Split at commas outside of parentheses."""
    parts, depth = [""], 0
    for letter in extents:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _evaluate(part: str, text: str, sweep: Sweep, value: str) -> str:
    if part == sweep.name:
        return value
    try:
        return str(expr.parse(part).evaluate({sweep.name: read_number(value)}))
    except ExpressionError as error:
        raise UsageError(
            f"--set {text}, with {sweep.name} = {value}: {error.what}",
            fix=f"use no name but {sweep.name} there",
        ) from error
