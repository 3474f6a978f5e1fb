"""Checks that need manifest and source together: axes, expressions, defaults, rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilec.manifest.problems import dtype_meant
from tilec.manifest.types import Kernel
from tilec.model.cpp import cut
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, Variant
from tilec.plan.case_checks import check_cases
from tilec.plan.launch_checks import check_launch
from tilec.plan.params import misspelt_axis, suggest, symbol_axes
from tilec.plan.points import Report, axis_values, extent_faults
from tilec.plan.proposals import args_needed, computed_constant
from tilec.plan.targets import LanguageFacts
from tilec.plan.tuning import misread
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.signature import Param, ParamKind
from tilec_runtime.model.table import axis_shown, same_point

_LONGEST_ID = 240  # a file name of at most 255 bytes has a suffix too


def check_kernel(
    kernel: Kernel,
    decl: KernelDecl,
    params: Sequence[Param],
    variants: Sequence[Variant],
    language: LanguageFacts,
    report: Report,
    *,
    unresolved: Collection[str] = (),
) -> None:
    """Report all contradictions within a kernel.

    `unresolved` names parameters with a reported problem.
    """
    _check_constants(kernel, decl, report)
    _check_hint_axes(kernel, decl, language, report)
    if not unresolved:
        _check_used_axes(kernel, decl, params, language, report)
    _check_dtype_axes(kernel, params, report)
    check_launch(kernel, decl, language, report)
    _check_expressions(kernel, params, unresolved, report)
    _check_used(kernel, params, report)
    _check_bound(kernel, params, report)
    _check_default(kernel, params, variants, report)
    for number, text in enumerate(kernel.sizes):
        if why := misread(text, params):
            report(why, ("kernel", kernel.name, "dispatch", "sizes", number))
    _check_rules(kernel, params, unresolved, variants, report)
    for target, hints in kernel.hints:
        path = (
            ("kernel", kernel.name, "hints", target) if target else ("kernel", kernel.name, "hints")
        )
        check_hints([name for name, _ in hints], path, kernel.language, language.hints, report)
    check_cases(kernel, params, unresolved, variants, report)


def _check_constants(kernel: Kernel, decl: KernelDecl, report: Report) -> None:
    """Report constants of the source without a value."""
    axes = dict(kernel.matrix.axes)
    for constant in decl.params:
        if constant.kind != "constant" or constant.name in axes or constant.default is not None:
            continue
        advice = f": give it some values, such as matrix.{constant.name} = [128]"
        advice += misspelt_axis(constant.name, axes, decl)
        if constant.computed_from:
            advice = computed_constant(constant, kernel, decl)
        report(
            f"constant {constant.name!r} of the kernel is bound by no axis of the matrix{advice}",
            ("kernel", kernel.name, "matrix"),
        )


def _check_hint_axes(
    kernel: Kernel, decl: KernelDecl, language: LanguageFacts, report: Report
) -> None:
    """Report axes that are compiler hints and have a value that is no integer."""
    params = {p.name for p in decl.params}
    for name, values in kernel.matrix.axes:
        strange = [value for value in values if type(value) is not int]
        if name in language.hints and name not in params and strange:
            message = f"{name} is a hint of the compiler, and {strange[0]!r} is no integer"
            report(message, ("kernel", kernel.name, "matrix", name))


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
            table = "let" if name in dict(kernel.let) else "matrix"
            report(_unused(name, decl), ("kernel", kernel.name, table, name))


def _check_dtype_axes(kernel: Kernel, params: Sequence[Param], report: Report) -> None:
    """Report values of dtype axes that are no dtypes."""
    for param in params:
        for value in axis_values(kernel, param.dtype):
            if value not in DTYPES:
                message = (
                    f"axis {param.dtype} is the dtype of {param.name}, and {value!r} is no dtype"
                )
                path = ("kernel", kernel.name, "matrix", param.dtype)
                report(message + suggest(dtype_meant(value), list(DTYPES)), path)


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
        name in expr.parse_abi(text)[1].names for text in kernel.args or ()
    )


def check_entry(kernel: Kernel, decl: KernelDecl, language: LanguageFacts, report: Report) -> bool:
    """Return whether `symbol`, `args` and axes fit the source, and report problems.

    If they do not, other checks of the kernel are meaningless.
    """
    path = ("kernel", kernel.name, "symbol")
    axes = [name for name, _ in kernel.matrix.axes]
    arguments = cut(kernel.symbol)[1]
    for name in (argument for argument in arguments or () if argument in axes):
        report(
            f"the template argument {name} is the name of an axis, whose value is {{{name}}}", path
        )
    if decl.template and arguments is None:
        report(
            f'{decl.name} is a template: say which instance, for example symbol = "{decl.name}<{decl.places}>"',
            path,
        )
        return False
    if arguments is not None and len(arguments) > len(decl.template) and not decl.variadic:
        shown = (
            f"template parameters {', '.join(decl.template)}"
            if decl.template
            else "no template parameters"
        )
        report(f"{len(arguments)} template arguments, but {decl.name} has {shown}", path)
        return False
    declared = [p for p in decl.params if p.given]
    if kernel.args is not None and len(kernel.args) != len(declared):
        shown = ", ".join(f"{p.type} {p.name}".strip() for p in declared)
        message = (
            f"{len(kernel.args)} args, but {decl.name} takes {len(declared)} parameters: {shown}"
        )
        report(message, ("kernel", kernel.name, "args"))
        return False
    if kernel.language == "triton" and kernel.args is None:
        known = {*axes, *(table.name for table in kernel.params)}
        unknown = [p for p in declared if not p.type and p.rank < 0 and p.name not in known]
        if unknown:
            report(args_needed(kernel, decl, unknown), ("kernel", kernel.name))
            _check_constants(kernel, decl, report)
            check_launch(kernel, decl, language, report)
            return False
    return not _named_as_parameters(kernel, decl, report)


def _named_as_parameters(kernel: Kernel, decl: KernelDecl, report: Report) -> bool:
    """Report axes with the name of a launch parameter, and return whether there are any.

    A parameter without a stated type is a constant if an axis has its name, unless a case gives it
    a value or an expression reads it as an array.
    """
    if kernel.args is not None:
        return False
    texts = kernel.launch.expressions
    used = {name for text in texts for name, attribute in expr.parse(text).uses if attribute}
    used.update(item.name for case in kernel.cases for item in case.inputs)
    given = {
        param.name for param in decl.params if param.given and (param.type or param.name in used)
    }
    doubled = [name for name, _ in kernel.matrix.axes if name in given]
    for name in doubled:
        table = "let" if name in dict(kernel.let) else "matrix"
        message = f"{name} is a parameter of {decl.name}: give the axis another name"
        report(message, ("kernel", kernel.name, table, name))
    return bool(doubled)


def check_names(kernel: Kernel, jobs: Sequence[Job], report: Report) -> None:
    """Report a job id that is too long for a file name."""
    longest = max((job.id for job in jobs), key=len, default="")
    if len(longest) > _LONGEST_ID:
        message = f"a job's id has {len(longest)} characters, the most is {_LONGEST_ID}: files are named by it"
        report(f"{message} ({longest[:60]}…)", ("kernel", kernel.name, "matrix"))


def check_hints(
    given: Sequence[str],
    path: tuple[str | int, ...],
    language: str,
    known: Sequence[str],
    report: Report,
) -> None:
    """Report hints that a language's compiler does not accept."""
    for name in given:
        if name not in known:
            message = (
                f"unknown hint {name!r}{suggest(name, known)}"
                if known
                else f"{language} kernels take no hints: say it in the source or in flags"
            )
            report(message, (*path, name))


