"""Plan kernels as operators: the outputs that calls allocate, and the backward kernels."""

from __future__ import annotations

import dataclasses
import keyword
from collections import Counter
from collections.abc import Mapping, Sequence

from tilec.manifest.types import Kernel, OpOutput
from tilec.model.declaration import KernelDecl
from tilec.plan.expressions import faults_of, optional_faults
from tilec.plan.params import suggest
from tilec.plan.points import axis_values, inlined
from tilec.plan.report import Report
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.operator import GRAD, BackwardInfo, OperatorInfo, OutputInfo
from tilec_runtime.model.signature import Param, ParamKind


def operator_of(
    kernel: Kernel, decl: KernelDecl, params: Sequence[Param], report: Report
) -> OperatorInfo | None:
    """Return the operator of a kernel, without its backward, or None if it is no operator."""
    if kernel.op is None:
        return None
    at = report.at("op")
    if not any(_is_given(param) for param in params if param.name not in _named(kernel)):
        at("there is no tensor among the inputs that says device and library")
        return None
    if kernel.name == "name":
        at("'name' is what torch calls a namespace of operators: choose another")
    for param in params:
        if keyword.iskeyword(param.name):
            at(f"{param.name!r} is a keyword of Python: no operator can take it by name")
        if param.kind in (ParamKind.PTR, ParamKind.STRUCT):
            at(f"{param.name} is a {param.kind.value}: operators take tensors and numbers")
    if kernel.launch.open and not kernel.launch.preset:
        at("operators launch without a config: give what launch.open leaves to the caller")
    written = {}
    for table in kernel.op.outputs:
        if fault := _not_written(table.name, params, decl):
            at(fault, "outputs", table.name)
        else:
            written[table.name] = table
    return OperatorInfo(
        outputs=tuple(
            _output(kernel, written[param.name], param, params, at.at("outputs", param.name))
            for param in params
            if param.name in written
        )
    )


def _named(kernel: Kernel) -> set[str]:
    """Return the names of the outputs that a call allocates."""
    return {output.name for output in kernel.op.outputs} if kernel.op is not None else set()


def _is_given(param: Param) -> bool:
    """Return whether a parameter is a tensor that every call passes."""
    return param.kind is ParamKind.TENSOR and not param.optional


def _not_written(name: str, params: Sequence[Param], decl: KernelDecl) -> str:
    """Return why the kernel does not write an allocated output, or an empty string."""
    by_name = {param.name: param for param in params}
    param = by_name.get(name)
    if param is None:
        return f"there is no parameter {name!r}{suggest(name, list(by_name))}"
    if param.kind is not ParamKind.TENSOR or not param.out:
        return f"the kernel does not write {name}, so a call cannot return it"
    if any(each.name == name and each.read for each in decl.params):
        return (
            f"the kernel reads {name} before it writes it, and what a call allocates holds anything: "
            "leave it out of outputs, so that callers give it"
        )
    if param.optional:
        return f"{name} may be None: a call cannot tell whether to allocate it"
    if any(step is not None and step != 1 for step in (param.stride or ())[:-1]):
        return f"{name} has fixed strides, and what a call allocates is C-contiguous"
    return ""


def _output(
    kernel: Kernel, table: OpOutput, param: Param, params: Sequence[Param], report: Report
) -> OutputInfo:
    """Return an output for the bundle index, and report its problems."""
    allocated = _named(kernel)
    inputs = {each.name: each for each in params if each.name not in allocated}
    tensors = {name: each for name, each in inputs.items() if _is_given(each)}
    shape = tuple(inlined(kernel, text) for text in table.shape or ())
    if table.like:
        fault = _unlike(table.like, param, tensors, allocated)
        if fault:
            report(fault, "like")
    elif param.rank not in (-1, len(shape)):
        report(f"{len(shape)} extents, and {param.name} has rank {param.rank}", "shape")
    for index, text in enumerate(shape):
        if fault := _not_inferred(text, kernel, inputs, allocated):
            report(fault, "shape", index)
    dtype, fault = _dtype(kernel, table, param, tensors)
    if fault:
        (report.at("dtype") if table.dtype else report)(fault)
    elif dtype in DTYPES and DTYPES[dtype].packed:
        report(f"elements of {dtype} share bytes, and no library allocates such arrays")
    return OutputInfo(param=param.name, like=table.like, shape=shape, dtype=dtype)


