"""Axes of a kernel's matrix as a module names them: dtype and size variables, which have a value in
each variant alone.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """A name that the manifest's matrix gives values to. While a variant is compiled, the module's
    name holds the variant's value.
    """

    name: str

    def __post_init__(self) -> None:
        """Refuse what could be no key of a matrix."""
        if not str.isidentifier(self.name):
            raise ValueError(
                f"{self.name!r} is no name of an axis: it is written as in the manifest's matrix, such as 'BM'"
            )

    def _refused(self, *_: object) -> NoReturn:
        raise TypeError(
            f"axis {self.name} has no value outside of a kernel: the manifest's matrix gives it one for each variant"
        )

    def __index__(self) -> int:
        """There is none yet."""
        self._refused()

    __int__ = __bool__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = (
        __floordiv__
    ) = __rfloordiv__ = _refused
    __mod__ = __rmod__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = _refused


class SizeAxis(Axis):
    """A size, such as an extent of tiles."""

    __slots__ = ()


class DTypeAxis(Axis):
    """A dtype."""

    __slots__ = ()


def size(name: str) -> int:
    """A size variable: `BM = tl.size("BM")` takes the values of the axis BM of the manifest's
    matrix.
    """
    axis: Any = SizeAxis(name)
    return axis  # type: ignore[no-any-return]


def dtype(name: str) -> Any:
    """A dtype variable: `T = tl.dtype("T")` takes the values of the axis T of the manifest's
    matrix.
    """
    return DTypeAxis(name)
