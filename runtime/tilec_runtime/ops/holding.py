"""The arguments of an op that has not run: its claims on tensors, and the ops that give the rest."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, TypeVar

from tilec_runtime.device.layout import device_words
from tilec_runtime.device.scalars import is_number
from tilec_runtime.errors import PlacementError
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.op import DeviceOp, take_all
from tilec_runtime.tensors.described import Described
from tilec_runtime.tensors.lease import LOCK, NUMBERS, Holder

if TYPE_CHECKING:
    from typing_extensions import Self

T_co = TypeVar("T_co", covariant=True)


class Held:
    """The arguments of one op, whose tensors it claims until `end`.

    Attributes:
        who: the op, for messages. claims_all: whether there is a claim on every tensor.
    """

    __slots__ = ("_claimed", "_moved", "_others", "_values", "claims_all", "who")

    def __init__(
        self,
        who: Holder,
        values: tuple[Any, ...],
        written: Collection[int] = (),
        *,
        moved: bool = True,
    ) -> None:
        """Take arguments over: all of them, or none where one is refused.

        Args:
            who: the op, for messages.
            values: the arguments.
            written: places of those that the op writes.
            moved: whether tensors that are owned move in: nobody else can use any of them.

        Raises:
            OwnershipError: a tensor was moved before, is used by somebody else, or is there twice.
            UsedOpError: an op was used before.
        """
        self.who = who
        self._values = values
        self._moved = moved
        self.claims_all = True
        self._claimed: list[tuple[int, Described]] = []
        # Places of ops, of arrays of other libraries, and of numbers of NumPy.
        self._others: list[int] = []
        try:
            with LOCK:
                for place, value in enumerate(values):
                    if isinstance(value, Described):
                        self._claim(value, write=place in written)
                    elif type(value) not in (int, float, bool, type(None)):
                        self._others.append(place)
            if self._others:
                take_all(
                    [op for op in values if isinstance(op, DeviceOp)], f"moved into {who.what}"
                )
        except BaseException:
            for number, tensor in self._claimed:  # borrows stay as they are: it never had them
                tensor.lease.give_back(number)
            self._claimed, self._others = [], []
            raise

    def ready(self, ctx: ExecutionContext) -> tuple[Any, ...]:
        """Return the arguments where the op runs, with the results of ops. Where there are any,
        the claims end, since a result may be on the memory of another argument.

        Raises:
            OwnershipError: a borrow has ended meanwhile, or a result cannot be used.
        """
        for _, tensor in self._claimed:
            if tensor.lease.parent is not None:
                tensor.lease.require(self.who)
            elif not tensor.usable:
                tensor.require(self.who)
        if self._others:
            values = list(self._values)
            for place in self._others:
                values[place] = self._given(ctx, values[place])
            self._values = tuple(values)
            if not self.claims_all:
                for number, tensor in self._claimed:
                    tensor.lease.give_back(number)
        return self._values

    def tensor(self, ctx: ExecutionContext) -> Described:
        """Return the first argument, a tensor, on the device of an execution.

        Raises:
            BorrowError: what it was borrowed from has ended. PlacementError: it is on another device.
        """
        self.require_here(ctx)
        first: Described = self.ready(ctx)[0]
        return first

    def require_here(self, ctx: ExecutionContext) -> None:
        """See that the tensors are on the device of an execution, and that ops may run there.

        Raises:
            PlacementError: one is on another device. BaseException: what refuses an op.
        """
        for op in self._ops:
            op._require_here(ctx)  # noqa: SLF001 - an op too
        for _, tensor in self._claimed:
            storage = tensor.storage
            if (ctx.driver, ctx.device) != (storage.driver, storage.ordinal):
                what = f"{self.who.what} of a tensor on {device_words(storage.ordinal)} cannot run on {device_words(ctx.device)}"
                fix = "run it under use_device, or on a stream of the tensor's device"
                raise PlacementError(what, fix=fix)

    def end(self) -> None:
        """Let go of all arguments, whatever became of the op. May be called more than once."""
        ops, claimed = self._ops, self._claimed
        self._values, self._claimed, self._others = (), [], []
        for number, tensor in claimed:
            tensor.give_back(number)
        for op in ops:
            op._discard()  # noqa: SLF001 - an op too

    def __del__(self) -> None:
        """Let go of all arguments."""
        if self._values:
            self.end()

    def __enter__(self) -> Self:
        """Itself, for the time of an execution."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of all arguments: what comes later is ordered behind the op."""
        self.end()

    @property
    def _ops(self) -> list[DeviceOp[Any]]:
        values = [self._values[place] for place in self._others]
        return [value for value in values if isinstance(value, DeviceOp)]

    def _claim(self, tensor: Described, *, write: bool) -> None:
        claim = tensor.hold if self._moved else tensor.lend
        number = next(NUMBERS)
        claim(number, self.who, write=write)
        self._claimed.append((number, tensor))

    def _given(self, ctx: ExecutionContext, value: Any) -> Any:
        if isinstance(value, DeviceOp):
            value = value._run_in(ctx)  # noqa: SLF001 - an op too
            self.claims_all = False
            if isinstance(value, Described):
                self._claimed.append((-1, value))  # a borrow ends with the op
                return value
        if not ctx.driver.holds_arguments and not is_number(value):
            ctx.keep(value)
        return value


class HoldingOp(DeviceOp[T_co]):
    """An op that holds its arguments until it has run, failed, or was dropped."""

    __slots__ = ("_held",)
    _held: Held | None

    def _taken(self) -> Held:
        """Return the arguments, which are the caller's from now on."""
        held, self._held = self._held, None
        assert held is not None
        return held

    def _discard(self) -> None:
        if self._held is not None:
            self._taken().end()

    def _require_here(self, ctx: ExecutionContext) -> None:
        if self._held is not None:
            self._held.require_here(ctx)
