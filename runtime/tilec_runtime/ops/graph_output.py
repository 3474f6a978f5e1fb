"""The result of a capture, until somebody takes it: it owns what is owned, and keeps no borrow alive."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar, cast

from tilec_runtime.tensors.partition import Partition
from tilec_runtime.tensors.tensor import TensorMut
from tilec_runtime.tensors.view import TensorView

T = TypeVar("T")


class Output(Generic[T]):
    """What an op gave that was captured.

    Ops give back their arguments, borrows among them. A graph that kept these would keep its own replays away, so they live as long as
    whoever made them has them; those that are gone when the output is taken are there as borrows that have ended.
    """

    __slots__ = ("_result",)

    def __init__(self, result: T) -> None:
        """Keep a result."""
        self._result = _put(result)

    def take(self) -> T:
        """The result; once."""
        result, self._result = self._result, None
        return cast("T", _get(result))


class _Borrow:
    """A borrow that others hold, and what stands for it once they do not."""

    __slots__ = ("ended", "ref")

    def __init__(self, borrow: Any) -> None:
        self.ref = weakref.ref(borrow)
        self.ended = _ended(borrow)


def _put(result: Any) -> Any:
    if type(result) is tuple:
        return tuple(_put(element) for element in result)
    base = result.base if isinstance(result, Partition) else result
    return _Borrow(result) if isinstance(base, TensorView | TensorMut) else result


def _get(result: Any) -> Any:
    if type(result) is tuple:
        return tuple(_get(element) for element in result)
    if isinstance(result, _Borrow):
        alive = result.ref()
        return result.ended if alive is None else alive
    return result


def _ended(borrow: Any) -> Any:
    if isinstance(borrow, Partition):
        return borrow._again(_ended(borrow.base))  # noqa: SLF001 - of another base
    return type(borrow)(borrow.storage, borrow._facts, borrow._claim.past())  # noqa: SLF001 - the same, but for its claim
