"""What ops that give tensors can go on with: the methods of tensors, on a result that is not there
yet.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from tilec_runtime.errors import CallError

if TYPE_CHECKING:
    import numpy as np

    from tilec_runtime.ops.op import DeviceOp
    from tilec_runtime.ops.sharing import SharedOp
    from tilec_runtime.tensors.described import Described
    from tilec_runtime.tensors.interop import Exchanged
    from tilec_runtime.tensors.partition import MappedPartition, Partition
    from tilec_runtime.tensors.shared import SharedTensor
    from tilec_runtime.tensors.tensor import Tensor
    from tilec_runtime.tensors.view import Viewable

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
D = TypeVar("D", bound="Described")
P = TypeVar("P", bound="Exchanged")
# Steps that go on with an op, which runs as a part of this one.
RUNS = frozenset({"then", "to_host", "dup"})


class TensorSteps(Generic[T_co]):
    """The part of `DeviceOp` that is about tensors. A result that has no such method is an error
    when the op runs, with both places.
    """

    __slots__ = ()

    @abstractmethod
    def _chain(self, verb: str, function: Callable[[Any], Any]) -> DeviceOp[Any]:
        """Go on with what a function makes of the result."""

    @overload
    def reshape(self: TensorSteps[Tensor], *shape: Any) -> DeviceOp[Tensor]: ...
    @overload
    def reshape(self: TensorSteps[SharedTensor], *shape: Any) -> DeviceOp[SharedTensor]: ...
    def reshape(self: TensorSteps[Any], *shape: Any) -> DeviceOp[Any]:
        """The tensor in another shape, without a copy; one extent may be -1."""
        return self._step("reshape", *shape)

    @overload
    def reinterpret(self: TensorSteps[Tensor], dtype: Any, *shape: Any) -> DeviceOp[Tensor]: ...
    @overload
    def reinterpret(
        self: TensorSteps[SharedTensor], dtype: Any, *shape: Any
    ) -> DeviceOp[SharedTensor]: ...
    def reinterpret(self: TensorSteps[Any], dtype: Any, *shape: Any) -> DeviceOp[Any]:
        """The bytes of the tensor as another dtype, without a copy."""
        return self._step("reinterpret", dtype, *shape)

    def view(self: TensorSteps[Viewable[P]], *shape: Any) -> DeviceOp[P]:
        """A view of the tensor, to read (of a mutable borrow, to write); it keeps the memory."""
        return self._step("view", *shape)

    @overload
    def partition(self: TensorSteps[Tensor], *tile: Any) -> DeviceOp[Partition[Tensor]]: ...
    @overload
    def partition(self: TensorSteps[Any], *tile: Any) -> DeviceOp[Partition[Any]]: ...
    def partition(self: TensorSteps[Any], *tile: Any) -> DeviceOp[Partition[Any]]:
        """The tensor in tiles, for a kernel that writes one in each block."""
        return self._step("partition", *tile)

    def partition_prefix(self: TensorSteps[Tensor], *tile: Any) -> DeviceOp[Partition[Tensor]]:
        """As `partition`, for kernels of fewer blocks than tiles."""
        return self._step("partition_prefix", *tile)

    def try_partition(self: TensorSteps[SharedTensor], *tile: Any) -> DeviceOp[Partition[Tensor]]:
        """As `partition`, of a shared tensor with one owner."""
        return self._step("try_partition", *tile)

    @overload
    def unpartition(self: TensorSteps[MappedPartition[D]]) -> DeviceOp[D]: ...
    @overload
    def unpartition(self: TensorSteps[Partition[D]]) -> DeviceOp[D]: ...
    def unpartition(self: TensorSteps[Any]) -> DeviceOp[Any]:
        """What the partition was cut out of."""
        return self._step("unpartition")

    def share(self: TensorSteps[Tensor]) -> DeviceOp[SharedTensor]:
        """The tensor for many readers and no writer."""
        return self._step("share")

    def to_host(
        self: TensorSteps[Described], *, out: np.ndarray[Any, Any] | None = None
    ) -> DeviceOp[np.ndarray[Any, Any]]:
        """The contents of the tensor as a NumPy array, complete when the op is; see
        `tilec_runtime.api.to_host`.
        """

        def go_on(found: Any) -> Any:
            from tilec_runtime.ops.copy_ops import to_host_op

            return to_host_op(_with(found, "to_host"), out)

        return self._chain("to_host", go_on)

    def dup(self: TensorSteps[Described]) -> DeviceOp[Tensor]:
        """A contiguous copy of the tensor; the tensor itself goes. See `tilec_runtime.api.dup`."""
        return self._chain("dup", lambda found: _with(found, "dup").dup())

    @overload
    def shared(self: TensorSteps[Tensor]) -> SharedOp[SharedTensor]: ...
    @overload
    def shared(self: TensorSteps[tuple[Any, ...]]) -> SharedOp[Any]: ...
    @overload
    def shared(self: TensorSteps[T]) -> SharedOp[T]: ...
    def shared(self: TensorSteps[Any]) -> SharedOp[Any]:
        """An op that may be used any number of times, from any thread: this one runs once, and all
        users get its result.

        Tensors are given as shares, also those in a tuple; an error is repeated to every user.
        """
        from tilec_runtime.ops.sharing import share_op

        return share_op(self)  # type: ignore[arg-type]

    @overload
    def unwrap_arc(self: TensorSteps[SharedTensor]) -> DeviceOp[Tensor]: ...
    @overload
    def unwrap_arc(self: TensorSteps[T]) -> DeviceOp[T]: ...
    def unwrap_arc(self: TensorSteps[Any]) -> DeviceOp[Any]:
        """The owned tensor of a shared one, where nobody else shares it; any other result as it is.

        Raises:
            OwnershipError: when it runs, there are other owners.
        """
        from tilec_runtime.ops.sharing import unwrap

        return self._chain("unwrap_arc", unwrap)

    def _step(self, verb: str, *arguments: Any) -> DeviceOp[Any]:
        return self._chain(verb, lambda found: getattr(_with(found, verb), verb)(*arguments))


def _with(found: Any, verb: str) -> Any:
    """A tensor or partition that can do this.

    Raises:
        CallError: it is none, or of a kind that cannot.
    """
    if hasattr(type(found), "_tilec_facts_") and hasattr(found, verb):
        return found
    what = f"`{verb}` needs an op that gives a tensor which has it, and this one gave a {type(found).__qualname__}"
    fix = (
        "take the tensor out of the tuple: first(), last() or unzip()"
        if isinstance(found, tuple)
        else "use `map` for other results"
    )
    raise CallError(what, fix=fix)
