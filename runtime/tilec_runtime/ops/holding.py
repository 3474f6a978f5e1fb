"""The arguments of a launch that runs later: what it holds until then, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilec_runtime.device.layout import ON_CPU
from tilec_runtime.device.scalars import is_number
from tilec_runtime.errors import PlacementError, UseAfterMoveError
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.op import DeviceOp, take_all
from tilec_runtime.tensors.described import Described
from tilec_runtime.tensors.lease import Holder, Lease


class Argument:
    """One argument. A tensor is held until the launch has run: one that is owned so that nobody
    else can use it. Of an op, the result is used.
    """

    __slots__ = ("_content", "_lease", "_who")

    def __init__(self, content: Any, who: Holder) -> None:
        """Use `hold_all`."""
        self._lease: Lease | None = None
        self._content = content
        self._who = who

    def hold(self, *, write: bool) -> None:
        """Take a lease of a tensor."""
        if isinstance(self._content, Described):
            self._lease = self._content.hold(self._who, write=write)

    def ready(self, ctx: ExecutionContext) -> Any:
        """The argument, where the launch runs.

        Raises:
            OwnershipError: a borrow has ended meanwhile.
        """
        content, lease = self._content, self._lease
        if isinstance(content, DeviceOp):
            self._content = None
            self._content = content = content._run_in(ctx)  # noqa: SLF001 - an op too
        elif lease is not None:
            lease.require(self._who)
        if (
            not isinstance(content, Described)
            and not ctx.driver.holds_arguments
            and not is_number(content)
        ):
            ctx.keep(content)
        return content

    def require_here(self, ctx: ExecutionContext) -> None:
        """See that the argument is on the device of an execution, and that an op that gives it may
        run there.

        Raises:
            PlacementError: it is on another device. BaseException: what refuses the op.
        """
        if isinstance(self._content, DeviceOp):
            self._content._require_here(ctx)  # noqa: SLF001 - an op too
        require_on(self._content, self._who, ctx)

    def release(self) -> None:
        """Hold the tensor no more: what comes later is ordered behind the launch. May be called
        more than once.
        """
        if self._lease is not None:
            self._lease.release()

    def forget(self) -> None:
        """Let go of the tensor or op, which the launch never had."""
        self._content = None
        self.release()

    def end(self) -> None:
        """Let go of the tensor, whatever became of the launch, and of an op that never ran. May be
        called more than once.
        """
        content = self._content
        self.forget()
        if isinstance(content, DeviceOp):
            content._discard()  # noqa: SLF001 - an op too
        elif isinstance(content, Described):
            content.let_go()

    __del__ = end


def end_all(arguments: Sequence[Argument]) -> None:
    """Let go of all arguments of a launch."""
    for argument in arguments:
        argument.end()


def hold_all(contents: Sequence[tuple[Any, bool]], who: Holder) -> list[Argument]:
    """Take the arguments of a launch over: all of them, or none where one is refused.

    Args:
        contents: (argument, whether the launch writes it).
        who: the launch.

    Raises:
        OwnershipError: a tensor was moved before, is used by somebody else, or is there twice.
            UsedOpError: an op was used before.
    """
    owned = [
        content
        for content, _ in contents
        if isinstance(content, Described) and hasattr(getattr(content, "base", content), "move")
    ]
    for place, content in enumerate(owned):
        if any(content is other for other in owned[:place]):
            what = (
                f"{who} cannot take {content.noun} twice: it moves in with the first of its places"
            )
            raise UseAfterMoveError(
                what, fix="share() it, or pass a view, to read it in several places"
            )
    arguments = [Argument(content, who) for content, _ in contents]
    try:
        for argument, (_, write) in zip(arguments, contents, strict=True):
            argument.hold(write=write)
        take_all(
            [content for content, _ in contents if isinstance(content, DeviceOp)],
            f"moved into {who.what}",
        )
    except BaseException:
        for argument in (
            arguments
        ):  # now, and not once nobody looks at the error any more, which has this frame
            argument.forget()
        raise
    return arguments


def require_on(content: Any, who: Holder, ctx: ExecutionContext) -> None:
    """See that a tensor is on the device of an execution, or on no certain one; what is no tensor
    of tilec, the launch looks at.

    Raises:
        PlacementError: it is on another one.
    """
    if isinstance(content, Described) and content.device >= ON_CPU and content.device != ctx.device:
        what = (
            f"{who.what} of a tensor on device {content.device} cannot run on device {ctx.device}"
        )
        raise PlacementError(
            what, fix="run it under use_device, or on a stream of the tensor's device"
        )
