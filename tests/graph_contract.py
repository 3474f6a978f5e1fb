"""What captures and graphs do, as checks of one driver: both doubles are held to it, and a GPU test
holds CUDA to the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tilec_runtime.device.seam import CopyKind, DeviceDriver
from tilec_runtime.errors import DriverError

BYTES = 1024


@contextmanager
def refused(result: str) -> Iterator[None]:
    """What the driver says of a call."""
    with pytest.raises(DriverError) as caught:
        yield
    assert caught.value.result == result, caught.value.result


class Rig:
    """A driver, two streams of it that nobody else uses, and memory."""

    def __init__(self, driver: DeviceDriver, ordinal: int) -> None:
        self.driver: Any = driver
        self.ordinal = ordinal
        self.stream, self.other = (driver.create_stream(ordinal) for _ in range(2))
        self.a, self.b = (driver.allocate(ordinal, BYTES, None) for _ in range(2))
        self.set(self.a, 0)
        self.set(self.b, 0)

    def set(self, address: int, byte: int) -> None:
        """Contents of memory, at once."""
        self.driver.fill(self.ordinal, address, byte, BYTES, self.other)
        self.driver.synchronize(self.ordinal, self.other)

    def get(self, address: int) -> set[int]:
        """The bytes that memory has, once the first stream is done."""
        self.driver.synchronize(self.ordinal, self.stream)
        back = ctypes.create_string_buffer(BYTES)
        self.driver.copy_out(self.ordinal, ctypes.addressof(back), address, BYTES, self.other)
        return set(back.raw)

    def fill(self, address: int, byte: int, stream: int | None = None) -> None:
        self.driver.fill(
            self.ordinal, address, byte, BYTES, self.stream if stream is None else stream
        )

    def copy(self) -> None:
        """b becomes a."""
        self.driver.copy_async(self.ordinal, self.b, self.a, BYTES, self.stream, CopyKind.ON_DEVICE)

    def graph(self, *works: Callable[[], None]) -> Any:
        """A graph of these works."""
        self.driver.begin_capture(self.ordinal, self.stream)
        for work in works:
            work()
        return self.driver.end_capture(self.ordinal, self.stream)

    def executable(self, *works: Callable[[], None]) -> Any:
        graph = self.graph(*works)
        made = self.driver.instantiate_graph(self.ordinal, graph)
        self.driver.destroy_graph(self.ordinal, graph)
        return made

    def event(self) -> int:
        return int(self.driver.create_event(self.ordinal, timed=False))

    @contextmanager
    def broken(self, result: str) -> Iterator[None]:
        """A call in a capture that is refused and breaks it; the stream is as good as before once
        the capture has ended.
        """
        self.driver.begin_capture(self.ordinal, self.stream)
        with refused(result):
            yield
        assert self.driver.capturing(self.ordinal, self.stream)
        with refused("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"):
            self.fill(self.a, 1)
        with refused("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"):
            self.driver.end_capture(self.ordinal, self.stream)
        assert not self.driver.capturing(self.ordinal, self.stream)
        self.fill(self.a, 77)
        assert self.get(self.a) == {77}


def works_wait_for_replays(rig: Rig) -> None:
    driver, ordinal = rig.driver, rig.ordinal
    assert not driver.capturing(ordinal, rig.stream)
    graph = rig.graph(lambda: rig.fill(rig.a, 7), rig.copy)
    assert driver.graph_nodes(graph) == 2
    assert rig.get(rig.a) == rig.get(rig.b) == {0}, "nothing was done yet"
    executable = driver.instantiate_graph(ordinal, graph)
    driver.destroy_graph(ordinal, graph)
    driver.upload_graph(ordinal, executable, rig.stream)
    for _ in range(2):
        rig.set(rig.b, 0)
        driver.launch_graph(ordinal, executable, rig.stream)
        assert rig.get(rig.b) == {7}
    rig.fill(rig.a, 8)
    assert rig.get(rig.a) == {8}, "the stream does its work itself again"
    rig.set(rig.b, 0)
    driver.launch_graph(ordinal, executable, rig.stream)
    driver.destroy_executable(ordinal, executable)
    assert rig.get(rig.b) == {7}, "what was enqueued is done, although its executable went"


def an_empty_graph_does_nothing(rig: Rig) -> None:
    executable = rig.executable()
    rig.driver.launch_graph(rig.ordinal, executable, rig.stream)
    assert rig.get(rig.a) == {0}


def other_streams_go_on(rig: Rig) -> None:
    driver, ordinal = rig.driver, rig.ordinal
    driver.begin_capture(ordinal, rig.stream)
    assert driver.capturing(ordinal, rig.stream)
    assert not driver.capturing(ordinal, rig.other)
    rig.set(rig.a, 3)  # waits for the other stream
    address = driver.allocate(ordinal, BYTES, None)
    driver.free(ordinal, address, None)
    address = driver.allocate(ordinal, BYTES, rig.other)
    driver.free(ordinal, address, rig.other)
    event = rig.event()
    driver.record_event(ordinal, event, rig.other)
    with driver.outside_captures(ordinal):
        driver.synchronize_event(ordinal, event)
    assert driver.event_reached(ordinal, event)
    driver.destroy_graph(ordinal, driver.end_capture(ordinal, rig.stream))
    assert rig.get(rig.a) == {3}


def waits_for_the_stream_are_refused(rig: Rig) -> None:
    with rig.broken("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
        rig.driver.synchronize(rig.ordinal, rig.stream)
    back = ctypes.create_string_buffer(BYTES)
    with rig.broken("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
        rig.driver.copy_out(rig.ordinal, ctypes.addressof(back), rig.a, BYTES, rig.stream)


def waits_for_the_device_are_refused(rig: Rig) -> None:
    with rig.broken("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
        rig.driver.synchronize_device(rig.ordinal)


def events_of_outside_are_refused(rig: Rig) -> None:
    driver, ordinal = rig.driver, rig.ordinal
    event = rig.event()
    driver.record_event(ordinal, event, rig.other)
    with rig.broken("CUDA_ERROR_STREAM_CAPTURE_ISOLATION"):
        driver.wait_event(ordinal, rig.stream, event)


def events_of_inside_are_places_in_the_graph(rig: Rig) -> None:
    driver, ordinal = rig.driver, rig.ordinal
    event, unset = rig.event(), rig.event()
    driver.begin_capture(ordinal, rig.stream)
    rig.fill(rig.a, 5)
    driver.record_event(ordinal, event, rig.stream)
    driver.wait_event(ordinal, rig.stream, event)
    rig.copy()
    graph = driver.end_capture(ordinal, rig.stream)
    assert driver.graph_nodes(graph) == 2
    for ask in (driver.event_reached, driver.synchronize_event):
        with refused("CUDA_ERROR_INVALID_VALUE"):
            ask(ordinal, event)
    driver.record_event(ordinal, event, rig.other)  # set elsewhere, it is an event as any other
    driver.synchronize_event(ordinal, event)
    assert driver.event_reached(ordinal, event)
    driver.destroy_event(ordinal, unset)
    driver.destroy_graph(ordinal, graph)


def events_of_inside_cannot_be_asked_for(rig: Rig) -> None:
    event = rig.event()
    with rig.broken("CUDA_ERROR_CAPTURED_EVENT"):
        rig.driver.record_event(rig.ordinal, event, rig.stream)
        rig.driver.event_reached(rig.ordinal, event)


def captures_begin_and_end_once(rig: Rig) -> None:
    driver, ordinal = rig.driver, rig.ordinal
    with refused("CUDA_ERROR_ILLEGAL_STATE"):
        driver.end_capture(ordinal, rig.stream)
    with refused("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"):
        driver.begin_capture(ordinal, 0)
    driver.begin_capture(ordinal, rig.stream)
    with refused("CUDA_ERROR_ILLEGAL_STATE"):
        driver.begin_capture(ordinal, rig.stream)
    driver.destroy_graph(ordinal, driver.end_capture(ordinal, rig.stream))


def launches_of_one_executable_come_one_after_another(rig: Rig) -> None:
    """Between its works, `b` has other contents than at the end: two launches at the same time
    would mix them.
    """
    driver, ordinal = rig.driver, rig.ordinal
    executable = rig.executable(
        rig.copy, lambda: rig.fill(rig.b, 9), rig.copy, lambda: rig.fill(rig.a, 4)
    )
    for _ in range(20):
        for stream in (rig.stream, rig.other):
            driver.launch_graph(ordinal, executable, stream)
    driver.synchronize(ordinal, rig.other)
    assert rig.get(rig.a) == rig.get(rig.b) == {4}


CHECKS = (
    works_wait_for_replays,
    an_empty_graph_does_nothing,
    other_streams_go_on,
    waits_for_the_stream_are_refused,
    waits_for_the_device_are_refused,
    events_of_outside_are_refused,
    events_of_inside_are_places_in_the_graph,
    events_of_inside_cannot_be_asked_for,
    captures_begin_and_end_once,
    launches_of_one_executable_come_one_after_another,
)
