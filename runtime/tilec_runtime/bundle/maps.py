"""Tensor maps and scratch memory among the arguments of an entry point: what an index may say of them. Loaded where there are any."""

from __future__ import annotations

from collections.abc import Sequence

from tilec_runtime.bundle.codec import unfit
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind
from tilec_runtime.model.tensormap import ALIGN, SIZE, TensorMap

MOST_SCRATCH = 1 << 30  # bytes of one block


def check_special(here: str, abi: Sequence[AbiSlot], params: Sequence[Param]) -> None:
    """See that arguments which are neither a tensor's address nor a value are maps of tensors, or scratch memory. Raises Misfit."""
    tensors = [f"{param.name}.ptr" for param in params if param.kind is ParamKind.TENSOR]
    for slot in abi:
        if slot.type in DTYPES or slot.type in ("ptr", "struct"):
            continue
        if slot.scratch:
            if slot.scratch > MOST_SCRATCH or (slot.expr, slot.size, slot.align) != ("0", 8, 8):
                unfit(here, f"{slot.type!r} is no address of scratch memory")
        elif TensorMap.parse(slot.type) is None:
            unfit(here, f"{slot.type!r} is neither ptr, struct, a dtype, a tensor map nor scratch memory")
        elif slot.expr not in tensors or (slot.size, slot.align) != (SIZE, ALIGN):
            unfit(here, f"{slot.expr!r} of {slot.size} bytes is no tensor map of a parameter")
