"""Arguments of a run as text: `x=f32[1024,512]:normal:7`, `alpha=2.5`, `x=data.npy`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from tilec.case.cases import BoundCase, bind
from tilec.case.files import FORMS, Place, UnfitError, dtype_in, is_file, parse_place
from tilec.case.inputs import DISTRIBUTIONS
from tilec.manifest.types import Case, Input
from tilec.model.literal import axis_text, read_axis_value, read_number
from tilec_runtime.errors import CaseError, UsageError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, KernelInfo
from tilec_runtime.model.suggest import did_you_mean

_TENSOR = re.compile(
    r"(?P<dtype>[A-Za-z_]\w*)\[(?P<shape>[^\]]*)\](?::(?P<dist>[^:]*))?(?::(?P<seed>[^:]*))?"
)
_FORMS = f"NAME=DTYPE[EXTENTS]:DIST:SEED (x=f32[1024,512]:normal:7), NAME=NUMBER (alpha=2.5) or NAME=FILE, with {FORMS}"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """One `--arg`: a tensor to make or a scalar (`input`), or a file (`path`, with the dtype that
    it holds).
    """

    name: str
    input: Input | None = None
    path: str = ""
    dtype: str = ""


def parse_argument(text: str, *, cwd: Path) -> Argument:
    """Read one `--arg`.

    Args:
        text: `name=value`.
        cwd: what a relative file path starts at.

    Raises:
        UsageError: it is none of the forms, or the file is not there.
    """
    name, equals, value = text.partition("=")
    name, value = name.strip(), value.strip()
    if not equals or not name.isidentifier() or not value:
        raise UsageError(f"--arg {text!r} is not NAME=VALUE", fix=f"an argument is {_FORMS}")
    tensor = read_tensor(f"--arg {text!r}", name, value)
    if tensor is not None:
        return Argument(name=name, input=tensor)
    if is_file(value):
        return _file(text, name, parse_place(value, cwd=cwd))
    return Argument(name=name, input=Input(name=name, value=_number(text, value)))


def parse_axis(text: str, info: KernelInfo, *, option: str = "--axis") -> tuple[str, AxisValue]:
    """Read one `NAME=VALUE` of an option and check it against what was built.

    Raises:
        UsageError: no such axis or value.
    """
    name, _, value = (part.strip() for part in text.partition("="))
    axes = dict(info.axes)
    if name not in axes:
        hint = did_you_mean(name, list(axes)) or (
            f"; it has {', '.join(axes)}" if axes else "; it has none"
        )
        raise UsageError(f"{option} {text!r}: kernel {info.name} has no axis {name!r}{hint}")
    known = read_axis_value(value, axes[name])
    if known is None:
        raise UsageError(
            f"{option} {text!r}: {name} was built for {', '.join(map(axis_text, axes[name]))}"
        )
    return name, known


def bind_arguments(
    info: KernelInfo,
    arguments: Sequence[Argument],
    *,
    axes: Sequence[tuple[str, AxisValue]] = (),
    reference: str = "",
) -> BoundCase:
    """One bound case from `--arg` values; outputs that are not given are not made up.

    Raises:
        UsageError: the arguments do not fit the kernel, or a name is given twice.
    """
    names = [argument.name for argument in arguments]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--arg {name}=… is given twice")
    case = Case(
        name="",
        inputs=tuple(a.input for a in arguments if a.input is not None),
        reference=reference,
        axes=tuple(axes),
    )
    try:
        return bind(case, info, files=tuple((a.name, a.dtype, a.path) for a in arguments if a.path))
    except CaseError as error:  # not of the manifest, but of the command line
        raise UsageError(error.what, cause=error.cause, fix=error.fix, kernel=info.name) from error


def read_tensor(option: str, name: str, value: str) -> Input | None:
    """Read `f32[1024,512]:normal:7`; None for what is of another form.

    Args:
        option: what stands on the command line, for messages: `--arg 'x=f32[4]'`.
        name: of the parameter.
        value: what is behind the equals sign.

    Raises:
        UsageError: it has this form, and an unknown dtype or distribution, or no number where one
            belongs.
    """
    match = _TENSOR.fullmatch(value)
    return _tensor(option, name, match) if match else None


def _tensor(option: str, name: str, match: re.Match[str]) -> Input:
    dtype = match["dtype"]
    if dtype not in DTYPES:
        hint = did_you_mean(dtype, list(DTYPES)) or f"; there are {', '.join(DTYPES)}"
        raise UsageError(f"{option}: unknown dtype {dtype!r}{hint}")
    shape = (
        tuple(extent.strip() for extent in match["shape"].split(","))
        if match["shape"].strip()
        else ()
    )
    if not all(shape):
        raise UsageError(f"{option}: an extent is missing in [{match['shape']}]")
    dist = match["dist"] or "normal"
    if match["dist"] is None and DTYPES[dtype].kind != "float":
        dist = "integers"
    if dist not in DISTRIBUTIONS:
        hint = did_you_mean(dist, list(DISTRIBUTIONS)) or f"; there are {', '.join(DISTRIBUTIONS)}"
        raise UsageError(f"{option}: unknown distribution {dist!r}{hint}")
    seed = match["seed"] or "0"
    if not seed.isdecimal():
        raise UsageError(f"{option}: the seed {seed!r} is not a whole number")
    return Input(name=name, shape=shape, dtype=dtype, dist=dist, seed=int(seed))


def _number(text: str, value: str) -> AxisValue:
    number = read_number(value)
    if number is None:
        raise UsageError(
            f"--arg {text!r}: {value!r} is no tensor, number or file of an array",
            fix=f"an argument is {_FORMS}",
        )
    return number


def _file(text: str, name: str, place: Place) -> Argument:
    """Of dtypes that NumPy lacks `.npy` files say the size alone, and then the kernel's own is
    taken.
    """
    try:
        return Argument(name=name, path=str(place), dtype=dtype_in(place, name))
    except UnfitError as error:
        raise UsageError(
            f"--arg {text!r}: {place} cannot be read: {error}", fix=f"give {FORMS}"
        ) from error
