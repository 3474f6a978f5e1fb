"""Tensor maps: 128 bytes that tell a GPU's copy engine where the elements of a tensor lie, made of
it at each launch.
"""

from __future__ import annotations

import re

from tilec_runtime.values import value_class

SIZE, ALIGN = 128, 64
MOST_RANK, MOST_BOX = 5, 256
# What the copy engine asks of addresses and of all strides but the last, in bytes.
GRANULE = 16
_FORM = r"tensormap:(\d{1,2}):([0-3]):(\d{1,3}(?:x\d{1,3}){0,4})"


@value_class(frozen=True, kw_only=True)
class TensorMap:
    """How a kernel wants a tensor described; as text, `tensormap:6:3:128x64`, it is the type of an
    argument of the entry point.

    Attributes:
        element: type of the elements, as `CUtensorMapDataType` numbers them.
        swizzle: as `CUtensorMapSwizzle` numbers it: how rows of a box are spread over shared
            memory.
        box: elements that one copy takes, one per dimension, in the order of the tensor's shape.
    """

    element: int
    swizzle: int
    box: tuple[int, ...]

    def __str__(self) -> str:
        """The argument's type."""
        return f"tensormap:{self.element}:{self.swizzle}:{'x'.join(map(str, self.box))}"

    @classmethod
    def parse(cls, text: str) -> TensorMap | None:
        """Read an argument's type; None where it is no tensor map, or one that no GPU has."""
        found = re.fullmatch(_FORM, text)
        if found is None:
            return None
        box = tuple(map(int, found[3].split("x")))
        if int(found[1]) > 15 or not all(1 <= extent <= MOST_BOX for extent in box):
            return None
        return cls(element=int(found[1]), swizzle=int(found[2]), box=box)
