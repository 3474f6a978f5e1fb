"""Ops that run once and give their result more than once: to every user of a shared op, or one
element each to the parts of a tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, final, overload

from tilec_runtime.device.marks import Mark
from tilec_runtime.device.scalars import whole
from tilec_runtime.errors import CallError, Location, SchedulingError
from tilec_runtime.kept import copied
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.ops.site import label
from tilec_runtime.ops.turns import Turn

if TYPE_CHECKING:
    from tilec_runtime.tensors.shared import SharedTensor
    from tilec_runtime.tensors.tensor import Tensor

T = TypeVar("T")
# Characters that the name of a shared op keeps of the name of what it shares.
_LONGEST = 80


class Once(Generic[T]):
    """An execution that several ops need: the first of them does it, on its own stream; the streams
    of the others wait for that place.

    An error is kept and repeated to all, whichever thread came first.
    """

    def __init__(self, op: DeviceOp[T] | None, result: T | None = None) -> None:
        """Take an op that was used up for this, or a result that is there."""
        self._turn = Turn()
        self._busy = False
        self._op = op
        self._mark: Mark | None = None
        self._error: BaseException | None = None
        self.result: T | None = result

    @property
    def done(self) -> bool:
        """Whether it was executed, well or not."""
        return self._op is None

    def run(self, ctx: ExecutionContext, take: Callable[[T], Any]) -> Any:
        """Execute it here, or wait (on the stream) for where it was; then what `take` makes of the
        result, one user at a time.

        Raises:
            BaseException: what its execution raised, again.
        """
        with self._turn:
            if self._busy:  # this thread is in it already: it would wait for itself
                what = "a shared op is executed as a part of itself"
                raise SchedulingError(
                    what,
                    cause="a function of `then` gives the op that it belongs to",
                    fix="give another op",
                )
            if self._op is not None:
                self.require_here(ctx)
                self._execute(ctx)
            if self._error is not None:
                raise copied(
                    self._error
                )  # one of its own for each: an error that is raised gets the frames of whoever was told
            if self._mark is not None:
                ctx.wait_for(self._mark)
            return take(cast("T", self.result))

    def require_here(self, ctx: ExecutionContext) -> None:
        """See that it may be executed here, where it was not yet: a refusal of the place leaves it
        to those who run it elsewhere.
        """
        with self._turn:  # nobody executes it meanwhile
            op = self._op
            if op is not None:
                try:
                    op._require_here(ctx)  # noqa: SLF001 - an op too
                except Exception as error:
                    label(error, op.label)
                    raise

    def _execute(self, ctx: ExecutionContext) -> None:
        op, self._op = self._op, None
        assert op is not None
        self._busy = True
        try:
            self.result = op._run_in(ctx)  # noqa: SLF001 - an op too
        except Exception as error:
            self._error = copied(error)  # to be repeated to everybody
            raise
        except BaseException as error:  # Ctrl-C is this thread's alone
            self._error = _interrupted(op)
            self._error.__cause__ = error
            raise
        finally:
            self._busy = False
            # At once, since other threads may need it before this execution ends: and also behind a
            # failure, for what was enqueued.
            self._mark = ctx.mark()


@final
class SharedOp(DeviceOp[T]):
    """An op that may be used any number of times, from any thread. What it was made of runs once;
    all users get that result.

    A tensor, alone or in a tuple, is given as a `SharedTensor` of its own to every user; other
    results are given as they are.
    """

    def __init__(self, once: Once[T], name: str) -> None:
        """Use `DeviceOp.shared` or `shared`."""
        self._once = once
        self._name = name

    @property
    def name(self) -> str:
        """`zip.shared`."""
        return self._name

    def clone(self) -> SharedOp[T]:
        """Another op of the same execution: it may be used where this one is, and the other way
        round.
        """
        return SharedOp(self._once, self._name)

    def _take(self, where: str, place: Location | None = None) -> None:
        """It is never used up."""

    def _require_here(self, ctx: ExecutionContext) -> None:
        self._once.require_here(ctx)

    def _execute(self, ctx: ExecutionContext) -> T:
        return cast("T", self._once.run(ctx, self._share))

    def _share(self, result: T) -> Any:
        # The first user turns the result into a share, and every user gets one of its own.
        kept = _shared(result)
        self._once.result = kept
        return _shared(kept)


@final
class Part(DeviceOp[Any]):
    """One element of a tuple that an op gives; see `DeviceOp.unzip`."""

    def __init__(self, once: Once[list[Any]], place: int, count: int) -> None:
        """Use `DeviceOp.unzip`."""
        self._once = once
        self._place = place
        self._count = count

    @property
    def name(self) -> str:
        """`unzip[0]`."""
        return f"unzip[{self._place}]"

    def _execute(self, ctx: ExecutionContext) -> Any:
        once, self._once = (
            self._once,
            _NOBODYS,
        )  # the op that was used does not keep what other parts may never ask for
        return once.run(ctx, self._pick)

    def _require_here(self, ctx: ExecutionContext) -> None:
        self._once.require_here(ctx)

    def _pick(self, elements: list[Any]) -> Any:
        if len(elements) != self._count:
            what = f"unzip({self._count}) of a tuple of {len(elements)}"
            raise CallError(
                what, fix=f"say unzip({len(elements)}), or unzip the op that gives {self._count}"
            )
        # Moved out: what this part was given, nobody else holds.
        element, elements[self._place] = elements[self._place], None
        return element


@overload
def shared(content: Tensor) -> SharedOp[SharedTensor]: ...
@overload
def shared(content: tuple[Any, ...]) -> SharedOp[Any]: ...
@overload
def shared(content: T) -> SharedOp[T]: ...
def shared(content: Any) -> SharedOp[Any]:
    """An op of a value that is there, which may be used any number of times. Tensors are given as
    shares, also those in a tuple.
    """
    return SharedOp(Once(None, content), "shared")


_NOBODYS: Once[Any] = Once(None)


def share_op(op: DeviceOp[T]) -> SharedOp[T]:
    """What `DeviceOp.shared` does."""
    if isinstance(op, SharedOp):
        return op.clone()
    name = op.name
    name = f"{name if len(name) <= _LONGEST else f'{name[:_LONGEST]}…'}.shared"  # of what is shared again and again, not all of it
    op._take("moved into shared")  # noqa: SLF001 - an op too
    return SharedOp(Once(op), name)


def unzip_op(op: DeviceOp[Any], count: int | None) -> tuple[DeviceOp[Any], ...]:
    """What `DeviceOp.unzip` does."""
    if count is None and (count := op._arity()) is None:  # noqa: SLF001 - an op too
        what = f"unzip(): how many elements the tuple of <DeviceOp {op.label}> has is not known before it runs"
        raise CallError(what, fix="say how many: unzip(2)")
    count = whole("unzip: the number of elements", count)
    if count < 1:
        raise CallError(
            f"unzip({count}): a tuple has one element at least",
            fix="say how many elements the op's tuple has",
        )
    once: Once[list[Any]] = Once(op.map(_listed))
    once_op = once._op  # noqa: SLF001 - its own module
    assert once_op is not None
    once_op._take("moved into unzip")  # noqa: SLF001 - an op too
    return tuple(Part(once, place, count) for place in range(count))


def unwrap(content: Any) -> Any:
    """The owned value behind a share, where it is the only one; anything that is not shared is its
    own owner.

    Raises:
        OwnershipError: there are other shares.
    """
    take = getattr(content, "try_unwrap", None)
    return content if take is None else take()


def _shared(result: Any) -> Any:
    if type(result) is tuple:
        return tuple(_shared(element) for element in result)
    if hasattr(result, "try_unwrap"):  # a share, which others may follow
        return result.clone()
    return (
        result.share() if hasattr(result, "_tilec_facts_") and hasattr(result, "share") else result
    )


def _listed(result: Any) -> list[Any]:
    if not isinstance(result, tuple):
        what = (
            f"unzip needs an op that gives a tuple, and this one gave a {type(result).__qualname__}"
        )
        raise CallError(what, fix="unzip the result of zip_ops or of a launcher")
    return list(result)


def _interrupted(op: DeviceOp[Any]) -> SchedulingError:
    what = f"<DeviceOp {op.label}> was interrupted while it was executed, and runs only once"
    return SchedulingError(
        what, cause="Ctrl-C came while its functions ran on the host", fix="make a new one"
    )
