"""Checks that need manifest and source together: axes, expressions, defaults, rules."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tilec.manifest.problems import dtype_meant
from tilec.manifest.types import Bench, Case, Kernel
from tilec.model.argument import parse_abi
from tilec.model.cpp import cut
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, Variant
from tilec.plan.case_checks import check_cases
from tilec.plan.expressions import extent_faults, faults_of, optional_faults
from tilec.plan.launch_checks import check_launch
from tilec.plan.params import misspelt_axis, suggest, symbol_axes
from tilec.plan.points import axis_values
from tilec.plan.proposals import computed_constant
from tilec.plan.report import Report
from tilec.plan.targets import LanguageFacts
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import Param
from tilec_runtime.model.table import axis_shown, same_point

_LONGEST_ID = 240  # a file name of at most 255 bytes has a suffix too


def check_source(kernel: Kernel, decl: KernelDecl, language: LanguageFacts, report: Report) -> None:
    """Report contradictions between manifest and source that concern no parameter."""
    _check_constants(kernel, decl, report)
    _check_hint_axes(kernel, decl, language, report)
    check_launch(kernel, decl, language, report)
    for target, hints in kernel.hints:
        at = report.at("hints", target) if target else report.at("hints")
        check_hints([name for name, _ in hints], kernel.language, language.hints, at)


def check_kernel(
    kernel: Kernel,
    decl: KernelDecl,
    params: Sequence[Param],
    variants: Sequence[Variant],
    language: LanguageFacts,
    report: Report,
) -> None:
    """Report all contradictions within a kernel whose parameters are known."""
    _check_used_axes(kernel, decl, params, language, report)
    _check_dtype_axes(kernel, params, report)
    _check_expressions(kernel, params, report)
    _check_used(kernel, params, report)
    _check_bound(params, report)
    _check_default(kernel, params, variants, report.at("dispatch", "default"))
    for number, text in enumerate(kernel.sizes):
        for fault, column in faults_of(text, params):
            report(fault, "dispatch", "sizes", number, column=column)
    _check_rules(kernel, params, variants, report)
    check_cases(kernel, params, variants, report)


def _check_constants(kernel: Kernel, decl: KernelDecl, report: Report) -> None:
    """Report constants of the source without a value."""
    axes = dict(kernel.matrix.axes)
    for constant in decl.params:
        if constant.kind != "constant" or constant.name in axes or constant.default is not None:
            continue
        advice = f": give it some values, such as matrix.{constant.name} = [128]"
        advice += misspelt_axis(constant.name, axes, decl)
        if constant.reads:
            advice = computed_constant(constant, kernel, decl)
        message = f"constant {constant.name!r} of the kernel is bound by no axis of the matrix"
        report(message + advice, "matrix")


def _check_hint_axes(
    kernel: Kernel, decl: KernelDecl, language: LanguageFacts, report: Report
) -> None:
    """Report axes that are compiler hints and have a value that is no integer."""
    params = {p.name for p in decl.params}
    for name, values in kernel.matrix.axes:
        strange = [value for value in values if type(value) is not int]
        if name in language.hints and name not in params and strange:
            report(
                f"{name} is a hint of the compiler, and {strange[0]!r} is no integer",
                "matrix",
                name,
            )


def _check_used_axes(
    kernel: Kernel,
    decl: KernelDecl,
    params: Sequence[Param],
    language: LanguageFacts,
    report: Report,
) -> None:
    """Report axes that neither the source nor the manifest uses."""
    used = {p.name for p in decl.params} | {p.dtype for p in params}
    used |= {use.name for use in decl.axes} | {*symbol_axes(kernel.symbol), *language.hints}
    for name, _ in kernel.matrix.axes:
        if name not in used and not _in_expressions(kernel, name):
            report(_unused(name, decl), _table_of(name, kernel), name)


def _table_of(axis: str, kernel: Kernel) -> str:
    return "let" if axis in dict(kernel.let) else "matrix"


def _check_dtype_axes(kernel: Kernel, params: Sequence[Param], report: Report) -> None:
    """Report values of dtype axes that are no dtypes."""
    for param in params:
        for value in axis_values(kernel, param.dtype):
            if value not in DTYPES:
                message = (
                    f"axis {param.dtype} is the dtype of {param.name}, and {value!r} is no dtype"
                )
                near = suggest(dtype_meant(value), list(DTYPES))
                report(message + near, "matrix", param.dtype)


def _unused(name: str, decl: KernelDecl) -> str:
    """Return the message about an unused axis."""
    known = (
        [param.name for param in decl.params if param.kind == "constant"]
        or [use.name for use in decl.axes]
        or [each.removesuffix("...") for each in decl.template]
    )
    hint = suggest(name, known)
    if decl.safety is not None and not hint:
        hint = f'; in the source an axis is {name} = tl.size("{name}")'
    message = f"axis {name!r} is neither a constant of the kernel nor used by its symbol, dtypes or launch"
    return message + hint


def _in_expressions(kernel: Kernel, name: str) -> bool:
    texts = (*kernel.launch.expressions, *dict(kernel.let).values())
    return any(name in expr.parse(text).names for text in texts) or any(
        name in parse_abi(text)[1].names for text in kernel.args or ()
    )


def check_entry(kernel: Kernel, decl: KernelDecl, report: Report) -> bool:
    """Return whether `symbol`, `args` and axes fit the source, and report problems.

    If they do not, other checks of the kernel are meaningless.
    """
    given = cut(kernel.symbol)[1]
    axes = dict(kernel.matrix.axes)
    for name in (argument for argument in given or () if argument in axes):
        report(
            f"the template argument {name} is the name of an axis, whose value is {{{name}}}",
            "symbol",
        )
    if fault := _template_fault(given, decl):
        report(fault, "symbol")
    elif fault := _args_fault(kernel, decl):
        report(fault, "args")
    else:
        doubled = list(_named_as_parameters(kernel, decl))
        for name in doubled:
            report(
                f"{name} is a parameter of {decl.name}: give the axis another name",
                _table_of(name, kernel),
                name,
            )
        return not doubled
    return False


def _template_fault(given: Sequence[str] | None, decl: KernelDecl) -> str:
    """Return why the symbol's template arguments do not fit the source, or an empty string."""
    if decl.template and given is None:
        instance = f'symbol = "{decl.name}<{decl.places}>"'
        return f"{decl.name} is a template: say which instance, for example {instance}"
    if len(given or ()) <= len(decl.template) or decl.variadic:
        return ""
    taken = f"template parameters {', '.join(decl.template)}"
    taken = taken if decl.template else "no template parameters"
    return f"{len(given or ())} template arguments, but {decl.name} has {taken}"


