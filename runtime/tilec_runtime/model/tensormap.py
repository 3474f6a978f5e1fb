"""Tensor maps: 128-byte descriptors for the GPU's copy engine, made per launch."""

from __future__ import annotations

import re

from tilec_runtime.values import value_class

SIZE, ALIGN = 128, 64
MOST_RANK, MOST_BOX = 5, 256
# The copy engine's required alignment of addresses and of all strides but the last, in bytes.
GRANULE = 16
_FORM = r"tensormap:(\d{1,2}):([0-3]):(\d{1,3}(?:x\d{1,3}){0,4})"


@value_class(frozen=True, kw_only=True)
class TensorMap:
    """The properties of a tensor map that a kernel requires.

    Its text, such as `tensormap:6:3:128x64`, is the type of an argument of the entry point.

    Attributes:
        element: element type, a value of `CUtensorMapDataType`.
        swizzle: layout of a box in shared memory, a value of `CUtensorMapSwizzle`.
        box: extents of one copy in elements, in the order of the tensor's dimensions.
    """

    element: int
    swizzle: int
    box: tuple[int, ...]

    def __str__(self) -> str:
        """Format as the type of an argument."""
        return f"tensormap:{self.element}:{self.swizzle}:{'x'.join(map(str, self.box))}"

    @classmethod
    def parse(cls, text: str) -> TensorMap | None:
        """Parse the type of an argument, or return None if it is not a valid tensor map."""
        match = re.fullmatch(_FORM, text)
        if match is None:
            return None
        box = tuple(map(int, match[3].split("x")))
        if int(match[1]) > 15 or not all(1 <= extent <= MOST_BOX for extent in box):
            return None
        return cls(element=int(match[1]), swizzle=int(match[2]), box=box)
