"""CUDA graphs for drivers that do the work themselves.

A captured stream records its work. Calls that CUDA forbids during a capture are refused.
"""

# ruff: noqa: ARG002 - a test double has the parameters of the driver
from __future__ import annotations

import contextlib
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


# The work of a captured stream in order, as callables of the driver that recorded it.
Graph = tuple[Any, ...]


class Executable:
    """A graph ready for launches.

    Attributes:
        nodes: the work; None after it was destroyed.
        last: the driver's event behind the last launch.
        lock: held during a launch.
    """

    def __init__(self, nodes: Graph) -> None:
        """Take the nodes of a graph."""
        self.nodes: Graph | None = nodes
        self.last: Any = None
        self.lock = threading.Lock()


class _Capture:
    """The state of a captured stream."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.broken = False


class Captures:
    """The captured streams of one driver, and the events recorded in them."""

    def __init__(self) -> None:
        """Start without captures."""
        self._streams: dict[int, _Capture] = {}
        self._events: dict[int, _Capture] = {}

    def begin(self, stream: int) -> None:
        """Start a capture: record the work of a stream instead of doing it."""
        if stream in self._streams:
            raise refused("cuStreamBeginCapture", "CUDA_ERROR_ILLEGAL_STATE")
        if stream in (0, 1, 2):
            raise refused("cuStreamBeginCapture", _UNSUPPORTED)
        self._streams[stream] = _Capture()

    def end(self, stream: int) -> Graph:
        """End a capture and return the recorded graph.

        Raises:
            DriverError: the stream is not captured, or a call invalidated the capture.
        """
        capture = self._streams.pop(stream, None)
        if capture is None:
            raise refused("cuStreamEndCapture", "CUDA_ERROR_ILLEGAL_STATE")
        if capture.broken:
            raise refused("cuStreamEndCapture", _INVALIDATED)
        return tuple(capture.nodes)

    def active(self, stream: int) -> bool:
        """Return whether a stream is captured."""
        return stream in self._streams

    def add(self, stream: int, kind: str, work: Any) -> bool:
        """Record work if its stream is captured; return whether it is.

        Raises:
            DriverError: an earlier call invalidated the capture.
        """
        capture = self._streams.get(stream)
        if capture is None:
            return False
        if capture.broken:
            raise refused(kind, _INVALIDATED)
        capture.nodes.append(work)
        return True

    def refuse(self, stream: int | None, call: str) -> None:
        """Refuse a call if the stream is captured; the call invalidates the capture.

        Raises:
            DriverError: the stream is captured.
        """
        capture = None if stream is None else self._streams.get(stream)
        if capture is not None:
            capture.broken = True
            raise refused(call, _UNSUPPORTED)

    def refuse_all(self, call: str) -> None:
        """Refuse a call that waits for all streams if one of them is captured.

        Raises:
            DriverError: a stream is captured.
        """
        for stream in list(self._streams):
            self.refuse(stream, call)

    def record(self, event: int, stream: int) -> bool:
        """Record an event in the graph if the stream is captured; return whether it is."""
        capture = self._streams.get(stream)
        if capture is None:
            self._events.pop(event, None)
            return False
        self._events[event] = capture
        return True

    def wait(self, stream: int, event: int, *, set_outside: bool) -> bool:
        """Let a stream wait for an event in a capture; return whether one is captured.

        Raises:
            DriverError: they do not belong to the same capture. If only the event is captured, a
                GPU's driver would add the stream to the capture instead.
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
        """Check that an event was not recorded in a graph.

        Raises:
            DriverError: the event is in a graph; a capture in progress becomes invalid.
        """
        capture = self._events.get(event)
        if capture is None:
            return
        if capture not in self._streams.values():
            raise refused(call, "CUDA_ERROR_INVALID_VALUE")
        capture.broken = True
        raise refused(call, "CUDA_ERROR_CAPTURED_EVENT")

    def forget(self, event: int) -> None:
        """Drop a destroyed event."""
        self._events.pop(event, None)


class GraphDouble(ABC):
    """The graph functions of `DeviceDriver`, for drivers that do the work themselves."""

    def __init__(self) -> None:
        """Start without captures."""
        self._captures = Captures()

    def begin_capture(self, ordinal: int, stream: int) -> None:
        """Start a capture: record the work of a stream instead of doing it."""
        self._captures.begin(stream)

    def end_capture(self, ordinal: int, stream: int) -> Graph:
        """End a capture and return the recorded graph."""
        return self._captures.end(stream)

    def capturing(self, ordinal: int, stream: int) -> bool:
        """Return whether a stream is captured."""
        return self._captures.active(stream)

    def outside_captures(self, ordinal: int) -> AbstractContextManager[None]:
        """Return an empty context: a capture does not affect other streams."""
        return contextlib.nullcontext()

    def instantiate_graph(self, ordinal: int, graph: Graph) -> Executable:
        """Make a graph ready for launches."""
        return Executable(graph)

    def upload_graph(self, ordinal: int, executable: Executable, stream: int) -> None:
        """Do nothing except for checking the stream: there is no device to upload to."""
        self._captures.refuse(stream, "cuGraphUpload")

    def launch_graph(self, ordinal: int, executable: Executable, stream: int) -> None:
        """Launch a graph in stream order, after its earlier launches."""
        if self._captures.active(stream):
            raise refused("cuGraphLaunch", _UNSUPPORTED)
        with executable.lock:
            if executable.nodes is None:
                raise refused("cuGraphLaunch", "CUDA_ERROR_INVALID_VALUE")
            self._replay(executable, executable.nodes, stream)

    def graph_nodes(self, graph: Graph) -> int:
        """Return the number of nodes of a graph."""
        return len(graph)

    def destroy_graph(self, ordinal: int, graph: Graph) -> None:  # noqa: B027 - nothing to destroy
        """Destroy a graph; its executables stay valid."""

    def destroy_executable(self, ordinal: int, executable: Executable) -> None:
        """Destroy an executable; its launches still finish."""
        executable.nodes = None

    @abstractmethod
    def _replay(self, executable: Executable, nodes: Graph, stream: int) -> None:
        """Run nodes in stream order, after the last launch of the executable."""


def refused(call: str, result: str) -> DriverError:
    """Return the error of a call that CUDA refuses."""
    cause, fix = ADVICE.get(result, ("", ""))
    return DriverError(
        f"{call} failed: {result}", result=result, code=_CODES[result], cause=cause, fix=fix
    )
