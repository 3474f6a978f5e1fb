"""DeviceOp: lazy work for a device; its combinators; graphs that replay it.

Each of these classes creates the others, so they live in one module.
"""

# ruff: noqa: SLF001 - all of these are ops
from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, final, overload

from tilec_runtime.device.scalars import whole
from tilec_runtime.errors import CallError
from tilec_runtime.ops import steps
from tilec_runtime.ops.base import Op, label, require_op
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.execution import enqueue, require_function, run
from tilec_runtime.ops.graph import Replays, Scope
from tilec_runtime.ops.graph_capture import Capture
from tilec_runtime.ops.once import SharedExecution
from tilec_runtime.ops.policy import as_stream, current_policy, require_policy, stream_of
from tilec_runtime.protocols import SchedulingPolicy, StreamLike
from tilec_runtime.running import unchecked
from tilec_runtime.sites import created

if TYPE_CHECKING:
    import numpy as np
    from typing_extensions import TypeVarTuple, Unpack

    from tilec_runtime.ops.future import DeviceFuture

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

# The step whose function may run ops itself; all steps whose functions return the next op.
_UNCHECKED = "then_unchecked"
_RUNS = frozenset(("then", _UNCHECKED, "to_host", "dup"))
# Most steps of a chain in its name; most characters that a shared op's name keeps of its source's.
_SHOWN, _LONGEST = 4, 80