def _check_expressions(
    kernel: Kernel, params: Sequence[Param], unresolved: Collection[str], report: Report
) -> None:
    launch, base = kernel.launch, ("kernel", kernel.name, "launch")
    for key, texts in (
        ("grid", launch.grid),
        ("block", launch.block),
        ("requires", launch.requires),
        ("shared", (launch.shared,)),
    ):
        for index, text in enumerate(texts):
            path = (*base, key) if key == "shared" else (*base, key, index)
            _check_expression(
                text, kernel, params, unresolved, path, report, truth=key == "requires"
            )
            if key != "requires":
                _check_given(text, params, path, report)
    for index, text in enumerate(kernel.args or ()):
        _check_extents(
            expr.parse_abi(text)[1], params, ("kernel", kernel.name, "args", index), report
        )
    for case in kernel.cases:
        if case.bench is not None:
            for key, text in (("flops", case.bench.flops), ("bytes", case.bench.bytes)):
                if text:
                    at = ("kernel", kernel.name, "case", case.name, "bench", key)
                    _check_expression(text, kernel, params, unresolved, at, report, device=())
                    given = {item.name for item in case.inputs}
                    _check_given(
                        text, [param for param in params if param.name not in given], at, report
                    )


def _check_given(
    text: str, params: Sequence[Param], path: tuple[str | int, ...], report: Report
) -> None:
    names = expr.parse(text).names
    for param in params:
        if param.optional and param.name in names:
            report(
                f"{text!r} reads {param.name}, which may be None: read a tensor that every call gives",
                path,
            )


def _check_bound(kernel: Kernel, params: Sequence[Param], report: Report) -> None:
    """Report dtype axes that only an optional tensor binds: calls may pass None."""
    bound = {param.dtype for param in params if not param.optional}
    for param in params:
        if param.optional and param.dtype not in DTYPES and param.dtype not in bound:
            message = f"{param.dtype} is said by {param.name} alone, which may be None"
            report(
                f"{message}: give it a dtype, or {param.dtype} to a tensor of every call",
                ("kernel", kernel.name, "params", param.name, "dtype"),
            )


