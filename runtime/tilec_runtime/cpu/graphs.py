"""CUDA graphs for drivers that do the work themselves: what a stream is given is noted, and what
CUDA forbids meanwhile is refused.
"""

# ruff: noqa: ARG002 - a double takes what the driver takes
from __future__ import annotations

import contextlib
import dataclasses
import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any

from tilec_runtime.device.results import ADVICE
from tilec_runtime.errors import DriverError

_CODES = {
    "CUDA_ERROR_INVALID_VALUE": 1,
    "CUDA_ERROR_ILLEGAL_STATE": 401,
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": 900,
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED": 901,
    "CUDA_ERROR_STREAM_CAPTURE_MERGE": 902,
    "CUDA_ERROR_STREAM_CAPTURE_ISOLATION": 905,
    "CUDA_ERROR_CAPTURED_EVENT": 907,
}
_UNSUPPORTED, _INVALIDATED = (
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
    "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Node:
    """One work of a graph.

    Attributes:
        kind: what it is; graphs of the same kinds, in order, can be one executable.
        work: does it, as the driver that recorded it calls works.
    """

    kind: str
    work: Any


class Graph:
    """What a stream was given while it was captured, in order."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        """Take what was noted."""
        self.nodes = nodes


class Executable:
    """A graph that can be launched.

    Attributes:
        nodes: None once it was given back.
        last: where the driver puts the end of the last launch.
        lock: held while it is launched or changed.
    """

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        """Take the nodes of a graph."""
        self.nodes: tuple[Node, ...] | None = nodes
        self.last: Any = None
        self.lock = threading.Lock()


class _Capture:
    """A stream that is captured."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.broken = False


class Captures:
    """The streams of one driver that are captured, and the events that were recorded in them."""

    def __init__(self) -> None:
        """Start with none."""
        self._streams: dict[int, _Capture] = {}
        self._events: dict[int, _Capture] = {}

    def begin(self, stream: int) -> None:
        """Note what a stream is given from now on, instead of doing it."""
        if stream in self._streams:
            raise refused("cuStreamBeginCapture", "CUDA_ERROR_ILLEGAL_STATE")
        if stream in (0, 1, 2):
            raise refused("cuStreamBeginCapture", _UNSUPPORTED)
        self._streams[stream] = _Capture()

    def end(self, stream: int) -> Graph:
        """Do what the stream is given again; what was noted.

        Raises:
            DriverError: it was not captured, or a call broke the capture.
        """
        capture = self._streams.pop(stream, None)
        if capture is None:
            raise refused("cuStreamEndCapture", "CUDA_ERROR_ILLEGAL_STATE")
        if capture.broken:
            raise refused("cuStreamEndCapture", _INVALIDATED)
        return Graph(tuple(capture.nodes))

    def active(self, stream: int) -> bool:
        """Whether a stream is captured."""
        return stream in self._streams

    def add(self, stream: int, kind: str, work: Any) -> bool:
        """Note a work, where its stream is captured; whether it is.

        Raises:
            DriverError: a call broke the capture before.
        """
        capture = self._streams.get(stream)
        if capture is None:
            return False
        if capture.broken:
            raise refused(kind, _INVALIDATED)
        capture.nodes.append(Node(kind=kind, work=work))
        return True

    def refuse(self, stream: int | None, call: str) -> None:
        """Refuse a call that a captured stream does not allow: that breaks the capture.

        Raises:
            DriverError: the stream is captured.
        """
        capture = None if stream is None else self._streams.get(stream)
        if capture is not None:
            capture.broken = True
            raise refused(call, _UNSUPPORTED)

    def refuse_all(self, call: str) -> None:
        """Refuse a call that waits for all streams, while one of them is captured.

        Raises:
            DriverError: one is.
        """
        for stream in list(self._streams):
            self.refuse(stream, call)

    def record(self, event: int, stream: int) -> bool:
        """Set an event in a captured stream, where it is one: it then is a place in the graph;
        whether that is so.
        """
        capture = self._streams.get(stream)
        if capture is None:
            self._events.pop(event, None)
            return False
        self._events[event] = capture
        return True

    def wait(self, stream: int, event: int, *, set_outside: bool) -> bool:
        """Let a stream wait for an event, where one of them is captured; whether that is so.

        Raises:
            DriverError: only one of them is in the capture. A GPU's driver takes the stream into
                the capture where it is the event that is.
        """
        of, to = self._events.get(event), self._streams.get(stream)
        if to is None and of is None:
            return False
        if to is None:
            raise refused("cuStreamWaitEvent", "CUDA_ERROR_STREAM_CAPTURE_MERGE")
        if of is not to and (of is not None or set_outside):
            to.broken = True
            raise refused(
                "cuStreamWaitEvent",
                "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"
                if of is None
                else "CUDA_ERROR_STREAM_CAPTURE_MERGE",
            )
        return True

    def ask(self, event: int, call: str) -> None:
        """Check that an event is no place in a graph.

        Raises:
            DriverError: it is. While the capture goes on, that breaks it.
        """
        capture = self._events.get(event)
        if capture is None:
            return
        if capture not in self._streams.values():
            raise refused(call, "CUDA_ERROR_INVALID_VALUE")
        capture.broken = True
        raise refused(call, "CUDA_ERROR_CAPTURED_EVENT")

    def forget(self, event: int) -> None:
        """An event goes."""
        self._events.pop(event, None)


class GraphDouble(ABC):
    """The part of `DeviceDriver` that captures streams and launches graphs, for drivers that do the
    work themselves.
    """

    def __init__(self) -> None:
        """Start without captures."""
        self._captures = Captures()

    def begin_capture(self, ordinal: int, stream: int) -> None:
        """Note what a stream is given, instead of doing it."""
        self._graph_call("begin_capture", ordinal)
        self._captures.begin(stream)

    def end_capture(self, ordinal: int, stream: int) -> Graph:
        """Do again what the stream is given; what was noted."""
        self._graph_call("end_capture", ordinal)
        return self._captures.end(stream)

    def capturing(self, ordinal: int, stream: int) -> bool:
        """Whether a stream is captured."""
        return self._captures.active(stream)

    def outside_captures(self, ordinal: int) -> AbstractContextManager[None]:
        """Captures forbid nothing on other streams here."""
        return contextlib.nullcontext()

    def instantiate_graph(self, ordinal: int, graph: Graph) -> Executable:
        """Make a graph ready to be launched."""
        self._graph_call("instantiate_graph", ordinal)
        return Executable(graph.nodes)

    def upload_graph(self, ordinal: int, executable: Executable, stream: int) -> None:
        """There is nowhere to bring it to."""
        self._captures.refuse(stream, "cuGraphUpload")

    def launch_graph(self, ordinal: int, executable: Executable, stream: int) -> None:
        """Do what the graph says, in stream order, and behind its launches before."""
        self._graph_call("launch_graph", ordinal)
        if self._captures.active(stream):
            raise refused("cuGraphLaunch", _UNSUPPORTED)
        with executable.lock:
            if executable.nodes is None:
                raise refused("cuGraphLaunch", "CUDA_ERROR_INVALID_VALUE")
            self._replay(executable, executable.nodes, stream)

    def graph_nodes(self, graph: Graph) -> int:
        """How many works a graph has."""
        return len(graph.nodes)

    def destroy_graph(self, ordinal: int, graph: Graph) -> None:
        """What was made of it stays."""
        self._graph_call("destroy_graph", ordinal)

    def destroy_executable(self, ordinal: int, executable: Executable) -> None:
        """Give it back; launches of it still finish."""
        self._graph_call("destroy_executable", ordinal)
        executable.nodes = None

    @abstractmethod
    def _replay(self, executable: Executable, nodes: tuple[Node, ...], stream: int) -> None:
        """Do works in stream order, and behind the last launch of the executable."""

    def _graph_call(self, call: str, ordinal: int) -> None:  # noqa: B027 - who needs not know need not listen
        """Told of each call."""


def refused(call: str, result: str) -> DriverError:
    """The error of a call that CUDA refuses."""
    cause, fix = ADVICE.get(result, ("", ""))
    return DriverError(
        f"{call} failed: {result}", result=result, code=_CODES[result], cause=cause, fix=fix
    )
