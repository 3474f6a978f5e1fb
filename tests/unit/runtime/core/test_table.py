"""Tables of plans in C: hits, misses, what is left to Python, eviction, threads, and references."""

from __future__ import annotations

import gc
import os
import resource
import struct
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime_samples import ADD, bundle_of, fake_driver
from tests.unit.runtime.core.exchange import LIBRARY, TORCH, Torch
from tests.unit.runtime.core.samples import Plan, Recorder, core, table
from tests.waiting import joined
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Module, Tensor, load
from tilec_runtime.launch import program as op

# TILEC_CORE_LAUNCHES: how many launches may leave nothing behind; the gate makes fewer.
LAUNCHES = int(os.environ.get("TILEC_CORE_LAUNCHES", "20000"))


def add_module() -> tuple[Module, FakeDriver, Any]:
    """A loaded kernel after its first launch, with its table."""
    driver = fake_driver(ADD)
    module = load(bundle_of(ADD), driver=driver)
    module.add(*vectors(1024), stream=5)
    return module, driver, module.kernels["add"]._table


def vectors(extent: int, kind: type = Torch) -> list[Any]:
    return [kind((extent,), ptr=place << 40) for place in (1, 2, 3)]


def test_launches_of_other_extents_hit() -> None:
    module, driver, plans = add_module()
    assert len(plans) == 1
    for extent in (16, 32, 4096, 1024 * 1024):
        assert plans.launch(7, (*vectors(extent), 2.5)) is True
        launch = driver.launches[-1]
        assert (launch.stream, launch.shape.grid) == (7, (-(-extent // 256), 1, 1))
        assert launch.arguments == (1 << 40, 2 << 40, 3 << 40, extent, 2.5)
    module.add(*vectors(17), stream=5)  # another variant
    assert (len(plans), driver.launches[-1].symbol) == (2, "add_any")
    assert plans.launch(5, (*vectors(18), 2)) is False, "a number of another type"


def test_what_is_a_miss_and_what_is_pythons() -> None:
    _, driver, plans = add_module()
    z, x, y = vectors(1024)
    own = Tensor.uninitialized((1024,), "f32", driver=driver, ordinal=0, stream=5)
    launched = len(driver.launches)
    assert plans.launch(5, (z, x, Torch((1024,), ptr=9 << 40, dtype="torch.float64"), 1.0)) is False
    assert plans.launch(5, (z, x, Torch((512,), ptr=9 << 40), 1.0)) is False
    assert plans.launch(5, (z, x, None, 1.0)) is False
    assert plans.launch(5, (z, z, y, 1.0)) is False, "they overlap"
    assert plans.launch(6, (z, x, own, 1.0)) is None, "it was last used on another stream"
    assert plans.launch(5, (z, x, Torch((1024,), negative=True), 1.0)) is None
    assert plans.launch(5, (z, x, y)) is None
    assert plans.launch(5, (z, x, y, 1e39)) is None, "it does not fit: Python says so"
    assert len(driver.launches) == launched


def test_streams_that_are_captured_are_pythons() -> None:
    recordings: dict[Any, Any] = {}
    recorder = Recorder()
    plans = table(recorder, recordings=recordings)
    assert plans.add((1,), Plan())
    recordings[1] = 1
    assert plans.launch(5, (1,)) is None
    recordings.clear()
    assert plans.launch(5, (1,)) is True
    assert recorder.launches == [((4, 2, 1), (32, 1, 1), 64, 5, b"")]


@pytest.mark.parametrize("call", [(), (5,), (5, [1]), (5, (1,), print, 3)])
def test_wrong_uses_are_errors(call: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        table(Recorder()).launch(*call)


@pytest.mark.parametrize(
    "changed",
    [
        {"parameters": 0},
        {"others": (5,)},
        {"others": (-1,)},
        {"others": ("x",)},
        {"tensors": tuple(range(70)), "parameters": 200},
        {"others": tuple(range(200)), "parameters": 300},
        {"recordings": []},
        {"target": "x"},
    ],
    ids=str,
)
def test_wrong_tables_are_errors(changed: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        table(**{"target": Recorder()} | changed)


# (kind, source, offset, size, format): each reads or writes what there is not.
PATCHES: list[tuple[Any, ...]] = [
    *(
        (0, 0, 0, 8, "Q"),
        (1, 99, 0, 8, "q"),
        (2, 1, 0, 8, "q"),
        (3, 0, 0, 8, "q"),
        (2, 0, 9, 8, "q"),
        (2, 0, 2**32 - 1, 8, "q"),
    ),
    *((1, 0, 0, 4, "q"), (2, 0, 0, 8, ""), ()),
]
ARGUMENT = {"template": bytes(16), "offsets": (0, 8)}


@pytest.mark.parametrize(
    "changed",
    [
        {"program": b"x"},
        {"program": b""},
        {"template": bytes(5000)},
        {"template": None},
        {"offsets": (1,)},
        {"offsets": [0]},
        {"offsets": (-1,)},
        {"offsets": (0,) * 600},
        {"patches": 7},
        {"patches": (7,)},
        *({"patches": (patch,)} | ARGUMENT for patch in PATCHES),
    ],
    ids=str,
)
def test_malformed_plans_are_refused(changed: dict[str, Any]) -> None:
    plans = table(Recorder())
    with pytest.raises((ValueError, TypeError, OverflowError)):
        plans.add((1,), Plan(**changed))
    with pytest.raises(AttributeError):
        plans.add((1,), object())
    assert len(plans) == 0
    assert plans.launch(5, (1,)) is False


INTEGERS = (
    0,
    1,
    -1,
    127,
    128,
    -128,
    -129,
    255,
    256,
    2**15,
    2**16,
    2**31,
    2**32,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64,
    True,
)
FLOATS = (
    0.0,
    -0.0,
    1.5,
    3,
    True,
    2**53 + 1,
    2**62 - 1,
    2**1100,
    1e39,
    -1e39,
    3.4028235677973366e38,
    float("inf"),
    float("nan"),
)


@pytest.mark.parametrize(
    ("format_", "value", "expected"),
    [
        *((code, value, None) for code in "bBhHiIqQ" for value in INTEGERS),
        *((code, value, None) for code in "fd" for value in FLOATS),
        *(("?", value, None) for value in (0, 1, 7, True, False)),
        *(
            (code, value, None)
            for code in "iQfd"
            for value in (np.float32(2), np.int64(3), "text", 1.5)
        ),
        ("e", 1.5, None),
        ("e", 65520.0, None),
        ("bf16", 1.0, b"\x80\x3f"),
        ("bf16", 1e39, b""),
        ("f8e4m3", 1, b"\x38"),
        ("4s", b"1234", b"1234"),
        ("4s", b"12345", b""),
        ("4s", np.zeros(1, "int32"), bytes(4)),
    ],
)
def test_numbers_are_packed_as_the_struct_module_packs_them(
    format_: str, value: Any, expected: bytes | None
) -> None:
    size = {"bf16": 2, "f8e4m3": 1}.get(format_) or struct.calcsize(f"={format_}")
    if expected is None:
        try:
            expected = struct.pack(f"={format_}", value)
        except (struct.error, OverflowError, TypeError):
            expected = b""
    recorder = Recorder()
    plans = table(recorder)
    plans.add(
        (value,),
        Plan(template=b"\xaa" * (size + 2), offsets=(1,), patches=((2, 0, 1, size, format_),)),
    )
    if expected:
        assert plans.launch(5, (value,)) is True
        assert recorder.launches[0][-1] == b"\xaa" + expected + b"\xaa"
    else:
        assert plans.launch(5, (value,)) is None


def test_outputs_and_addresses_are_patched() -> None:
    recorder = Recorder()
    plans = table(recorder, tensors=(0, 1), others=())
    steps = [(op.SLOT, 4), (op.NEG, 0), (op.OUT, 7)]
    patches = ((0, 1, 0, 8, "Q"), (1, 7, 8, 2, "h"), (1, 7, 12, 4, "f"))
    values = (LIBRARY((3, 5), None), TORCH(address=0x1230))
    assert plans.add(values, Plan(steps, template=bytes(16), offsets=(0, 8, 12), patches=patches))
    assert plans.launch(5, values) is True
    assert recorder.launches[0][-1] == struct.pack("=Qhxxf", 0x1230, -5, -5.0)
    assert plans.launch(5, (LIBRARY((3, 40000), None), values[1])) is None, "it does not fit"
    assert plans.launch(5, (None, values[1])) is False


def test_an_empty_grid_launches_nothing() -> None:
    recorder = Recorder()
    plans = table(recorder)
    plans.add((1,), Plan(function=None))
    assert plans.launch(5, (1,)) is True
    assert recorder.launches == []


# Keys


def test_numbers_that_decide_are_told_apart() -> None:
    plans = table(Recorder(), keyed=(0,))
    assert plans.add((0.0,), Plan())
    answers = {
        repr(value): plans.launch(5, (value,))
        for value in (0.0, -0.0, 1.0, 0, False, np.float64(0.0), 2**64)
    }
    assert answers == {
        "0.0": True,
        "-0.0": False,
        "1.0": False,
        "0": False,
        "False": False,
        "np.float64(0.0)": None,
        str(2**64): None,
    }


def test_a_key_keeps_its_types_and_eviction_lets_them_go() -> None:
    plans = table(Recorder())
    first = type("First", (), {})
    gone = weakref.ref(first)
    assert plans.add((first(),), Plan())
    del first
    gc.collect()
    assert gone() is not None, "another type could take its address"
    last = None
    for _ in range(1024):
        last = type("Each", (), {})()
        assert plans.add((last,), Plan())
    gc.collect()
    assert gone() is None
    assert (len(plans), plans.launch(5, (last,))) == (1024, True)
    plans.clear()
    assert (len(plans), plans.launch(5, (last,))) == (0, False)


def test_the_plan_of_a_key_that_was_used_last_stays() -> None:
    plans = table(Recorder())
    for number in range(40):
        plans.add((number,), Plan([(op.SLOT, 0), (op.CONST, number), (op.EQ, 0), (op.CHECK, 0)]))
        assert plans.launch(5, (0,)) is True
    assert len(plans) == 16
    assert [n for n in range(40) if plans.launch(5, (n,))] == [0, *range(25, 40)]


def test_a_plan_that_is_added_twice_is_kept_once() -> None:
    plans, plan = table(Recorder()), Plan()
    assert [plans.add((1,), plan) for _ in range(3)] == [True] * 3
    assert len(plans) == 1


# While the driver is called


def test_a_plan_that_is_evicted_while_it_launches_lives_until_the_launch_is_done() -> None:
    plan = Plan(template=bytes(8), offsets=(0,), patches=((2, 0, 0, 8, "q"),))
    alive = weakref.ref(plan)
    seen = []

    def evict() -> None:
        plans.clear()
        gc.collect()
        seen.append((len(plans), alive() is not None))

    plans = table(Recorder(then=evict))
    plans.add((1,), plan)
    del plan
    assert plans.launch(5, (1,)) is True
    assert seen == [(0, True)]
    gc.collect()
    assert alive() is None


def test_launches_within_launches() -> None:
    def again() -> None:
        if len(recorder.launches) < 20:
            assert plans.launch(len(recorder.launches), (1,)) is True

    recorder = Recorder(then=again)
    plans = table(recorder)
    plans.add((1,), Plan())
    assert plans.launch(0, (1,)) is True
    assert [launch[3] for launch in recorder.launches] == list(range(20))


def test_what_a_double_raises_is_raised() -> None:
    def fail() -> None:
        raise RuntimeError("of the double")

    plans = table(Recorder(then=fail))
    plans.add((1,), Plan())
    with pytest.raises(RuntimeError, match="of the double"):
        plans.launch(5, (1,))
    assert table(Recorder("CUDA_ERROR")).launch(5, (1,)) is False


def test_threads_that_miss_at_once_share_a_plan() -> None:
    driver = fake_driver(ADD)
    launcher = load(bundle_of(ADD), driver=driver).kernels["add"]
    barrier = threading.Barrier(4)

    def work(stream: int) -> None:
        barrier.wait()
        for turn in range(200):
            launcher(*vectors(16 + turn % 50), 1.0, stream=stream)

    threads = [threading.Thread(target=work, args=(stream,)) for stream in range(1, 5)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert len(driver.launches) == 800
    assert 2 <= len(launcher._table) <= 8, (
        "two variants, each prepared once or, at the same time, by several threads"
    )


# What stays


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_launches_leave_nothing_behind() -> None:
    plans = table(lambda *_: 0, tensors=(0, 1), others=(2,))
    hit, miss = (TORCH(), LIBRARY(), 1.5), (TORCH((3,), (1,)), np.zeros(3, "float32"), 1.5)
    patches = ((0, 0, 0, 8, "Q"), (2, 2, 8, 2, "bf16"))
    plans.add(hit, Plan(template=bytes(16), offsets=(0, 8), patches=patches))

    def launches(count: int) -> None:
        for _ in range(count):
            assert plans.launch(5, hit) is True
            assert plans.launch(5, miss) is False

    launches(2000)
    gc.collect()
    before = resident()
    launches(LAUNCHES // 2)
    gc.collect()
    assert resident() - before <= 64 * 1024


def test_a_table_that_is_dropped_drops_its_plans() -> None:
    plan = Plan()
    alive = weakref.ref(plan)
    plans = table(Recorder())
    plan.table = plans  # a cycle, as of a launcher that a plan knows
    plans.add((1,), plan)
    del plan, plans
    gc.collect()
    assert alive() is None


def test_the_core_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilec_runtime.device import core as loader
    from tilec_runtime.launch import native

    monkeypatch.setenv("TILEC_NATIVE", "0")
    assert loader._loaded() is None
    monkeypatch.delenv("TILEC_NATIVE")
    assert loader._loaded() is core
    monkeypatch.setattr(native, "CORE", None)
    module, driver, plans = add_module()
    assert plans is None
    module.add(*vectors(2048), stream=5)
    assert len(driver.launches) == 2
