"""Arguments that are tensor maps.

They are checked with a plan. The driver encodes one for each tensor address.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from tilec_runtime.errors import ArgumentError, LayoutError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.signature import AbiSlot
from tilec_runtime.model.tensormap import GRANULE, TensorMap

if TYPE_CHECKING:
    from tilec_runtime.launch.checks import Call

# Most maps of one argument that a plan caches, by address.
MOST_KNOWN = 64
Encode = Callable[[int], bytes]


def encoder(call: Call, slot: AbiSlot) -> tuple[int, Encode]:
    """Return an argument's place among the tensors, and the encoder of its maps.

    Only the address changes within a plan.

    Raises:
        LayoutError: the copy engine cannot read a tensor of this shape and these strides.
    """
    contract, wanted = call.contract, TensorMap.parse(slot.type)
    assert wanted is not None  # the index was checked
    name = slot.expr.strip().removesuffix(".ptr")
    param = contract.params[contract.index[name]]
    facts = call.tensors[name].pinned
    size = DTYPES[contract.dtype_of(param, call.axes)].bytes
    strides = tuple(stride * size for stride in facts.stride)

    def refuse(what: str, fix: str) -> ArgumentError:
        layout = f"shape {tuple(facts.shape)}, strides {tuple(facts.stride)}"
        return call.contract.refuse(
            LayoutError,
            param,
            f"{what} ({layout}), and the kernel takes a tensor descriptor of it",
            fix,
        )

    if len(facts.shape) != len(wanted.box):
        raise refuse(
            f"has {len(facts.shape)} dimensions where the kernel's boxes have {len(wanted.box)}",
            "pass a tensor of that rank",
        )
    if 0 in facts.shape:
        raise refuse("has no elements", "launch nothing where there is nothing")
    if facts.stride[-1] != 1 and facts.shape[-1] != 1:
        raise refuse(
            "is not contiguous in its last dimension", "pass a tensor whose last stride is 1"
        )
    if any(stride % GRANULE or stride < 0 for stride in strides[:-1]):
        raise refuse(
            f"has strides that are not multiples of {GRANULE} bytes", "pad the last dimension"
        )
    driver, ordinal, shape = call.site.driver, call.site.device.ordinal, tuple(facts.shape)

    @functools.lru_cache(maxsize=MOST_KNOWN)
    def encode(address: int) -> bytes:
        return driver.tensor_map(ordinal, wanted, address, shape, strides)

    return contract.tensors.index(contract.index[name]), encode
