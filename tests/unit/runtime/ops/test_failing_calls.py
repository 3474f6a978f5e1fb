"""Each call of the driver fails in turn, with an error or Ctrl-C: afterwards no lock is held,
streams work, and no memory is missing.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.runtime_samples import ADD, loaded
from tests.waiting import PATIENCE, at_once
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import (
    Device,
    ExecutionContext,
    Module,
    Stream,
    Tensor,
    use_device,
    with_context,
    zip_ops,
)
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.frees import FREES
from tilec_runtime.errors import DeviceError, DriverError

REFUSED = "CUDA_ERROR_OPERATING_SYSTEM"
# Calls that the program below makes, and whether memory is missing after a failure of it: nothing
# else gives it back.
CALLS = {
    "load_module": False,
    "function": False,
    "allocate": False,
    "free": True,
    "copy_async": False,
    "create_stream": False,
    "destroy_stream": False,
    "create_event": False,
    "record_event": False,
    "wait_event": False,
    "synchronize_event": False,
    "synchronize": False,
    "bind_launch": False,
}


class On:
    """The policy of one stream that is there."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def next_stream(self) -> Stream:
        return self.stream


def program(module: Module, device: Device) -> float:
    """Owned tensors through two streams, a shared op, memory of an op's own, a future, and streams
    that close.
    """
    with use_device(device), Stream(device) as one, Stream(device) as two:
        z, x, y = (
            Tensor.uninitialized((64,), "f32", driver=device.driver, ordinal=0, stream=one.handle)
            for _ in range(3)
        )
        z, x, y, _ = module.ops.add(z, x, y).sync_on(one)
        z, x, y, _ = module.ops.add(z, x, y).schedule(On(two)).result()
        shared = module.ops.add(z, x, y).shared()
        zip_ops(shared, shared).sync_on(two)
        module.add(
            *(
                Tensor.uninitialized(
                    (64,), "f32", driver=device.driver, ordinal=0, stream=two.handle
                )
                for _ in range(3)
            ),
            stream=one,
        )

        def memory(ctx: ExecutionContext) -> float:
            address = ctx.malloc_async(64)
            ctx.memcpy_htod_async(address, np.ones(16, np.float32))
            back = np.zeros(16, np.float32)
            ctx.memcpy_dtoh_async(back, address)
            ctx.free_async(address)
            return float(back[0])

        found = with_context(memory).future().result()
        one.sync()
        return found


def settle(driver: FakeDriver) -> int:
    """Bytes that are allocated once all is done."""
    assert COMPLETIONS.drain(PATIENCE)
    gc.collect()
    assert COMPLETIONS.drain(PATIENCE)
    FREES.drain()  # of what the collector found: an error of Python 3.13 is in a cycle
    return len(driver._memory)


def refused() -> BaseException:
    return DriverError(f"it failed: {REFUSED}", result=REFUSED)


# Destructors make the others, and lose Ctrl-C.
INTERRUPTED = [call for call in CALLS if call not in ("free", "destroy_stream", "bind_launch")]


@pytest.mark.parametrize(
    ("call", "error"),
    [(call, refused) for call in CALLS] + [(call, KeyboardInterrupt) for call in INTERRUPTED],
)
@pytest.mark.parametrize("after", [0, 1])
def test_a_call_that_fails_leaves_nothing_behind(
    call: str, after: int, error: Callable[[], BaseException]
) -> None:
    module, driver = loaded(ADD)
    device = Device(0, driver=driver)
    failed = fail_after(driver, call, after, error)
    with contextlib.suppress(DeviceError, KeyboardInterrupt):  # some calls come fewer times
        program(module, device)
    failed.clear()
    check(module, device, driver, missing=CALLS[call])


def test_the_program_makes_every_call() -> None:
    module, driver = loaded(ADD)
    program(module, Device(0, driver=driver))
    made = {*driver.calls, *(step.call for step in driver.steps)}
    assert set(CALLS) - {"bind_launch"} <= made


def fail_after(
    driver: FakeDriver, call: str, after: int, error: Callable[[], BaseException]
) -> list[bool]:
    """Let one call of a name fail, after so many that do not; clearing what is given ends it."""
    left, failing, inner = [after], [True], getattr(driver, call)

    def outer(*arguments: Any, **named: Any) -> Any:
        if failing and threading.current_thread() is threading.main_thread():
            left[0] -= 1
            if left[0] < 0:
                failing.clear()
                raise error()
        return inner(*arguments, **named)

    setattr(driver, call, outer)
    return failing


def check(module: Module, device: Device, driver: FakeDriver, *, missing: bool) -> None:
    """The program runs again: in this thread, whose guard is free, and in another one, for which
    locks are.
    """
    kept = settle(driver)
    assert kept == 0 or missing, f"{kept} allocations are never given back"
    results: list[float] = []
    at_once(lambda: results.append(program(module, device)))
    assert [*results, program(module, device)] == [1.0, 1.0]
    assert settle(driver) == kept
