"""Reads inputs from a command line: `--arg` for a run without a case, `--set` and `--input` to
change cases.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilec.case.cases import BoundCase, Files, bind
from tilec.case.files import FORMS, ArrayFile, UnfitError, dtype_in, is_file, parse_array_file
from tilec.case.inputs import DISTRIBUTIONS
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
_ARGUMENT = f"NAME=DTYPE[EXTENTS]:DIST:SEED (x=f32[1024,512]:normal:7), NAME=VALUE (alpha=2.5, BM=64) or NAME=FILE, with {FORMS}"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Override:
    """One `--arg NAME=VALUE`, `--set NAME=VALUE` or `--input NAME=FILE`.

    Attributes:
        text: as on the command line, with the option.
        name: of a parameter or an axis. value: its new value.
        place: the file, if it is one; `dtype` is what the file holds.
    """

    text: str
    name: str
    value: str = ""
    file: ArrayFile | None = None
    dtype: str = ""


def parse_arguments(texts: Sequence[str], *, cwd: Path) -> tuple[Override, ...]:
    """Read every `--arg`: a value as `--set` takes it, or a file as `--input` does.

    Args:
        texts: values of `--arg`.
        cwd: the directory that relative paths start at.

    Raises:
        UsageError: one has another form, a name is given twice, or a file cannot be read.
    """
    return _each_once([_argument(text, cwd) for text in texts])


def parse_overrides(
    settings: Sequence[str], inputs: Sequence[str], *, cwd: Path
) -> tuple[Override, ...]:
    """Read every `--set` and `--input`; files are looked into.

    Args:
        settings: values of `--set`.
        inputs: values of `--input`.
        cwd: the directory that relative paths start at.

    Raises:
        UsageError: one has another form, a name is given twice, or a file cannot be read.
    """
    return _each_once([*map(_setting, settings), *(_input(text, cwd) for text in inputs)])


def _each_once(overrides: Sequence[Override]) -> tuple[Override, ...]:
    names = [override.name for override in overrides]
    for override in overrides:
        if names.count(override.name) > 1:
            raise UsageError(
                f"{override.text}: {override.name} is given more than once",
                fix="give each name one value",
            )
    return tuple(overrides)


def bind_arguments(info: KernelInfo, arguments: Sequence[Override]) -> BoundCase:
    """Return a bound case of `--arg` values; outputs have to be given too.

    Raises:
        UsageError: the arguments do not fit the kernel.
    """
    case = _changed(Case(name=""), info, arguments)
    try:
        return bind(case, info, files=_files(arguments))
    except CaseError as error:  # the command line is at fault, not the manifest
        raise UsageError(error.what, cause=error.cause, fix=error.fix, kernel=info.name) from error


def overridden(
    kernel: Kernel, info: KernelInfo, overrides: Sequence[Override]
) -> tuple[Kernel, Files]:
    """Return the kernel with changed cases, and the arrays that replace inputs.

    Raises:
        UsageError: the kernel has no such parameter or axis, or the value does not fit.
    """
    cases = tuple(_changed(case, info, overrides) for case in kernel.cases)
    return dataclasses.replace(kernel, cases=cases), _files(overrides)


def _parts(option: str, text: str, fix: str, *, empty: bool = False) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name.isidentifier() or not (value or empty):
        raise UsageError(f"{option} {text!r} is not NAME=VALUE", fix=fix)
    return name, value


def _argument(text: str, cwd: Path) -> Override:
    forms = f"an argument is {_ARGUMENT}"
    name, value = _parts("--arg", text, forms, empty=True)  # an axis may have the empty text
    option = f"--arg {text}"
    if is_file(value):
        return _file(option, name, value, cwd)
    return Override(text=option, name=name, value=value)


def _setting(text: str) -> Override:
    forms = "take n=4096, x=[512,512], x=f16[512,512]:normal:7 or BM=64"
    name, value = _parts("--set", text, forms, empty=True)  # an axis may have the empty text
    if is_file(value):
        raise UsageError(
            f"--set {text!r}: an array from a file is an input", fix=f"--input {name}={value}"
        )
    return Override(text=f"--set {text}", name=name, value=value)


def _input(text: str, cwd: Path) -> Override:
    forms = f"take x={FORMS.replace(', ', ', x=').replace(' or ', ' or x=')}"
    name, value = _parts("--input", text, forms)
    option = f"--input {text}"
    if not is_file(value):
        raise UsageError(
            f"{option}: {value!r} names no file of an array",
            fix=f"give {FORMS}; a number or a shape goes to --set",
        )
    return _file(option, name, value, cwd)


def _file(option: str, name: str, value: str, cwd: Path) -> Override:
    file = parse_array_file(value, cwd=cwd)
    try:
        return Override(text=option, name=name, file=file, dtype=dtype_in(file, name))
    except UnfitError as error:
        raise UsageError(
            f"{option}: {file} cannot be read: {error}", fix=f"give {FORMS}"
        ) from error


def _files(overrides: Sequence[Override]) -> Files:
    return tuple((one.name, one.dtype, str(one.file)) for one in overrides if one.file)


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
    if dist not in DISTRIBUTIONS:
        hint = did_you_mean(dist, list(DISTRIBUTIONS)) or f"; there are {', '.join(DISTRIBUTIONS)}"
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
        if override.file is not None:
            if name not in tensors:
                raise _unknown(info.name, tensors, override, "tensor")
            inputs.pop(name, None)
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
        option = "--arg" if override.text.startswith("--arg") else "--input"
        raise UsageError(
            f"{override.text}: {info.name} takes a tensor for {param.name}",
            fix=f"give {param.name}=f32[1024]:normal:7, or {option} {param.name}=FILE.npy",
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
    takes = f"{info.name} takes {param.dtype} for {param.name}"
    if number is None or (isinstance(number, bool) and dtype is not None and dtype.kind != "bool"):
        raise UsageError(f"{override.text}: {override.value!r} is no number, and {takes}")
    if dtype is not None and dtype.kind in ("int", "uint"):
        if not math.isfinite(number) or int(number) != number:
            raise UsageError(f"{override.text}: {override.value} is no whole number, and {takes}")
        limits = np.iinfo(dtype.numpy)
        if not limits.min <= int(number) <= limits.max:
            holds = f"which holds {limits.min} to {limits.max}"
            raise UsageError(f"{override.text}: {override.value} does not fit {dtype}, {holds}")
    return number


def _unknown(kernel: str, known: Sequence[str], override: Override, noun: str) -> UsageError:
    hint = did_you_mean(override.name, known) or f"; it has {', '.join(known) or 'none'}"
    fix = f"choose the cases that have it: name their kernels, or -k 'not {kernel}'"
    return UsageError(
        f"{override.text}: kernel {kernel} has no {noun} {override.name!r}{hint}",
        fix="" if override.text.startswith("--arg") else fix,
    )
