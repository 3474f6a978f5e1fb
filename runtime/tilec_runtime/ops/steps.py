"""Functions of chain steps, and protocols of results with methods that ops offer.

For example, `op.reshape(4)` is an op for `result.reshape(4)`.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from tilec_runtime.errors import CallError
from tilec_runtime.ops.base import Op

R_co = TypeVar("R_co", covariant=True)


class Reshapes(Protocol[R_co]):
    def reshape(self, *shape: Any) -> R_co: ...


class Reinterprets(Protocol[R_co]):
    def reinterpret(self, dtype: Any, *shape: Any) -> R_co: ...


class Views(Protocol[R_co]):
    def view(self, *shape: Any) -> R_co: ...


class Partitions(Protocol[R_co]):
    def partition(self, *tile: Any) -> R_co: ...


class PrefixPartitions(Protocol[R_co]):
    def partition_prefix(self, *tile: Any) -> R_co: ...


class TriesPartition(Protocol[R_co]):
    def try_partition(self, *tile: Any) -> R_co: ...


class Unpartitions(Protocol[R_co]):
    def unpartition(self) -> R_co: ...


class Shares(Generic[R_co]):
    """Base of the tensors with `share`.

    A class, because type checkers resolve overloads of protocols badly.
    """

    __slots__ = ()

    def share(self) -> R_co:
        """Return the tensor for many readers and no writer."""
        raise NotImplementedError


class Copies(Protocol[R_co]):
    def dup(self) -> Op[R_co]: ...


class ReadsOut(Protocol):
    def to_host_op(self, out: Any = None) -> Any: ...


class Unwraps(Protocol[R_co]):
    def try_unwrap(self) -> R_co: ...


def having(result: Any, verb: str) -> Any:
    """Return a tensor or partition that has a method.

    Raises:
        CallError: the result is not a tensor, or is of a kind without the method.
    """
    if hasattr(type(result), "_tilec_facts_") and hasattr(result, verb):
        return result
    raise CallError(
        f"`{verb}` needs an op that gives a tensor which has it, and this one gave a {type(result).__qualname__}",
        fix="take the tensor out of the tuple: first(), last() or unzip()"
        if isinstance(result, tuple)
        else "use `map` for other results",
    )


def element(value: Any, index: int) -> Any:
    """Return the first (0) or last (-1) element of a tuple."""
    if not isinstance(value, tuple) or not value:
        raise CallError(
            f"`{'last' if index else 'first'}` needs a tuple with elements, and the op gave a {type(value).__qualname__}",
            fix="use `map` for other results",
        )
    return value[index]


def listed(result: Any) -> list[Any]:
    """Return the elements of a tuple, for `unzip`."""
    if not isinstance(result, tuple):
        raise CallError(
            f"unzip needs an op that gives a tuple, and this one gave a {type(result).__qualname__}",
            fix="unzip the result of zip_ops or of a launcher",
        )
    return list(result)


def require_next(verb: str, value: Any) -> None:
    """Check that a function of `then` returned an op.

    Raises:
        CallError: it did not.
    """
    if not hasattr(value, "_run_in"):  # `isinstance` takes twice as long for an abstract class
        raise CallError(
            f"the function of `{verb}` gave a {type(value).__qualname__}, and not a DeviceOp",
            fix="return an op, as_op(x) for one that is only a value, or use `map`",
        )


def unwrap(content: Any) -> Any:
    """Return the owned tensor of a single share, and any other value unchanged.

    Raises:
        OwnershipError: there are other owners.
    """
    take = getattr(content, "try_unwrap", None)
    return content if take is None else take()


def shares_of(result: Any) -> Any:
    """Return a share of a tensor, alone or in a tuple, and any other value unchanged."""
    if type(result) is tuple:
        return tuple(shares_of(element) for element in result)
    if hasattr(result, "try_unwrap"):  # a share already
        return result.clone()
    is_tensor = hasattr(result, "_tilec_facts_") and hasattr(result, "share")
    return result.share() if is_tensor else result
