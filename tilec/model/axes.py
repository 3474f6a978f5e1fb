"""Axes of a kernel's matrix in a module: dtype and size variables with a value in each variant."""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn, cast

from tilec_runtime.errors import UsageError


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """A variable that takes its values from the manifest's matrix.

    While a variant compiles, the module's variable holds the variant's value.
    """

    name: str

    def __post_init__(self) -> None:
        """Raise UsageError if the name cannot be a key of a matrix."""
        name: object = self.name
        if not isinstance(name, str) or not name.isidentifier():
            raise UsageError(
                f"{name!r} is not the name of an axis: write it as in the manifest's matrix, such as 'BM'"
            )

    def _refused(self, *_: object) -> NoReturn:
        raise TypeError(
            f"axis {self.name} has no value outside of a kernel: the manifest's matrix gives it one for each variant"
        )

    def __index__(self) -> int:
        """Raise TypeError: outside a kernel an axis has no value."""
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
    """Return a size variable, which takes the values of the matrix axis of this name."""
    return cast("int", SizeAxis(name))


def dtype(name: str) -> Any:
    """Return a dtype variable, which takes the values of the matrix axis of this name."""
    return DTypeAxis(name)
