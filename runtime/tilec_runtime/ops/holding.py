"""Ops that hold their arguments until they have run, failed, or were dropped.

Tensors are claimed, and ops among the arguments run first.
"""

# ruff: noqa: SLF001 - arguments are ops too
from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple, TypeVar

from tilec_runtime.device.core import CORE
from tilec_runtime.device.layout import device_words
from tilec_runtime.device.scalars import is_number
from tilec_runtime.errors import PlacementError
from tilec_runtime.ops.base import take_all
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.tensors.described import Described
from tilec_runtime.tensors.lease import LOCK, NUMBERS, Claim, Holder

T_co = TypeVar("T_co", covariant=True)
# Types of arguments that need neither a claim nor to be kept alive.
_PLAIN = (int, float, bool, type(None))


class MovingClaims(NamedTuple):
    """The claims of an op into which tensors move.

    Attributes:
        holder: the op, for messages.
        reads: the claim on a shared tensor.
        moves: the claim on an owned tensor.
    """

    holder: Holder
    reads: Claim
    moves: Claim

    @classmethod
    def of(cls, holder: Holder) -> MovingClaims:
        """Return the claims of an op."""
        return cls(holder, Claim(holder, writes=False), Claim(holder, writes=True, moved=True))


class HoldingOp(DeviceOp[T_co]):
    """An op that holds its arguments, and works on them in `_work`."""

    # `_holder`: the op, for messages. `_number`: the number of its claims. `_by_core`: whether the
    # launch core took them; then all tensors are owned or shared. `_others`: places of ops, arrays
    # of other libraries and NumPy scalars.
    __slots__ = ("_by_core", "_holder", "_number", "_others", "_values")
    _by_core: bool
    _holder: Holder
    _number: int
    _others: Any  # tuple[int, ...]
    _values: tuple[Any, ...]

    def _hold(
        self,
        holder: Holder,
        values: tuple[Any, ...],
        written: Collection[int] = (),
        *,
        moved: bool = False,
    ) -> None:
        """Hold all arguments, or none if one is refused.

        Args:
            holder: the op, for messages.
            values: the arguments.
            written: places of arguments that the op writes.
            moved: whether owned tensors move in, so that no other code can use any part of them.

        Raises:
            OwnershipError: a tensor was moved before, is used elsewhere, or occurs twice.
            UsedOpError: an op was used before.
        """
        self._holder, self._number, self._by_core = holder, next(NUMBERS), False
        self._values = self._others = ()
        try:
            with LOCK:
                for index, value in enumerate(values):
                    self._hold_more(holder, value, write=index in written, moved=moved)
            if self._others:
                take_all(self._ops(), f"moved into {holder.name}")
        except BaseException:
            self._give_back()  # not `_end`, which would end borrows
            self._values = ()
            raise

    def _move_in(
        self, claims: MovingClaims, values: tuple[Any, ...], written: tuple[int, ...]
    ) -> None:
        """Hold all arguments as `_hold` does, with owned tensors moved in.

        The launch core does so in one call if it can.

        Args:
            claims: the op's claims.
            values: the arguments.
            written: places of arguments that the op writes, in order.
        """
        number = next(NUMBERS)
        if CORE is None or not CORE.claim(values, written, number, claims.reads, claims.moves):
            # A new holder object: a conflict with it means that a tensor occurs twice in this op.
            self._hold(Holder(*claims.holder), values, written, moved=True)
            return
        self._holder, self._number, self._by_core = claims.holder, number, True
        self._values, self._others = values, ()

    def _hold_more(self, holder: Holder, value: Any, *, write: bool, moved: bool) -> None:
        """Hold one more argument; see `_hold`."""
        if isinstance(value, Described):
            with LOCK:
                (value.hold if moved else value.lend)(self._number, holder, write=write)
        elif type(value) not in _PLAIN:
            self._others += (len(self._values),)
        self._values += (value,)

    @property
    def name(self) -> str:
        """For example `dup`, `launch of add`."""
        return self._holder.name.removeprefix("the ")

    def _work(self, ctx: ExecutionContext, *values: Any) -> T_co:
        """Enqueue the work on these arguments; return the result. `_execute` calls it."""
        raise NotImplementedError

    def _execute(self, ctx: ExecutionContext) -> T_co:
        try:
            self._require_device(ctx)
            return self._work(ctx, *self._ready(ctx))
        finally:
            self._end()

    def _ready(self, ctx: ExecutionContext) -> tuple[Any, ...]:
        """Return the arguments, with ops replaced by their results.

        If there are ops, the claims end here, because a result may share memory with another
        argument.

        Raises:
            OwnershipError: a borrow has ended meanwhile, or a result cannot be used.
        """
        if CORE is None or not (self._by_core and CORE.are_usable(self._values)):
            for tensor in self._tensors():  # those moved into this op count as usable
                if tensor.lease.parent is not None:
                    tensor.lease.require(self._holder)
                elif not tensor.usable:
                    tensor.require(self._holder)
        if self._others:
            ops, values = self._ops(), list(self._values)
            try:
                for index in self._others:
                    values[index] = self._given(ctx, values[index])
            finally:
                self._values = tuple(values)
            if ops:
                self._give_back()
        return self._values

    def _given(self, ctx: ExecutionContext, value: Any) -> Any:
        if isinstance(value, DeviceOp):
            value = value._run_in(ctx)
        if not (ctx.driver.holds_arguments or isinstance(value, Described) or is_number(value)):
            ctx.keep(value)
        return value

    def _tensors(self) -> list[Described]:
        """Return the tensors among the arguments."""
        return [value for value in self._values if isinstance(value, Described)]

    def _ops(self) -> list[DeviceOp[Any]]:
        """Return the arguments that are ops and have not run."""
        return [value for value in self._values if isinstance(value, DeviceOp)]

    def _give_back(self) -> None:
        """End the claims; borrows go on."""
        for tensor in self._tensors():
            tensor.lease.give_back(self._number)

    def _require_device(self, ctx: ExecutionContext) -> None:
        """Check that the tensors are on the device of an execution."""
        for tensor in self._tensors():
            storage = tensor.storage
            if (ctx.driver, ctx.device) != (storage.driver, storage.ordinal):
                raise PlacementError(
                    f"{self._holder.name} of a tensor on {device_words(storage.ordinal)} cannot run on {device_words(ctx.device)}",
                    fix="run it under use_device, or on a stream of the tensor's device",
                )

    def _end(self) -> None:
        """Release all arguments, after success or failure. Further calls do nothing."""
        values, self._values = self._values, ()
        if self._by_core and CORE is not None:
            CORE.release(values, self._number)
            return
        for value in values:
            if isinstance(value, Described):
                value.give_back(self._number)
            elif isinstance(value, DeviceOp):
                value._discard()

    def _discard(self) -> None:
        self._end()

    def __del__(self) -> None:
        """Release all arguments."""
        if getattr(self, "_values", ()):
            self._end()