def _check_expression(
    text: str,
    kernel: Kernel,
    params: Sequence[Param],
    unresolved: Collection[str],
    path: tuple[str | int, ...],
    report: Report,
    *,
    truth: bool = False,
    device: Collection[str] = expr.DEVICE_FACTS,
) -> None:
    """Report unknown names, attributes and extents, and a value of the wrong kind.

    With `truth`, the value must be a condition. `device` has the facts of a device that the
    expression may read.
    """
    axes = [name for name, _ in kernel.matrix.axes]
    by_name = {p.name: p for p in params}
    try:
        parsed = expr.parse(text, names=[*by_name, *axes, *unresolved, *device])
    except ExpressionError as error:
        report(error.what, path, error.column)
        return
    for name, attribute in sorted(parsed.uses):
        param = by_name.get(name)
        tensor = param is not None and param.kind is ParamKind.TENSOR
        if name in unresolved or tensor == bool(attribute):
            continue
        if tensor:
            report(f"{name} is a tensor: say {name}.shape[0], {name}.size or {name}.dtype", path)
            return
        noun = "an axis" if param is None else f"a {param.kind.value}"
        report(f"{name}.{attribute}: {name} is {noun}, not a tensor", path)
    _check_extents(parsed, params, path, report)
    if parsed.kind in ("truth" if truth else "number", "any"):
        return
    if truth:
        report(f"{text!r} is no condition: compare it, as in x.size == y.size", path)
    else:
        noun = "a condition" if parsed.kind == "truth" else "text"
        report(f"{text!r} is {noun}, where a number is due", path)


def _check_used(kernel: Kernel, params: Sequence[Param], report: Report) -> None:
    """Report parameters that `args` ignore: the launcher would drop their arguments."""
    if kernel.args is None:
        return
    for param in params:
        if not _in_expressions(kernel, param.name):
            message = f"parameter {param.name!r} is used by none of args, grid, block, shared and requires: take it out, or pass it on"
            report(message, ("kernel", kernel.name, "params", param.name))


def _check_extents(
    parsed: expr.Expr, params: Sequence[Param], path: tuple[str | int, ...], report: Report
) -> None:
    for fault in extent_faults(parsed, {param.name: param.rank for param in params}):
        report(fault, path)


def _check_default(
    kernel: Kernel, params: Sequence[Param], variants: Sequence[Variant], report: Report
) -> None:
    path = ("kernel", kernel.name, "dispatch", "default")
    axes = dict(kernel.matrix.axes)
    built = {
        name: {value for v in variants for axis, value in v.constants if axis == name}
        for name in axes
    }
    for name, value in kernel.default:
        if name not in axes:  # the manifest cannot check it if the source adds axes
            report(f"unknown axis {name!r}{suggest(name, list(axes))}", (*path, name))
        elif variants and value not in built[name]:
            shown = ", ".join(map(axis_shown, sorted(built[name], key=str)))
            report(f"no variant has {name} = {value!r}: built are {shown}", (*path, name))
        elif any(p.dtype == name for p in params):
            report(
                f"{name} is bound by the dtype of the arguments: a default would never be used",
                (*path, name),
            )
    if (
        variants
        and kernel.default
        and not any(set(kernel.default) <= set(v.axes) for v in variants)
    ):
        shown = ", ".join(f"{name} = {axis_shown(value)}" for name, value in kernel.default)
        report(f"the matrix excludes {shown}", path)


def _check_rules(
    kernel: Kernel,
    params: Sequence[Param],
    unresolved: Collection[str],
    variants: Sequence[Variant],
    report: Report,
) -> None:
    axes = {name for name, _ in kernel.matrix.axes}
    for index, rule in enumerate(kernel.rules):
        path = ("kernel", kernel.name, "dispatch", "rules", index)
        if rule.when:
            _check_expression(
                rule.when, kernel, params, unresolved, (*path, "when"), report, truth=True
            )
            named = sorted(expr.parse(rule.when).names & axes)
            if named:
                report(
                    f"{named[0]} is an axis, which the rule is there to choose: conditions are on the arguments",
                    (*path, "when"),
                )
        for name, _ in rule.take:
            if any(param.dtype == name for param in params):
                report(
                    f"{name} is bound by the dtype of the arguments: no rule can choose it",
                    (*path, "take", name),
                )
        if variants and not any(same_point(variant.axes, dict(rule.take)) for variant in variants):
            shown = ", ".join(f"{name} = {axis_shown(value)}" for name, value in rule.take)
            report(f"no variant has {shown}: the matrix does not make it", (*path, "take"))
