"""Kernels without a bundle: their modules and functions, launch configurations, and the op that
launches them.
"""

from __future__ import annotations

import dataclasses
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import PythonKernels, held, ones
from tests.cubin_samples import build_cubin
from tests.runtime_samples import Array, slot
from tests.waiting import becomes
from tilec.testing.fake_driver import H200, FakeDriver, FakeKernel
from tilec_runtime import (
    AsyncKernelLaunch,
    Device,
    KernelFunction,
    KernelModule,
    LaunchConfig,
    api,
    as_op,
    load_module_from_bytes,
    load_module_from_file,
    load_module_from_ptx,
    use_device,
)
from tilec_runtime.cpu.launch import CpuOptions
from tilec_runtime.errors import (
    ArgumentError,
    BundleError,
    DriverError,
    DTypeError,
    KernelCacheError,
    LaunchError,
    LaunchLimitError,
    LayoutError,
    PlacementError,
    UsageError,
)
from tilec_runtime.tensors.tensor import Tensor

TILE_IR = b"\x7fTileIR\x00 of no real kernel"
PTX = ".version 8.0\n.target sm_80\n.address_size 64\n"
ABI = (slot("ptr", "z.ptr"), slot("ptr", "x.ptr"), slot("i32", "n"), slot("f32", "alpha"))
PARAMS = ("ptr", "ptr", "i32", "f32")


class Gpu:
    """A fake GPU with a kernel `scale` of (ptr, ptr, i32, f32)."""

    def __init__(self, **facts: Any) -> None:
        self.driver = FakeDriver(
            kernels={"scale": FakeKernel(abi=ABI, **facts), "k": FakeKernel(abi=ABI[:1])}
        )
        self.device = Device(0, driver=self.driver)
        self.module = load_module_from_ptx(PTX, self.device)

    def elsewhere(self) -> Tensor:
        self.driver.devices = (H200, dataclasses.replace(H200, ordinal=1))
        return Tensor.uninitialized((4,), "f32", driver=self.driver, ordinal=1, stream=0)

    def launch(self, params: tuple[str, ...] | None = PARAMS) -> AsyncKernelLaunch:
        return AsyncKernelLaunch(self.module.function("scale", params))

    def full(self, config: LaunchConfig | None = None) -> AsyncKernelLaunch:
        launch = (
            self.launch()
            .push_device_ptr(0x1000)
            .push_device_ptr(0x2000)
            .push_arg(1000)
            .push_arg(2.0)
        )
        return launch.set_launch_config(config or LaunchConfig.for_num_elems(1000))


@pytest.fixture
def gpu() -> Any:
    found = Gpu()
    with use_device(found.device):
        yield found


# --- configurations
# ----------------------------------------------------------------------------------------------------------------


def test_a_config_for_elements() -> None:
    config = LaunchConfig.for_num_elems(1000)
    assert (config.grid, config.block, config.shared, config.cooperative) == (
        (4, 1, 1),
        (256, 1, 1),
        0,
        False,
    )
    assert LaunchConfig.for_num_elems(1024, 128, shared=64).shape.grid == (8, 1, 1)
    assert LaunchConfig.for_2d(100, 40).shape.grid == (7, 3, 1)
    assert LaunchConfig.for_2d(100, 40, (32, 8)).block == (32, 8, 1)
    assert LaunchConfig.for_3d(17, 8, 1).shape.grid == (3, 1, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LaunchConfig.for_num_elems(-1), "the element count has -1"),
        (
            lambda: LaunchConfig.for_num_elems(10, 0),
            r"the block is \(0,\): it has one thread at least",
        ),
        (
            lambda: LaunchConfig(grid=(1, 2, 3, 4)),
            r"the grid \(1, 2, 3, 4\) has 4 extents, and three are possible",
        ),
        (lambda: LaunchConfig(block=(1.5,)), "the block has 1.5, and must have whole numbers"),
        (lambda: LaunchConfig(shared=-1), "the shared memory has -1"),
        (lambda: LaunchConfig.covering((3, 3), (8,)), "2 extents cannot be covered by blocks of 1"),
        (
            lambda: LaunchConfig(cluster=np.int64(-1)),
            r"the cluster has np.int64\(-1\), and must have whole numbers",
        ),
        (lambda: LaunchConfig(cluster=np.array([2, 1])), "the cluster has array"),  # type: ignore[arg-type]
        (lambda: LaunchConfig.covering(5, "x"), "the block has 'x'"),  # type: ignore[arg-type]
        (lambda: LaunchConfig.for_num_elems(1e3), "the element count has 1000.0"),  # type: ignore[arg-type]
    ],
)
def test_configs_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(LaunchLimitError, match=message):
        make()


