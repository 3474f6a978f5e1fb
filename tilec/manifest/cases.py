"""Case tables of kernels, and chain tables: launches of several kernels in order."""

from __future__ import annotations

import ast
import dataclasses
import keyword
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tilec.manifest.locate import Path
from tilec.manifest.problems import Problems, Scope
from tilec.manifest.tables import valid_values
from tilec.manifest.types import Case, Chain, Input, Operand, Step, Tolerance
from tilec_runtime.model.dtype import short_name
from tilec_runtime.model.expr import parse
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.suggest import did_you_mean

Row = Mapping[str, Any]  # a table that was read: values by key
Whole = AxisValue | dict[str, Any] | None  # an input: a value or a table
_SHARED = ("reference", "tolerance", "bench")


def read_cases(tables: Row, scope: Scope) -> tuple[Case, ...]:
    """Return the cases of a kernel or chain, with the keys that its table shares among them."""
    shared = {key: tables[key] for key in _SHARED if key in tables}
    return tuple(
        _case(name, {**shared, **valid_values(table)}, tables.get("inputs", {}), scope)
        for name, table in valid_values(tables.get("case", {})).items()
    )


def _case(name: str, table: Row, shared: Row, scope: Scope) -> Case:
    path = (*scope.path, "case", name)
    own = table.get("inputs", {})
    merged = {
        parameter: _merged([each[parameter] for each in (shared, own) if parameter in each])
        for parameter in (*shared, *(each for each in own if each not in shared))
    }
    inputs = []
    # A shape may use only earlier inputs: later ones have no value yet when it is evaluated.
    names, later = {*scope.axes, *scope.let}, set(merged)
    for parameter, item in merged.items():
        at = (*(path if parameter in own else scope.path), "inputs", parameter)
        inputs.append(_input(parameter, item, names, later, at, scope))
        later.discard(parameter)
        names.add(parameter)
    return Case(
        name=name,
        inputs=tuple(inputs),
        reference=table.get("reference", ""),
        tolerance=_tolerance(table.get("tolerance", {})),
        axes=scope.point(table.get("axes", ()), (*path, "axes")),
        bench=table.get("bench"),
    )


def _merged(given: Sequence[Whole | tuple[object, ...]]) -> Whole:
    """Merge an input of a case over the shared one; a list is the shape of a tensor.

    The result is None if one of them has a problem. The case's own input replaces the shared one
    if it has a `file` or `make`, or if the shared input has one and the own input gives a
    distribution (or, for a file, a shape).
    """
    tables = [{"shape": each} if isinstance(each, tuple) else each for each in given]
    base, own = tables[0], tables[-1]
    if None in tables:
        return None
    if not isinstance(base, dict) or not isinstance(own, dict):
        return own
    other = "dist" in own and {"file", "make"} & base.keys()
    if other or {"file", "make"} & own.keys() or ("file" in base and "shape" in own):
        return own
    return {**base, **own}


def _input(
    name: str, item: Whole, names: set[str], later: set[str], path: Path, scope: Scope
) -> Input:
    if not isinstance(item, dict):
        return Input(name=name, value=item)
    if "dtype" in item:
        scope.dtype(item["dtype"], (*path, "dtype"))
    for key in ("shape", "small"):
        _extents(name, key, item.get(key, ()), names, later, path, scope)
    shape, small = item.get("shape"), item.get("small")
    if small is not None and shape is not None and len(small) != len(shape):
        scope.problems.add(
            (*path, "small"),
            f"the number of extents is {len(small)}, and that of shape {len(shape)}",
        )
    bounded = item.get("dist") in ("uniform", "integers", "sorted")
    _check_origin(item, path, scope.problems)
    for key in ("low", "high"):
        if key in item and not bounded:
            scope.problems.add(
                (*path, key),
                f"bounds uniform, integers and sorted only, dist is {item.get('dist', Input(name='').dist)}",
                at_key=True,
            )
    if bounded and item.get("low", 0.0) >= item.get("high", float("inf")):
        scope.problems.add(
            (*path, "high"), f"{item['high']} is not above low = {item.get('low', 0.0)}"
        )
    return Input(name=name, **item)


def _check_origin(item: dict[str, Any], path: Path, problems: Problems) -> None:
    """Report an input with two sources of contents, or with none."""
    origins = [key for key in ("dist", "file", "make") if key in item]
    for again in origins[1:]:
        problems.add((*path, again), f"{origins[0]} says it already: give one of both", at_key=True)
    if "file" in item:
        for key in ("shape", "small", "seed"):
            if key in item:
                problems.add((*path, key), "the file says it: leave it out", at_key=True)
    elif not {"shape", "make"} & item.keys():
        problems.add(path, "'shape' is missing", at_key=True)
    if ("value" in item) != (item.get("dist") == "constant"):
        message = (
            'is for dist = "constant"'
            if "value" in item
            else "'value' is missing: dist = \"constant\", value = 1"
        )
        problems.add((*path, "value") if "value" in item else path, message, at_key=True)


