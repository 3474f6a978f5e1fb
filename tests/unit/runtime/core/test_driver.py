"""Launches through the driver's own entry points, which a double in C's calling convention stands
for.
"""

from __future__ import annotations

import ctypes
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cuda.bindings import driver as bindings

from tests.unit.runtime.core.samples import Plan, core, table
from tests.waiting import joined

CONTEXT, OTHER = 0x100, 0x200
CAPTURED = 0x300


class RawAttribute(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
        ("value", ctypes.c_uint32 * 16),
    ]


class RawConfig(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(RawAttribute)),
        ("count", ctypes.c_uint32),
    ]


class Libcuda:
    """Entry points of libcuda: contexts are a stack, launches are noted, results are as told."""

    def __init__(self) -> None:
        self.stack, self.calls, self.launches = [CONTEXT], list[str](), list[Any]()
        self.results: dict[str, int] = {}
        kinds = {
            "cuLaunchKernelEx": (
                self.launch,
                ctypes.POINTER(RawConfig),
                ctypes.c_void_p,
                ctypes.POINTER(ctypes.c_void_p),
                ctypes.c_void_p,
            ),
            "cuCtxGetCurrent": (self.get, ctypes.POINTER(ctypes.c_void_p)),
            "cuCtxSetCurrent": (self.set, ctypes.c_void_p),
            "cuCtxPushCurrent": (self.push, ctypes.c_void_p),
            "cuCtxPopCurrent": (self.pop, ctypes.POINTER(ctypes.c_void_p)),
            "cuStreamIsCapturing": (
                self.is_capturing,
                ctypes.c_void_p,
                ctypes.POINTER(ctypes.c_int),
            ),
            "cuGraphLaunch": (self.launch_graph, ctypes.c_void_p, ctypes.c_void_p),
        }
        self.functions = {
            name: ctypes.CFUNCTYPE(ctypes.c_int, *types)(call)
            for name, (call, *types) in kinds.items()
        }

    @property
    def addresses(self) -> dict[str, int]:
        return {
            name: ctypes.cast(function, ctypes.c_void_p).value or 0
            for name, function in self.functions.items()
        }

    def noted(self, name: str) -> int:
        self.calls.append(name)
        return self.results.get(name, 0)

    def launch(self, config: Any, function: int, parameters: Any, extra: int | None) -> int:
        of = config[0]
        attributes = [
            (of.attributes[i].id, list(of.attributes[i].value[:3])) for i in range(of.count)
        ]
        values = struct.unpack("=q", ctypes.string_at(parameters[0], 8))
        self.launches.append(
            (
                self.stack[-1],
                [*of.grid, *of.block, of.shared],
                of.stream,
                function,
                attributes,
                *values,
            )
        )
        assert extra is None
        return self.noted("launch")

    def launch_graph(self, graph: int, stream: int | None) -> int:
        self.launches.append((self.stack[-1], graph, stream))
        return self.noted("launch")

    def is_capturing(self, stream: int | None, place: Any) -> int:
        place[0] = stream == CAPTURED
        return 906 if stream is None else 0

    def get(self, place: Any) -> int:
        place[0] = self.stack[-1]
        return self.results.get("get", 0)

    def set(self, context: int) -> int:
        self.stack[-1] = context
        return self.noted("set")

    def push(self, context: int) -> int:
        if not self.results.get("push"):
            self.stack.append(context)
        return self.noted("push")

    def pop(self, place: Any) -> int:
        place[0] = self.stack.pop()
        return self.noted("pop")


@pytest.fixture
def libcuda() -> Iterator[Libcuda]:
    double = Libcuda()
    core.replace_driver(double.addresses)
    yield double
    core.replace_driver(dict.fromkeys(double.addresses, 0))


def known(*, adopts: bool = True, **changed: Any) -> Any:
    """A table with a plan of one integer."""
    plans = table(CONTEXT, adopts=adopts)
    plans.add(
        (1,),
        Plan(**{"template": bytes(8), "offsets": (0,), "patches": ((2, 0, 0, 8, "q"),)} | changed),
    )
    return plans


