"""Stream capture and CUDA graphs through cuda.bindings."""

from __future__ import annotations

from typing import Any

from tilec_runtime.device.driver_memory import MemoryCalls
from tilec_runtime.device.seam_types import ExecutableHandle, GraphHandle

_NOT_CAPTURED = 0
# Asked of the legacy default stream while a stream is captured that waits for it.
_IMPLICIT = 906
_UPDATE_FAILURE = 910
# Results of a thread without a context, or with another one: invalid context, invalid handle.
_CONTEXTS = (201, 400)


class GraphCalls(MemoryCalls):
    """The part of `DeviceDriver` that captures streams and launches graphs, on cuda.bindings."""

    def begin_capture(self, ordinal: int, stream: int) -> None:
        """Let a stream's work become nodes of a graph.

        In the relaxed mode: the collector may free memory or destroy an event on this thread at any
        time, and kernels are loaded at their first launch. The other modes forbid both while they
        last, and a forbidden call breaks the capture. What must not be in a graph is refused before
        the driver is asked.
        """
        with self.current(ordinal):
            self._ask(
                "cuStreamBeginCapture",
                stream,
                self._api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED,
            )

    def end_capture(self, ordinal: int, stream: int) -> GraphHandle:
        """The graph of what the stream was given; it does its work itself again."""
        with self.current(ordinal):
            return self._ask("cuStreamEndCapture", stream)

    def capturing(self, ordinal: int, stream: int) -> bool:
        """Whether a stream is captured, by whomever."""
        result, *values = self._api.cuStreamIsCapturing(stream)
        if int(result) in _CONTEXTS:
            with self.current(ordinal):
                result, *values = self._api.cuStreamIsCapturing(stream)
        if result == self._success:
            return int(values[0]) != _NOT_CAPTURED
        return int(result) == _IMPLICIT

    def outside_captures(self, ordinal: int) -> _Relaxed:  # noqa: ARG002 - the mode is a thread's
        """Let this thread make calls that a capture of other code forbids and would break over,
        such as to wait or to free.
        """
        return _Relaxed(self._api)

    def instantiate_graph(self, ordinal: int, graph: GraphHandle) -> ExecutableHandle:
        """Make a graph ready to be launched."""
        with self.current(ordinal):
            return int(self._ask("cuGraphInstantiate", graph, 0))

    def update_graph(self, ordinal: int, executable: ExecutableHandle, graph: GraphHandle) -> bool:
        """Let later launches do what another graph says; whether the two are alike enough."""
        with self.current(ordinal):
            result = self._api.cuGraphExecUpdate(executable, graph)[0]
        if int(result) == _UPDATE_FAILURE:
            return False
        if result != self._success:
            raise self._error("cuGraphExecUpdate", result, ordinal=ordinal)
        return True

    def upload_graph(self, ordinal: int, executable: ExecutableHandle, stream: int) -> None:
        """Bring it to the device, in stream order, so that its first launch need not."""
        with self.current(ordinal):
            self._ask("cuGraphUpload", executable, stream)

    def graph_nodes(self, graph: GraphHandle) -> int:
        """How many works a graph has."""
        result, *values = self._api.cuGraphGetNodes(graph)
        if result != self._success:
            raise self._error("cuGraphGetNodes", result)
        return int(values[-1])

    def destroy_graph(self, ordinal: int, graph: GraphHandle) -> None:
        """Give a graph back; what was made of it stays."""
        self._give_back(ordinal, "cuGraphDestroy", graph)

    def destroy_executable(self, ordinal: int, executable: ExecutableHandle) -> None:
        """Give it back; launches of it still finish."""
        self._give_back(ordinal, "cuGraphExecDestroy", executable)


class _Relaxed:
    """The relaxed mode of captures for this thread. No generator: frees pay for it."""

    __slots__ = ("_api", "_before")

    def __init__(self, api: Any) -> None:
        self._api = api

    def __enter__(self) -> None:
        api = self._api
        self._before = api.cuThreadExchangeStreamCaptureMode(
            api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        )[1]

    def __exit__(self, *_: object) -> None:
        self._api.cuThreadExchangeStreamCaptureMode(self._before)
