"""Decorators: `@tl.kernel` makes a function a kernel, `@tl.preconditions` adds conditions of launches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, NoReturn, TypeVar, overload

F = TypeVar("F", bound="Callable[..., None] | Kernel")
_DEMANDS = "_tilec_preconditions"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """A kernel in the safe language.

    Attributes:
        function: the decorated function.
        preconditions: conditions that every launch must fulfil, as written.
        hints: compiler hints from the decorator, by cuda.tile's names.
    """

    function: Callable[..., None]
    preconditions: tuple[str, ...] = ()
    hints: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Raise TypeError: a kernel runs on a device only."""
        name = self.function.__name__
        raise TypeError(
            f"{name} is a kernel: build it with `tilec build`, and call the launcher {name} of the generated package"
        )


@overload
def kernel(function: Callable[..., None], /) -> Kernel: ...


@overload
def kernel(
    *,
    occupancy: int | None = None,
    num_ctas: int | None = None,
    num_worker_warps: int | None = None,
    opt_level: int | None = None,
) -> Callable[[Callable[..., None]], Kernel]: ...


def kernel(function: Callable[..., None] | None = None, /, **hints: Any) -> Any:
    """Make a kernel of a function whose parameters are annotated with `Mut`, `Ref`, `MappedMut`,
    `Ptr`, scalars and `Const`.

    Args:
        function: the function, where the decorator is used without parentheses.
        hints: `occupancy`, `num_ctas`, `num_worker_warps` and `opt_level`, as cuda.tile takes them;
            the manifest's hints take precedence.
    """
    if function is None:
        return lambda decorated: dataclasses.replace(kernel(decorated), hints=_known(hints))
    if not isinstance(function, FunctionType):
        raise TypeError(f"@tl.kernel decorates a function, not {type(function).__name__}")
    return Kernel(function=function, preconditions=getattr(function, _DEMANDS, ()))


def preconditions(*conditions: str) -> Callable[[F], F]:
    """Add conditions that the launcher checks at every launch, and the kernel may rely on.

    Args:
        conditions: `dim(x, 1) % 64 == 0`, `dim(a, 1) == dim(b, 0)`, or anything that the manifest's
            `launch.requires` takes.
    """
    for condition in conditions:
        if not isinstance(condition, str):
            raise TypeError(
                f"a precondition is text, such as 'dim(x, 1) % 64 == 0', not {type(condition).__name__}"
            )

    def decorate(decorated: F) -> F:
        if isinstance(decorated, Kernel):
            return dataclasses.replace(
                decorated, preconditions=(*conditions, *decorated.preconditions)
            )
        setattr(decorated, _DEMANDS, (*conditions, *getattr(decorated, _DEMANDS, ())))
        return decorated

    return decorate


_HINTS = ("num_ctas", "num_worker_warps", "occupancy", "opt_level")


def _known(hints: Mapping[str, Any]) -> dict[str, Any]:
    for name in hints:
        if name not in _HINTS:
            raise TypeError(f"@tl.kernel has no hint {name!r}: hints are {', '.join(_HINTS)}")
    return {name: value for name, value in hints.items() if value is not None}
