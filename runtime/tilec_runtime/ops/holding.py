"""The arguments of a launch that runs later: what moves into it, what it borrows, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tilec_runtime.errors import PlacementError, UseAfterMoveError
from tilec_runtime.layout import ON_CPU
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.op import DeviceOp, take_all
from tilec_runtime.scalars import is_number
from tilec_runtime.tensors.described import Described
from tilec_runtime.tensors.lease import Claim, Holder
from tilec_runtime.tensors.storage import Storage


class Ready(NamedTuple):
    """An argument when its launch runs: what the launch takes, and what its op gives back."""

    taken: Any
    given: Any


class Held:
    """One argument. A tensor or partition that is owned moves in; one that is borrowed or shared is claimed until the launch has run;
    of an op, the result is used.
    """

    __slots__ = ("_claim", "_content", "_op", "_origin", "_used", "_who", "_write")

    def __init__(self, content: Any, who: Holder, *, write: bool) -> None:
        """Use `hold_all`."""
        self._who = who
        self._write = write
        self._claim: Claim | None = None
        self._op: DeviceOp[Any] | None = None
        self._content = content
        self._origin: Any = None
        self._used: tuple[ExecutionContext, Storage] | None = None

    def claim(self) -> None:
        """See that the argument may be used so, and claim one that does not move. Undone by the end of this object."""
        content = self._content
        if isinstance(content, DeviceOp):
            self._op, self._content = content, None
        elif isinstance(content, Described):
            _require(content, self._who, write=self._write)
            if _owned(content):
                content.lease.require_free(self._who)
            else:
                self._claim = content.claim(self._who, write=self._write)

    def move(self) -> None:
        """Take over an argument that is owned."""
        if isinstance(self._content, Described) and _owned(self._content):
            origin: Any = self._content
            self._content = origin.move(self._who)
            self._origin = origin

    def ready(self, ctx: ExecutionContext) -> Ready:
        """The argument, where the launch runs: checked again, and its memory in the order of the stream.

        Raises:
            OwnershipError: a borrow has ended meanwhile, or an op's result cannot be used so.
        """
        content, op = self._content, self._op
        if op is not None:
            self._op = None
            content = op._run_in(ctx)  # noqa: SLF001 - an op too
            if isinstance(content, Described):
                _require(content, self._who, write=self._write)
        elif self._claim is not None:
            self._claim.require(self._who)
        if not isinstance(content, Described):
            if not ctx.driver.holds_arguments and not is_number(content):
                ctx.keep(content)
            return Ready(content, content)
        if self._write:
            ctx.writes(content.storage)
        else:
            ctx.reads(content.storage)
        if self._claim is not None:
            self._used = (ctx, content.storage)
        return Ready(content.raw(), content)

    def require_here(self, ctx: ExecutionContext) -> None:
        """See that the argument is on the device of an execution, and that an op that gives it may run there.

        Raises:
            PlacementError: it is on another device. BaseException: what refuses the op.
        """
        if self._op is not None:
            self._op._require_here(ctx)  # noqa: SLF001 - an op too
        require_on(self._content, self._who, ctx)

    def settle(self) -> tuple[Any, Any] | None:
        """Let go of the argument of a launch that was enqueued; its origin and what it moved to, for a tensor that moved in."""
        origin, content = self._origin, self._content
        self._origin = self._content = None
        self.release()
        return None if origin is None else (origin, content)

    def release(self) -> None:
        """End the claim: what comes later is ordered behind the launch."""
        if self._claim is not None:
            used, self._used = self._used, None
            if used is not None:
                used[0].done_with(used[1])
            self._claim.release()

    def discard(self) -> None:
        """Give up what the launch has not taken: a tensor that moved in is its old owner's again. May be called more than once."""
        origin, moved, op = self._origin, self._content, self._op
        self._origin = self._content = self._op = None
        if origin is not None:
            origin.take_back(moved)  # nobody else has what it moved to
        if op is not None:
            op._discard()  # noqa: SLF001 - an op too
        self.release()


def hold_all(contents: Sequence[tuple[Any, bool]], who: Holder) -> list[Held]:
    """Take the arguments of a launch over: all of them, or none where one is refused.

    Args:
        contents: (argument, whether the launch writes it).
        who: the launch.

    Raises:
        OwnershipError: a tensor was moved before, is used by somebody else, or is there twice. UsedOpError: an op was used before.
    """
    held = [Held(content, who, write=write) for content, write in contents]
    owned = [content for content, _ in contents if isinstance(content, Described) and _owned(content)]
    for place, content in enumerate(owned):
        if any(content is other for other in owned[:place]):
            what = f"{who} cannot take {content.noun} twice: it moves in with the first of its places"
            raise UseAfterMoveError(what, fix="share() it, or pass a view, to read it in several places")
    try:
        for argument in held:
            argument.claim()
        take_all([content for content, _ in contents if isinstance(content, DeviceOp)], f"moved into {who.what}")
    except BaseException:
        for argument in held:  # now, and not once nobody looks at the error any more, which has this frame
            argument.release()
        raise
    try:
        for argument in held:
            argument.move()
    except BaseException:  # another thread was faster, or Ctrl-C was
        discard_all(held)
        raise
    return held


def settle_all(held: Sequence[Held], ctx: ExecutionContext) -> None:
    """Let go of the arguments of a launch that was enqueued; the execution records what moved in."""
    moved = [pair for argument in held if (pair := argument.settle()) is not None]
    if moved:
        origins, contents = zip(*moved, strict=True)
        ctx.moved(origins, contents)


def discard_all(held: Sequence[Held]) -> None:
    """Give up what no launch has taken."""
    for argument in held:
        argument.discard()


def require_on(content: Any, who: Holder, ctx: ExecutionContext) -> None:
    """See that a tensor is on the device of an execution, or on no certain one; what is no tensor of tilec, the launch looks at.

    Raises:
        PlacementError: it is on another one.
    """
    if isinstance(content, Described) and content.device >= ON_CPU and content.device != ctx.device:
        what = f"{who.what} of a tensor on device {content.device} cannot run on device {ctx.device}"
        raise PlacementError(what, fix="run it under use_device, or on a stream of the tensor's device")


def _owned(content: Described) -> bool:
    """Whether using it uses it up: a tensor, or a partition of one that is not in place."""
    base = getattr(content, "base", content)
    return hasattr(base, "move")


def _require(content: Described, who: Holder, *, write: bool) -> None:
    if write:
        content.require_writable(who)
    else:
        content.require_readable(who)