def _args_fault(kernel: Kernel, decl: KernelDecl) -> str:
    """Return why `args` does not fit the source, or an empty string."""
    declared = [param for param in decl.params if param.given]
    if kernel.args is None or len(kernel.args) == len(declared):
        return ""
    shown = ", ".join(f"{param.type} {param.name}".strip() for param in declared)
    return f"{len(kernel.args)} args, but {decl.name} takes {len(declared)} parameters: {shown}"


def _named_as_parameters(kernel: Kernel, decl: KernelDecl) -> Iterator[str]:
    """Yield the axes with the name of a launch parameter.

    A parameter without a stated type is a constant if an axis has its name, unless a case gives it
    a value or an expression reads it as an array.
    """
    if kernel.args is not None:
        return
    texts = kernel.launch.expressions
    used = {name for text in texts for name, attribute in expr.parse(text).uses if attribute}
    used.update(item.name for case in kernel.cases for item in case.inputs)
    given = {
        param.name for param in decl.params if param.given and (param.type or param.name in used)
    }
    yield from (name for name, _ in kernel.matrix.axes if name in given)


def check_names(jobs: Sequence[Job], report: Report) -> None:
    """Report a job id that is too long for a file name."""
    longest = max((job.id for job in jobs), key=len, default="")
    if len(longest) > _LONGEST_ID:
        report(
            f"a job's id has {len(longest)} characters, the most is {_LONGEST_ID}: files are named by it ({longest[:60]}…)",
            "matrix",
        )


def check_hints(given: Sequence[str], language: str, known: Sequence[str], report: Report) -> None:
    """Report hints that a language's compiler does not accept."""
    for name in given:
        if name not in known:
            message = (
                f"unknown hint {name!r}{suggest(name, known)}"
                if known
                else f"{language} kernels take no hints: say it in the source or in flags"
            )
            report(message, name)


