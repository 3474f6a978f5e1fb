"""The cases of a tuning, with their search spaces and the results of their references."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tilec.case.cases import BoundCase, expand_cases, require_fitting, small_case
from tilec.case.functions import Functions
from tilec.case.inputs import make_inputs, planned_inputs
from tilec.case.reference import expected_results
from tilec.manifest.locate import Locator
from tilec.manifest.types import Kernel
from tilec.tune.space import Space, space_of
from tilec.tune.worker import write_expected
from tilec_runtime.errors import CaseError, ExpressionError, UsageError
from tilec_runtime.model import expr
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.suggest import did_you_mean


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A case that is ready to be tuned.

    Attributes:
        space: its search space.
        at: values of the kernel's size expressions.
        expected: file with the reference's results; empty without a reference.
    """

    space: Space
    at: tuple[int, ...]
    expected: str


def spaces_of(
    kernel: Kernel, info: KernelInfo, names: Sequence[str], *, locate: Locator | None = None
) -> tuple[Space, ...]:
    """Return the search space of each case, or of those whose names match a glob.

    Raises:
        UsageError: there is no case, or none with a name.
        CaseError: a case does not fit the kernel, or has no search space.
    """
    known = [case.name for case in kernel.cases]
    if not known:
        message = f"kernel {kernel.name} has no case: tuning needs inputs, and a reference to compare with"
        raise UsageError(
            message,
            fix=f"add [kernel.{kernel.name}.case.NAME] to tilec.toml, with inputs and a reference",
        )
    for name in names:
        if not any(fnmatch.fnmatchcase(case, name) for case in known):
            raise UsageError(
                f"kernel {kernel.name} has no case {name!r}{did_you_mean(name, known) or '; it has ' + ', '.join(known)}"
            )
    chosen = tuple(
        case
        for case in kernel.cases
        if not names or any(fnmatch.fnmatchcase(case.name, name) for name in names)
    )
    wanted = dataclasses.replace(kernel, cases=chosen)
    return tuple(space_of(info, case) for case in cases_of(wanted, info, locate=locate))


def cases_of(
    kernel: Kernel, info: KernelInfo, *, locate: Locator | None = None
) -> tuple[BoundCase, ...]:
    """Bind every case of a kernel without the manifest's defaults, which are searched too.

    Raises:
        CaseError: a case does not fit the kernel.
    """
    bound = expand_cases(kernel, dataclasses.replace(info, default=()), locate=locate)
    return require_fitting(bound)


def prepare_case(
    space: Space,
    sizes: Sequence[str],
    functions: Functions,
    folder: Path,
    *,
    on_reference: Callable[[BoundCase], None],
) -> Prepared:
    """Evaluate a case's sizes, and write the results of its reference.

    Args:
        space: of the case.
        sizes: expressions that distinguish launches.
        functions: of the project.
        folder: for the results.
        on_reference: called before a reference runs, which may take long.

    Raises:
        CaseError: inputs cannot be made, nothing would be launched, or the reference fails.
    """
    case, small = space.case, small_case(space.case)
    env = planned_inputs(case)
    inputs = make_inputs(small)
    empty = [name for name in case.outs if not env[name].size or not np.size(inputs[name])]
    if empty and len(empty) == len(case.outs):
        message = f"{case.name}: {', '.join(empty)} {'has' if len(empty) == 1 else 'have'} no elements: the launch does nothing"
        raise CaseError(
            message,
            fix="give the case sizes above 0, or leave it out with --case",
            location=case.location,
        )
    at = []
    for text in sizes:
        try:
            value = expr.parse(text).evaluate(env)
        except ExpressionError as error:
            raise CaseError(
                f"{case.name}: the size {text} cannot be computed: {error.what}",
                location=case.location,
            ) from error
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise CaseError(
                f"{case.name}: {text} is {value!r}, which is no size", location=case.location
            )
        at.append(value)
    expected = ""
    if case.reference:
        on_reference(case)
        path = folder / f"{file_name(case.name)}.npz"
        write_expected(path, case, expected_results(small, inputs, functions))
        expected = str(path)
    return Prepared(space=space, at=tuple(at), expected=expected)


def file_name(name: str) -> str:
    """Return a case's name as a file name: `gemm.4k_f16`."""
    return "".join(
        c if c.isalnum() or c in "-_" else "." if c == "/" else "_" for c in name
    ).rstrip("_")
