"""Which context a thread has when the CUDA driver is called, and afterwards, on a double of
libcuda.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from cuda.bindings import driver as real

from tests.unit.runtime.driver_api import CONTEXTS, OK, PARTS, SHAPE, Api
from tilec_runtime.device.driver import Driver
from tilec_runtime.errors import ContextLostError, DriverError


def test_a_thread_without_context_gets_the_devices_before_a_launch():
    api = Api()
    driver = Driver(api)
    driver.adopt(0)
    assert api.current == CONTEXTS[0]
    api.thread.stack = [0x999]
    driver.adopt(0)
    assert api.current == 0x999, "a context of its own is left to it"
    assert len(api.made("cuCtxSetCurrent")) == 1


def test_no_thread_is_left_on_another_device_than_the_first():
    """Where torch and CuPy look which device is the current one, they would take their next arrays
    there.
    """
    api = Api(devices=2)
    driver = Driver(api)
    driver.adopt(1)
    assert api.current == 0
    assert driver.bind_launch(1, "function", SHAPE, 0, PARTS)(0, 0)[0] == OK
    refused = real.CUresult.CUDA_ERROR_INVALID_CONTEXT
    driver.launch_failed(1, refused, 0, lambda: api.cuLaunchKernelEx()[0], "k")
    assert api.contexts("cuLaunchKernelEx") == [CONTEXTS[1], CONTEXTS[1]]
    assert api.current == 0
    driver.adopt(0)
    assert api.current == CONTEXTS[0], "that is the one of a thread that asks for none"
    api.results["cuCtxPushCurrent"] = refused
    assert driver.bind_launch(1, "function", SHAPE, 0, PARTS)(0, 0)[0] == refused
    assert len(api.contexts("cuLaunchKernelEx")) == 2


@pytest.mark.parametrize(
    ("before", "refused", "after"),
    [(0, "INVALID_CONTEXT", CONTEXTS[0]), (0x999, "INVALID_HANDLE", 0x999)],
    ids=["a new thread keeps the context", "a foreign context is restored"],
)
def test_a_launch_is_tried_again_in_the_devices_context(before: int, refused: str, after: int):
    api, tries = Api(), []
    api.thread.stack = [before]
    result = getattr(real.CUresult, f"CUDA_ERROR_{refused}")
    Driver(api).launch_failed(0, result, 0, lambda: tries.append(api.current) or OK, "add")
    assert (tries, api.current) == ([CONTEXTS[0]], after)


def test_a_launch_that_fails_in_the_right_context_too_is_told():
    failed = real.CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    with pytest.raises(
        DriverError, match=r"^add: the launch failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
    ) as caught:
        Driver(Api()).launch_failed(0, failed, 0, lambda: OK, "add")
    assert caught.value.kernel == "add"


def test_what_was_made_here_needs_no_context_to_be_asked() -> None:
    """Handles say whose they are; only what goes wrong is done again in the right context, and
    told.
    """
    api = Api()
    api.values |= {"cuEventCreate": 0x99, "cuStreamCreate": 0x77}
    driver = Driver(api)
    assert (driver.create_event(0), driver.create_stream(0)) == (0x99, 0x77)
    api.calls.clear()
    driver.record_event(0, 0x99, 0x77)
    driver.wait_event(0, 0x77, 0x98)
    driver.synchronize_event(0, 0x99)
    assert driver.event_reached(0, 0x99)
    assert [call[0] for call in api.calls] == [
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuEventSynchronize",
        "cuEventQuery",
    ]
    assert api.calls[0][1:] == (0x99, 0x77)
    api.calls.clear()
    driver.record_event(0, 0x99, 0)  # the legacy default stream is that of the current context
    names = [call[0] for call in api.calls]
    assert names.index("cuCtxGetCurrent") < names.index("cuEventRecord")
    api.results["cuEventQuery"] = real.CUresult.CUDA_ERROR_NOT_READY
    assert not driver.event_reached(0, 0x99)


@pytest.mark.parametrize(
    ("call", "ask"),
    [
        ("cuEventRecord", lambda d: d.record_event(0, 0x99, 0x77)),
        ("cuEventQuery", lambda d: d.event_reached(0, 0x99)),
        ("cuEventSynchronize", lambda d: d.synchronize_event(0, 0x99)),
    ],
)
@pytest.mark.parametrize(
    ("result", "times"),
    [
        ("INVALID_CONTEXT", 2),
        ("INVALID_HANDLE", 2),
        # the capture is broken by it, and a second call would tell of that alone
        ("STREAM_CAPTURE_ISOLATION", 1),
    ],
)
def test_what_goes_wrong_without_a_context_is_done_in_the_right_one(
    call: str, ask: Callable[[Driver], object], result: str, times: int
) -> None:
    api = Api(**{call: result})
    api.values |= {"cuEventCreate": 0x99, "cuStreamCreate": 0x77}
    driver = Driver(api)
    driver.create_event(0)
    driver.create_stream(0)
    with pytest.raises(DriverError, match=f"{call} failed: CUDA_ERROR_{result}"):
        ask(driver)
    assert api.contexts(call) == [0, CONTEXTS[0]][:times]


def test_what_asks_of_streams_and_addresses_needs_no_context_of_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Api(devices=2)
    driver = Driver(api)
    assert driver.pointer_device(0x1000) == 0, "no question more where the first is answered"
    assert not api.made("cuDevicePrimaryCtxRetain")
    answers = {"cuStreamIsCapturing": 1, "cuPointerGetAttribute": 1}
    without = {
        "cuStreamIsCapturing": real.CUresult.CUDA_ERROR_INVALID_CONTEXT,
        "cuPointerGetAttribute": real.CUresult.CUDA_ERROR_INVALID_VALUE,
    }

    def made(name: str):
        def call(*arguments: object):
            api.calls.append((name, *arguments))
            return (OK, answers[name]) if api.current else (without[name], None)

        return call

    for name in answers:
        monkeypatch.setattr(api, name, made(name), raising=False)
    assert driver.pointer_device(0x1000) is None, "where no device has a context, nothing is known"
    assert not api.made("cuDevicePrimaryCtxRetain")
    monkeypatch.setattr(
        api, "cuDevicePrimaryCtxGetState", lambda device: (OK, 0, int(device == 1)), raising=False
    )  # of another library
    assert driver.pointer_device(0x1000) == 1
    assert api.made("cuDevicePrimaryCtxRetain") == [(1,)]
    assert driver.capturing(1, 0x77)
    assert driver.pointer_device(0x1000) == 1
    assert driver.allocation(0x1000) == (1, 1)
    assert api.current == 0


def test_a_forked_child_is_refused_and_told_to_spawn():
    driver = Driver(Api(devices=2))
    with driver.current(1):
        pass
    child = os.fork()
    if not child:
        refused = 0
        for call in (
            lambda: driver.allocate(0, 64, None),
            lambda: driver.create_stream(1),
            lambda: driver.load_module(1, b""),
        ):
            try:
                call()
            except ContextLostError as error:
                refused += (
                    "lost since the fork gave CUDA_ERROR_NOT_INITIALIZED" in str(error)
                    and "with the spawn method" in error.fix
                )
        driver.free_pinned(0, 64)  # what destructors do is silent
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert driver.allocate(0, 64, None) is not None


def test_a_forked_child_may_start_cuda_where_its_parent_has_not():
    child = os.fork()
    if not child:
        driver = Driver(Api())
        with driver.current(0):
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
