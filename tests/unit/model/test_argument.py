"""Arguments of entry points of two images of one variant."""

from __future__ import annotations

from tilec.model.argument import joined_abi
from tilec_runtime.model.signature import AbiSlot


def slot(kind: str, expr: str) -> AbiSlot:
    return AbiSlot(type=kind, expr=expr, size=8, align=8)


ABI = (slot("ptr", "x.ptr"), slot("i64", "x.shape[0]"))
SCRATCH = slot("scratch:96", "0")


def test_argument_lists_of_one_variant_are_joined_where_only_scratch_memory_differs() -> None:
    null, more = slot("u64", "0"), slot("scratch:200", "0")
    assert (
        joined_abi((*ABI, null), (*ABI, SCRATCH))
        == joined_abi((*ABI, SCRATCH), (*ABI, null))
        == (*ABI, SCRATCH)
    )
    assert joined_abi((*ABI, more), (*ABI, SCRATCH)) == (*ABI, more)
    assert joined_abi(ABI, (*ABI, null)) is None
    assert joined_abi((*ABI, slot("i64", "x.shape[0]")), (*ABI, SCRATCH)) is None
