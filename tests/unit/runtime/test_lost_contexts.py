"""Lost contexts: the first failure and every later call are told apart, launches are named, and
giving back stays silent.
"""

from __future__ import annotations

import gc
import logging
import pickle
import sys

import pytest
from cuda.bindings import driver as real

from tests.processes import run_python
from tests.runtime_samples import ADD, Array, loaded
from tests.unit.runtime.driver_api import GIVING_BACK, METHODS, OK, PARTS, SHAPE, Api, Method
from tests.unit.runtime.ops.graph_samples import Gpu
from tests.waiting import PATIENCE
from tilec_runtime import (
    Device,
    DeviceBuffer,
    Event,
    Stream,
    Tensor,
    as_op,
    load_module_from_ptx,
    use_device,
)
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.driver import Driver
from tilec_runtime.device.seam import LaunchParts
from tilec_runtime.errors import (
    ContextError,
    ContextLostError,
    DriverError,
)

ILLEGAL = "CUDA_ERROR_ILLEGAL_ADDRESS"


def parts(kernel: str) -> LaunchParts:
    return LaunchParts(kernel=kernel, sizes=(), addresses=(), tensors=())


# --- the first failure, and all calls after it
# ---------------------------------------------------------------------------------------


def test_the_first_failure_says_what_failed_and_what_was_launched() -> None:
    api = Api(cuStreamSynchronize="ILLEGAL_ADDRESS")
    driver = Driver(api)
    driver.bind_launch(0, "f", SHAPE, 0x77, parts("add-a16"))
    with pytest.raises(ContextLostError) as caught:
        driver.synchronize(0, 0x77)
    error = caught.value
    assert isinstance(error, ContextError | DriverError)
    assert (
        error.what
        == f"cuStreamSynchronize failed: {ILLEGAL} (words of the driver): the context of device 0 is lost"
    )
    assert (error.device, error.result, error.code, error.since, error.again, error.kernel) == (
        0,
        ILLEGAL,
        700,
        "cuStreamSynchronize",
        False,
        "",
    )
    assert error.launches == ("add-a16 (grid 4x2x1, block 32x1x1, stream 0x77)",)
    assert error.cause == (
        "a kernel that ran before this call read or wrote memory that is not its own; "
        "launched there by tilec in this process (newest first): add-a16 (grid 4x2x1, block 32x1x1, stream 0x77)"
    )
    for word in (
        "compute-sanitizer",
        "the process must be restarted",
        "CUDA_LAUNCH_BLOCKING=1",
        "tilec sanitize",
    ):
        assert word in error.fix
    assert pickle.loads(pickle.dumps(error)).launches == error.launches


def lost() -> tuple[Api, Driver]:
    api = Api(cuStreamSynchronize="ILLEGAL_ADDRESS")
    driver = Driver(api)
    with pytest.raises(ContextLostError):
        driver.synchronize(0, 0)
    api.calls.clear()
    return api, driver


@pytest.mark.parametrize(
    "ask", [*(ask for ask, _, _ in METHODS), lambda d: d.bind_launch(0, "f", SHAPE, 0, PARTS)]
)
def test_every_later_call_says_that_the_context_is_lost_and_since_when(ask: Method) -> None:
    api, driver = lost()
    api.results.clear()  # the driver may let a call through: it is refused all the same
    with pytest.raises(
        ContextLostError,
        match=rf"^the context of device 0 is lost since cuStreamSynchronize gave {ILLEGAL}",
    ) as caught:
        ask(driver)
    error = caught.value
    assert error.again
    assert (error.device, error.code, error.since) == (0, 700, "cuStreamSynchronize")
    assert "nothing of tilec was launched there" in error.cause
    assert api.current == 0


def test_what_is_lost_needs_no_giving_back() -> None:
    api, driver = lost()
    for ask, _, _ in GIVING_BACK:
        ask(driver)
    assert api.calls == []


def test_a_later_launch_names_its_kernel() -> None:
    with pytest.raises(ContextLostError, match=r"^add: the context of device 0 is lost since"):
        lost()[1].launch_failed(0, real.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, 0, lambda: OK, "add")


def test_other_devices_go_on() -> None:
    api = Api(devices=2, cuStreamSynchronize="ILLEGAL_ADDRESS")
    driver = Driver(api)
    with pytest.raises(ContextLostError, match="context of device 1 is lost"):
        driver.synchronize(1, 0)
    api.results.clear()
    driver.synchronize(0, 0)
    with pytest.raises(ContextLostError, match="context of device 1 is lost since"):
        driver.synchronize(1, 0)


def test_a_blocking_launch_is_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    driver = Driver(Api())
    with pytest.raises(ContextLostError, match=r"^add: the launch failed: ") as caught:
        driver.launch_failed(0, real.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, 0, lambda: OK, "add")
    assert (caught.value.kernel, caught.value.launches) == ("add", ("add",))
    assert "so it was add" in caught.value.cause
    with pytest.raises(ContextLostError) as caught:
        driver.synchronize(0, 0)
    assert caught.value.kernel == "add", "later errors say so too"
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "0")
    with pytest.raises(ContextLostError) as caught:
        Driver(Api()).launch_failed(
            0, real.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS, 0, lambda: OK, "add"
        )
    assert caught.value.kernel == "", "it was a launch before this one"


