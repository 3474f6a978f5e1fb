"""Call sites in messages: recorded in debug mode, named there, and asked for elsewhere."""

from __future__ import annotations

import sys

import pytest

from tests.processes import run_python

CODE = """
import numpy as np
from tests.cpu_samples import ADD, PythonKernels, add
from tests.unit.runtime.ops.device_samples import Held
from tilec_runtime import Stream, Tensor, as_op, use_device

held = Held()
with use_device(held.device):
    z, x, y, other = (Tensor.uninitialized((8,), "f32", driver=held.driver, ordinal=-1, stream=0) for _ in range(4))
    op = held.module.ops.add(z, x, y)  # line 9
    for what in (lambda: x.borrow(), lambda: op.sync() and op.sync(), lambda: as_op(1).then(lambda _: 1 // 0).sync(),
                 lambda: as_op(1).then(as_op).then(lambda _: held.module.ops.add(other, other.borrow(), y)).sync()):
        try:
            what()
        except Exception as error:
            print(error, *getattr(error, "__notes__", ()), sep="\\n")
"""


def told(**env: str) -> str:
    _, printed, said = run_python(CODE, **{"TILEC_DEBUG": "", **env})
    assert said == ""
    return printed


def test_without_debug_mode_messages_say_how_to_get_the_lines() -> None:
    text = told()
    assert "the borrow cannot use the tensor: it was moved into the launch of add\n" in text
    assert "<DeviceOp launch of add> was used before: executed\n" in text
    assert text.count("; TILEC_DEBUG=1 shows the lines") == 3
    assert "in the DeviceOp then, step 1" in text or sys.version_info < (3, 11)
    assert "<string>" not in text


@pytest.mark.parametrize(
    "env",
    [
        {"TILEC_DEBUG": "1"},
        {"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "ignore"},
    ],
)
def test_debug_mode_names_the_lines(env: dict[str, str]) -> None:
    text = told(**env)
    assert "it was moved into the launch of add (<string>:10)" in text
    assert (
        "<DeviceOp launch of add, created at <string>:10> was used before: executed at <string>:11"
        in text
    )
    assert "TILEC_DEBUG" not in text
