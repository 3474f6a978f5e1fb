"""What a command line changes of cases: `--set n=4096`, `--set x=[512,512]`, `--set BM=64`,
`--input x=data.npz:weights`.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilec.case.arguments import parse_axis, read_tensor
from tilec.case.cases import Files
from tilec.case.files import FORMS, Place, UnfitError, dtype_in, is_file, parse_place
from tilec.manifest.types import Case, Input, Kernel
from tilec.model.literal import read_number
from tilec_runtime.errors import UsageError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.signature import Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean

_SHAPE = re.compile(r"\[([^\]]*)\]")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Override:
    """One `--set NAME=VALUE` or `--input NAME=FILE`.

    Attributes:
        text: as it stands on the command line, with the option.
        name: of a parameter or an axis. value: what it is to be.
        place: the file, of `--input`; then `dtype` is what it says that it holds.
    """

    text: str
    name: str
    value: str = ""
    place: Place | None = None
    dtype: str = ""


def parse_overrides(
    settings: Sequence[str], inputs: Sequence[str], *, cwd: Path
) -> tuple[Override, ...]:
    """Read every `--set` and `--input`, and look into the files.

    Args:
        settings: of `--set`.
        inputs: of `--input`.
        cwd: what a relative path starts at.

    Raises:
        UsageError: one is of another form, a name stands there twice, or a file cannot be read.
    """
    found = [*(_setting(text) for text in settings), *(_input(text, cwd) for text in inputs)]
    names = [override.name for override in found]
    for override in found:
        if names.count(override.name) > 1:
            raise UsageError(
                f"{override.text}: {override.name} is given more than once",
                fix="give each name one value",
            )
    return tuple(found)


def overridden(
    kernel: Kernel, info: KernelInfo, overrides: Sequence[Override]
) -> tuple[Kernel, Files]:
    """A kernel whose cases have other inputs, and the arrays that they get from files.

    Raises:
        UsageError: the kernel has no such parameter or axis, or not of such a value.
    """
    cases = tuple(_changed(case, info, overrides) for case in kernel.cases)
    files = tuple(
        (one.name, one.dtype, str(one.place)) for one in overrides if one.place is not None
    )
    return dataclasses.replace(kernel, cases=cases), files


def _setting(text: str) -> Override:
    name, value = _parts("--set", text, "n=4096, x=[512,512], x=f16[512,512]:normal:7 or BM=64")
    if is_file(value):
        raise UsageError(
            f"--set {text!r}: an array from a file is an input", fix=f"--input {name}={value}"
        )
    return Override(text=f"--set {text}", name=name, value=value)


def _input(text: str, cwd: Path) -> Override:
    name, value = _parts(
        "--input", text, f"x={FORMS.replace(', ', ', x=').replace(' or ', ' or x=')}"
    )
    option = f"--input {text}"
    if not is_file(value):
        raise UsageError(
            f"{option}: {value!r} names no file of an array",
            fix=f"give {FORMS}; a number or a shape goes to --set",
        )
    place = parse_place(value, cwd=cwd)
    try:
        return Override(text=option, name=name, place=place, dtype=dtype_in(place, name))
    except UnfitError as error:
        raise UsageError(
            f"{option}: {place} cannot be read: {error}", fix=f"give {FORMS}"
        ) from error


def _parts(option: str, text: str, forms: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name.isidentifier() or not value:
        raise UsageError(f"{option} {text!r} is not NAME=VALUE", fix=f"take {forms}")
    return name, value


def _changed(case: Case, info: KernelInfo, overrides: Sequence[Override]) -> Case:
    params, axes = {param.name: param for param in info.params}, dict(info.axes)
    inputs, chosen = {item.name: item for item in case.inputs}, dict(case.axes)
    for override in overrides:
        name, param = override.name, params.get(override.name)
        if override.place is not None:
            if param is None or param.kind is not ParamKind.TENSOR:
                raise _unknown(
                    info.name,
                    [p.name for p in info.params if p.kind is ParamKind.TENSOR],
                    override,
                    "tensor",
                )
            inputs.pop(name, None)
        elif param is not None:
            inputs[name] = _value(override, param, inputs.get(name), info)
        elif name in axes:
            chosen[name] = parse_axis(f"{name}={override.value}", info, option="--set")[1]
        else:
            raise _unknown(info.name, (*params, *axes), override)
    return dataclasses.replace(case, inputs=tuple(inputs.values()), axes=tuple(chosen.items()))


def _value(override: Override, param: Param, before: Input | None, info: KernelInfo) -> Input:
    """The input that a parameter gets."""
    match param.kind:
        case ParamKind.TENSOR:
            shape = _SHAPE.fullmatch(override.value)
            if shape and before is not None and before.shape is not None:
                tensor = read_tensor(
                    override.text, param.name, f"f32{override.value}"
                )  # the case says the rest
                return dataclasses.replace(before, shape=tensor.shape if tensor else (), small=None)
            found = read_tensor(override.text, param.name, override.value)
            if found is None:
                fix = f"give --set {param.name}=[1024], --set {param.name}=f32[1024]:normal:7, or --input {param.name}=FILE.npy"
                raise UsageError(
                    f"{override.text}: {info.name} takes a tensor for {param.name}", fix=fix
                )
            return found
        case ParamKind.SCALAR:
            return Input(name=param.name, value=_number(override, param, info))
        case ParamKind.PTR | ParamKind.STRUCT:
            raise UsageError(
                f"{override.text}: {param.name} of {info.name} is no tensor and no number",
                fix="write it into the case",
            )


def _number(override: Override, param: Param, info: KernelInfo) -> int | float | bool:
    number, dtype = (
        read_number(override.value),
        DTYPES.get(param.dtype),
    )  # of an axis, each case says what it is
    takes = f"{info.name} takes {param.dtype} for {param.name}"
    if number is None or (isinstance(number, bool) and dtype is not None and dtype.kind != "bool"):
        raise UsageError(f"{override.text}: {override.value!r} is no number, and {takes}")
    if dtype is not None and dtype.kind in ("int", "uint"):
        if not math.isfinite(number) or int(number) != number:
            raise UsageError(f"{override.text}: {override.value} is no whole number, and {takes}")
        limits = np.iinfo(dtype.numpy)
        if not limits.min <= int(number) <= limits.max:
            raise UsageError(
                f"{override.text}: {override.value} does not fit {dtype}, which holds {limits.min} to {limits.max}"
            )
    return number


def _unknown(
    kernel: str, known: Sequence[str], override: Override, noun: str = "parameter or axis"
) -> UsageError:
    hint = did_you_mean(override.name, known) or f"; it has {', '.join(known) or 'none'}"
    fix = f"choose the cases that have it: name their kernels, or -k 'not {kernel}'"
    return UsageError(
        f"{override.text}: kernel {kernel} has no {noun} {override.name!r}{hint}", fix=fix
    )