# --- modules and functions
# ---------------------------------------------------------------------------------------------------------


def test_modules_are_loaded_where_they_are_asked_for(gpu: Gpu, tmp_path: Path) -> None:
    path = tmp_path / "k.cubin"
    path.write_bytes(build_cubin())
    module = load_module_from_file(path)
    assert gpu.driver.loads[-1] == (0, build_cubin())
    assert repr(module) == "<KernelModule on <Device cuda:0 (Fake H200)>: k>"
    assert (
        load_module_from_bytes(bytes.fromhex("50ed55ba") + bytes(64), gpu.device).device
        == gpu.device
    )
    assert (
        repr(module.function("k"))
        == "<KernelFunction k(bytes (8, 4, 20000)) on <Device cuda:0 (Fake H200)>>"
    )


def test_damaged_modules_do_not_reach_the_driver(gpu: Gpu) -> None:
    """A truncated cubin crashes the process inside of the driver."""
    before = list(gpu.driver.loads)
    for cut in (30, 70, len(build_cubin()) // 2, len(build_cubin()) - 10):
        with pytest.raises(BundleError, match="cubin"):
            load_module_from_bytes(build_cubin()[:cut])
    with pytest.raises(BundleError, match="are no cubin, PTX, fatbin or Tile IR"):
        load_module_from_bytes(b"hello")
    with pytest.raises(BundleError, match="these 6 bytes are no cubin"):
        load_module_from_ptx("int x;")
    assert gpu.driver.loads == before


TRITON = f"""{PTX}
.visible .entry scale(.param .u64 .ptr .global .align 16 z, .param .u64 .ptr .global .align 1 x, // two of Triton's own follow
    .param .u32 n, .param .f32 alpha)
.reqntid 128
{{ ret; }}
.visible .entry k(.param .u64 .ptr .global .align 1 z, .param .u64 .ptr .global .align 1 scratch) .maxntid 64, 2 {{ ret; }}
"""


def pushed(function: KernelFunction, *values: Any, block: int = 128) -> AsyncKernelLaunch:
    launch = AsyncKernelLaunch(function).set_launch_config(LaunchConfig(block=block))
    for value in values:
        launch.push_arg(value)
    return launch


def test_what_ptx_says_of_its_parameters_and_block_is_checked(gpu: Gpu) -> None:
    module = load_module_from_ptx(TRITON)
    assert repr(module) == "<KernelModule on <Device cuda:0 (Fake H200)>: scale, k>"
    with pytest.raises(BundleError, match="the module has no kernel 'other'; it has: scale, k"):
        module.function("other")
    with pytest.raises(
        UsageError, match=r"k: the parameters \(ptr\) have 8 bytes, those of the kernel 8, 8"
    ):
        module.function("k", ("ptr",))
    k, scale = module.function("k", ("ptr", "ptr")), module.function("scale", PARAMS)
    tensor, other = api.zeros(64).sync(), api.zeros(64).sync()
    with pytest.raises(ArgumentError, match="k: takes 2 arguments, got 1") as caught:
        pushed(k, tensor.view(64)).sync()
    assert "Triton" in caught.value.fix
    for launch, kind, message in (
        (
            pushed(scale, tensor[1:], other.view(64), 1, 2.0),
            LayoutError,
            r"scale: argument 0 is at address 0x[0-9a-f]+, and the PTX takes multiples of 16",
        ),
        (
            pushed(scale, tensor.view(64), other.view(64), 1, 2.0, block=256),
            LaunchLimitError,
            r"the block is \(256, 1, 1\), and the kernel was compiled for exactly \(128, 1, 1\)",
        ),
        (
            pushed(k, tensor.view(64), other.view(64), block=256),
            LaunchLimitError,
            "the block has 256 threads, and the kernel was compiled for 128 at most",
        ),
    ):
        with pytest.raises(kind, match=message):
            launch.sync()


def test_what_a_cubin_says_of_its_parameters_is_checked(gpu: Gpu) -> None:
    module = load_module_from_bytes(build_cubin())
    with pytest.raises(BundleError, match="the module has no kernel 'other'; it has: k"):
        module.function("other")
    with pytest.raises(
        UsageError,
        match=r"k: the parameters \(ptr, i32\) have 8, 4 bytes, those of the kernel 8, 4, 20000",
    ):
        module.function("k", ("ptr", "i32"))
    with pytest.raises(UsageError, match="k: 'int' is no dtype of a parameter"):
        module.function("k", ("int",))
    launch = AsyncKernelLaunch(module.function("k"))
    with pytest.raises(DTypeError, match="k: argument 0 has 8 bytes, got one of 4"):
        launch.push_arg(3, "i32")


class Wrapped:
    """A handle of cuda.bindings."""

    def __int__(self) -> int:
        return 7


def test_handles_of_others_are_borrowed(gpu: Gpu) -> None:
    module = KernelModule.borrow_raw(3)
    assert module.function("scale", PARAMS).handle == "scale"
    assert KernelFunction.borrow_raw(Wrapped()).handle == 7
    gpu.driver.kernels[7] = gpu.driver.kernels["scale"]  # type: ignore[index] - the fake's handles
    function = KernelFunction.borrow_raw(7, symbol="scale", params=PARAMS)
    loads = len(gpu.driver.loads)
    launch = (
        AsyncKernelLaunch(function).push_device_ptr(1).push_device_ptr(2).push_arg(3).push_arg(4.0)
    )
    launch.set_launch_config(LaunchConfig.for_num_elems(3)).sync()
    assert gpu.driver.launches[-1].arguments == (1, 2, 3, 4.0)
    assert len(gpu.driver.loads) == loads


# --- the launch
# --------------------------------------------------------------------------------------------------------------------


def test_of_no_elements_nothing_is_launched(gpu: Gpu) -> None:
    assert gpu.full(LaunchConfig.for_num_elems(0)).sync() == (0x1000, 0x2000, 1000, 2.0)
    assert gpu.driver.launches == []


def test_numbers_know_their_dtype_from_the_signature_numpy_or_the_caller(gpu: Gpu) -> None:
    launch = (
        gpu.launch(None)
        .push_device_ptr(1)
        .push_device_ptr(2)
        .push_arg(np.int32(5))
        .push_arg(2, "f32")
    )
    launch.set_launch_config(LaunchConfig()).sync()
    assert gpu.driver.launches[-1].arguments == (1, 2, 5, 2.0)


@pytest.mark.parametrize(
    ("push", "error", "message"),
    [
        (
            lambda g: g.launch(None).push_arg(5),
            ArgumentError,
            r'argument 0 is 5, whose dtype is not known\n  fix: say it: push_arg\(5, "i32"\)',
        ),
        (
            lambda g: g.launch(None).push_arg(5, "int"),
            DTypeError,
            "scale: argument 0: 'int' is no dtype",
        ),
        (
            lambda g: g.launch().push_arg(5),
            DTypeError,
            "argument 0 takes an address or a tensor, got 5",
        ),
        (
            lambda g: g.launch().push_device_ptr(1).push_device_ptr(2).push_arg(2**31),
            ArgumentError,
            "argument 2 is 2147483648, which i32 cannot",
        ),
        (
            lambda g: g.launch().push_device_ptr(1).push_device_ptr(2).push_arg(np.float32(1)),
            ArgumentError,
            "argument 2 takes an integer",
        ),
        (
            lambda g: g.launch().push_device_ptr(1).push_device_ptr(2).push_arg(1, "i64"),
            DTypeError,
            "argument 2 takes i32, got i64",
        ),
        (
            lambda g: g.launch().push_device_ptr(1).push_device_ptr(2).push_device_ptr(3),
            DTypeError,
            r"argument 2 takes a number \(i32\), got an address",
        ),
        (
            lambda g: g.launch().push_device_ptr(1).push_device_ptr(2).push_arg(Array(4)),
            DTypeError,
            r"argument 2 takes a number \(i32\), got a Array",
        ),
        (
            lambda g: g.launch().push_arg("text"),
            ArgumentError,
            "scale: argument 0 takes a number or a tensor: got a str",
        ),
        (
            lambda g: g.launch().push_arg(as_op(1)),
            ArgumentError,
            "argument 0 is an op, and a launch takes what is there",
        ),
        (
            lambda g: g.launch().push_arg(np.zeros(4)),
            PlacementError,
            r"scale: argument 0 is on the CPU, and the function on <Device cuda:0 .*\n  fix: copy it to the device first",
        ),
        (
            lambda g: g.launch().push_arg(Tensor.from_foreign(np.zeros(4))[1:]),
            PlacementError,
            "argument 0 is on the CPU",
        ),
        (
            lambda g: g.launch().push_arg(g.elsewhere()),
            PlacementError,
            "argument 0 is on device 1, and the function on <Device cuda:0",
        ),
        (
            lambda g: g.launch().push_device_ptr(-1),
            ArgumentError,
            "argument 0 is -1, which u64 cannot hold",
        ),
        (
            lambda g: g.full().push_arg(1),
            ArgumentError,
            "scale: takes 4 arguments, and has them all",
        ),
        (
            lambda g: g.launch().set_launch_config((1, 1, 1)),
            UsageError,
            "set_launch_config takes a LaunchConfig, got a tuple",
        ),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_pushed(
    gpu: Gpu, push: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        push(gpu)
    assert gpu.driver.launches == []


def test_a_launch_needs_all_arguments_and_a_config(gpu: Gpu) -> None:
    with pytest.raises(ArgumentError, match="scale: takes 4 arguments, got 1"):
        gpu.launch().push_device_ptr(1).set_launch_config(LaunchConfig()).sync()
    with pytest.raises(
        LaunchError, match=r"scale: there is no launch configuration\n  fix: call set_launch_config"
    ):
        gpu.launch().push_device_ptr(1).sync()


def test_a_launch_that_the_driver_refuses_says_so(gpu: Gpu) -> None:
    gpu.driver.fail["launch"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
    with pytest.raises(
        DriverError,
        match=r"scale: the launch failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES\n(.*\n)*  op: launch of scale, created at",
    ):
        gpu.full().sync()


def test_arguments_lie_where_their_sizes_let_them(gpu: Gpu) -> None:
    abi = (slot("i8", "a"), slot("f64", "b"), slot("i16", "c"), slot("i32", "d"), slot("ptr", "e"))
    gpu.driver.kernels["mixed"] = FakeKernel(abi=abi)
    function = gpu.module.function("mixed", ("i8", "f64", "i16", "i32", "ptr"))
    launch = (
        AsyncKernelLaunch(function)
        .push_arg(-7)
        .push_arg(0.1)
        .push_arg(-300)
        .push_arg(70000)
        .push_device_ptr(0x1000)
    )
    launch.set_launch_config(LaunchConfig(grid=1)).sync()
    assert gpu.driver.launches[-1].arguments == (-7, 0.1, -300, 70000, 0x1000)


def test_a_struct_is_passed_by_value(gpu: Gpu) -> None:
    head = (
        ".visible .entry boxed(.param .u32 n, .param .align 4 .b8 box[12], .param .u64 y) { ret; }"
    )
    function = load_module_from_ptx(PTX + head, gpu.device).function("boxed")
    abi = (slot("u32", "n"), slot("struct", "box", 12), slot("ptr", "y.ptr"))
    gpu.driver.kernels["boxed"] = FakeKernel(abi=abi)
    box = np.array((1.5, -2.0, 7), [("low", "f4"), ("high", "f4"), ("n", "i4")]).tobytes()
    launch = AsyncKernelLaunch(function).push_arg(7, "u32").push_arg(box).push_device_ptr(0x1000)
    assert launch.set_launch_config(LaunchConfig()).sync() == (7, box, 0x1000)
    assert gpu.driver.launches[-1].arguments == (7, box, 0x1000)
    with pytest.raises(DTypeError, match="boxed: argument 1 has 12 bytes, got one of 8"):
        AsyncKernelLaunch(function).push_arg(7, "u32").push_arg(box[:8])
    with pytest.raises(DTypeError, match=r"scale: argument 2 takes a number \(i32\), got a bytes"):
        gpu.launch().push_device_ptr(0x1000).push_device_ptr(0x2000).push_arg(box)


def test_a_function_runs_on_its_own_device_only(gpu: Gpu) -> None:
    op = gpu.full()
    with (
        use_device("cpu"),
        pytest.raises(LaunchError, match="scale: the function is on <Device cuda:0"),
    ):
        op.sync()


def test_arrays_of_others_live_until_the_device_is_done(gpu: Gpu) -> None:
    reached = [False]
    gpu.driver.event_reached = lambda ordinal, event: reached[0]
    x = Array(16, ptr=0x5000)
    alive = weakref.ref(x)
    stream = gpu.device.new_stream()
    launch = (
        gpu.launch()
        .push_arg(x)
        .push_device_ptr(2)
        .push_arg(16)
        .push_arg(1.0)
        .set_launch_config(LaunchConfig.for_num_elems(16))
    )
    launch.enqueue_on(stream)
    del x, launch
    assert gpu.driver.launches[-1].arguments[0] == 0x5000
    assert alive() is not None
    reached[0] = True
    assert becomes(lambda: alive() is None)


# --- the cpu device
# ----------------------------------------------------------------------------------------------------------------


def test_code_of_a_gpu_is_refused_on_the_cpu_device() -> None:
    with pytest.raises(
        KernelCacheError, match="the cpu device runs Tile IR, and the module is code"
    ):
        load_module_from_ptx(PTX + "// \ud800", "cpu")


def test_on_the_cpu_device() -> None:
    driver = PythonKernels(CpuOptions(run=add_by_place))
    device = Device("cpu", driver=driver)
    function = load_module_from_bytes(TILE_IR, device).function(
        "add", ("ptr", "ptr", "ptr", "i32", "f32")
    )
    z, x, y = np.zeros(8, np.float32), ones(8), ones(8)
    launch = (
        AsyncKernelLaunch(function).push_arg(z).push_arg(x).push_arg(y).push_arg(8).push_arg(3.0)
    )
    with use_device(device):
        assert launch.set_launch_config(LaunchConfig()).map(lambda out: out[0]).sync() is z
    assert z.tolist() == [4.0] * 8


def add_by_place(run: Any) -> None:
    regions = [held(run, f"argument {place}") for place in range(3)]
    np.add(regions[1] * run.arguments[4], regions[2], out=regions[0])
