"""cuTile Rust, "Interoperability": kernels of one's own, their launches, ops of one's own,
contexts, and Triton's PTX.

Kernels are compiled here. Programs run on a GPU, and on a pretended one for what a launch passes;
contexts run on the cpu device.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.e2e.harness import Cli
from tests.runtime_samples import slot
from tests.seeds.conftest import Built, place
from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.search import find_tool
from tilec.testing.fake_driver import FakeDriver, FakeKernel
from tilec_runtime import (
    AsyncKernelLaunch,
    Device,
    DeviceOp,
    ExecutionContext,
    KernelFunction,
    LaunchConfig,
    SharedTensor,
    Tensor,
    api,
    as_op,
    load_module_from_file,
    load_module_from_ptx,
    use_device,
    with_context,
)
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import (
    ArgumentError,
    CallError,
    DTypeError,
    LaunchLimitError,
    NoDeviceError,
)

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

SCALE = """
extern "C" __global__ void __launch_bounds__(256) my_kernel_entry(unsigned n, float scale, const float* input, float* output) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) output[i] = scale * input[i];
}
"""
PARAMS = ("u32", "f32", "ptr", "ptr")
ABI = (slot("u32", "n"), slot("f32", "scale"), slot("ptr", "input.ptr"), slot("ptr", "output.ptr"))
TILE_ADD = """
import tilec.lang as tl

B = tl.size("B")


@tl.kernel
def add(z: tl.Mut[tl.float32, (B,)], x: tl.Ref[tl.float32, 1], y: tl.Ref[tl.float32, 1]) -> None:
    z.store(tl.load_tile_like(x, z) + tl.load_tile_like(y, z))
"""
TRITON_ADD = """
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(y_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=inside), mask=inside)
"""
MANIFEST = """
edition = 1

[package]
name = "interop"
version = "0.1.0"

[targets]
default = ["sm_90", "compute_80", "tileir"]
jit-fallback = "allow"

[kernel.tile_add]
source = "tile.py:add"
matrix = { B = [128] }

