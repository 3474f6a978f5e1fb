"""Launchers in C: which calls run there, on which stream; and Python's path makes the same launches
and errors.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from tests.runtime_samples import ADD, GEMM, Array, bundle_of, fake_driver
from tests.unit.runtime.core import exchange
from tests.unit.runtime.core.samples import Counting, Plain
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime import Module, Stream, load
from tilec_runtime.errors import ArgumentError, DriverError


class TorchStream:
    """As torch's: an attribute has the handle."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    @property
    def cuda_stream(self) -> Any:
        return self.handle


TorchStream.__module__ = "torch.cuda.streams"
AnyStream = type("Stream", (), {"__module__": "torch"})  # torch.Stream, which need not be of a GPU


class Protocol:
    def __init__(self, version: int, handle: int) -> None:
        self.given = version, handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return self.given


@exchange.CurrentStream
def _current(_kind: int, ordinal: int, found: Any) -> int:
    found[0] = 0x700 + ordinal
    return 0


@exchange.CurrentStream
def _failing(_kind: int, _ordinal: int, _found: Any) -> int:
    return -1


def tensors(stream: Any) -> Any:
    """A type of torch's tensors whose library tells its current stream so."""
    table = exchange.api(tensor=exchange._DESCRIBE, stream=stream)
    return type(
        "Torch",
        (exchange.Torch,),
        {"__dlpack_c_exchange_api__": exchange.capsule(table), "__module__": "torch"},
    )


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[Module, Counting], tuple[Module, Plain]]:
    """A module whose launches are the core's, and one whose launches are Python's; torch's current
    stream is 0x700.
    """
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(current_stream=lambda _device: TorchStream(0x700))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    kernels = fake_driver(ADD, GEMM).kernels
    fast, plain = Counting((H200, H200), kernels), Plain((H200, H200), kernels)
    bundle = bundle_of(ADD, GEMM)
    return (load(bundle, driver=fast), fast), (load(bundle, driver=plain), plain)


def vectors(kind: Any = exchange.Torch, extent: int = 1024) -> list[Any]:
    return [kind((extent,), ptr=place << 40) for place in (1, 2, 3)]


