"""A block in which ops are captured one after another into one graph."""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol, TypeVar, cast, final

from tilec_runtime.errors import CallError, GraphCaptureError, GraphError
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.graph import CudaGraph
from tilec_runtime.ops.graph_capture import Capture, begun_for
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.streams import Stream
from tilec_runtime.uncopied import Uncopied

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class GraphNode(Protocol[T_co]):
    """An op that allocates nothing, so that a graph can replay it: a launch, a copy between tensors that are there, a value.

    This is for type checkers: an op of one's own that allocates nothing says so by the attribute.
    """

    _graph_node_: ClassVar[Literal[True]]

    def _execute(self, ctx: ExecutionContext) -> T_co:
        """As for `DeviceOp`."""


@final
class GraphScope(Uncopied):
    """`with CudaGraph.scope(stream) as s:` captures what `s.record(op)` is given; after the block, `s.graph` is the graph."""

    def __init__(self, stream: Stream) -> None:
        """Use `CudaGraph.scope`."""
        self._stream = stream
        self._capture: Capture | None = None
        self._graph: CudaGraph[None] | None = None
        self._failed = ""

    def record(self, op: GraphNode[T]) -> T:
        """Capture an op that allocates nothing. Its result is there at once for later records, and replays make its contents.

        Claims on what it borrowed end.

        Raises:
            GraphCaptureError: something in it cannot be captured, such as an allocation; the capture is given up then.
            GraphError: the block has not begun, or is over.
        """
        given: object = op
        if not isinstance(given, DeviceOp):  # any op: what allocates is refused when it does
            what = f"record takes an op, and this is a {type(given).__qualname__}"
            raise CallError(what, fix="record launches and copies; a value needs no graph")
        if self._failed:
            raise self._given_up()
        if self._capture is None:
            raise GraphError("record is called outside of the scope's block", fix="with CudaGraph.scope(stream) as s: s.record(op)")
        try:
            result: T = self._capture.run(given)
        except BaseException as error:
            self._failed = f"{type(error).__name__}: {getattr(error, 'what', error)}"
            raise
        return result

    @property
    def graph(self) -> CudaGraph[None]:
        """The graph.

        Raises:
            GraphError: the block is not over, or failed.
        """
        if self._graph is None:
            raise GraphError("there is no graph", cause="the scope's block is not over, or has failed", fix="take it after the block")
        return self._graph

    def __enter__(self) -> GraphScope:
        """Begin.

        Raises:
            GraphError: it has begun before. SchedulingError: the stream is closed.
        """
        if self._capture is not None or self._graph is not None or self._failed:
            raise GraphError("a scope is used once", fix="make a new one: CudaGraph.scope(stream)")
        self._capture = begun_for(self._stream)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Make the graph; a block that fails makes none.

        Raises:
            GraphCaptureError: a record failed, and the block went on.
        """
        capture, self._capture = cast("Capture", self._capture), None
        if error is not None or self._failed:
            capture.abandon()
            if error is not None:
                self._failed = self._failed or type(error).__name__
                return
            raise self._given_up()
        self._graph = CudaGraph(self._stream, capture, None)

    def _given_up(self) -> GraphCaptureError:
        what = f"the capture was given up: {self._failed}"
        return GraphCaptureError(what, cause="a record of this scope failed", fix="leave that op out, and capture again in a new scope")
