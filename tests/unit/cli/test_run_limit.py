"""What `tilec run` says of a case that hangs."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

from tests.cpu_samples import ADD, device
from tests.waiting import PATIENCE, joined
from tilec.case.chains import chain_cases
from tilec.case.device import ModuleDevice
from tilec.cli.run_cases import hang_error
from tilec.manifest.cases import parse_step
from tilec.manifest.types import Case, Chain, Input
from tilec_runtime.cpu.launch import CpuRun
from tilec_runtime.errors import LaunchError
from tilec_runtime.tensors.buffer import DeviceBuffer

KERNEL = "kernel add, grid (1, 1, 1), block (1, 1, 1)"


@pytest.mark.parametrize(
    ("hangs", "told", "where"),
    [
        (0, True, f"step 1 of 3 of the chain c: {KERNEL}"),
        (1, True, f"step 2 of 3 of the chain c: {KERNEL}"),
        (2, True, f"step 3 of 3 of the chain c: {KERNEL}"),
        (1, False, "one of the 3 steps of the chain c"),
    ],
)
def test_a_chain_that_hangs_names_the_step(
    monkeypatch: pytest.MonkeyPatch, hangs: int, told: bool, where: str
) -> None:
    calls, reached, go = itertools.count(), threading.Event(), threading.Event()

    def stuck(_: CpuRun) -> None:
        if next(calls) == hangs:
            reached.set()
            go.wait(PATIENCE)

    def untold(*_: object) -> bool:
        raise LaunchError("the driver does not say")

    module, driver = device(stuck)
    steps = (parse_step("add(z, x, y)"), parse_step("add(y, z, x)"), parse_step("add(x, y, z)"))
    chain = Chain(
        name="c",
        steps=steps,
        cases=(Case(name="one", inputs=tuple(Input(name=n, shape=("64",)) for n in "xyz")),),
    )
    (case,) = chain_cases(chain, {"add": ADD})
    on = ModuleDevice(module, driver)
    given = {
        n: DeviceBuffer.from_host(np.ones(64, np.float32), "cpu", driver=driver) for n in "xyz"
    }
    thread = threading.Thread(target=on.launch, args=(case, given))
    thread.start()
    assert reached.wait(PATIENCE)
    with monkeypatch.context() as patched:
        if not told:
            patched.setattr(driver, "event_reached", untold)
        error = hang_error(case, on, 2.0)
    go.set()
    joined(thread)
    assert error.what == f"c/one did not end within 2 s: it hangs in {where}"
    assert next(calls) == 3
    assert on.step_under_way() == 0