def _check_expressions(kernel: Kernel, params: Sequence[Param], report: Report) -> None:
    launch = kernel.launch
    for index, text in enumerate(launch.requires):
        at = report.at("launch", "requires", index)
        _check_expression(text, kernel, params, at, truth=True)
    numbers: list[tuple[tuple[str | int, ...], str]] = [(("shared",), launch.shared)]
    for key, texts in (("grid", launch.grid), ("block", launch.block)):
        numbers += [((key, index), text) for index, text in enumerate(texts)]
    for place, text in numbers:
        at = report.at("launch", *place)
        _check_expression(text, kernel, params, at)
        _check_given(text, params, at)
    for index, text in enumerate(kernel.args or ()):
        for fault in extent_faults(parse_abi(text)[1], params):
            report(fault, "args", index)
    for case in kernel.cases:
        _check_bench(case, kernel, params, report.at("case", case.name, "bench"))


def _check_bench(case: Case, kernel: Kernel, params: Sequence[Param], report: Report) -> None:
    given = {item.name for item in case.inputs}
    missing = [param for param in params if param.name not in given]
    bench = case.bench or Bench()
    for key, text in (("flops", bench.flops), ("bytes", bench.bytes)):
        if text:
            _check_expression(text, kernel, params, report.at(key), facts=())
            _check_given(text, missing, report.at(key))


def _check_given(text: str, params: Sequence[Param], report: Report) -> None:
    for fault in optional_faults(text, params):
        report(fault)


def _check_bound(params: Sequence[Param], report: Report) -> None:
    """Report dtype axes that only an optional tensor binds: calls may pass None."""
    bound = {param.dtype for param in params if not param.optional}
    for param in params:
        if param.optional and param.dtype not in DTYPES and param.dtype not in bound:
            message = f"{param.dtype} is said by {param.name} alone, which may be None"
            advice = f"give it a dtype, or {param.dtype} to a tensor of every call"
            report(f"{message}: {advice}", "params", param.name, "dtype")


def _check_expression(
    text: str,
    kernel: Kernel,
    params: Sequence[Param],
    report: Report,
    *,
    truth: bool = False,
    facts: Collection[str] = expr.DEVICE_FACTS,
) -> None:
    axes = dict(kernel.matrix.axes)
    for fault, column in faults_of(text, params, axes=axes, facts=facts, truth=truth):
        report(fault, column=column)


def _check_used(kernel: Kernel, params: Sequence[Param], report: Report) -> None:
    """Report parameters that `args` ignore: the launcher would drop their arguments."""
    if kernel.args is None:
        return
    for param in params:
        if not _in_expressions(kernel, param.name):
            report(
                f"parameter {param.name!r} is used by none of args, grid, block, shared and requires: take it out, or pass it on",
                "params",
                param.name,
            )


def _check_default(
    kernel: Kernel, params: Sequence[Param], variants: Sequence[Variant], report: Report
) -> None:
    axes = dict(kernel.matrix.axes)
    for name, value in kernel.default:
        built = {each for v in variants for axis, each in v.constants if axis == name}
        if name not in axes:  # the manifest cannot check it if the source adds axes
            report(f"unknown axis {name!r}{suggest(name, list(axes))}", name)
        elif variants and value not in built:
            shown = ", ".join(axis_shown(each) for each in sorted(built, key=str))
            report(f"no variant has {name} = {value!r}: built are {shown}", name)
        elif any(p.dtype == name for p in params):
            report(
                f"{name} is bound by the dtype of the arguments: a default would never be used",
                name,
            )
    fits = any(set(kernel.default) <= set(variant.axes) for variant in variants)
    if variants and kernel.default and not fits:
        report(f"the matrix excludes {_point_shown(kernel.default)}")


def _point_shown(point: Sequence[tuple[str, AxisValue]]) -> str:
    return ", ".join(f"{name} = {axis_shown(value)}" for name, value in point)


def _check_rules(
    kernel: Kernel,
    params: Sequence[Param],
    variants: Sequence[Variant],
    report: Report,
) -> None:
    axes = {name for name, _ in kernel.matrix.axes}
    for index, rule in enumerate(kernel.rules):
        when, take = (report.at("dispatch", "rules", index, key) for key in ("when", "take"))
        if rule.when:
            _check_expression(rule.when, kernel, params, when, truth=True)
            for name in sorted(expr.parse(rule.when).names & axes)[:1]:
                when(
                    f"{name} is an axis, which the rule itself chooses: write a condition on the arguments"
                )
        for name, _ in rule.take:
            if any(param.dtype == name for param in params):
                take(f"{name} is bound by the dtype of the arguments: no rule can choose it", name)
        if variants and not any(same_point(variant.axes, dict(rule.take)) for variant in variants):
            take(f"no variant has {_point_shown(rule.take)}: the matrix does not make it")
