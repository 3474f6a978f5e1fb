"""Arguments of a run as text: `x=f32[1024,512]:normal:7`, `alpha=2.5`, `x=data.npy`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilec.errors import CaseError, UsageError
from tilec.manifest.types import Case, Input
from tilec.model.dtype import BY_NUMPY, DTYPES
from tilec.model.kernel import AxisValue, KernelInfo
from tilec.model.suggest import did_you_mean
from tilec.runner.cases import BoundCase, bind
from tilec.runner.inputs import DISTRIBUTIONS

_TENSOR = re.compile(r"(?P<dtype>[A-Za-z_]\w*)\[(?P<shape>[^\]]*)\](?::(?P<dist>[^:]*))?(?::(?P<seed>[^:]*))?")
_FORMS = "NAME=DTYPE[EXTENTS]:DIST:SEED (x=f32[1024,512]:normal:7), NAME=NUMBER (alpha=2.5) or NAME=FILE.npy"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """One `--arg`: a tensor to make or a scalar (`input`), or a file (`path`, with the dtype that it holds)."""

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
    match = _TENSOR.fullmatch(value)
    if match:
        return Argument(name=name, input=_tensor(text, name, match))
    if value.endswith(".npy"):
        return _file(text, name, cwd / value)
    return Argument(name=name, input=Input(name=name, value=_number(text, value)))


def parse_axis(text: str, info: KernelInfo) -> tuple[str, AxisValue]:
    """Read one `--axis NAME=VALUE` and check it against what was built.

    Raises:
        UsageError: no such axis or value.
    """
    name, _, value = (part.strip() for part in text.partition("="))
    axes = dict(info.axes)
    if name not in axes:
        hint = did_you_mean(name, list(axes)) or (f"; it has {', '.join(axes)}" if axes else "; it has none")
        raise UsageError(f"--axis {text!r}: kernel {info.name} has no axis {name!r}{hint}")
    for known in axes[name]:
        if value == _axis_text(known):
            return name, known
    raise UsageError(f"--axis {text!r}: {name} was built for {', '.join(_axis_text(v) for v in axes[name])}")


def bind_arguments(
    info: KernelInfo, arguments: Sequence[Argument], *, axes: Sequence[tuple[str, AxisValue]] = (), reference: str = ""
) -> BoundCase:
    """One bound case from `--arg` values; outputs that are not given are not made up.

    Raises:
        UsageError: the arguments do not fit the kernel, or a name is given twice.
    """
    names = [argument.name for argument in arguments]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--arg {name}=… is given twice")
    case = Case(name="", inputs=tuple(a.input for a in arguments if a.input is not None), reference=reference, axes=tuple(axes))
    try:
        return bind(case, info, files=tuple((a.name, a.dtype, a.path) for a in arguments if a.path))
    except CaseError as error:  # not of the manifest, but of the command line
        raise UsageError(error.what, cause=error.cause, fix=error.fix, kernel=info.name) from error


def _tensor(text: str, name: str, match: re.Match[str]) -> Input:
    dtype = match["dtype"]
    if dtype not in DTYPES:
        hint = did_you_mean(dtype, list(DTYPES)) or f"; there are {', '.join(DTYPES)}"
        raise UsageError(f"--arg {text!r}: unknown dtype {dtype!r}{hint}")
    shape = tuple(extent.strip() for extent in match["shape"].split(",")) if match["shape"].strip() else ()
    if not all(shape):
        raise UsageError(f"--arg {text!r}: an extent is missing in [{match['shape']}]")
    dist = match["dist"] or "normal"
    if match["dist"] is None and DTYPES[dtype].kind != "float":
        dist = "integers"
    if dist not in DISTRIBUTIONS:
        hint = did_you_mean(dist, list(DISTRIBUTIONS)) or f"; there are {', '.join(DISTRIBUTIONS)}"
        raise UsageError(f"--arg {text!r}: unknown distribution {dist!r}{hint}")
    seed = match["seed"] or "0"
    if not seed.isdecimal():
        raise UsageError(f"--arg {text!r}: the seed {seed!r} is not a whole number")
    return Input(name=name, shape=shape, dtype=dtype, dist=dist, seed=int(seed))


def _number(text: str, value: str) -> AxisValue:
    if value in ("true", "false"):
        return value == "true"
    for read in (lambda v: int(v, 0), float):
        try:
            number: int | float = read(value)
        except ValueError:
            continue
        return number
    raise UsageError(f"--arg {text!r}: {value!r} is no tensor, number or .npy file", fix=f"an argument is {_FORMS}")


def _file(text: str, name: str, path: Path) -> Argument:
    """The dtype is in the file's header; dtypes that NumPy lacks are kept there as plain bytes, and then the kernel's own is taken."""
    try:
        header = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"--arg {text!r}: {path} cannot be read: {reason}", fix="give a file that numpy.save wrote") from error
    known = BY_NUMPY.get(header.dtype.name) if isinstance(header, np.ndarray) else None
    return Argument(name=name, path=str(path), dtype=known.name if known else "")


def _axis_text(value: AxisValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
