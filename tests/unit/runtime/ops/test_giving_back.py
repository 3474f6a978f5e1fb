"""What moves into an op is the caller's again once that has failed or was dropped. Random programs
(tests/programs) try the rest.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime_samples import slot
from tests.unit.runtime.ops.device_samples import Held
from tests.waiting import at_once
from tilec.testing.fake_driver import FakeDriver, FakeKernel
from tilec_runtime import (
    AsyncKernelLaunch,
    Device,
    DeviceOp,
    as_op,
    load_module_from_ptx,
    use_device,
)
from tilec_runtime.device import lines
from tilec_runtime.errors import (
    LaunchError,
    UseAfterMoveError,
)
from tilec_runtime.tensors import lease
from tilec_runtime.tensors.tensor import Tensor


def owned(*tensors: Tensor) -> bool:
    """Whether all of them own their memory, and nobody else claims it."""
    for one in tensors:
        one.borrow_mut().release()
    return True


def test_launches_without_a_bundle() -> None:
    driver = FakeDriver(kernels={"scale": FakeKernel(abi=(slot("ptr", "x.ptr"), slot("i32", "n")))})
    device = Device(0, driver=driver)
    module = load_module_from_ptx(".version 8.0\n.target sm_80\n", device)
    function = module.function("scale", ("ptr", "i32"))
    with use_device(device):
        x = Tensor.uninitialized((8,), "f32", driver=driver, ordinal=0, stream=0)
        launch = AsyncKernelLaunch(function).push_arg(x)
        with pytest.raises(UseAfterMoveError):
            x.share()
        with pytest.raises(LaunchError, match="no launch configuration"):
            launch.sync()
        assert owned(x)  # with the op still there
        AsyncKernelLaunch(function).push_arg(x)  # dropped
        assert owned(x)


def test_the_collector_waits_for_no_lock(held: Held) -> None:
    """An op may be dropped by the collector, on a thread that holds what another one waits for."""
    z, x, y = held.tensor(), held.tensor(), held.tensor()
    ops: list[Any] = [
        held.module.ops.add(z, x, y),
        held.module.ops.add(held.tensor().partition(256), held.tensor(), held.tensor()),
    ]
    with lease.LOCK, lines._LOCK:
        at_once(ops.clear)
    assert owned(z, x, y)


def test_steps_that_use_a_tensor_up_do_so_when_the_chain_fails_too(held: Held) -> None:
    z, x, y = held.tensor(), held.tensor(), held.tensor()

    def fails(_: object) -> DeviceOp[int]:
        raise KeyError

    with pytest.raises(KeyError):
        held.module.ops.add(z, x, y).first().reshape(2, 2).then(fails).sync()
    with pytest.raises(UseAfterMoveError, match="it was moved into reshape"):
        z.to_host()
    as_op(x.borrow()).sync()
