"""Assertions and assumptions: what breaks them, who is told, and what the error says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import I32, Builder, module, run_op, tile
from tests.unit.runtime.cpu.tileir.watching import Watcher
from tilec_runtime.cpu.tileir.execute import execute
from tilec_runtime.cpu.tileir.frame import Options
from tilec_runtime.cpu.tileir.ir import (
    Bounded,
    DivBy,
    Pointer,
    SameElements,
    Scalar,
    TensorView,
)
from tilec_runtime.cpu.tileir.memory import Memory
from tilec_runtime.cpu.tileir.program import prepare
from tilec_runtime.cpu.tileir.views import Tensor
from tilec_runtime.errors import FaultError

RUNS = [[4, 5, 6, 7, 12, 13], [4, 5, 6, 8, 12, 13], [5, 6, 7, 8, 12, 13], [4, 5, 6, 7, 13, 14]]
POINTER = Pointer(Scalar.F32)


@pytest.mark.parametrize(
    ("predicate", "values", "element", "broken"),
    [
        # Bounds are inclusive and signed.
        (Bounded(0, 3), [0, 3, 4, -1], Scalar.I32, [2, 3]),
        (Bounded(None, 3), [-9, 9], Scalar.I32, [1]),
        (Bounded(1, None), [0, 2**31 - 1], Scalar.I32, [0]),
        # Divisors divide every element, or the first of each run.
        (DivBy(4), [[0, 4], [8, 6], [-4, -8], [-6, 0]], Scalar.I32, [1, 3]),
        (DivBy(16), [64, 72], POINTER, [1]),
        (DivBy(4, every=4, along=0), RUNS, Scalar.I32, [1, 2, 3]),
        (DivBy(32, every=2, along=0), [[[32, 64], [36, 68]], [[32, 64], [36, 65]]], POINTER, [1]),
        # Groups hold the same elements.
        (SameElements((2, 1)), [[[1, 2], [1, 2]], [[1, 2], [1, 3]]], Scalar.I32, [1]),
        (SameElements((3,)), [[7, 7, 7, 8, 8], [7, 7, 7, 8, 9]], Scalar.I32, [1]),
    ],
)
def test_assumptions_hold_or_do_not(
    predicate: Any, values: Any, element: Scalar | Pointer, broken: list[int]
) -> None:
    held = np.asarray(values, np.int32 if isinstance(element, Scalar) else np.int64)
    kind, watcher = tile(element, *held.shape[1:]), Watcher()
    attributes = {"predicate": predicate}
    (result,) = run_op("assume", {"value": (kind, held)}, kind, attributes, observer=watcher)
    assert result is held
    assert watcher.broken == [broken]


def test_reports_a_shared_broken_promise_for_every_block() -> None:
    listener = Watcher(go_on=True)
    run_op(
        "assume",
        {"value": (I32, np.array([3], np.int32))},
        I32,
        {"predicate": DivBy(2)},
        observer=listener,
        blocks=3,
    )
    assert listener.broken == [[0, 1, 2]]


def asserting(b: Builder) -> None:
    kind = tile(Scalar.I1, 2)
    b.op("assert", {"condition": b.constant(True, Scalar.I1)}, (), {"message": "never seen"})
    mask = b.op("constant", {}, kind, {"value": b"\x01"}, line=9)
    whole = b.spread(b.constant(False, Scalar.I1), 2)
    b.op(
        "assert",
        {"condition": b.op("ori", {"lhs": mask, "rhs": whole}, kind)},
        (),
        {"message": "sizes differ"},
        line=12,
    )
    b.ret()


def test_an_observer_decides_whether_a_failed_assertion_ends_it() -> None:
    made = prepare(module((), asserting))
    listener = Watcher(go_on=True)
    execute(made, [], (3, 1, 1), Memory(), Options(observer=listener))
    assert listener.broken == [[0, 1, 2]]
    with pytest.raises(FaultError, match="sizes differ"):
        execute(made, [], (3, 1, 1), Memory(), Options(observer=Watcher()))


def test_the_base_of_a_tensor_may_be_promised_to_be_aligned() -> None:
    kind, listener = TensorView(Scalar.F32, (None,), (1,)), Watcher(go_on=True)
    tensor = Tensor(np.array([64, 68, 128]), np.array([[8]]), np.array([[1]]))
    (result,) = run_op(
        "assume",
        {"value": (kind, tensor)},
        kind,
        {"predicate": DivBy(16)},
        observer=listener,
        blocks=3,
    )
    assert result is tensor
    assert listener.broken == [[1]]
