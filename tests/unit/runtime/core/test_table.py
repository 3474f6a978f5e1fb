"""Tables of plans in C: hits, misses, what is left to Python, eviction, threads, and references."""

from __future__ import annotations

import gc
import os
import resource
import struct
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime_samples import ADD, bundle_of, fake_driver
from tests.unit.runtime.core.exchange import LIBRARY, TORCH, Torch
from tests.unit.runtime.core.samples import Plan, Recorder, core, table
from tilec_runtime import load
from tilec_runtime.device import core as loader
from tilec_runtime.launch import native

# TILEC_CORE_LAUNCHES: how many launches may leave nothing behind; the gate makes fewer.
LAUNCHES = int(os.environ.get("TILEC_CORE_LAUNCHES", "20000"))


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
    plans.add((first(),), Plan())
    del first
    gc.collect()
    assert gone() is not None, "another type could take its address"
    for _ in range(1024):
        last = type("Each", (), {})()
        plans.add((last,), Plan())
    gc.collect()
    assert gone() is None
    assert plans.launch(5, (last,)) is True


# While the driver is called


def test_a_plan_that_is_evicted_while_it_launches_lives_until_the_launch_is_done() -> None:
    plan = Plan(template=bytes(8), offsets=(0,), patches=((2, 0, 0, 8, "q"),))
    alive = weakref.ref(plan)
    seen = []

    def evict() -> None:
        for _ in range(1024):
            plans.add((type("Each", (), {})(),), Plan())
        gc.collect()
        seen.append((plans.launch(5, (1,)), alive() is not None))

    plans = table(Recorder(then=evict))
    plans.add((1,), plan)
    del plan
    assert plans.launch(5, (1,)) is True
    assert seen == [(False, True)]
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


# What stays


def test_launches_leave_nothing_behind() -> None:
    plans = table(lambda *_: 0, tensors=(0, 1), others=(2,))
    hit, miss = (TORCH(), LIBRARY(), 1.5), (TORCH((3,), (1,)), np.zeros(3, "float32"), 1.5)
    patches = ((0, 0, 0, 8, "Q"), (2, 2, 8, 2, "bf16"))
    plans.add(hit, Plan(template=bytes(16), offsets=(0, 8), patches=patches))

    def launches(count: int) -> None:
        for _ in range(count):
            assert plans.launch(5, hit) is True
            assert plans.launch(5, miss) is False

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    launches(2000)
    before = resident()
    launches(LAUNCHES // 2)
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
    monkeypatch.setenv("TILEC_NATIVE", "0")
    assert loader._loaded() is None
    monkeypatch.delenv("TILEC_NATIVE")
    assert loader._loaded() is core
    monkeypatch.setattr(native, "CORE", None)
    driver = fake_driver(ADD)
    module = load(bundle_of(ADD), driver=driver)
    for extent in (1024, 2048):
        arrays = [Torch((extent,), ptr=place << 40) for place in (1, 2, 3)]
        module.add(*arrays, stream=5)
    assert (module.kernels["add"]._table, len(driver.launches)) == (None, 2)