def _unlike(like: str, param: Param, tensors: Mapping[str, Param], allocated: set[str]) -> str:
    """Return why an output cannot have the shape of `like`, or an empty string."""
    if like == param.name:
        return (
            f"{like} is the output itself: an operator that reads and writes {like} takes it from the caller "
            "and mutates it, so leave it out of outputs"
        )
    if like in allocated:
        return f"{like} is an output too: nothing says its shape before the call"
    if like not in tensors:
        return f"{like!r} is no tensor of every call{suggest(like, list(tensors))}"
    if tensors[like].rank != param.rank:
        return f"{like} has rank {tensors[like].rank}, and {param.name} {param.rank}: write its shape, such as shape = ['{like}.shape[0]']"
    return ""


def _not_inferred(
    text: str,
    kernel: Kernel,
    inputs: Mapping[str, Param],
    allocated: set[str],
) -> str:
    """Return why an extent cannot be inferred from the inputs, or an empty string."""
    axes, params = dict(kernel.matrix.axes), list(inputs.values())
    for fault, _ in faults_of(text, params, axes=axes, unknown=allocated):
        return fault
    for name, attribute in sorted(expr.parse(text).uses):
        if name in allocated:
            return f"{name} is an output: its shape cannot be inferred from itself, read an input"
        if len(axes.get(name, ())) > 1:
            return f"{name} is an axis with several values, of which a launch takes one: the shape cannot be inferred"
        if attribute and attribute not in ("shape", "size"):
            return f"{name}.{attribute} says no shape: read the shape or size of a tensor of every call"
    return next(optional_faults(text, params), "")


def _dtype(
    kernel: Kernel, table: OpOutput, param: Param, tensors: Mapping[str, Param]
) -> tuple[str, str]:
    """Return an output's dtype for the bundle index, and its problem or an empty string."""
    dtype = table.dtype or param.dtype
    if dtype in DTYPES:
        allocated = {dtype}
    else:
        name = dtype.removesuffix(".dtype")
        if name == dtype:  # an axis: take the dtype of an input that has the same axis
            ordered = sorted(tensors.values(), key=lambda each: each.name != table.like)
            name = next((each.name for each in ordered if each.dtype == dtype), "")
            if not name:
                return dtype, (
                    f"the dtype of {param.name} is {dtype}, which no input has: say its dtype, "
                    'such as dtype = "f32"'
                )
            dtype = f"{name}.dtype"
        if name not in tensors:
            return dtype, f"{name!r} is no tensor of every call{suggest(name, list(tensors))}"
        allocated = dtypes_of(kernel, tensors[name])
    taken = dtypes_of(kernel, param)
    if allocated <= taken:
        return dtype, ""
    more = _listed(allocated - taken)
    return dtype, f"{param.name} takes {_listed(taken)}, and a call would allocate {more}"


def dtypes_of(kernel: Kernel, param: Param) -> set[str]:
    """Return the dtypes that a parameter may have."""
    return set(map(str, axis_values(kernel, param.dtype))) or {param.dtype}


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


def with_backward(
    kernel: Kernel,
    info: KernelInfo,
    others: Mapping[str, tuple[Kernel, KernelInfo]],
    report: Report,
) -> KernelInfo:
    """Return a kernel's index entry with the backward of its operator."""
    table = kernel.op.backward if kernel.op is not None else None
    if table is None or info.op is None:
        return info
    written = report.at("op", "backward", "args")
    named = report.at("op", "backward", "kernel") if table.args else report.at("op", "backward")
    if fault := _no_backward(table.kernel, others):
        named(fault)
        return info
    other, other_info = others[table.kernel]
    if not other_info.allocated:
        named(f"{table.kernel} allocates no output, which would be a gradient")
    if mutated := next((p for p in info.inputs if p.out), None):
        named(
            f"{kernel.name} writes {mutated.name}, which the caller gives: an operator that mutates has no backward"
        )
    args = _arguments(table, info, other_info, written)
    for name, argument in args:
        if fault := _misfit(name, argument, (kernel, info), (other, other_info)):
            (written.at(name) if name in dict(table.args) else named)(fault)
    most = Counter(argument for _, argument in args).most_common(1)
    if most and most[0][1] > 1:
        (written if table.args else named)(f"{most[0][0]} is given twice")
    backward = BackwardInfo(kernel=table.kernel, args=args)
    return dataclasses.replace(info, op=dataclasses.replace(info.op, backward=backward))