@pytest.mark.parametrize(
    ("facts", "attributes"),
    [
        ({}, []),
        ({"cluster": (1, 1, 1)}, []),
        ({"cluster": (2, 1, 1)}, [("CLUSTER_DIMENSION", [2, 1, 1])]),
        ({"cluster": (2, 1, 4)}, [("CLUSTER_DIMENSION", [2, 1, 4])]),
        ({"cooperative": True}, [("COOPERATIVE", [1, 0, 0])]),
        ({"programmatic": True}, [("PROGRAMMATIC_STREAM_SERIALIZATION", [1, 0, 0])]),
        (
            {"cluster": (2, 1, 1), "cooperative": True, "programmatic": True},
            [
                ("CLUSTER_DIMENSION", [2, 1, 1]),
                ("COOPERATIVE", [1, 0, 0]),
                ("PROGRAMMATIC_STREAM_SERIALIZATION", [1, 0, 0]),
            ],
        ),
    ],
    ids=str,
)
def test_what_the_driver_gets(
    libcuda: Libcuda, facts: dict[str, Any], attributes: list[Any]
) -> None:
    plans = known(**facts)
    assert plans.launch(2**64 - 1, (-7,)) is True
    named = [
        (int(getattr(bindings.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")), value)
        for name, value in attributes
    ]
    assert libcuda.launches == [(CONTEXT, [4, 2, 1, 32, 1, 1, 64], 2**64 - 1, 0x77, named, -7)]
    assert libcuda.calls == ["launch"], "the context is current: nothing else is asked for"


@pytest.mark.parametrize(
    ("current", "adopts", "calls", "left"),
    [
        (CONTEXT, True, ["launch"], CONTEXT),
        (0, True, ["set", "launch"], CONTEXT),
        (0, False, ["push", "launch", "pop"], 0),
        (OTHER, True, ["push", "launch", "pop"], OTHER),
        (OTHER, False, ["push", "launch", "pop"], OTHER),
    ],
)
@pytest.mark.parametrize("result", [0, 701])
def test_the_callers_context_stays(
    libcuda: Libcuda, current: int, adopts: bool, calls: list[str], left: int, result: int
) -> None:
    plans = known(adopts=adopts)
    libcuda.stack = [current]
    libcuda.results = {"launch": result}
    assert plans.launch(5, (1,)) == (result or True)
    assert (libcuda.calls, libcuda.stack) == (calls, [left])
    assert libcuda.launches[0][0] == CONTEXT
    libcuda.stack, libcuda.calls = [current], []
    assert core.launch_graph(CONTEXT, adopts, 0x99, 2**64 - 1) == result
    assert (libcuda.calls, libcuda.stack) == (calls, [left])
    assert libcuda.launches[1] == (CONTEXT, 0x99, 2**64 - 1)


@pytest.mark.parametrize(("call", "current"), [("get", CONTEXT), ("set", 0), ("push", OTHER)])
def test_a_context_that_cannot_be_had_is_told(libcuda: Libcuda, call: str, current: int) -> None:
    plans = known()
    libcuda.stack = [current]
    libcuda.results = {call: 201}
    assert plans.launch(5, (1,)) == 201
    libcuda.stack = [current]
    assert core.launch_graph(CONTEXT, True, 0x99, 5) == 201
    assert libcuda.launches == []


@pytest.mark.parametrize("stream", [CAPTURED, 0])
def test_a_graph_is_not_launched_on_a_stream_that_is_captured(
    libcuda: Libcuda, stream: int
) -> None:
    """The default stream answers so while another one is captured that waits for it."""
    assert core.launch_graph(CONTEXT, True, 0x99, stream) == 900
    assert libcuda.launches == []


def test_other_threads_run_while_the_driver_waits(libcuda: Libcuda) -> None:
    """The push of a context is a function of C that sleeps, for as many microseconds as the context
    has.
    """
    sleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value
    core.replace_driver(libcuda.addresses | {"cuCtxPushCurrent": sleep})
    plans = table(400_000, adopts=False)
    plans.add((1,), Plan(template=bytes(8), offsets=(0,)))
    libcuda.stack = [0, 0]
    woke: list[float] = []

    def tick() -> None:
        while len(libcuda.launches) == 0:
            woke.append(time.perf_counter())
            time.sleep(0.01)

    thread = threading.Thread(target=tick)
    thread.start()
    assert plans.launch(5, (1,)) is True
    joined(thread)
    assert len(woke) > 5
