"""Calls of operators that leave their outputs out: what is allocated, and by which library."""

from __future__ import annotations

import dataclasses
import sys
import types
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ADD, add, device, ones
from tests.unit.runtime import fake_torch
from tilec_runtime import Launcher
from tilec_runtime.errors import ArgumentError, DTypeError, RankError
from tilec_runtime.launch.outputs import Outputs
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.operator import OperatorInfo, OutputInfo
from tilec_runtime.tensors.tensor import Tensor


def operator(**changes: Any) -> KernelInfo:
    output = dataclasses.replace(OutputInfo(param="z", like="x", dtype="f32"), **changes)
    return dataclasses.replace(ADD, op=OperatorInfo(outputs=(output,)))


@pytest.fixture
def adds() -> Launcher:
    return device(add, operator())[0].kernels["add"]


def test_outputs_that_are_left_out_are_allocated_and_returned(adds: Launcher) -> None:
    x, y = ones(8), ones(8)
    for made in (adds(x, y), adds(x, y=y), adds(y=y, x=x)):
        assert type(made) is np.ndarray
        assert made.tolist() == [2.0] * 8
    z = np.zeros(8, np.float32)
    assert adds(z, x=x, y=y, alpha=2.0) is None
    assert z.tolist() == [3.0] * 8


def test_an_output_by_name_beside_inputs_by_place_is_explained(adds: Launcher) -> None:
    with pytest.raises(ArgumentError, match="argument 'z' is given twice") as caught:
        adds(ones(8), ones(8), z=ones(8))
    assert (
        caught.value.fix == "leave z out, so that it is allocated, or give every argument by name"
    )


def test_tensors_of_tilec_are_not_allocated(adds: Launcher) -> None:
    x, y = (
        Tensor.uninitialized((8,), "f32", driver=adds.site.driver, ordinal=-1, stream=0)
        for _ in range(2)
    )
    with pytest.raises(ArgumentError, match="arrays of tilec_runtime are not allocated here: pass"):
        adds(x, y)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (
            ([1.0], ones(1)),
            "add: x is list, and no array: the outputs z, which the call leaves out",
        ),
        ((types.SimpleNamespace(shape=(1,), dtype="f4"), ones(1)), "arrays of types are not alloc"),
        ((ones(8),), "takes 4 arguments"),
        ((), "takes 4 arguments"),
    ],
)
def test_what_cannot_be_allocated_is_refused(
    adds: Launcher, args: tuple[Any, ...], expected: str
) -> None:
    with pytest.raises(ArgumentError, match=expected):
        adds(*args)


def test_shapes_are_computed_from_inputs() -> None:
    count = dataclasses.replace(ADD.params[-1], dtype="i32", default=3)
    info = dataclasses.replace(
        operator(like="", shape=("x.size * alpha",), dtype="bf16"),
        params=(*ADD.params[:-1], count),
    )
    arrays = (ones(5), ones(5))
    (made,) = Outputs(info).allocate(arrays)
    assert (made.shape, made.dtype.name) == ((15,), "bfloat16")
    assert Outputs(info).allocate((*arrays, 2))[0].shape == (10,)


@pytest.mark.parametrize(
    ("extent", "message"),
    [
        ("x.size - 5", "add: z has no extent x.size - 5 = "),
        ("alpha", "add: z has no extent alpha = "),
        ("x.size // (y.size - 4)", "add: the shape of z cannot be computed: division by"),
    ],
)
def test_an_extent_that_no_array_has_is_refused(extent: str, message: str) -> None:
    outputs = Outputs(operator(like="", shape=(extent,)))
    with pytest.raises(ArgumentError, match=message):
        outputs.allocate((ones(4), ones(4)))


@pytest.mark.parametrize("dtype", ["complex64", ">f4", "datetime64[s]", "O", "U3"])
def test_an_input_of_a_dtype_that_no_kernel_takes_is_named(dtype: str) -> None:
    adds = device(add, operator(dtype="x.dtype"))[0].kernels["add"]
    with pytest.raises(DTypeError, match="add: argument 'x' "):
        adds(np.zeros(4, dtype), ones(4))


def test_errors_name_the_input_and_not_what_was_allocated_by_it(adds: Launcher) -> None:
    y = ones(8)
    with pytest.raises(RankError, match="argument 'x' has 2 dimensions"):
        adds(ones(8).reshape(2, 4), y)
    with pytest.raises(DTypeError, match="argument 'y' takes f32, got f64"):
        adds(ones(8), y.astype("f8"))
    with pytest.raises(DTypeError, match="output 'z' takes f32, got f64"):
        adds(y.astype("f8"), y, y)


def test_torch_allocates_beside_its_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(float32="torch.float32"))
    calls: list[Any] = []
    x = fake_torch.Tensor((4, 2), 0x1000)
    x.new_empty = lambda *args, **kwargs: calls.append((args, kwargs))
    Outputs(operator()).allocate((x, x))
    assert calls == [(((4, 2),), {"dtype": "torch.float32"})]


def test_cupy_allocates_on_the_device_of_its_array(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []

    class Device:
        def __enter__(self) -> None:
            entered.append("in")

        def __exit__(self, *_: object) -> None:
            entered.append("out")

    def empty(shape: Any, dtype: Any) -> tuple[Any, ...]:
        return shape, dtype, list(entered)

    cls = type("ndarray", (), {"__module__": "cupy", "shape": (3,), "dtype": "float32"})
    array = cls()
    array.device = Device()
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(empty=empty))
    assert Outputs(operator()).allocate((array, array)) == (((3,), "float32", ["in"]),)