class DeviceOp(Op[T_co]):
    """Work for a device, with a result of type `T`.

    It runs once; building it does no device work. To write an op, derive a class with fields and
    `_execute`; it may be a dataclass.
    """

    __slots__ = ()

    @abstractmethod
    def _execute(self, ctx: ExecutionContext) -> T_co:
        """Enqueue the work on the context's stream, once; return the result, ready or not."""

    # Running it

    def sync(self) -> T_co:
        """Run it on a stream of the current policy, and wait.

        Raises:
            UsedOpError: it was used before.
            NestedExecutionError: this thread executes another op.
            BaseException: the error of the op, or of its work on the device.
        """
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

    def graph(self) -> CudaGraph[T_co]:
        """Capture it into a CUDA graph for a stream of the current policy.

        Everything else is as for `graph_on`.
        """
        return self.graph_on(stream_of(current_policy()))

    def graph_on(self, stream: StreamLike) -> CudaGraph[T_co]:
        """Capture it into a CUDA graph.

        Its functions run now; device work runs at each replay.

        Args:
            stream: the default stream of replays; nothing runs there now.

        Raises:
            UsedOpError: it was used before.
            NestedExecutionError: this thread executes another op.
            GraphCaptureError: a part of it, such as an allocation, cannot be captured.
        """
        where = as_stream(stream)
        capture = Capture(where)
        return CudaGraph(where, capture, capture.run(self))

    # Combining it

    def then(self, function: Callable[[T_co], DeviceOp[U]]) -> DeviceOp[U]:
        """Continue with the op that a function returns for the result, on the same stream.

        The function runs on the host while the work is enqueued, before the device has done it.
        """
        return self._chain("then", function)

    def then_unchecked(self, function: Callable[[T_co], DeviceOp[U]]) -> DeviceOp[U]:
        """Do as `then`, with a function that may itself run ops, on any stream.

        Tensors of tilec stay in stream order. The function has to order addresses and arrays of
        other libraries.
        """
        return self._chain(_UNCHECKED, function)

    def map(self, function: Callable[[T_co], U]) -> DeviceOp[U]:
        """Apply a function to the result on the host.

        The device may not have computed the result yet.
        """
        return self._chain("map", function)

    def inspect(self, function: Callable[[T_co], object]) -> DeviceOp[T_co]:
        """Call a function with the result, and continue with the result unchanged."""
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
        """Continue with the first element of a tuple."""
        return self._chain("first", lambda value: steps.element(value, 0))

    @overload
    def last(self: DeviceOp[tuple[Unpack[Others], Last]]) -> DeviceOp[Last]: ...
    @overload
    def last(self: DeviceOp[tuple[Last, ...]]) -> DeviceOp[Last]: ...
    def last(self: DeviceOp[Any]) -> DeviceOp[Any]:
        """Continue with the last element of a tuple."""
        return self._chain("last", lambda value: steps.element(value, -1))

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
        """Return one op for each element of a tuple.

        The first of these ops to run runs this op; the streams of the others wait for it.

        Args:
            count: the number of elements; not needed for a launch, `zip_ops` or `as_op` of a tuple.

        Raises:
            CallError: `count` is below 1, or is missing and unknown. When an op runs: the tuple has
                another number of elements.
        """
        if count is None and (count := self._arity()) is None:
            raise CallError(
                f"unzip(): how many elements the tuple of <DeviceOp {self.label}> has is not known before it runs",
                fix="say how many: unzip(2)",
            )
        count = whole("unzip: the number of elements", count)
        if count < 1:
            raise CallError(
                f"unzip({count}): a tuple has one element at least",
                fix="say how many elements the op's tuple has",
            )
        listed = self.map(steps.listed)
        listed._take("moved into unzip")
        once = SharedExecution(listed)
        return tuple(Part(once, index, count) for index in range(count))

    @overload
    def shared(self: DeviceOp[steps.Shares[U]]) -> SharedOp[U]: ...
    @overload
    def shared(self: DeviceOp[tuple[Any, ...]]) -> SharedOp[Any]: ...
    @overload
    def shared(self: DeviceOp[T]) -> SharedOp[T]: ...
    def shared(self: DeviceOp[Any]) -> SharedOp[Any]:
        """Return an op that any number of users on any thread may use; this op runs once.

        Every user gets its result, or its error. A tensor, alone or in a tuple, comes as a share.
        """
        if isinstance(self, SharedOp):
            return self.clone()
        name = self.name
        name = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
        self._take("moved into shared")
        return SharedOp(SharedExecution(self), f"{name}.shared")

    @overload
    def unshare(self: DeviceOp[steps.Unwraps[U]]) -> DeviceOp[U]: ...
    @overload
    def unshare(self: DeviceOp[T]) -> DeviceOp[T]: ...
    def unshare(self: DeviceOp[Any]) -> DeviceOp[Any]:
        """Continue with the owned tensor of a single share; pass other results through.

        Raises:
            OwnershipError: when it runs, there are other owners.
        """
        return self._chain("unshare", steps.unwrap)

    # Methods of the result, if that is a tensor

    def reshape(self: DeviceOp[steps.Reshapes[U]], *shape: Any) -> DeviceOp[U]:
        """Continue with the tensor in another shape, without a copy; one extent may be -1."""
        return self._step("reshape", *shape)

    def reinterpret(self: DeviceOp[steps.Reinterprets[U]], dtype: Any, *shape: Any) -> DeviceOp[U]:
        """Continue with the bytes of the tensor as another dtype, without a copy."""
        return self._step("reinterpret", dtype, *shape)

    def view(self: DeviceOp[steps.Views[U]], *shape: Any) -> DeviceOp[U]:
        """Continue with a view of the tensor.

        It is read-only, or writable for a mutable borrow.
        """
        return self._step("view", *shape)

    def partition(self: DeviceOp[steps.Partitions[U]], *tile: Any) -> DeviceOp[U]:
        """Continue with the tensor cut into tiles, for a kernel that writes one per block."""
        return self._step("partition", *tile)

    def partition_prefix(self: DeviceOp[steps.PrefixPartitions[U]], *tile: Any) -> DeviceOp[U]:
        """Do as `partition`, for kernels with fewer blocks than tiles."""
        return self._step("partition_prefix", *tile)

    def try_partition(self: DeviceOp[steps.TriesPartition[U]], *tile: Any) -> DeviceOp[U]:
        """Do as `partition`, for a shared tensor with one owner."""
        return self._step("try_partition", *tile)

    def unpartition(self: DeviceOp[steps.Unpartitions[U]]) -> DeviceOp[U]:
        """Continue with the tensor that the partition was cut from."""
        return self._step("unpartition")

    def share(self: DeviceOp[steps.Shares[U]]) -> DeviceOp[U]:
        """Continue with the tensor for many readers and no writer."""
        return self._step("share")

    def to_host(
        self: DeviceOp[steps.ReadsOut], *, out: np.ndarray[Any, Any] | None = None
    ) -> DeviceOp[np.ndarray[Any, Any]]:
        """Continue with the tensor's contents as a NumPy array.

        The array is complete when the op is. See `tilec_runtime.api.to_host`.
        """
        return self._chain(
            "to_host", lambda result: steps.having(result, "to_host").to_host_op(out)
        )

    def dup(self: DeviceOp[steps.Copies[U]]) -> DeviceOp[U]:
        """Continue with a contiguous copy of the tensor; see `tilec_runtime.api.dup`."""
        return self._step("dup")

    def _step(self, verb: str, *arguments: Any) -> DeviceOp[Any]:
        return self._chain(
            verb, lambda result: getattr(steps.having(result, verb), verb)(*arguments)
        )

    def _chain(self, verb: str, function: Callable[[Any], Any]) -> DeviceOp[Any]:
        """Return an op that continues with a function's value for the result."""
        require_function(verb, function)
        self._take(f"moved into {verb}")
        return Chain(self, verb, function)


