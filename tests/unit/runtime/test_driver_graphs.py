"""Captures on a double of libcuda: their status, and modes of threads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtime_samples import ADD, Array, loaded
from tests.unit.runtime.driver_api import Api
from tilec_runtime import Device, load_module_from_ptx
from tilec_runtime.device.driver import Driver

GLOBAL, RELAXED = 0, 2


class GraphApi(Api):
    """As `Api`, with a status of streams, and the mode of the thread."""

    status = 0
    mode = GLOBAL

    def value(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name == "cuStreamIsCapturing":
            return self.status
        if name == "cuThreadExchangeStreamCaptureMode":
            mode: Any = arguments[0]
            self.mode, mode._obj.value = mode._obj.value, self.mode
        return super().value(name, arguments)


@pytest.mark.parametrize(("status", "captured"), [(0, False), (1, True), (2, True)])
def test_whether_a_stream_is_captured(status: int, captured: bool) -> None:
    api = GraphApi()
    api.status = status
    assert Driver(api).capturing(0, 0x10) is captured


def test_the_legacy_stream_counts_as_captured_while_another_one_waits_for_it() -> None:
    assert Driver(GraphApi(cuStreamIsCapturing="STREAM_CAPTURE_IMPLICIT")).capturing(0, 0)
    assert not Driver(GraphApi(cuStreamIsCapturing="INVALID_VALUE")).capturing(0, 0)


def test_calls_outside_of_captures_leave_the_mode_as_it_was() -> None:
    api = GraphApi()
    driver = Driver(api)
    modes = []
    with contextlib.suppress(ZeroDivisionError), driver.outside_captures(0):
        modes.append(api.mode)
        _ = 1 / 0
    assert modes == [RELAXED]
    assert api.mode == GLOBAL


def test_images_are_loaded_outside_of_captures_of_whatever_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One in the global mode forbids loads to all threads, and would break."""
    module, driver = loaded(ADD)
    open_, loads, load = [0], list[int](), driver.load_module

    @contextlib.contextmanager
    def outside(_: int) -> Iterator[None]:
        open_[0] += 1
        yield
        open_[0] -= 1

    def load_module(ordinal: int, data: bytes) -> Any:
        loads.append(open_[0])
        return load(ordinal, data)

    monkeypatch.setattr(driver, "outside_captures", outside)
    monkeypatch.setattr(driver, "load_module", load_module)
    module.add(*(Array(512, ptr=0x10000 * number) for number in (1, 2, 3)), stream=5)
    load_module_from_ptx(".version 8.0\n", Device(0, driver=driver))
    assert loads == [1, 1]
