"""Facts of arrays in C: equal to those that Python reads, and never believed where they cannot be
true.
"""

from __future__ import annotations

import gc
import random
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.runtime_samples import Array as InterfaceArray
from tests.unit.runtime import fake_torch
from tests.unit.runtime.core import exchange
from tests.unit.runtime.core.exchange import LIBRARY, TORCH, api, array_type
from tests.unit.runtime.core.samples import NUMBERS, by_python, core, expected
from tilec_runtime.device.layout import ON_ANY, ON_CPU, contiguous_stride, settled_stride
from tilec_runtime.tensors.facts import UnreadableError


def never(value: Any) -> Any:
    pytest.fail("Python's reader was called")


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((3, 4), "float32"),
        np.zeros((3, 4), "float16")[:, ::2],
        np.zeros((3, 4), "int64").T,
        np.zeros((), "uint8"),
        np.zeros((0, 4), "float64"),
        np.zeros((2, 1, 3), "bool")[::-1],
        np.zeros(3, "complex64"),
        np.ma.zeros(3),
        np.float32(3.0),
        InterfaceArray(4, 8),
        InterfaceArray(4, 8, stride=(16, 1), device=3, readonly=True, dtype="bf16"),
        InterfaceArray(1, 8, stride=(77, 1)),
        InterfaceArray(0, 8, ptr=0),
        InterfaceArray(4, device=None),
        InterfaceArray(4, dtype="f4e2m1"),
        InterfaceArray(4, ptr=2**63),
        fake_torch.Tensor((3, 4)),
        fake_torch.Tensor((3, 4)).t(),
        fake_torch.Tensor((3, 4), negative=True),
        object(),
        3,
        "text",
        [1],
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_arrays_are_read_by_python(value: Any) -> None:
    wanted = expected(value)
    assert core.facts(value, by_python) == (
        None if wanted is None or wanted[0] >= 2**63 else wanted
    )


@pytest.mark.parametrize("kind", [TORCH, LIBRARY], ids=["torch", "library"])
@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({}, (0x10000, (4, 8), (8, 1), NUMBERS["f32"], 0, False, True)),
        ({"stride": None}, (0x10000, (4, 8), (8, 1), NUMBERS["f32"], 0, False, True)),
        ({"stride": (16, 2)}, (0x10000, (4, 8), (16, 2), NUMBERS["f32"], 0, False, False)),
        ({"shape": (), "stride": ()}, (0x10000, (), (), NUMBERS["f32"], 0, False, True)),
        (
            {"shape": (1, 8), "stride": (99, 1)},
            (0x10000, (1, 8), (8, 1), NUMBERS["f32"], 0, False, True),
        ),
        ({"stride": (-8, 1)}, (0x10000, (4, 8), (-8, 1), NUMBERS["f32"], 0, False, False)),
        ({"offset": 64}, (0x10040, (4, 8), (8, 1), NUMBERS["f32"], 0, False, True)),
        ({"dtype": (4, 16, 1)}, (0x10000, (4, 8), (8, 1), NUMBERS["bf16"], 0, False, True)),
        (
            {"dtype": (10, 8, 1), "device": (2, 7)},
            (0x10000, (4, 8), (8, 1), NUMBERS["f8e4m3"], 7, False, True),
        ),
        ({"device": (1, 0)}, (0x10000, (4, 8), (8, 1), NUMBERS["f32"], ON_CPU, False, True)),
        ({"device": (3, 0)}, (0x10000, (4, 8), (8, 1), NUMBERS["f32"], ON_CPU, False, True)),
        ({"device": (13, 0)}, (0x10000, (4, 8), (8, 1), NUMBERS["f32"], ON_ANY, False, True)),
    ],
)
def test_the_exchange_api(kind: type, options: dict[str, Any], facts: tuple[Any, ...]) -> None:
    assert core.facts(kind(**options), never) == facts


def test_flags_of_libraries() -> None:
    assert core.facts(LIBRARY(flags=1), never)[5], "read-only"
    assert core.facts(LIBRARY(flags=2), never) is None, "a copy goes when it was looked at"
    assert core.facts(LIBRARY(flags=4), never) is not None


def test_layouts_are_settled_as_python_settles_them() -> None:
    source = random.Random(3)
    for _ in range(2000):
        rank = source.randrange(5)
        shape = tuple(source.choice((0, 1, 1, 2, 3, 8)) for _ in range(rank))
        stride = (
            contiguous_stride(shape)
            if source.random() < 0.3
            else tuple(source.choice((-8, 0, 1, 2, 8, 24)) for _ in shape)
        )
        settled = settled_stride(shape, stride)
        assert core.facts(TORCH(shape, stride), never)[1:3] == (shape, settled)
        assert core.facts(TORCH(shape, stride), never)[6] == (settled == contiguous_stride(shape))


