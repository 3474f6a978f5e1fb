"""The base of all ops: single use, and the ways to run them."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from tilec_runtime.device.core import CORE
from tilec_runtime.errors import CallError, Location, UsedOpError
from tilec_runtime.forks import ForkLock
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.execution import enqueue, label, run
from tilec_runtime.ops.policy import as_stream, current_policy, require_policy, stream_of
from tilec_runtime.protocols import SchedulingPolicy, StreamLike
from tilec_runtime.running import refuse_nested
from tilec_runtime.sites import created, hinted, recorded, site
from tilec_runtime.values import Uncopied

if TYPE_CHECKING:
    from typing_extensions import Self

    from tilec_runtime.ops.future import DeviceFuture

T_co = TypeVar("T_co", covariant=True)


_set = object.__setattr__  # works for ops that are frozen dataclasses, too
_LOCK = ForkLock()


class _PlainBase:
    """The base of ops without a launch core."""

    __slots__ = ("_gone",)
    _gone: str | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:  # noqa: ARG004 - arguments of __init__
        self = object.__new__(cls)
        _set(self, "_gone", None)
        return self

    def _take(self, where: str) -> None:
        """Use the op up. Of several threads that try at the same time, one succeeds.

        Args:
            where: the op's new owner, for messages.

        Raises:
            UsedOpError: it was used before.
        """
        with _LOCK:
            if self._gone is not None:
                raise self._used()
            _set(self, "_gone", where)

    def _used(self) -> UsedOpError:
        raise NotImplementedError


if TYPE_CHECKING:
    _Base = _PlainBase
else:
    _Base = _PlainBase if CORE is None else CORE.Op


class _Noted(_Base):
    """An op that records in debug mode which call sites make it and use it up."""

    __slots__ = ("_gone_at", "_site")
    _gone_at: Location | None
    _site: Location | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:  # noqa: ARG004 - arguments of __init__
        self = super().__new__(cls)
        _set(self, "_site", site())
        return self

    def _take(self, where: str) -> None:
        super()._take(where)
        _set(self, "_gone_at", site())


if TYPE_CHECKING:
    OpBase = _PlainBase
else:
    OpBase = _Noted if recorded() else _Base


class Op(OpBase, Uncopied, ABC, Generic[T_co]):
    """An op without its combinators; `DeviceOp` is the class of all ops."""

    __slots__ = ()

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        """Refuse: NumPy would make an array of one object.

        Raises:
            CallError: always.
        """
        del dtype, copy
        raise CallError(
            "an op is not an array: it describes work that is still to be done",
            fix="run it: op.to_host().sync() is a NumPy array, op.sync() what the op gives",
        )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check that `_execute` returns its result directly.

        Raises:
            CallError: it is a coroutine function or a generator.
        """
        super().__init_subclass__(**kwargs)
        execute = cls.__dict__.get("_execute")
        if (
            inspect.iscoroutinefunction(execute)
            or inspect.isgeneratorfunction(execute)
            or inspect.isasyncgenfunction(execute)
        ):
            raise CallError(
                f"{cls.__qualname__}._execute is a coroutine function or a generator, and has to give the result itself",
                cause="nobody would await or iterate it",
                fix="enqueue everything in it and return the result",
            )

    @abstractmethod
    def _execute(self, ctx: ExecutionContext) -> T_co:
        """Enqueue the work on the context's stream, once; return the result, ready or not."""

    def _arity(self) -> int | None:
        """Return the number of elements of its tuple, or None if only running it tells."""
        return None

    @property
    def created(self) -> Location | None:
        """Its call site; None outside of debug mode (`TILEC_DEBUG=1`, or `python -X dev`)."""
        return getattr(self, "_site", None)

    @property
    def name(self) -> str:
        """Its name in messages."""
        kind = type(self)
        ours = kind.__module__.startswith(("tilec_runtime.", "tilec."))
        return kind.__name__.lstrip("_").lower() if ours else kind.__name__

    @property
    def label(self) -> str:
        """Name and call site, for messages."""
        return created(self.name, self.created)

    def __repr__(self) -> str:
        """Return, for example, `<DeviceOp zip, created at app.py:12>`."""
        return f"<DeviceOp {self.label}>"

    # Running it

    def sync(self) -> T_co:
        """Run it on a stream of the current policy, and wait.

        Raises:
            UsedOpError: it was used before.
            NestedExecutionError: this thread executes another op.
            BaseException: the error of the op, or of its work on the device.
        """
        refuse_nested(self)
        return run(self, stream_of(current_policy()))

    def sync_on(self, stream: StreamLike) -> T_co:
        """Run it on a stream, and wait for it; errors are those of `sync`."""
        return run(self, as_stream(stream))

    def enqueue_on(self, stream: StreamLike) -> T_co:
        """Enqueue it on a stream, and return the result at once, unchecked.

        The device may not have computed the result yet. The caller makes other streams and the host
        wait for this stream before they use it.
        """
        value, context, event = enqueue(self, as_stream(stream))
        context.release(event)
        return value

    def future(self) -> DeviceFuture[T_co]:
        """Enqueue it on a stream of the current policy; return a future of its result.

        Raises:
            UsedOpError: it was used before.
            NestedExecutionError: this thread executes another op. Every other error is in the
                future.
        """
        from tilec_runtime.ops.future import start  # concurrent.futures is slow to import

        return start(self, current_policy)

    def schedule(self, policy: SchedulingPolicy) -> DeviceFuture[T_co]:
        """Do as `future`, on a stream of this policy.

        Raises:
            SchedulingError: `policy` is not a policy.
        """
        from tilec_runtime.ops.future import start  # slow to import, see `future`

        require_policy(policy)
        return start(self, lambda: policy)

    def __await__(self) -> Generator[Any, None, T_co]:
        """Enqueue it, and let other tasks run until the result is ready."""
        from tilec_runtime.ops.future import awaited  # slow to import, see `future`

        return awaited(self)

    # Single use

    @property
    def _is_used(self) -> bool:
        return self._gone is not None

    def _used(self) -> UsedOpError:
        """Return the error of a second use, which `_take` raises."""
        location = getattr(self, "_gone_at", None)
        return UsedOpError(
            f"<DeviceOp {self.label}> was used before: {self._gone}{f' at {location}' if location else ''}",
            cause="an op is single use: it moves into what is made of it, and runs once",
            fix=hinted("make a new one, or let all users share it: op.shared()"),
        )

    def _run_in(self, ctx: ExecutionContext) -> T_co:
        """Execute it after `_take`; add its label to errors."""
        try:
            return self._execute(ctx)
        except BaseException as error:
            label(error, self.label)
            raise

    def _discard(self) -> None:
        """Release the tensors that it holds: it was used up and will never run."""


def take_all(ops: Sequence[Op[Any]], where: str) -> None:
    """Use several ops up, or none of them.

    Raises:
        UsedOpError: an op was used before, or occurs twice.
    """
    taken: list[Op[Any]] = []
    try:
        for op in ops:
            op._take(where)  # noqa: SLF001 - same module
            taken.append(op)
    except UsedOpError:
        for op in taken:
            _set(op, "_gone", None)
        raise