def made(module: Module, driver: FakeDriver, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What a call comes to: its launches, or its error."""
    before = len(driver.launches)
    try:
        module.kernels["add"](*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - errors are compared
        return type(error), str(error)
    return [(launch.symbol, launch.stream, launch.arguments) for launch in driver.launches[before:]]


CLOSED = Stream("cpu")
CLOSED.close()
# Streams, and the handle that a launch gets; None for an error.
STREAMS: list[tuple[Any, int | None]] = [
    *(
        (5, 5),
        (0, 0),
        (2**64 - 1, 2**64 - 1),
        (2**64, None),
        (-1, None),
        (True, None),
        ("x", None),
        (1.5, None),
    ),
    *(
        (TorchStream(7), 7),
        (TorchStream(-7), None),
        (TorchStream("x"), None),
        (AnyStream(), None),
        (CLOSED, None),
    ),
    *(
        (Stream.borrow_raw(9, driver=fake_driver(ADD)), 9),
        (Protocol(0, 11), 11),
        (Protocol(1, 11), None),
    ),
    (types.SimpleNamespace(ptr=13), 13),
]


@pytest.mark.parametrize(("stream", "handle"), STREAMS, ids=lambda each: type(each).__name__)
def test_every_stream_gives_its_handle(both: Any, stream: Any, handle: int | None) -> None:
    (module, driver), _ = both
    module.add(*vectors(), 1.5, stream=5)
    for args in (vectors(), vectors(extent=2048)):
        core_made, plain_made = (made(*each, [*args, 1.5], {"stream": stream}) for each in both)
        assert core_made == plain_made
        if handle is not None:
            assert core_made[0][1] == handle
        else:
            assert core_made[0] is ArgumentError
    assert driver.hits == (3 if handle is not None else 1)


@pytest.mark.parametrize(
    ("kind", "handle"),
    [
        (exchange.Torch, 0x700),
        (tensors(_current), 0x700),
        (tensors(_failing), 0x700),
        (tensors(None), 0x700),
        (lambda shape, ptr: Array(*shape, ptr=ptr), 0),
    ],
    ids=["no function", "a function", "one that fails", "none", "no library"],
)
def test_a_call_without_a_stream_takes_the_current_one(both: Any, kind: Any, handle: int) -> None:
    for turn in range(3):
        core_made, plain_made = (
            made(*each, [*vectors(kind), 1.5], {"stream": None} if turn else {}) for each in both
        )
        assert core_made == plain_made
        assert core_made[0][1] == handle
    assert both[0][1].hits == 3


def test_keywords_defaults_and_axes_are_bound_by_python(both: Any) -> None:
    z, x, y = vectors()
    calls: list[tuple[list[Any], dict[str, Any]]] = [
        *(
            ([z, x, y], {}),
            ([z, x, y], {"alpha": 2.0}),
            ([], {"z": z, "x": x, "y": y}),
            ([z, x, y, 1.0], {"stream": 3, "alpha": 1.0}),
        ),
        *(
            ([z, x], {}),
            ([z, x, y, 1.0, 2], {}),
            ([z, x, y], {"beta": 1}),
            ([z, x, y, "text"], {"stream": 3}),
            ([], {}),
        ),
    ]
    for args, kwargs in calls * 2:
        found, expected = (made(*each, args, kwargs) for each in both)
        assert found == expected, (args, kwargs)
    assert both[0][1].hits == len(both[0][1].launches), "the core launches what is bound"


def test_a_launch_that_the_driver_refuses_is_told_once(both: Any) -> None:
    (module, driver), _ = both
    module.add(*vectors(), 1.5, stream=5)
    for call in (
        lambda: module.add(*vectors(), 1.5, stream=TorchStream(5)),
        lambda: module.add.launch(None, (*vectors(), 1.5)),
    ):
        driver.fail["launch"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
        with pytest.raises(DriverError, match="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"):
            call()
        driver.fail.clear()
        call()


def test_a_table_may_leave_while_it_launches(both: Any) -> None:
    (module, driver), _ = both
    module.add(*vectors(), 1.5, stream=5)

    class Drops:
        def __cuda_stream__(self) -> tuple[int, int]:
            module.add._table = None
            return 0, 6

    module.add(*vectors(), 1.5, stream=Drops())
    assert driver.launches[-1].stream == 6
    assert module.add._table is None


@pytest.mark.parametrize(
    "facts",
    [
        {"ptr": 0x700000},
        {"shape": (2048,)},
        {"shape": (16, 64)},
        {"step": (2,)},
        {"negative": True},
        {"dtype": "torch.float64"},
        {"index": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("place", [0, 1])
def test_an_object_that_changes_between_calls_is_read_again(
    both: Any, facts: dict[str, Any], place: int
) -> None:
    """As torch's do by `resize_`, `set_`, and `data`."""
    values = vectors()
    before = [made(*each, [*values, 1.5], {"stream": 5}) for each in both]
    assert before[0] == before[1]
    kept = {name: getattr(values[place], name) for name in facts}
    for now in (facts, kept):
        for name, fact in now.items():
            setattr(values[place], name, fact)
        found = [made(*each, [*values, 1.5], {"stream": 5}) for each in both]
        assert found[0] == found[1]
        assert (found == before) == (now is kept)


def test_another_stream_may_be_met_while_one_tells_its_handle(both: Any) -> None:
    """The core remembers the attribute of the last type of streams alone."""
    (module, driver), _ = both
    module.add(*vectors(), 1.5, stream=5)

    class Nested(TorchStream):
        @property
        def cuda_stream(self) -> Any:
            module.add(*vectors(), 1.5, stream=Stream.borrow_raw(9, driver=driver))
            return 8

    Nested.__module__ = "torch"
    module.add(*vectors(), 1.5, stream=Nested(0))
    assert [launch.stream for launch in driver.launches] == [5, 9, 8]