def lie(name: str, value: Any) -> exchange.Array:
    array = TORCH()
    if name in ("shape", "strides"):
        value = type(array.tensor.shape)() if value is None else value
    setattr(array.tensor, name, value)
    return array


LIES = [
    TORCH(code=-1),
    TORCH(negated=True),
    TORCH(negated=RuntimeError("no")),
    TORCH(negated="text"),
    TORCH(dtype=(2, 32, 4)),
    TORCH(dtype=(5, 64, 1)),
    TORCH(dtype=(17, 4, 1)),
    TORCH(dtype=(17, 4, 2)),
    TORCH(device=(10, 0)),
    TORCH(device=(2, -5)),
    TORCH((4, -1), (1, 1)),
    TORCH((2**62, 2**62), None),
    TORCH((2**62, 2**62), (2**62, 1)),
    TORCH((4, 4), (-(2**63), 1)),
    TORCH(address=2**63),
    TORCH(address=2**64 - 1, offset=16),
    lie("ndim", -1),
    lie("ndim", 17),
    lie("ndim", 2**31 - 1),
    lie("shape", None),
]


@pytest.mark.parametrize("array", LIES, ids=range(len(LIES)))
def test_lies_are_declined(array: exchange.Array) -> None:
    assert core.facts(array, never) is None
    library = LIBRARY(code=array.code)
    library.tensor = array.tensor
    if not array.negated:
        assert core.facts(library, never) is None


class _Without:
    """A reader that notes that it was asked."""

    asked = 0

    def __call__(self, value: Any) -> Any:
        self.asked += 1
        raise UnreadableError("no")


@pytest.mark.parametrize(
    "kind",
    [
        array_type(api(major=2), torch=True),
        array_type(api(major=2)),
        array_type(api(tensor=None), torch=True),
        array_type(api(managed=None)),
        array_type(None),
        array_type(None, __dlpack_c_exchange_api__=7),
        array_type(None, __dlpack_c_exchange_api__=exchange.capsule(api(), b"another")),
        type("Heir", (LIBRARY,), {}),
        type("Heir", (TORCH,), {}),
    ],
    ids=range(9),
)
def test_an_api_that_cannot_be_used_is_not(kind: type) -> None:
    reader = _Without()
    assert core.facts(kind(), reader) is None
    assert reader.asked == 1


def test_parameters_of_torch_are_read_as_tensors() -> None:
    parameter = type("Parameter", (TORCH,), {"__module__": "torch.nn.parameter"})
    assert core.facts(parameter(), never) is not None
    another = type("Parameter", (TORCH,), {"__module__": "library"})
    assert core.facts(another(), _Without()) is None


def test_interruptions_are_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        core.facts(TORCH(negated=KeyboardInterrupt()), never)

    def interrupted(value: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        core.facts(object(), interrupted)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [4]},
        {"shape": ("4",)},
        {"stride": (1, 1)},
        {"dtype": "c64"},
        {"dtype": []},
        {"ptr": "x"},
        {"ptr": -1},
        {"device": None},
        {"shape": (2**70,)},
    ],
)
def test_facts_of_python_that_are_malformed_are_declined(change: dict[str, Any]) -> None:
    facts = {
        "ptr": 16,
        "shape": (4,),
        "stride": (1,),
        "dtype": "f32",
        "device": 0,
        "readonly": False,
    }

    def read(parts: object) -> Any:
        return core.facts(object(), lambda _: SimpleNamespace(native=parts))

    assert read(tuple(facts.values())) is not None
    assert read(tuple((facts | change).values())) is None
    assert read(tuple(facts.values())[1:]) is None
    assert read(list(facts.values())) is None
    assert core.facts(object(), lambda _: object()) is None


def test_more_types_than_are_cached() -> None:
    for _ in range(3):
        for kind in [array_type(api(), torch=True) for _ in range(100)]:
            assert core.facts(kind(), never) is not None
    assert core.facts(TORCH(), never) is not None


def test_the_cache_of_types_may_be_emptied_while_one_is_read() -> None:
    def is_neg(cls: type, value: Any) -> bool:
        for kind in [array_type(api(), torch=True) for _ in range(100)]:
            assert core.facts(kind(), never) is not None
        return False

    kind = array_type(
        api(), torch=True, is_neg=classmethod(is_neg)
    )  # a method that the cache alone holds
    for _ in range(3):
        assert core.facts(kind(), never) is not None


def test_references_are_given_back() -> None:
    torch, library, other = TORCH(), LIBRARY(), np.zeros(4, "float32")
    before = [sys.getrefcount(value) for value in (torch, library, other)]
    for _ in range(1000):
        for value in (torch, library, other):
            core.facts(value, by_python)
    del value
    gc.collect()
    assert [sys.getrefcount(value) for value in (torch, library, other)] == before