@final
class Chain(DeviceOp[Any]):
    """An op followed by one step. A chain of any length runs in one loop."""

    __slots__ = ("_function", "_source", "_verb")

    def __init__(self, source: DeviceOp[Any], verb: str, function: Callable[[Any], Any]) -> None:
        """Use the methods of `DeviceOp`, which use the source up."""
        # Once the source has run, only its name is kept, because sources may hold tensors.
        self._source: DeviceOp[Any] | str = source
        self._function: Callable[[Any], Any] | None = function
        self._verb = verb

    @property
    def name(self) -> str:
        """For example `zip.then.map`."""
        source, chain = self._parts()
        verbs = [step._verb for step in reversed(chain)]
        first = source if isinstance(source, str) else source.name
        if len(verbs) > _SHOWN:
            return f"{first}.{verbs[0]} … {verbs[-1]} ({len(verbs)} steps)"
        return ".".join((first, *verbs))

    def _discard(self) -> None:
        source, _ = self._parts()
        if not isinstance(source, str):
            source._discard()

    def _parts(self) -> tuple[DeviceOp[Any] | str, list[Chain]]:
        """Return the chain's source, and its steps, the last one first."""
        chain = [self]
        source = self._source
        while type(source) is Chain:
            chain.append(source)
            source = source._source
        return source, chain

    def _execute(self, ctx: ExecutionContext) -> Any:
        value, todo = self._begun(ctx)
        # Chains that functions of `then` return run in this loop too, so their depth is unlimited.
        while todo:
            step, function = todo.pop()
            verb = step._verb
            try:
                if verb == _UNCHECKED:
                    ctx.refuse_capture(
                        _UNCHECKED,
                        cause="its function may execute ops, which is done now and not at each replay",
                        fix="use `then`, or capture the ops step by step: CudaGraph.scope",
                    )
                    with unchecked():
                        value = function(value)
                else:
                    value = function(value)
                if verb not in _RUNS:
                    continue
                steps.require_next(verb, value)
                value._take("executed as a part of another op")
                if type(value) is Chain:
                    value, more = value._begun(ctx)
                    todo += more
                else:
                    value = value._run_in(ctx)
            except BaseException as error:
                location = step.created
                label(
                    error, created(verb, location), "" if location else f", step {step._number()}"
                )
                raise
        return value

    def _begun(self, ctx: ExecutionContext) -> tuple[Any, list[tuple[Chain, Callable[[Any], Any]]]]:
        """Run the source; return its result, and the steps behind it, the last one first."""
        source, chain = self._parts()
        todo = []
        for step in chain:
            assert step._function is not None
            todo.append((step, step._function))
            step._function = None
        assert not isinstance(source, str)
        chain[-1]._source = source.name
        return source._run_in(ctx), todo

    def _number(self) -> int:
        return len(self._parts()[1])


