"""The ways to launch one small kernel that `gpu_launch.py` and `device_ops.py` compare: each function gives a callable that launches it a
number of times, and gives the seconds that took.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import subprocess
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

KERNEL = """
extern "C" __global__ void scale(float* y, const float* x, const float* z, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + z[i];
}
"""
C_LOOP = """
#include <time.h>
typedef int (*launch_t)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
double loop(launch_t launch, void* function, unsigned grid, unsigned block, unsigned shared, void* stream, void** params, int n) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < n; ++i) launch(function, grid, 1, 1, block, 1, 1, shared, stream, params, 0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec);
}
"""


Timed = Callable[[int], float]


def timed(statement: str, **names: Any) -> Timed:
    """A loop over a statement; the collector stays on."""
    return timeit.Timer(statement, "import gc; gc.enable()", globals=names).timeit


def compiled() -> bytes:
    """The plain kernel as PTX that any driver since CUDA 11 reads; a byte of zero ends it."""
    ptx = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 y, .param .u64 x, .param .u64 z, .param .u32 n)
{
    .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f<3>; .reg .b64 %d<8>;
    ld.param.u64 %d1, [y]; ld.param.u64 %d2, [x]; ld.param.u64 %d3, [z]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.s32 %r2, %r2, %r3, %r4;
    setp.ge.s32 %p, %r2, %r1;
    @%p bra DONE;
    mul.wide.s32 %d4, %r2, 4;
    add.s64 %d5, %d2, %d4; ld.global.f32 %f1, [%d5];
    add.s64 %d6, %d3, %d4; ld.global.f32 %f2, [%d6];
    add.f32 %f1, %f1, %f2;
    add.s64 %d7, %d1, %d4; st.global.f32 [%d7], %f1;
DONE:
    ret;
}
"""
    return ptx.encode() + b"\0"


def c_loop(y: Any, x: Any, z: Any, n: int) -> Timed:
    """A C function that launches the plain kernel in a loop; needs a C compiler. Gives seconds."""
    cuda = ctypes.CDLL("libcuda.so.1")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    ptx = compiled()
    for code in (cuda.cuModuleLoadData(ctypes.byref(module), ptx), cuda.cuModuleGetFunction(ctypes.byref(function), module, b"scale")):
        if code:
            raise RuntimeError(f"CUDA error {code}")
    values = (ctypes.c_uint64(y.data_ptr()), ctypes.c_uint64(x.data_ptr()), ctypes.c_uint64(z.data_ptr()), ctypes.c_int(n))
    params = (ctypes.c_void_p * 4)(*(ctypes.addressof(value) for value in values))
    return _looped(function, (1, 256, 0), 0, params, (values, params))


def c_loop_of(launcher: Any, stream: int, *tensors: Any) -> Timed:
    """The same with the kernel of a launcher, with the very arguments that it passes."""
    bound = launcher.bind(*tensors)
    bound.launch(stream)
    _, config, function, address, *_ = bound._held.records[stream]  # noqa: SLF001 - what it hands to the driver
    shape = (config.gridDimX, config.blockDimX, config.sharedMemBytes)
    return _looped(ctypes.c_void_p(int(function)), shape, stream, ctypes.c_void_p(address), bound)


def _looped(function: Any, shape: tuple[int, int, int], stream: int, params: Any, kept: Any) -> Timed:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "loop.c").write_text(C_LOOP, encoding="utf-8")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", f"{folder}/loop.so", f"{folder}/loop.c"], check=True, capture_output=True)
        loop = ctypes.CDLL(f"{folder}/loop.so").loop
    loop.restype = ctypes.c_double
    cuda = ctypes.CDLL("libcuda.so.1")
    launch = ctypes.cast(cuda.cuLaunchKernel, ctypes.c_void_p)
    numbers = [ctypes.c_uint(number) for number in shape]

    def run(count: int, _keep: object = (kept, cuda)) -> float:
        return float(loop(launch, function, *numbers, ctypes.c_void_p(stream), params, count))

    return run


