"""Reads inputs from a command line: `--arg` for a run without a case, `--set` and `--input` to
change cases. All three take numbers, tensors and files.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilec.case.cases import BoundCase, bind
from tilec.case.files import FORMS, UnfitError, dtype_in, is_file, parse_array_file
from tilec.case.inputs import misfit
from tilec.manifest.case_keys import DISTS
from tilec.manifest.types import Case, Input, Kernel
from tilec.model.literal import axis_text, read_axis_value, read_number
from tilec_runtime.errors import CaseError, UsageError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, KernelInfo
from tilec_runtime.model.signature import Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean

_TENSOR = re.compile(
    r"(?P<dtype>[A-Za-z_]\w*)\[(?P<shape>[^\]]*)\](?::(?P<dist>[^:]*))?(?::(?P<seed>[^:]*))?"
)
_SHAPE = re.compile(r"\[([^\]]*)\]")
_FORMS = "take n=4096, x=[512,512], x=f16[512,512]:normal:7, BM=64 or x=FILE.npy"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Override:
    """One NAME=VALUE of `--arg`, `--set` or `--input`.

    Attributes:
        text: as on the command line, with the option.
        name: name of a parameter or an axis.
        value: its new value.
        array: the input, if the value names a file.
    """

    text: str
    name: str
    value: str = ""
    array: Input | None = None


def parse_overrides(given: Mapping[str, Sequence[str]], *, cwd: Path) -> tuple[Override, ...]:
    """Read the values of options, and the dtypes of the files that they name.

    Args:
        given: values of each option.
        cwd: the directory that relative paths start at.

    Raises:
        UsageError: a value has another form, a name is given twice, or a file cannot be read.
    """
    overrides = tuple(
        _override(option, text, cwd) for option, texts in given.items() for text in texts
    )
    names = [override.name for override in overrides]
    for override in overrides:
        if names.count(override.name) > 1:
            raise UsageError(
                f"{override.text}: {override.name} is given more than once",
                fix="give each name one value",
            )
    return overrides


def bind_arguments(info: KernelInfo, arguments: Sequence[Override]) -> BoundCase:
    """Return a bound case of `--arg` values; outputs have to be given too.

    Raises:
        UsageError: the arguments do not fit the kernel.
    """
    case = _changed(Case(name=""), info, arguments)
    try:
        return bind(case, info)
    except CaseError as error:  # the command line is at fault, not the manifest
        raise UsageError(error.what, cause=error.cause, fix=error.fix, kernel=info.name) from error


def overridden(kernel: Kernel, info: KernelInfo, overrides: Sequence[Override]) -> Kernel:
    """Return the kernel with changed cases.

    Raises:
        UsageError: the kernel has no such parameter or axis, or the value does not fit.
    """
    cases = tuple(_changed(case, info, overrides) for case in kernel.cases)
    return dataclasses.replace(kernel, cases=cases)


def _override(option: str, text: str, cwd: Path) -> Override:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name.isidentifier():
        raise UsageError(f"{option} {text!r} is not NAME=VALUE", fix=_FORMS)
    shown = f"{option} {text}"
    if not is_file(value):
        return Override(text=shown, name=name, value=value)
    file = parse_array_file(value, cwd=cwd)
    try:
        array = Input(name=name, file=str(file), dtype=dtype_in(file, name))
        return Override(text=shown, name=name, array=array)
    except UnfitError as error:
        message = f"{shown}: {file} cannot be read: {error}"
        raise UsageError(message, fix=f"give {FORMS}") from error


def _tensor(override: Override) -> Input | None:
    """Read `f32[1024,512]:normal:7`; None for another form."""
    match = _TENSOR.fullmatch(override.value)
    if match is None:
        return None
    dtype, option = match["dtype"], override.text
    if dtype not in DTYPES:
        hint = did_you_mean(dtype, list(DTYPES)) or f"; there are {', '.join(DTYPES)}"
        raise UsageError(f"{option}: unknown dtype {dtype!r}{hint}")
    extents = match["shape"].strip()
    shape = tuple(extent.strip() for extent in extents.split(",")) if extents else ()
    if not all(shape):
        raise UsageError(f"{option}: an extent is missing in [{match['shape']}]")
    dist = match["dist"] or "normal"
    if match["dist"] is None and DTYPES[dtype].kind != "float":
        dist = "integers"
    if dist not in DISTS:
        hint = did_you_mean(dist, list(DISTS)) or f"; there are {', '.join(DISTS)}"
        raise UsageError(f"{option}: unknown distribution {dist!r}{hint}")
    text = match["seed"] or ""
    if text and not text.isdecimal():
        raise UsageError(f"{option}: the seed {text!r} is not a whole number")
    seed = int(text) if text else None
    return Input(name=override.name, shape=shape, dtype=dtype, dist=dist, seed=seed)


def _changed(case: Case, info: KernelInfo, overrides: Sequence[Override]) -> Case:
    params, axes = {param.name: param for param in info.params}, dict(info.axes)
    tensors = [param.name for param in info.params if param.kind is ParamKind.TENSOR]
    inputs, chosen = {item.name: item for item in case.inputs}, dict(case.axes)
    for override in overrides:
        name = override.name
        if override.array is not None:
            if name not in tensors:
                raise _unknown(info.name, tensors, override, "tensor")
            inputs.pop(name, None)
            inputs = {name: override.array, **inputs}  # extents of others may depend on it
        elif name in params:
            inputs[name] = _value(override, params[name], inputs.get(name), info)
        elif name in axes:
            chosen[name] = _axis_value(override, axes[name])
        else:
            raise _unknown(info.name, [*params, *axes], override, "parameter or axis")
    return dataclasses.replace(case, inputs=tuple(inputs.values()), axes=tuple(chosen.items()))


def _value(override: Override, param: Param, before: Input | None, info: KernelInfo) -> Input:
    if param.kind is ParamKind.SCALAR:
        return Input(name=param.name, value=_number(override, param, info))
    if param.kind is not ParamKind.TENSOR:
        raise UsageError(
            f"{override.text}: {param.name} of {info.name} is no tensor and no number",
            fix="write it into the case",
        )
    if _SHAPE.fullmatch(override.value) and before is not None and before.shape is not None:
        tensor = _tensor(dataclasses.replace(override, value=f"f32{override.value}"))
        assert tensor is not None
        return dataclasses.replace(before, shape=tensor.shape, small=None)
    tensor = _tensor(override)
    if tensor is None:
        raise UsageError(
            f"{override.text}: {info.name} takes a tensor for {param.name}",
            fix=f"give {param.name}=f32[1024]:normal:7, or {param.name}=FILE.npy",
        )
    return tensor


def _axis_value(override: Override, built: Sequence[AxisValue]) -> AxisValue:
    known = read_axis_value(override.value, built)
    if known is None:
        values = ", ".join(map(axis_text, built))
        raise UsageError(f"{override.text}: {override.name} was built for {values}")
    return known


def _number(override: Override, param: Param, info: KernelInfo) -> int | float | bool:
    number = read_number(override.value)
    dtype = DTYPES.get(param.dtype)  # None for the name of an axis
    if number is None or (isinstance(number, bool) and dtype is not None and dtype.kind != "bool"):
        message = f"{override.value!r} is not a number, and {info.name} takes {param.dtype} for {param.name}"
        raise UsageError(f"{override.text}: {message}")
    if dtype is not None and (problem := misfit(number, dtype)):
        raise UsageError(f"{override.text}: {problem}")
    return number


def _unknown(kernel: str, known: Sequence[str], override: Override, noun: str) -> UsageError:
    hint = did_you_mean(override.name, known) or f"; it has {', '.join(known) or 'none'}"
    fix = f"choose the cases that have it: name their kernels, or -k 'not {kernel}'"
    return UsageError(
        f"{override.text}: kernel {kernel} has no {noun} {override.name!r}{hint}",
        fix="" if override.text.startswith("--arg") else fix,
    )
