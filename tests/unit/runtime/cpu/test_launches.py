"""Launches on the cpu device: what a run gets of its arguments, and what is refused with which
words. Kernels are Python here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.cpu_samples import ADD, PTR, PythonKernels, add, device, ones
from tests.runtime_samples import ADD_PARAMS, Array, bundle_of, image, kernel, slot
from tests.unit.runtime.cpu.tileir.build import Builder, program
from tilec_runtime import DeviceBuffer, load
from tilec_runtime.cpu.driver import CpuDriver
from tilec_runtime.cpu.launch import CpuRun
from tilec_runtime.cpu.tileir.ir import Scalar, Tile, Value
from tilec_runtime.errors import (
    ArgumentError,
    BundleError,
    DTypeError,
    LaunchLimitError,
    LayoutError,
    NoImageError,
    PlacementError,
    RequirementError,
    TileIRError,
)
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Param, ParamKind

# --- what a launch gets
# ------------------------------------------------------------------------------------------------------------


def test_a_run_knows_its_tensors_and_numbers() -> None:
    seen: list[CpuRun] = []
    params = (
        dataclasses.replace(ADD_PARAMS[0], stride=(None,)),
        dataclasses.replace(ADD_PARAMS[1], stride=(None,)),
        *ADD_PARAMS[2:],
    )
    module, driver = device(
        seen.append, dataclasses.replace(ADD, params=params, language="prebuilt")
    )
    whole = ones(16)
    whole.flags.writeable = False
    z, x, y = np.zeros(16, "f4")[::2], whole[::-2], ones(8)
    module.add(z, x, y, alpha=-1.5)
    driver.synchronize(-1, 0)
    (run,) = seen
    assert (run.kernel, run.grid, run.options.kernel) == ("add-any", (1, 1, 1), "add-any")
    assert run.arguments == [z.ctypes.data, x.ctypes.data, y.ctypes.data, 8, np.float32(-1.5)]
    regions = {
        r.name: (r.address, r.data.size, r.writable, r.itemsize, r.shape, r.strides, r.origin)
        for r in run.memory.regions
    }
    assert regions == {
        "z": (z.ctypes.data, 60, True, 4, (8,), (2,), 0),
        "x": (x.ctypes.data - 56, 60, False, 4, (8,), (-2,), 56),
        "y": (y.ctypes.data, 32, True, 4, (8,), (1,), 0),
    }


SMALL = (
    ("i8", Scalar.I8, -3, -3),
    ("u8", Scalar.I8, 200, -56),
    ("i64", Scalar.I64, -(2**40), -(2**40)),
    ("bool", Scalar.I1, True, 1),
    ("f16", Scalar.F16, 0.5, np.float16(0.5)),
    ("bf16", Scalar.BF16, 3.0, ml_dtypes.bfloat16(3.0)),
    ("f8e4m3", Scalar.F8E4M3FN, -448.0, ml_dtypes.float8_e4m3fn(-448.0)),
    ("f64", Scalar.F64, 0.1, np.float64(0.1)),
)


@pytest.mark.parametrize(("dtype", "scalar", "given", "expected"), SMALL)
def test_numbers_of_every_size(dtype: str, scalar: Scalar, given: Any, expected: Any) -> None:
    seen: list[CpuRun] = []
    info = kernel(
        "k",
        (Param(name="s", kind=ParamKind.SCALAR, dtype=dtype),),
        (VariantInfo(id="k", abi=(slot(dtype, "s"),), images=(image("k", "tileir"),)),),
        launch=LaunchInfo(grid=("1",)),
    )
    module, driver = device(seen.append, info, types=(Tile(scalar, ()),))
    module.k(given)
    driver.synchronize(-1, 0)
    (value,) = seen[0].arguments
    assert value == expected
    assert type(value) is type(expected)


def test_an_empty_grid_is_no_launch_and_tensors_without_elements_no_memory() -> None:
    seen: list[CpuRun] = []
    for grid in (ADD.launch.grid, ("1",)):
        info = dataclasses.replace(ADD, launch=LaunchInfo(grid=grid))
        module, driver = device(seen.append, info)
        module.add(*[np.zeros(0, "f4")] * 3)
        driver.synchronize(-1, 0)
    assert [run.memory.regions for run in seen] == [()]


# --- what is refused
# ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "words", "arguments"),
    [
        (
            ArgumentError,
            "add: takes 4 arguments (z, x, y, alpha=1.0), got 2",
            lambda: (ones(4), ones(4)),
        ),
        (
            DTypeError,
            "add: argument 'x' takes f32, got f64",
            lambda: (ones(4), np.ones(4), ones(4)),
        ),
        (
            ArgumentError,
            "add: output 'z' has 2 dimensions (shape (2, 2)), the kernel takes 1",
            lambda: (ones(2, 2), ones(4), ones(4)),
        ),
        (
            RequirementError,
            "add: requires x.shape[0] == z.shape[0]: left-hand side is 5",
            lambda: (ones(4), ones(5), ones(4)),
        ),
        (
            ArgumentError,
            "must be C-contiguous: strides (1,)",
            lambda: (ones(8)[::2], ones(4), ones(4)),
        ),
        (
            ArgumentError,
            "it is a masked array, and kernels know no masks: pass its `data`",
            lambda: (ones(4), np.ma.masked_array(ones(4), [True, False, False, False]), ones(4)),
        ),
        (
            PlacementError,
            "'x' is on device 0, and the kernel is loaded on the cpu device",
            lambda: (ones(4), Array(4), ones(4)),
        ),
        (
            PlacementError,
            "'x' is on an accelerator, and the",
            lambda: (ones(4), Array(4, device=None), ones(4)),
        ),
    ],
)
def test_refuses_wrong_calls_as_a_gpu_does(
    error: type, words: str, arguments: Callable[[], tuple[Any, ...]]
) -> None:
    module, driver = device(lambda run: pytest.fail("it was launched"))
    with pytest.raises(error) as caught:
        module.kernels["add"](*arguments())
    assert words in str(caught.value)
    driver.synchronize(-1, 0)


@pytest.mark.parametrize(
    ("x", "more"),
    [
        (
            ones(4, 8)[:, :4],
            ', or let the kernel take such strides: stride = ["?", 1] in kernel.add.params.x',
        ),
        (
            ones(4, 8)[:, ::2],
            ", or let the kernel take such strides: contiguous = false in kernel.add.params.x",
        ),
        (ones(4, 4)[::-1], ""),
    ],
)
def test_a_tensor_with_gaps_is_told_how_a_tile_kernel_takes_it(x: np.ndarray, more: str) -> None:
    rows = tuple(
        dataclasses.replace(param, rank=2) if param.kind is ParamKind.TENSOR else param
        for param in ADD.params
    )
    module, _ = device(add, dataclasses.replace(ADD, params=rows))
    with pytest.raises(LayoutError) as caught:
        module.add(ones(4, 4), x, ones(4, 4))
    assert caught.value.fix == f"pass a contiguous copy{more}"


def test_buffers_of_the_device_are_read_as_what_they_are() -> None:
    module, driver = device()
    x, y = (
        DeviceBuffer.from_host(np.arange(4, dtype="f4"), "cpu", driver=driver) for _ in range(2)
    )
    z = DeviceBuffer((4,), "f32", "cpu", driver=driver)
    assert (z.device, z.ptr % 256, hasattr(z, "__cuda_array_interface__")) == (-1, 0, False)
    module.add(z, x, y)
    np.testing.assert_array_equal(z.to_host(), [0, 2, 4, 6])
    np.testing.assert_array_equal(np.asarray(z), [0, 2, 4, 6])
    assert np.asarray(z).ctypes.data == z.ptr
    small = DeviceBuffer.from_host(np.array([1, 2], ml_dtypes.bfloat16), "cpu", driver=driver)
    assert small.to_host().tolist() == [1, 2]


RAW = kernel(
    "raw",
    (Param(name="p", kind=ParamKind.PTR),),
    (VariantInfo(id="raw", abi=(slot("ptr", "p"),), images=(image("raw", "tileir"),)),),
    launch=LaunchInfo(grid=("1",)),
)


def test_plain_addresses_are_of_the_devices_own_memory() -> None:
    seen: list[CpuRun] = []
    module, driver = device(seen.append, RAW, types=(PTR,))
    buffer = DeviceBuffer((64,), "f32", "cpu", driver=driver)
    for address in (buffer.ptr + 16, 0):
        module.raw(address)
    driver.synchronize(-1, 0)
    regions = [[(r.name, r.address, r.data.size) for r in run.memory.regions] for run in seen]
    assert regions == [[("p", buffer.ptr, 256)], []]
    words = (
        "^raw: argument 'p' is the address 0x.*, which is of no memory that this device allocated"
    )
    with pytest.raises(ArgumentError, match=words) as caught:
        module.raw(ones(4).ctypes.data)
    assert caught.value.fix.startswith("pass the `ptr` of a DeviceBuffer of the cpu device")


@pytest.mark.parametrize(
    ("target", "language", "words"),
    [
        ("sm_90", "cuda", "it is a CUDA C++ kernel, compiled to code of a GPU"),
        ("compute_80", "tile", "built without portable Tile IR"),
    ],
)
def test_a_kernel_without_tile_ir(target: str, language: str, words: str) -> None:
    variant = dataclasses.replace(ADD.variants[0], images=(image("add", target),))
    module, _ = device(add, dataclasses.replace(ADD, language=language, variants=(variant,)))
    with pytest.raises(NoImageError) as caught:
        module.add(ones(4), ones(4), ones(4))
    assert str(caught.value).startswith("add-any: no image runs on the cpu device\n")
    assert words in str(caught.value)


def test_images_that_are_no_tile_ir_or_another_kernels() -> None:
    module = load(bundle_of(ADD), "cpu", driver=CpuDriver())
    with pytest.raises(TileIRError, match=r"^add: the image for tileir \(add\) cannot be run: "):
        module.add(ones(4), ones(4), ones(4))
    module, _ = device(types=(PTR, PTR))
    with pytest.raises(
        BundleError,
        match=r"^add-any: the image's parameters have 8, 8 bytes, and launches pass 8, 8, 8, 4, 4",
    ):
        module.add(ones(4), ones(4), ones(4))


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        (
            ("2000000000", "60000", "60000"),
            r"is too much for the cpu device: 7,200,000,000,000,000,000 blocks, about 2.95e\+22 elements and .* days",
        ),
        (("3000000000",), "^add: grid.x is 3000000000, and the cpu device allows 2147483647"),
    ],
)
def test_a_huge_grid_is_refused_before_anything_is_enqueued(
    grid: tuple[str, ...], words: str
) -> None:
    def fill(b: Builder, *_: Value) -> None:
        b.constant([1.0] * 4096, Scalar.F32, 4096)
        b.ret()

    work = program(PythonKernels.types, fill, name="add")
    wide = dataclasses.replace(ADD, launch=LaunchInfo(grid=grid))
    module, _ = device(
        lambda run: pytest.fail("it was launched"), wide, function=lambda module, symbol: work
    )
    with pytest.raises(LaunchLimitError, match=words):
        module.add(ones(4), ones(4), ones(4))


@pytest.mark.parametrize(
    ("dtype", "fix"),
    [
        ("c16", "convert it: complex128 is no dtype of kernels, and cannot be built"),
        ("f8", "add f64 to the matrix of "),
    ],
)
def test_refuses_dtypes_that_were_not_built(dtype: str, fix: str) -> None:
    generic = dataclasses.replace(
        ADD,
        params=tuple(dataclasses.replace(param, dtype="T") for param in ADD.params[:3])
        + ADD.params[3:],
        axes=(("T", ("f32",)),),
        dtype_axes=("T",),
        variants=(dataclasses.replace(ADD.variants[0], axes=(("T", "f32"),)),),
    )
    with pytest.raises(DTypeError, match="T was built for f32") as caught:
        device(add, generic)[0].add(*(np.ones(4, dtype) for _ in range(3)))
    assert caught.value.fix.startswith(fix)