def own_buffers(module: Any, n: int) -> Timed:
    """The tile kernel with tilec's own buffers, which have no leases."""
    import numpy as np

    from tilec.runtime import DeviceBuffer

    z, x, y = (DeviceBuffer.from_host(np.ones(n, np.float32)) for _ in range(3))
    return timed("m.vector_add(0, z, x, y)", m=module, z=z, x=x, y=y)


def own_tensors(n: int, count: int = 3, stream: int = 0) -> list[Any]:
    """Tensors of tilec's own."""
    from tilec.runtime import Tensor, current_device

    driver = current_device().driver
    return [Tensor.uninitialized((n,), "f32", driver=driver, ordinal=0, stream=stream) for _ in range(count)]


def own(module: Any, n: int) -> Timed:
    """The tile kernel with tensors of tilec's own."""
    z, x, y = own_tensors(n)
    return timed("m.vector_add(0, z, x, y)", m=module, z=z, x=x, y=y)


def own_in_turn(module: Any, n: int) -> Timed:
    """The same with two sets of tensors in turn: two launches."""
    z, x, y, c, a, b = own_tensors(n, 6)

    return timed("m.vector_add(0, z, x, y); m.vector_add(0, c, a, b)", m=module, z=z, x=x, y=y, c=c, a=a, b=b)


def own_with_stream(module: Any, n: int) -> Timed:
    """The same on a stream object of tilec's own."""
    from tilec.runtime import Stream

    stream = Stream(0)
    z, x, y = own_tensors(n, stream=stream.handle)
    return timed("m.vector_add(stream, z, x, y)", m=module, stream=stream, z=z, x=x, y=y)


def bound(module: Any, tensors: Any, stream: Any) -> Timed:
    """A bound launch."""
    return timed("k.launch(stream)", k=module["vector_add"].bind(*tensors), stream=stream)


def cuda_core(y: Any, x: Any, z: Any, n: int) -> Timed:
    """cuda.core with a launch configuration that is made once."""
    import numpy as np

    core = importlib.import_module("cuda.core")
    device = core.Device(0)
    device.set_current()
    stream = device.default_stream
    kernel = core.ObjectCode.from_ptx(compiled()).get_kernel("scale")
    config = core.LaunchConfig(grid=1, block=256)
    a, b, c = y.data_ptr(), x.data_ptr(), z.data_ptr()
    names = {"launch": core.launch, "stream": stream, "config": config, "kernel": kernel, "a": a, "b": b, "c": c, "n": np.int32(n)}
    return timed("launch(stream, config, kernel, a, b, c, n)", **names)


def cupy_raw(n: int) -> Timed:
    """CuPy's RawKernel."""
    import cupy

    kernel = cupy.RawKernel(KERNEL, "scale")
    y, x, z = (cupy.ones(n, cupy.float32) for _ in range(3))
    return timed("kernel((1,), (256,), (y, x, z, n))", kernel=kernel, y=y, x=x, z=z, n=cupy.int32(n))


def numba_cuda(y: Any, x: Any, z: Any, n: int) -> Timed:
    """numba-cuda's launcher, on arrays of its own."""
    from numba import cuda

    @cuda.jit
    def add(out: Any, one: Any, two: Any, count: Any) -> None:
        place = cuda.grid(1)
        if place < count:
            out[place] = one[place] + two[place]

    a, b, c = (cuda.as_cuda_array(tensor) for tensor in (y, x, z))
    return timed("launch(a, b, c, n)", launch=add[1, 256], a=a, b=b, c=c, n=n)


def triton_kernel(y: Any, x: Any, z: Any, n: int) -> Timed:
    """Triton's launcher."""
    source = (
        "import triton\nimport triton.language as tl\n@triton.jit\ndef add(y, x, z, n, B: tl.constexpr):\n"
        "    i = tl.program_id(0) * B + tl.arange(0, B)\n    m = i < n\n    tl.store(y + i, tl.load(x + i, m) + tl.load(z + i, m), m)\n"
    )
    with tempfile.TemporaryDirectory() as folder:  # Triton reads a kernel's source from its file
        path = Path(folder, "triton_add.py")
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("triton_add", path)
        assert spec
        assert spec.loader
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        add = loaded.add
        add[(1,)](y, x, z, n, B=256)
    return timed("add[(1,)](y, x, z, n, B=256)", add=add, y=y, x=x, z=z, n=n)