def _no_backward(name: str, others: Mapping[str, tuple[Kernel, KernelInfo]]) -> str:
    """Return why a name is no operator that can be a backward, or an empty string."""
    if name not in others:
        return f"there is no kernel {name!r}{suggest(name, list(others))}"
    if others[name][1].op is None:
        return f"{name} is no operator: give it [kernel.{name}.op], whose outputs are the gradients"
    return ""


def _arguments(
    table: BackwardInfo, info: KernelInfo, other_info: KernelInfo, report: Report
) -> tuple[tuple[str, str], ...]:
    """Return each parameter of the backward kernel with the forward value that it takes."""
    given, params = dict(table.args), {param.name for param in other_info.params}
    for name in given:
        if name not in params:
            message = f"{table.kernel} has no parameter {name!r}"
            report(message + suggest(name, sorted(params)), name)
    own = {param.name for param in info.params}
    return tuple(
        (param.name, given.get(param.name, param.name))
        for param in other_info.params
        if param.name in given
        or param.name.removeprefix(GRAD) in own
        or (param.default is None and not param.optional)  # the others keep their default
    )


def _misfit(
    name: str,
    argument: str,
    forward: tuple[Kernel, KernelInfo],
    backward: tuple[Kernel, KernelInfo],
) -> str:
    """Return why a backward kernel's parameter cannot take its value, or ""."""
    kernel, info = forward
    other, other_info = backward
    own = {param.name: param for param in info.params}
    param = next(each for each in other_info.params if each.name == name)
    gradient = argument not in own and argument.startswith(GRAD)
    source = own.get(argument.removeprefix(GRAD) if gradient else argument)
    if source is None:
        return (
            f"nothing is given for {name} of {other_info.name}: {kernel.name} has no parameter {argument!r}; "
            f'say what it stands for, such as args.{name} = "grad_{next(iter(own))}"'
        )
    if fault := _role_fault(param, argument, source, info, other_info):
        return fault
    subject = f"{name} of {other_info.name}"
    given, taken = dtypes_of(kernel, source), dtypes_of(other, param)
    if gradient and (fault := _no_gradient(source, given)):
        return fault
    if source.optional and (gradient or not param.optional):
        return f"{source.name} of {info.name} may be None, and {subject} is a tensor of every call"
    if source.kind is not param.kind:
        return f"{subject} is a {param.kind.value}, and {argument} is a {source.kind.value}"
    if not given <= taken:
        return f"{subject} takes {_listed(taken)}, and {argument} may be {_listed(given - taken)}"
    if source.rank != param.rank and -1 not in (source.rank, param.rank):
        return f"{subject} has rank {param.rank}, and {argument} {source.rank}"
    return ""


def _role_fault(
    param: Param, argument: str, source: Param, info: KernelInfo, other: KernelInfo
) -> str:
    """Return why the backward cannot compute, read or write its parameter, or "".

    Args:
        param: the parameter.
        argument: the parameter of the forward kernel that it takes, or its gradient (`grad_x`).
        source: that parameter of the forward kernel.
        info: the forward kernel.
        other: the backward kernel.
    """
    returned = param in other.allocated
    computed = argument != source.name and source not in info.allocated
    if returned and not computed:
        return f"{other.name} returns {param.name}, which must be the gradient of an input of {info.name}, and is {argument}"
    if computed and not returned:
        return f"the backward kernel computes {argument}, but {param.name} is not an output of {other.name}"
    if param.out and not returned:
        return f"{other.name} writes {param.name}, which no call allocates: name it in kernel.{other.name}.op.outputs"
    return ""


def _no_gradient(source: Param, dtypes: set[str]) -> str:
    """Return why a parameter has no gradient, or an empty string."""
    if source.kind is not ParamKind.TENSOR:
        return f"{source.name} is a number, and gradients are of tensors"
    whole = {dtype for dtype in dtypes if dtype in DTYPES and DTYPES[dtype].kind != "float"}
    if whole:
        return f"{source.name} may be {_listed(whole)}, and integers have no gradient"
    return ""
