"""DeviceOp: work for a device that is described now and done later, once."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TypeVar, overload

from tilec_runtime.errors import CallError, Location, UsedOpError
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.execution import enqueue, require_function, run
from tilec_runtime.ops.policy import as_stream, current_policy, require_policy, stream_of
from tilec_runtime.ops.site import label
from tilec_runtime.ops.tensor_steps import TensorSteps
from tilec_runtime.protocols import SchedulingPolicy, StreamLike
from tilec_runtime.running import refuse_nested
from tilec_runtime.sites import created, hinted, site
from tilec_runtime.values import Uncopied

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVarTuple, Unpack

    from tilec_runtime.ops.future import DeviceFuture
    from tilec_runtime.ops.graph import CudaGraph

    Others = TypeVarTuple("Others")

T = TypeVar("T")
U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
First = TypeVar("First")
Last = TypeVar("Last")


class DeviceOp(TensorSteps[T_co], Uncopied, ABC, Generic[T_co]):
    """Work for a device, with a result of type `T`. Building it does no device work; running it
    does, once.

    An op of one's own is a subclass with fields and `_execute`; it may be a dataclass.
    """

    # `_fresh`: who deletes it, in one step, has the op. `_gone`: what used it up, and where.
    # `_site`: in debug mode alone.
    __slots__ = ("_fresh", "_gone", "_site")
    _fresh: bool
    _gone: tuple[str, Location | None]
    _site: Location

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:  # noqa: ARG004 - they are __init__'s
        """Note where it is made; subclasses need not call `super().__init__()`."""
        self = object.__new__(cls)
        _set(self, "_fresh", True)
        if (place := site()) is not None:
            _set(self, "_site", place)
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        """NumPy gets none: it would make an array of one object.

        Raises:
            CallError: always.
        """
        del dtype, copy
        raise CallError(
            "an op is not an array: it describes work that is still to be done",
            fix="run it: op.to_host().sync() is a NumPy array, op.sync() what the op gives",
        )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """See that `_execute` gives its result itself.

        Raises:
            CallError: it is a coroutine function or a generator.
        """
        super().__init_subclass__(**kwargs)
        execute = cls.__dict__.get("_execute")
        if any(
            is_one(execute)
            for is_one in (
                inspect.iscoroutinefunction,
                inspect.isgeneratorfunction,
                inspect.isasyncgenfunction,
            )
        ):
            what = f"{cls.__qualname__}._execute is a coroutine function or a generator, and has to give the result itself"
            raise CallError(
                what,
                cause="nobody would await or iterate it",
                fix="enqueue everything in it and return the result",
            )

    @abstractmethod
    def _execute(self, ctx: ExecutionContext) -> T_co:
        """Enqueue the work on the context's stream; the result, which need not be ready yet. Called
        once.
        """

    def _arity(self) -> int | None:
        """How many elements its tuple has; None where that is not known before it runs."""
        return None

    @property
    def created(self) -> Location | None:
        """Where it was made; None outside of debug mode (`TILEC_DEBUG=1`, or `python -X dev`)."""
        return getattr(self, "_site", None)

    @property
    def name(self) -> str:
        """What it is, for messages."""
        kind = type(self)
        return (
            kind.__name__.lstrip("_").lower()
            if kind.__module__.startswith(("tilec_runtime.", "tilec."))
            else kind.__name__
        )

    @property
    def label(self) -> str:
        """Name and place, as errors show them."""
        return created(self.name, self.created)

    def __repr__(self) -> str:
        """`<DeviceOp zip, created at app.py:12>`."""
        return f"<DeviceOp {self.label}>"

    # Running it

    def sync(self) -> T_co:
        """Run it on a stream that the current policy picks, and wait.

        Raises:
            UsedOpError: it was used before. NestedExecutionError: this thread executes another op.
            BaseException: what the op, or its work on the device, came to.
        """
        refuse_nested(self)
        return self.sync_on(stream_of(current_policy()))

    def sync_on(self, stream: StreamLike) -> T_co:
        """Run it on a stream, and wait for it. Everything else as for `sync`."""
        return run(self, as_stream(stream))

    def enqueue_on(self, stream: StreamLike) -> T_co:
        """Unchecked: enqueue it on a stream, and give the result at once, which the device may not
        have made yet.

        What uses the result on another stream, or on the host, has to wait for this one first:
        nothing checks that.
        """
        value, context, mark = enqueue(self, as_stream(stream))
        context._release(mark)  # noqa: SLF001 - the two are one thing
        return value

    def future(self) -> DeviceFuture[T_co]:
        """Enqueue it now on a stream that the current policy picks; the future of its result. Does
        not wait.

        Raises:
            UsedOpError: it was used before. NestedExecutionError: this thread executes another op.
                Everything else is in the future.
        """
        from tilec_runtime.ops.future import start

        return start(self, current_policy)

    def schedule(self, policy: SchedulingPolicy) -> DeviceFuture[T_co]:
        """As `future`, on a stream that this policy picks.

        Raises:
            SchedulingError: it is no policy.
        """
        from tilec_runtime.ops.future import start

        require_policy(policy)
        return start(self, lambda: policy)

    def graph(self) -> CudaGraph[T_co]:
        """Capture it into a CUDA graph, for a stream that the current policy picks; everything else
        as for `graph_on`.
        """
        refuse_nested(self)
        return self.graph_on(stream_of(current_policy()))

    def graph_on(self, stream: StreamLike) -> CudaGraph[T_co]:
        """Capture it into a CUDA graph: its functions run now, the device's work at each replay,
        and not before.

        Args:
            stream: where replays run unless they name another; nothing is done there now.

        Raises:
            UsedOpError: it was used before. NestedExecutionError: this thread executes another op.
            GraphCaptureError: something in it cannot be captured, such as an allocation.
        """
        from tilec_runtime.ops.graph import capture

        return capture(self, as_stream(stream))

    def __await__(self) -> Generator[Any, None, T_co]:
        """Enqueue it, and let other tasks run until the result is ready."""
        from tilec_runtime.ops.future import awaited

        return awaited(self)

    # Combining it

    def then(self, function: Callable[[T_co], DeviceOp[U]]) -> DeviceOp[U]:
        """Go on with the op that a function makes of the result, on the same stream: it sees what
        this one wrote.

        The function runs on the host while the work is enqueued, before the device has done it.
        """
        require_function("then", function)
        return self._chain("then", function)

    def then_unchecked(self, function: Callable[[T_co], DeviceOp[U]]) -> DeviceOp[U]:
        """As `then`, with a function that may execute other ops (`sync`, `to_host`, `graph`), on
        whatever streams.

        Tensors of tilec are ordered as ever; what is passed on by address, and arrays of other
        libraries, are the function's to order.
        """
        require_function("then_unchecked", function)
        return self._chain("then_unchecked", function)

    def map(self, function: Callable[[T_co], U]) -> DeviceOp[U]:
        """Make something else of the result on the host. The device may not have made it yet: do
        not read it.
        """
        require_function("map", function)
        return self._chain("map", function)

    def inspect(self, function: Callable[[T_co], object]) -> DeviceOp[T_co]:
        """Show the result to a function, and go on with it as it is."""
        require_function("inspect", function)

        def look(value: Any) -> Any:
            function(value)
            return value

        return self._chain("inspect", look)

    @overload
    def first(self: DeviceOp[tuple[First, Unpack[Others]]]) -> DeviceOp[First]: ...
    @overload
    def first(self: DeviceOp[tuple[First, ...]]) -> DeviceOp[First]: ...
    def first(self: DeviceOp[Any]) -> DeviceOp[Any]:
        """The first element of a tuple."""
        return self._chain("first", lambda value: _element(value, 0))

    @overload
    def last(self: DeviceOp[tuple[Unpack[Others], Last]]) -> DeviceOp[Last]: ...
    @overload
    def last(self: DeviceOp[tuple[Last, ...]]) -> DeviceOp[Last]: ...
    def last(self: DeviceOp[Any]) -> DeviceOp[Any]:
        """The last element of a tuple."""
        return self._chain("last", lambda value: _element(value, -1))

    @overload
    def unzip(self: DeviceOp[tuple[A]], count: Literal[1] | None = None) -> tuple[DeviceOp[A]]: ...
    @overload
    def unzip(
        self: DeviceOp[tuple[A, B]], count: Literal[2] | None = None
    ) -> tuple[DeviceOp[A], DeviceOp[B]]: ...
    @overload
    def unzip(
        self: DeviceOp[tuple[A, B, C]], count: Literal[3] | None = None
    ) -> tuple[DeviceOp[A], DeviceOp[B], DeviceOp[C]]: ...
    @overload
    def unzip(
        self: DeviceOp[tuple[A, B, C, D]], count: Literal[4] | None = None
    ) -> tuple[DeviceOp[A], DeviceOp[B], DeviceOp[C], DeviceOp[D]]: ...
    @overload
    def unzip(
        self: DeviceOp[tuple[A, B, C, D, E]], count: Literal[5] | None = None
    ) -> tuple[DeviceOp[A], DeviceOp[B], DeviceOp[C], DeviceOp[D], DeviceOp[E]]: ...
    @overload
    def unzip(
        self: DeviceOp[tuple[A, B, C, D, E, F]], count: Literal[6] | None = None
    ) -> tuple[DeviceOp[A], DeviceOp[B], DeviceOp[C], DeviceOp[D], DeviceOp[E], DeviceOp[F]]: ...
    @overload
    def unzip(
        self: DeviceOp[tuple[A, ...]], count: int | None = None
    ) -> tuple[DeviceOp[A], ...]: ...
    def unzip(self: DeviceOp[Any], count: int | None = None) -> Any:
        """One op for each element of a tuple. The first of them that runs runs this op; the others
        wait for it, on whatever stream.

        Args:
            count: how many elements the tuple has; needless for a launch, `zip_ops` and `value`.

        Raises:
            CallError: fewer than one, or no count where it is needed; or, when it runs, another
                number than the tuple has.
        """
        from tilec_runtime.ops.sharing import unzip_op

        return unzip_op(self, count)

    def boxed(self) -> DeviceOp[T_co]:
        """The op itself: every op has one type here, so lists may hold any."""
        return self

    def _chain(self, verb: str, function: Callable[[Any], Any]) -> DeviceOp[Any]:
        place = site()
        self._take(f"moved into {verb}", place)
        from tilec_runtime.ops.chain import begun

        return begun(self, (verb, function, place))

    # Single use

    def _take(self, where: str, place: Location | None = None) -> None:
        """Use it up. Of threads that do so at the same time, one succeeds.

        Args:
            where: what it moves into, for messages.
            place: where that is; None to look.

        Raises:
            UsedOpError: it was used before.
        """
        try:
            _delete(self, "_fresh")
        except AttributeError:
            raise self._used() from None
        _set(self, "_gone", (where, place or site()))

    @property
    def _is_used(self) -> bool:
        return not hasattr(self, "_fresh")

    def _used(self) -> UsedOpError:
        where, place = getattr(self, "_gone", ("used", self.created))
        return UsedOpError(
            f"<DeviceOp {self.label}> was used before: {where}{f' at {place}' if place else ''}",
            cause="an op is single use: it moves into what is made of it, and runs once",
            fix=hinted("make a new one, or let all users share it: op.shared()"),
        )

    def _run_in(self, ctx: ExecutionContext) -> T_co:
        """Execute it as what was taken; its errors say where it was made."""
        try:
            return self._execute(ctx)
        except BaseException as error:
            label(error, self.label)
            raise

    def _discard(self) -> None:
        """It was used up and will never run: let go of the tensors that it holds."""

    def _require_here(self, ctx: ExecutionContext) -> None:
        """See that it may run in a context, before anything of it does: asked for ops that others
        could run where this one cannot.

        Raises:
            GraphCaptureError: it makes no sense in a graph. DeviceError: it runs on another device
                alone.
        """


_set, _delete = object.__setattr__, object.__delattr__  # a frozen dataclass refuses the other way


def take_all(ops: Sequence[DeviceOp[Any]], where: str) -> None:
    """Use several ops up, or none of them.

    Raises:
        UsedOpError: one was used before, or is there twice.
    """
    taken: list[DeviceOp[Any]] = []
    try:
        for op in ops:
            op._take(where)  # noqa: SLF001 - its own module
            taken.append(op)
    except UsedOpError:
        for op in taken:
            _set(op, "_fresh", True)
        raise


def _element(value: Any, place: int) -> Any:
    if not isinstance(value, tuple) or not value:
        what = f"`{'last' if place else 'first'}` needs a tuple with elements, and the op gave a {type(value).__qualname__}"
        raise CallError(what, fix="use `map` for other results")
    return value[place]
