"""Checks of cases against the parameters and variants of their kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilec.manifest.types import Case, Input, Kernel
from tilec.model.array_facts import ArrayFacts
from tilec.model.job import Variant
from tilec.plan.params import suggest
from tilec.plan.report import Report
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.signature import Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean


def check_cases(
    kernel: Kernel, params: Sequence[Param], variants: Sequence[Variant], report: Report
) -> None:
    by_name = {param.name: param for param in params}
    for case in kernel.cases:
        at = report.at("case", case.name)
        _check_inputs(case, by_name, variants, at.at("inputs"))
        fitting = [variant for variant in variants if set(case.axes) <= set(variant.axes)]
        if variants and not fitting:
            shown = ", ".join(f"{name} = {value!r}" for name, value in case.axes)
            at(f"no variant has {shown}", "axes")
        for text in kernel.launch.requires:
            values = [_value_of(text, case, by_name, variant) for variant in fitting]
            if values and all(value is False for value in values):
                at(f"case {case.name} breaks the kernel's requirement {text!r}", "inputs")


def _check_inputs(
    case: Case, params: Mapping[str, Param], variants: Sequence[Variant], report: Report
) -> None:
    given = {item.name: item for item in case.inputs}
    strange = given.keys() - params.keys()
    for name, item in given.items():
        if name in strange:
            message = f"{name!r} is no parameter of the launcher{suggest(name, list(params))}"
            report(message, name)
        else:
            _check_input(item, params[name], variants, report.at(name))
    needed = [p.name for p in params.values() if p.default is None and not p.optional]
    misspelt = [name for name in needed if did_you_mean(name, strange)]  # reported above
    if missing := [name for name in needed if name not in (*given, *misspelt)]:
        report(f"no input for {', '.join(missing)}")


def _value_of(text: str, case: Case, params: Mapping[str, Param], variant: Variant) -> object:
    """Return the value of a condition for the inputs of a case, or None if it is unknown."""
    env: dict[str, object] = dict(variant.axes)
    try:
        for item in case.inputs:
            if item.shape is None:
                env[item.name] = item.value
                continue
            extents = [expr.parse(extent).evaluate(env) for extent in item.shape]
            shape = tuple(extent for extent in extents if isinstance(extent, int))
            dtype = item.dtype or (params[item.name].dtype if item.name in params else "")
            dtype = str(env.get(dtype, dtype))
            if dtype not in DTYPES:
                return None  # another check reports it
            env[item.name] = ArrayFacts(shape=shape, dtype=dtype)
        return expr.parse(text).evaluate(env)
    except ExpressionError:
        return None


def _check_input(
    item: Input,
    param: Param,
    variants: Sequence[Variant],
    report: Report,
) -> None:
    """Report an input that a launch would refuse; runs are often on another machine."""
    if param.kind is ParamKind.SCALAR and item.tensor:
        report(f"{item.name} is a number, and a tensor is given: inputs.{item.name} = 2")
    if param.kind is not ParamKind.TENSOR:
        return
    if item.value is not None and not item.tensor:
        example = f"inputs.{item.name} = {{ shape = [1024] }}"
        report(f"{item.name} is a tensor, and a number is given: {example}")
    elif item.shape is not None and param.rank >= 0 and len(item.shape) != param.rank:
        report(
            f"{len(item.shape)} extents, and the kernel takes {param.rank} for {item.name}", "shape"
        )
    taken = {dict(variant.constants).get(param.dtype, param.dtype) for variant in variants}
    if item.dtype in DTYPES and taken and item.dtype not in taken:
        shown = ", ".join(sorted(map(str, taken)))
        report(f"{item.dtype}, and the kernel takes {shown} for {item.name}", "dtype")
