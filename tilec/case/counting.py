"""Whether a kernel's numbers can hold the extents and strides of a case: told before its arrays,
which may be gigabytes, are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilec.case.cases import BoundCase
from tilec.case.inputs import planned_inputs
from tilec_runtime.errors import CaseError, ExpressionError
from tilec_runtime.launch.packing import WIDER
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.expr import parse
from tilec_runtime.model.signature import AbiSlot


def require_countable(case: BoundCase) -> None:
    """Refuse a case of which no variant can be launched, as its launch would.

    Raises:
        CaseError: an extent or a stride is beyond what every variant counts in.
    """
    if not case.abis or case.files or case.steps:
        return
    try:
        env = planned_inputs(case)
    except CaseError:
        return  # making them says it too, and where it knows every axis
    found = [_beyond(abi, env) for abi in case.abis]
    if all(found):
        raise CaseError(f"{case.name}: {found[0]}", fix=WIDER, location=case.location)


def _beyond(abi: Sequence[AbiSlot], env: Mapping[str, Any]) -> str:
    """What an argument of an entry point cannot hold; empty where all fit, as far as can be told
    without addresses.
    """
    for slot in abi:
        dtype = DTYPES.get(slot.type)
        if dtype is None or dtype.kind not in ("int", "uint"):
            continue
        try:
            value = parse(slot.expr).evaluate(env)
        except ExpressionError:
            continue  # the launch says it better
        least = -(1 << dtype.bits - 1) if dtype.kind == "int" else 0
        if isinstance(value, int) and not least <= value < least + (1 << dtype.bits):
            return f"{slot.expr} is {value}, which the kernel's {slot.type} cannot hold"
    return ""