[kernel.triton_add]
source = "triton_add.py:add_kernel"
language = "triton"
matrix = { BLOCK = [256] }
params = { x = { dtype = "f32", rank = 1 }, y = { dtype = "f32", rank = 1, out = true } }
args = ["x.ptr", "y.ptr", "i32(y.size)"]
launch = { grid = ["cdiv(y.size, BLOCK)"] }
"""
N = 1000


@pytest.fixture(scope="module")
def interop(built: Built) -> ModuleType:
    return built("interop", tile__py=TILE_ADD, triton_add__py=TRITON_ADD, tilec__toml=MANIFEST)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    """A folder with my_kernel.ptx and my_kernel.cubin, as nvcc makes them."""
    folder = place(tmp_path_factory, "nvcc")
    if (folder / "my_kernel.cubin").is_file():
        return folder
    (folder / "my_kernel.cu").write_text(SCALE)
    nvcc = find_tool("nvcc", ToolSearch()).path
    for arguments in (
        ("-ptx", "-arch=compute_80", "-o", "my_kernel.ptx"),
        ("-cubin", "-arch=sm_90", "-o", "my_kernel.cubin"),
    ):
        subprocess.run(
            [nvcc, *arguments, "my_kernel.cu"],
            cwd=folder,
            env=dict(cli.env),
            check=True,
            timeout=240,
        )
    (folder / "my_kernel.ptx").write_text(lowered((folder / "my_kernel.ptx").read_text()))
    return folder


def lowered(ptx: str) -> str:
    """PTX as an ISA that drivers of three years read, as `min-driver` of a manifest lowers it."""
    return re.sub(r"^\.version \S+", ".version 8.0", ptx, flags=re.MULTILINE)


@pytest.fixture
def pretended() -> Iterator[FakeDriver]:
    driver = FakeDriver(kernels={"my_kernel_entry": FakeKernel(abi=ABI)})
    with use_device(Device(0, driver=driver)):
        yield driver


@dataclasses.dataclass
class ScaleKernel(DeviceOp[tuple[SharedTensor, Tensor]]):
    """w = scale * z."""

    function: KernelFunction
    n: int
    scale: float
    input: SharedTensor
    output: Tensor

    def _execute(self, ctx: ExecutionContext) -> tuple[SharedTensor, Tensor]:
        launcher = AsyncKernelLaunch(self.function)
        launcher.push_arg(self.n).push_arg(self.scale).push_arg(self.input).push_arg(self.output)
        launcher.set_launch_config(LaunchConfig(grid=(self.n + 255) // 256, block=256, shared=0))
        *_, source, target = ctx.run(launcher)
        return source, target


@pytest.mark.parametrize("file", ["my_kernel.ptx", "my_kernel.cubin"])
def test_a_launch_of_a_loaded_function(compiled: Path, pretended: FakeDriver, file: str) -> None:
    function = load_module_from_file(compiled / file).function("my_kernel_entry", PARAMS)
    source, target = api.ones(N).sync().share(), api.zeros(N).sync()
    addresses = source.device_pointer, target.device_pointer
    launcher = AsyncKernelLaunch(function)
    launcher.push_arg(N).push_arg(2.5).push_device_ptr(addresses[0]).push_device_ptr(addresses[1])
    launcher.set_launch_config(LaunchConfig(grid=(N + 255) // 256, block=256, shared=0)).sync()
    assert pretended.launches[-1].arguments == (N, 2.5, *addresses)
    kept, made = ScaleKernel(function, N, 2.5, source, target).sync()
    assert (type(kept), type(made), pretended.launches[-1].arguments[2:]) == (
        SharedTensor,
        Tensor,
        addresses,
    )


@pytest.mark.parametrize("file", ["my_kernel.ptx", "my_kernel.cubin"])
def test_what_the_code_says_of_itself_is_checked(
    compiled: Path, pretended: FakeDriver, file: str
) -> None:
    module = load_module_from_file(compiled / file)
    with pytest.raises(
        CallError,
        match=r"the parameters \(ptr, u32\) have 8, 4 bytes, those of the kernel 4, 4, 8, 8",
    ):
        module.function("my_kernel_entry", ("ptr", "u32"))
    function = module.function("my_kernel_entry")
    with pytest.raises(DTypeError, match="my_kernel_entry: argument 0 has 4 bytes, got one of 8"):
        AsyncKernelLaunch(function).push_device_ptr(4096)
    launch = (
        AsyncKernelLaunch(function)
        .push_arg(N, "u32")
        .set_launch_config(LaunchConfig.for_num_elems(N))
    )
    with pytest.raises(ArgumentError, match="my_kernel_entry: takes 4 arguments, got 1"):
        launch.sync()
    launch = (
        AsyncKernelLaunch(function)
        .push_arg(N, "u32")
        .push_arg(1.0, "f32")
        .push_device_ptr(256)
        .push_device_ptr(512)
    )
    with pytest.raises(
        LaunchLimitError,
        match="the block has 512 threads, and the kernel was compiled for 256 at most",
    ):
        launch.set_launch_config(LaunchConfig.for_num_elems(N, 512)).sync()
    assert pretended.launches == []


@pytest.fixture
def triton_ptx(interop: ModuleType) -> tuple[str, str]:
    """PTX that Triton generated, and its entry point."""
    (bundle,) = Path(interop.__file__ or "").parent.parent.glob("*.tilec")
    opened = Bundle.open(bundle)
    (image,) = [
        each
        for each in opened.kernel("triton_add").variants[0].images
        if str(each.target) == "compute_80"
    ]
    return lowered(opened.image(image.digest).decode()), image.symbol


def triton_launch(ptx: str, symbol: str, *arguments: Any) -> AsyncKernelLaunch:
    launch = AsyncKernelLaunch(load_module_from_ptx(ptx).function(symbol))
    for argument in arguments:
        launch.push_arg(argument, "i32" if isinstance(argument, int) else "")
    return launch.set_launch_config(LaunchConfig(grid=4, block=128))


def test_tritons_hidden_parameters_are_asked_for(triton_ptx: tuple[str, str]) -> None:
    ptx, symbol = triton_ptx
    abi = (
        slot("ptr", "x.ptr"),
        slot("ptr", "y.ptr"),
        slot("i32", "n"),
        slot("ptr", "0"),
        slot("ptr", "0"),
    )
    driver = FakeDriver(kernels={symbol: FakeKernel(abi=abi)})
    with use_device(Device(0, driver=driver)):
        x, y = api.ones(N).sync(), api.zeros(N).sync()
        with pytest.raises(ArgumentError, match=f"{symbol}: takes 5 arguments, got 3") as caught:
            triton_launch(ptx, symbol, x.borrow(), y, N).sync()
        assert "scratch memory that Triton added: push_device_ptr(0)" in caught.value.fix
        x, y = api.ones(N).sync(), api.zeros(N).sync()
        triton_launch(ptx, symbol, x, y, N).push_device_ptr(0).push_device_ptr(0).sync()
    assert [launch.arguments[2:] for launch in driver.launches if launch.symbol == symbol] == [
        (N, 0, 0)
    ]


def test_a_context_gives_the_drivers_own_calls() -> None:
    host_data = np.ones(N, np.float32)

    def upload(ctx: ExecutionContext) -> DeviceOp[int]:
        dptr = ctx.malloc_async(host_data.nbytes)
        ctx.memcpy_htod_async(dptr, host_data)
        return as_op(dptr)

    def download(ctx: ExecutionContext) -> Any:
        back = np.empty_like(host_data)
        ctx.memcpy_dtoh_async(back, dptr)
        ctx.free_async(dptr)
        return back

    with use_device("cpu"):
        dptr = with_context(upload).sync()
        np.testing.assert_array_equal(with_context(download).sync(), host_data)


# --- on a GPU
# ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def gpu() -> Device:
    try:
        return Device(0)
    except NoDeviceError as error:
        pytest.skip(str(error))


@pytest.mark.gpu
@pytest.mark.parametrize("file", ["my_kernel.ptx", "my_kernel.cubin"])
def test_a_tile_kernel_and_then_one_of_our_own(
    interop: ModuleType, compiled: Path, gpu: Device, file: str
) -> None:
    function = load_module_from_file(compiled / file).function("my_kernel_entry", PARAMS)
    z, _x, _y = interop.tile_add(api.zeros(N).partition(128), api.ones(N), api.ones(N)).sync()
    _z, w = ScaleKernel(function, N, 2.5, z.unpartition().share(), api.zeros(N).sync()).sync()
    assert (w.to_host() == 5).all()


@pytest.mark.gpu
def test_tritons_ptx_runs(triton_ptx: tuple[str, str], gpu: Device) -> None:
    x, y = api.ones(N).sync(), api.zeros(N).sync()
    y = triton_launch(*triton_ptx, x, y, N).push_device_ptr(0).push_device_ptr(0).sync()[1]
    assert (y.to_host() == 2).all()
