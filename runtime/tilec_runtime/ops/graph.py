"""CUDA graphs: work captured with all that it uses, and replayed by one call."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NoReturn, Protocol, TypeVar, cast

from tilec_runtime.device.core import CORE
from tilec_runtime.device.frees import Release
from tilec_runtime.device.handles import stream_handle, stream_ordinal
from tilec_runtime.device.lines import Line, line_of
from tilec_runtime.device.recording import RECORDINGS, own_recording
from tilec_runtime.device.seam import DeviceDriver, ExecutableHandle
from tilec_runtime.device.streams import Stream
from tilec_runtime.errors import DriverError, GraphCaptureError, GraphError, Location
from tilec_runtime.ops.base import Op, require_op
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.graph_capture import Capture
from tilec_runtime.protocols import StreamLike
from tilec_runtime.sites import hinted, site
from tilec_runtime.tensors.lease import Claim, holder_here
from tilec_runtime.tensors.storage import Storage
from tilec_runtime.values import Uncopied

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
G = TypeVar("G")


class Replays(Uncopied, Generic[T]):
    """A graph, without the op that replays it; see `CudaGraph`.

    Attributes:
        stream: the stream it was captured for: the one of `update`, and of `replay` by default.
        nodes: number of nodes.
    """

    def __init__(self, stream: Stream, capture: Capture, output: T) -> None:
        """Use `DeviceOp.graph`, `DeviceOp.graph_on` or `CudaGraph.scope`."""
        self.stream = stream
        self._site = site()
        self._lock = threading.RLock()
        self._state: _State | None = _State(capture)
        self.nodes = self._state.nodes
        self._output: T | None = output
        self._taken: str | None = None  # the call site, which may be empty

    def replay(self, stream: StreamLike | None = None) -> None:
        """Enqueue a replay, and do not wait for it.

        Args:
            stream: the stream; None for the graph's own. A stream that does not name its device
                counts as one of the graph's device.

        Raises:
            GraphError: the graph is closed, or the stream is on another device.
            GraphCaptureError: the stream is captured.
            BorrowError: a borrow of another user conflicts with the graph.
        """
        where: Any = self.stream if stream is None else stream
        handle = stream_handle(where, "CudaGraph.replay")
        if isinstance(where, (Stream, ExecutionContext)):
            self._enqueue(where.driver, where.device, handle)
            return
        named = stream_ordinal(where)
        ordinal = self.stream.device if named is None else named
        self._enqueue(self.stream.driver, ordinal, handle)

    def take_output(self) -> T:
        """Return the result of the captured op: tensors that each replay writes.

        The caller owns them from then on; replays go on. Before the first replay their contents are
        undefined.

        Raises:
            GraphError: it was taken before, or the graph is closed.
        """
        with self._lock:
            if self._taken is not None:
                message = f"the output of {self!r} was taken before{self._taken}"
                raise GraphError(
                    message,
                    cause="it has one owner: whoever takes it first",
                    fix=hinted("keep it there, and share() it with others"),
                )
            self._open("asked for its output")
            output, self._output = self._output, None
            self._taken = _at("at", site())
        return cast("T", output)

    # Its end

    def close(self) -> None:
        """Destroy the graph, without waiting. Further calls do nothing.

        The objects that it owns are released once its last replay is done.
        """
        with self._lock:
            self._state = self._output = None

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._state is None

    def __enter__(self) -> Self:
        """Return the graph itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the graph."""
        self.close()

    def __repr__(self) -> str:
        """Return, for example, `<CudaGraph of 12 nodes, captured at app.py:7>`."""
        return f"<CudaGraph of {self.nodes} nodes{_at('captured at', self._site)}{', closed' if self.closed else ''}>"

    def _open(self, verb: str) -> _State:
        state = self._state
        if state is None:
            message = f"{self!r} cannot be {verb}"
            raise GraphError(
                message,
                cause="close() was called, or its `with` block has ended",
                fix="capture a new one",
            )
        return state

    def _enqueue(self, driver: DeviceDriver, ordinal: int, stream: int) -> None:
        # One thread at a time orders and enqueues a replay.
        with self._lock:
            state = self._state
            if (
                state is None
                or state.driver is not driver
                or state.ordinal != ordinal
                or RECORDINGS
            ):
                state = self._require_place(driver, ordinal, stream)
            if not state.ready(self, stream):
                if driver.capturing(ordinal, stream):
                    self._refuse_captured()
                state.order(stream)
            try:
                driver.launch_graph(ordinal, state.handle, stream)
            except DriverError as error:
                if error.result != "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED":
                    raise
                self._refuse_captured()

    def _require_place(self, driver: DeviceDriver, ordinal: int, stream: int) -> _State:
        """Return the state for a replay.

        Another device, and a stream captured by tilec, are refused.
        """
        state = self._open("replayed")
        if driver is not state.driver or ordinal != state.ordinal:
            message = f"{self!r} was captured on device {state.ordinal}, and the stream is on device {ordinal}"
            raise GraphError(
                message,
                cause="kernels and memory of a graph are one device's",
                fix="pass a stream of that device",
            )
        if own_recording(driver, ordinal, stream) is not None:
            self._refuse_captured()
        return state

    def _refuse_captured(self) -> NoReturn:
        message = f"{self!r} cannot be replayed on a stream that is captured"
        fix = "replay both graphs one after the other, or capture the work of both in one"
        raise GraphCaptureError(
            message, cause="a graph inside of a graph would not know what it owns", fix=fix
        ) from None


def _destroy(driver: DeviceDriver, ordinal: int, handle: ExecutableHandle) -> None:
    with driver.outside_captures(ordinal):
        driver.destroy_executable(ordinal, handle)


class _State:
    """The resources of an open graph.

    At its finalization, the driver lets replays finish.

    Attributes:
        driver, ordinal: the driver and the device.
        handle: the executable graph.
        nodes: number of nodes.
        uses: the memory that a replay uses, and whether it writes it.
    """

    __slots__ = (
        *("_line", "_events", "_release", "_uses"),
        *("driver", "handle", "nodes", "ordinal", "uses"),
    )

    def __init__(self, capture: Capture) -> None:
        """End a capture, and upload the graph, so that the first replay need not."""
        self.driver = driver = capture.driver
        self.ordinal = ordinal = capture.ordinal
        graph = capture.end()
        try:
            self.nodes = driver.graph_nodes(graph)
            self.handle = driver.instantiate_graph(ordinal, graph)
        finally:
            driver.destroy_graph(ordinal, graph)
        self._release = Release(functools.partial(_destroy, driver, ordinal, self.handle))
        with Stream(ordinal, driver=driver) as stream:
            driver.upload_graph(ordinal, self.handle, stream.handle)
            stream.sync()
        context = capture.context
        self._events = context.events
        # The line of the last replay: most replays are on the same stream as the one before.
        self._line: Line | None = None
        # Memory of no bytes, which each replay writes. It orders replays on different streams, and
        # keeps the graph's objects, as the owner of foreign memory, until the last replay is done.
        kept = tuple(context.recording.kept.values()) or None
        own = Storage(driver, ordinal, 0, 0, owner=kept)
        self.uses: tuple[tuple[Storage, bool], ...] = (
            *context.recording.uses.values(),
            (own, True),
        )
        self._uses = tuple((storage.lease, storage.uses, write) for storage, write in self.uses)

    def ready(self, graph: object, stream: int) -> bool:
        """Return whether a replay needs no wait and no note of its uses.

        This is so if the last uses of its memory are replays on the same stream.

        Raises:
            BorrowError: a borrow conflicts; the message names both.
        """
        line = self._line
        if line is None or line.handle != stream or not line.open:
            line = self._line = line_of(self.driver, self.ordinal, stream)
        if CORE is not None and not self._events and CORE.are_last(self._uses, line):
            return True
        ready = not self._events
        for lease, uses, write in self._uses:
            if lease.taken:
                lease.require_free_for(Claim(holder_here(f"the replay of {graph!r}"), write))
            ready = ready and uses.lasts(line, write=write)
        return ready

    def order(self, stream: int) -> None:
        """Make a stream wait for the uses that a replay comes after.

        Record this replay, and later ones there, as the next uses.
        """
        self._events = [event for event in self._events if not event.reached]
        for event in self._events:
            event.hold(self.ordinal, stream)
        line = line_of(self.driver, self.ordinal, stream)
        for storage, write in self.uses:
            storage.use(line, write=write, lasting=True)


class GraphNode(Protocol[T_co]):
    """An op that allocates nothing, so that a graph can replay it.

    Examples are a launch, a copy between existing tensors, and a value. The protocol is for type
    checkers: an op of your own that allocates nothing declares it by the attribute.
    """

    _graph_node_: ClassVar[Literal[True]]

    def _execute(self, ctx: ExecutionContext) -> T_co:
        """See `DeviceOp`."""


class Scope(Uncopied, Generic[G]):
    """A block in which ops are captured one after another; see `GraphScope`."""

    def __init__(self, stream: Stream, make: Callable[[Stream, Capture, None], G]) -> None:
        """Use `CudaGraph.scope`."""
        self._stream = stream
        self._make = make
        self._capture: Capture | None = None
        self._graph: G | None = None
        self._failed = ""

    def record(self, op: GraphNode[T]) -> T:
        """Capture an op that allocates nothing; return its result for later records.

        Replays write the contents of the result. Claims on borrowed tensors end.

        Raises:
            GraphCaptureError: a part of the op, such as an allocation, cannot be captured; this
                ends the capture.
            GraphError: the block has not begun, or is over.
        """
        fix = "record launches and copies; a value needs no graph"
        require_op(op, "record takes an op", fix)
        if self._failed:
            raise self._given_up()
        if self._capture is None:
            raise GraphError(
                "record is called outside of the scope's block",
                fix="with CudaGraph.scope(stream) as s: s.record(op)",
            )
        try:
            result: T = self._capture.run(cast("Op[T]", op))
        except BaseException as error:
            self._failed = f"{type(error).__name__}: {getattr(error, 'what', error)}"
            raise
        return result

    @property
    def graph(self) -> G:
        """The graph.

        Raises:
            GraphError: the block is not over, or failed.
        """
        if self._graph is None:
            raise GraphError(
                "there is no graph",
                cause="the scope's block is not over, or has failed",
                fix="take it after the block",
            )
        return self._graph

    def __enter__(self) -> Self:
        """Begin the capture.

        Raises:
            GraphError: the scope was used before.
            SchedulingError: the stream is closed.
        """
        if self._capture is not None or self._graph is not None or self._failed:
            raise GraphError("a scope is used once", fix="make a new one: CudaGraph.scope(stream)")
        self._capture = Capture(self._stream)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Make the graph, unless the block failed.

        Raises:
            GraphCaptureError: a record failed, and the block went on.
        """
        capture, self._capture = cast("Capture", self._capture), None
        if error is None and not self._failed:
            self._graph = self._make(self._stream, capture, None)
            return
        capture.abandon()
        self._failed = self._failed or type(error).__name__
        if error is None:
            raise self._given_up()

    def _given_up(self) -> GraphCaptureError:
        message = f"the capture was given up: {self._failed}"
        return GraphCaptureError(
            message,
            cause="a record of this scope failed",
            fix="leave that op out, and capture again in a new scope",
        )


def _at(verb: str, site: Location | None) -> str:
    """Return a call site for a message, or an empty string if it was not recorded."""
    return f", {verb} {site}" if site else ""