def _extents(
    name: str,
    key: str,
    extents: tuple[str, ...],
    names: set[str],
    later: set[str],
    path: Path,
    scope: Scope,
) -> None:
    """Check the names in the extents of an input."""
    for index, text in enumerate(extents):
        if text.isdigit():
            continue
        ahead = sorted(parse(text).names & later - names)
        if ahead:
            message = (
                "itself"
                if ahead[0] == name
                else f"{ahead[0]!r}, which comes after it: put {ahead[0]} first"
            )
            scope.problems.add((*path, key, index), f"uses {message}")
        else:
            scope.expression(text, names, (*path, key, index))


def _tolerance(entries: Row) -> tuple[Tolerance, ...]:
    plain = {key: value for key, value in entries.items() if not isinstance(value, Tolerance)}
    by_dtype = tuple(
        dataclasses.replace(tolerance, dtype=short_name(dtype))
        for dtype, tolerance in entries.items()
        if isinstance(tolerance, Tolerance)
    )
    return ((Tolerance(**plain),) if plain else ()) + by_dtype


FORM = "a step is a call such as gemm(c, a, b, BM=64): a kernel, names of the case's inputs, and numbers"


def read_chains(tables: Row, kernels: Collection[str], problems: Problems) -> tuple[Chain, ...]:
    """Return every chain; `kernels` are the names of the manifest's kernels."""
    chains = []
    for name, table in tables.items():
        path: Path = ("chain", name)
        if name in kernels:
            problems.add(path, f"{name!r} is a kernel too: call one of them otherwise", at_key=True)
        if keyword.iskeyword(name):
            problems.add(
                path, f"{name!r} is a word of Python's: call the chain otherwise", at_key=True
            )
        if table is None or table.get("steps") is None:
            continue
        table = valid_values(table)
        steps = tuple(_steps(table["steps"], (*path, "steps"), kernels, problems))
        cases = read_cases(table, Scope(path, {}, problems))
        whole = len(steps) == len(table["steps"])  # the inputs of an unreadable step are unknown
        for case in cases if whole else ():
            _check_case(case, steps, (*path, "case", case.name, "inputs"), problems)
        chains.append(Chain(name=name, steps=steps, cases=cases))
    return tuple(chains)


def _steps(
    texts: tuple[str, ...], path: Path, kernels: Collection[str], problems: Problems
) -> Iterator[Step]:
    for index, text in enumerate(texts):
        at = (*path, index)
        try:
            step = parse_step(text)
        except StepError as error:
            problems.add(at, error.what, hint=FORM, index=error.column)
            continue
        if step.kernel in kernels:
            yield step
        else:
            problems.unknown(at, "kernel", step.kernel, tuple(kernels))


class StepError(Exception):
    """A step that cannot be read; `column` counts from 0."""

    def __init__(self, what: str, column: int = 0) -> None:
        super().__init__(what)
        self.what = what
        self.column = column


def parse_step(text: str) -> Step:
    """Parse a step such as `gemm(c, a, b, BM=64)`, without running anything.

    Raises:
        StepError: it is no such call.
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise StepError(f"{text!r} cannot be read: {getattr(error, 'msg', '') or error}") from error
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise StepError(f"{text!r} is no call of a kernel")
    named: list[tuple[str, Operand]] = []
    for given in call.keywords:
        if given.arg is None:
            raise StepError(
                "a step says each argument by itself, without **", given.value.col_offset
            )
        if given.arg in dict(named):  # `ast.parse` accepts a repeated keyword
            raise StepError(f"{given.arg} is given twice", given.value.col_offset)
        named.append((given.arg, _operand(given.value)))
    return Step(kernel=call.func.id, args=tuple(map(_operand, call.args)), named=tuple(named))


def _operand(node: ast.expr) -> Operand:
    match node:
        case ast.Name(id=name):
            return Operand(name=name)
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return Operand(value=value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if (
            not isinstance(value, bool)
        ):
            return Operand(value=-value)
    raise StepError(f"{ast.unparse(node)!r} is neither a name nor a number", node.col_offset)


def _check_case(case: Case, steps: tuple[Step, ...], path: Path, problems: Problems) -> None:
    """Report inputs that no step uses, and names in steps without an input."""
    used = list(
        dict.fromkeys(operand.name for step in steps for operand in step.operands if operand.name)
    )
    given = [item.name for item in case.inputs]
    for name in given:
        if name not in used:
            hint = did_you_mean(name, used) or (f"; they name {', '.join(used)}" if used else "")
            problems.add((*path, name), f"no step takes {name!r}{hint}", at_key=True)
    missing = [name for name in used if name not in given]
    if missing:
        problems.add(path, f"no input for {', '.join(missing)}", at_key=True)