# --- through everything that is built on the driver
# ------------------------------------------------------------------------------------


def test_after_a_loss_everything_says_so_and_nothing_is_said_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    module, driver = loaded(ADD)
    device = Device(0, driver=driver)
    arrays = [Array(64, ptr=0x10000 * number) for number in (1, 2, 3)]
    stream, event, buffer = Stream(device), Event(device), DeviceBuffer((4,), "f32", device)
    tensor = Tensor.uninitialized((4,), "f32", driver=driver, ordinal=0, stream=stream.handle)
    with use_device(device):
        future, shared = as_op(1).future(), as_op(2).shared()
        module.add(*arrays, stream=stream)
        driver.fail["synchronize"] = ILLEGAL
        with pytest.raises(ContextLostError, match=f"^synchronize failed: {ILLEGAL}") as caught:
            stream.sync()
        assert caught.value.launches[0].startswith("add-a16 (grid 1x1x1, block 256x1x1")
        driver.fail.clear()
        for call in (
            lambda: module.add(*arrays, stream=stream),
            lambda: module.add(*arrays, alpha=2.0, stream=stream),
            lambda: Stream(device),
            stream.sync,
            device.sync,
            lambda: DeviceBuffer((4,), "f32", device),
            buffer.to_host,
            lambda: event.record(stream),
            lambda: as_op(1).sync(),
            shared.sync,
            lambda: as_op(1).future().result(),
            lambda: load_module_from_ptx(".version 8.0"),
        ):
            with pytest.raises(
                ContextLostError,
                match=f"context of device 0 is lost since synchronize gave {ILLEGAL}",
            ):
                call()
    with caplog.at_level(logging.DEBUG), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda found: pytest.fail(f"{found.exc_value}"))
        stream.close()
        event.close()
        del tensor, buffer, future, shared
        gc.collect()
        assert COMPLETIONS.drain(5)
    assert [r for r in caplog.records if "given back" in r.message] == []


def test_graphs_of_a_lost_device(caplog: pytest.LogCaptureFixture) -> None:
    gpu = Gpu()
    z, x, y = gpu.tensor(), gpu.tensor(), gpu.tensor()
    device = Device(0, driver=gpu.driver)
    graph = gpu.module.ops.add(z, x, y).graph_on(gpu.stream)
    gpu.driver.fail["synchronize_device"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(ContextLostError):
        device.sync()
    for use in (
        graph.replay,
        graph.launch().sync,
        lambda: as_op(1).graph_on(Stream.borrow_raw(7, driver=gpu.driver)),
    ):
        with (
            pytest.raises(
                ContextLostError,
                match="the context of device 0 is lost since synchronize_device gave",
            ),
            use_device(device),
        ):
            use()
    with caplog.at_level(logging.DEBUG):
        graph.close()
        del graph, z, x, y
        gc.collect()
        assert COMPLETIONS.drain(PATIENCE)
    assert caplog.text == ""


def test_ops_that_were_not_done_are_named_with_their_place() -> None:
    module, driver = loaded(ADD)
    module.add(*(Array(64, ptr=0x10000 * number) for number in (1, 2, 3)), stream=5)
    driver.pending.update(range(0x1000, 0x9000))  # no event is reached
    with use_device(Device(0, driver=driver)):
        futures = [as_op(number).map(lambda x: x).future() for number in range(6)]
    error = driver._losses.failed(0, "cuStreamSynchronize", ILLEGAL, 700)
    assert isinstance(error, ContextLostError)
    assert (
        "; ops that were not done (the first of each stream first): value.map, created at "
        in error.cause
    )
    assert error.cause.count("test_lost_contexts.py:") == 4
    assert error.cause.endswith("; and 2 more")
    assert all(isinstance(future.exception(10), ContextLostError) for future in futures)


def test_a_process_that_lost_its_context_ends_at_once_and_in_silence() -> None:
    code = """
from tests.runtime_samples import ADD, Array, loaded
from tilec_runtime.errors import ContextLostError
from tilec_runtime import Device, Stream, Tensor, as_op, use_device
module, driver = loaded(ADD)
device = Device(0, driver=driver)
stream = Stream(device)
kept = [Tensor.uninitialized((4,), "f32", driver=driver, ordinal=0, stream=stream.handle) for _ in range(3)]
others = Stream(device)
for tensor in kept:
    tensor.storage.pass_through(others.handle, write=False)
with use_device(device):
    pending = [as_op(tensor).future() for tensor in kept]
    driver.fail["synchronize"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    try:
        stream.sync()
    except ContextLostError:
        print("lost")
del kept[0]
"""
    assert run_python(code, "-W", "error") == (0, "lost\n", "")