@final
class SharedOp(DeviceOp[T]):
    """An op for any number of users on any thread.

    Its source runs once, and all users get the result. Every user gets a `SharedTensor` of its own
    for a tensor, alone or in a tuple. Other results are passed unchanged.
    """

    def __init__(self, once: SharedExecution[T], name: str) -> None:
        """Use `DeviceOp.shared` or `shared`."""
        self._once = once
        self._name = name

    @property
    def name(self) -> str:
        """For example `zip.shared`."""
        return self._name

    def clone(self) -> SharedOp[T]:
        """Return another op of the same execution."""
        return SharedOp(self._once, self._name)

    def _take(self, where: str) -> None:
        """Do nothing: it is never used up."""

    def _execute(self, ctx: ExecutionContext) -> T:
        return cast("T", self._once.run(ctx, self._share))

    def _share(self, result: T) -> Any:
        # The first user turns a tensor into a share, and every user gets a share of its own.
        self._once.result = steps.shares_of(result)
        return steps.shares_of(self._once.result)


@final
class Part(DeviceOp[Any]):
    """One element of an op's tuple; see `DeviceOp.unzip`."""

    def __init__(self, once: SharedExecution[list[Any]], index: int, count: int) -> None:
        """Use `DeviceOp.unzip`."""
        self._once: SharedExecution[list[Any]] | None = once
        self._index = index
        self._count = count

    @property
    def name(self) -> str:
        """For example `unzip[0]`."""
        return f"unzip[{self._index}]"

    def _execute(self, ctx: ExecutionContext) -> Any:
        # Drop the reference, so that elements whose parts never run are not kept.
        once, self._once = self._once, None
        assert once is not None
        return once.run(ctx, self._pick)

    def _pick(self, elements: list[Any]) -> Any:
        if len(elements) != self._count:
            raise CallError(
                f"unzip({self._count}) of a tuple of {len(elements)}",
                fix=f"say unzip({len(elements)}), or unzip the op that gives {self._count}",
            )
        # Move the element out, so that only the caller of this part holds it.
        element, elements[self._index] = elements[self._index], None
        return element


@final
class CudaGraph(Replays[T]):
    """Captured work that can be replayed any number of times.

    `close`, the end of a `with` block, or its finalization destroys it.

    The graph owns everything that it uses: memory, arrays of other libraries, host memory that it
    copies from. These live until the graph is destroyed and its last replay is done. A replay uses
    memory as a launch does, in order with other uses on all streams. A replay is refused as long as
    a conflicting borrow exists.
    """

    @staticmethod
    def scope(stream: StreamLike) -> GraphScope:
        """Return a block in which ops are captured one after another.

        Write `with CudaGraph.scope(stream) as s: s.record(op)`, then use `s.graph`.
        """
        return GraphScope(as_stream(stream), CudaGraph)

    def update(self, op: DeviceOp[U]) -> U:
        """Run an op on the graph's stream without waiting, to copy to the inputs.

        Its result is returned at once, and may not be ready yet: see `DeviceOp.enqueue_on`. Later
        replays wait for it.

        Raises:
            GraphError: the graph is closed.
            CallError: `op` is not an op.
            BaseException: the error of the op.
        """
        self._open("updated")
        fix = "pass an op that copies to what the graph reads: api.memcpy(t, x)"
        require_op(op, "update takes an op", fix)
        return op.enqueue_on(self.stream)

    def launch(self) -> DeviceOp[None]:
        """Return an op that replays the graph on the op's stream; any number may exist."""
        return GraphLaunch(self)


@final
class GraphScope(Scope["CudaGraph[None]"]):
    """A block that captures ops: `with CudaGraph.scope(stream) as s: s.record(op)`.

    After the block, `s.graph` is the graph.
    """


@final
class GraphLaunch(DeviceOp[None]):
    """An op that replays a graph."""

    def __init__(self, graph: CudaGraph[Any]) -> None:
        """Use `CudaGraph.launch`."""
        self._graph: CudaGraph[Any] | None = graph

    @property
    def name(self) -> str:
        """Always `graph launch`."""
        return "graph launch"

    def _execute(self, ctx: ExecutionContext) -> None:
        graph, self._graph = self._graph, None
        assert graph is not None
        graph._enqueue(ctx.driver, ctx.device, ctx.stream)
