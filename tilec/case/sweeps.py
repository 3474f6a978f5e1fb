"""A sweep of a command line: `n=256..8192` with `--set x=[n,2*n]` gives the settings of each of its
points.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

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
        text: as it stands on the command line, with the option.
        name: of an input or an axis, or of a number that `--set` uses.
        values: of each point, as `--set` takes them.
    """

    text: str
    name: str
    values: tuple[str, ...]

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """The values as numbers; None where one of them is none."""
        found = [read_number(value) for value in self.values]
        return tuple(float(n) for n in found if n is not None) if None not in found else None


def parse_sweep(text: str) -> Sweep:
    """Read `--sweep`.

    Raises:
        UsageError: it is of another form, or has no two points, or more than anybody would wait
            for.
    """
    option = f"--sweep {text}"
    name, equals, rest = (part.strip() for part in text.partition("="))
    if not equals or not name.isidentifier() or not rest:
        raise UsageError(f"{option!r} is not NAME=VALUES", fix=f"take {FORMS}")
    found = _RANGE.fullmatch(rest)
    if not found and ".." in rest:
        raise UsageError(f"{option}: {rest!r} is no range", fix=f"take {FORMS}")
    values = _range(option, found) if found else [value.strip() for value in rest.split(",")]
    if not all(values) or "[" in rest:
        raise UsageError(
            f"{option}: takes numbers or words",
            fix=f"take {FORMS}; shapes go to --set, which may use {name}: --set x=[{name}]",
        )
    if len(set(values)) < len(values):
        raise UsageError(f"{option}: a value stands there twice")
    if not 2 <= len(values) <= MOST:
        raise UsageError(
            f"{option} has {len(values)} point{'s' * (len(values) != 1)}: a sweep has 2 to {MOST}",
            fix=f"take {FORMS}",
        )
    return Sweep(text=option, name=name, values=tuple(values))


def settings_at(settings: Sequence[str], sweep: Sweep, value: str) -> tuple[str, ...]:
    """What `--set` says at one point: its texts with the name's value in them; the name itself is
    set where none of them uses it.

    Raises:
        UsageError: an extent has no value there.
    """
    word = re.compile(rf"\b{re.escape(sweep.name)}\b")
    found, used = [], False
    for text in settings:
        name, equals, rest = text.partition("=")
        if not equals or not word.search(rest):
            found.append(text)
            continue
        used = True
        found.append(f"{name}={_filled(rest, text, sweep, value)}")
    return (*found, *(() if used else (f"{sweep.name}={value}",)))


def refused_point(error: UsageError, sweep: Sweep, value: str) -> UsageError:
    """What is refused at a point, in the words of the command line: where the sweep itself is set,
    nobody wrote `--set`.
    """
    made = f"--set {sweep.name}={value}: "
    if not error.what.startswith(made):
        return error
    fix = f"sweep an input or an axis, or let --set use {sweep.name}: --set x=[{sweep.name}]"
    return UsageError(f"{sweep.text}: {error.what.removeprefix(made)}", fix=fix)


def _range(option: str, found: re.Match[str]) -> list[str]:
    first, last = int(found["first"]), int(found["last"])
    step, by = found["step"] or "*", int(found["by"] or 2)
    if first >= last or (step == "*" and (by < 2 or first == 0)) or (step == "+" and by < 1):
        raise UsageError(f"{option}: goes nowhere", fix=f"take {FORMS}")
    values: list[str] = []
    while first <= last and len(values) <= MOST:
        values.append(str(first))
        first = first * by if step == "*" else first + by
    if len(values) > MOST:
        raise UsageError(f"{option} has more than {MOST} points", fix="take wider steps")
    return values


def _filled(rest: str, text: str, sweep: Sweep, value: str) -> str:
    """A value of `--set` with the sweep's in it: extents and numbers are worked out,
    `x=f16[n,2*n]:normal:7`.
    """
    shape = _SHAPE.fullmatch(rest)
    if shape is None:
        return _worked_out(rest, text, sweep, value)
    extents = ",".join(
        _worked_out(part.strip(), text, sweep, value) for part in _parts(shape["extents"])
    )
    return f"{shape['before']}[{extents}]{shape['behind']}"


def _parts(extents: str) -> list[str]:
    """What stands between the commas, those in parentheses left out."""
    parts, depth = [""], 0
    for letter in extents:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _worked_out(part: str, text: str, sweep: Sweep, value: str) -> str:
    if part == sweep.name:
        return value
    try:
        return str(expr.parse(part).evaluate({sweep.name: read_number(value)}))
    except ExpressionError as error:
        raise UsageError(
            f"--set {text}, with {sweep.name} = {value}: {error.what}",
            fix=f"use no name but {sweep.name} there",
        ) from error
