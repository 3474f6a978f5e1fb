"""On a GPU: what a launch through generated launchers costs against other ways, and what the example kernels reach against torch.

usage: python benchmarks/gpu_launch.py OUT.json [--dist dist] [--small]. Needs the built package and torch; the C loop, cuda.core, CuPy and
Triton are measured where they are installed. All numbers are of one run; medians of 7 batches of 2000 launches, and of 15 timed launches.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BATCHES, LAUNCHES, WARM, TIMED = 7, 2000, 200, 15
KERNEL = """
extern "C" __global__ void scale(float* y, const float* x, const float* z, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + z[i];
}
"""
C_LOOP = """
#include <time.h>
typedef int (*launch_t)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
double loop(launch_t launch, void* function, void* stream, void** params, int n) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < n; ++i) launch(function, 1, 1, 1, 256, 1, 1, 0, stream, params, 0);
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec);
}
"""


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="where to write the JSON")
    parser.add_argument("--dist", type=Path, default=Path(__file__).resolve().parents[1] / "dist", help="where tilec_examples lies")
    parser.add_argument("--small", action="store_true", help="sixteen times less data, for cards with little memory")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("torch is not installed: nothing was measured", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("no GPU: nothing was measured", file=sys.stderr)
        return 3
    torch.zeros(1, device="cuda")
    sys.path.insert(0, str(arguments.dist.resolve()))
    module = importlib.import_module("tilec_examples").load("cuda:0")
    launches = dict(launch_costs(torch, module))
    base = launches.get("C loop over cuLaunchKernel", {}).get("median")
    for row in launches.values():
        if base and "median" in row:
            row["times_c_loop"] = round(row["median"] / base, 2)
    document = {
        "schema_version": 1,
        "benchmark": "gpu_launch",
        "machine": machine(torch),
        "launch_us": launches,
        "throughput": list(throughputs(torch, module, small=arguments.small)),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for name, row in launches.items():
        print(f"{name:44} {row}")
    for row in document["throughput"]:
        print(row)
    return 0


# ---- launch cost: a kernel of one block over 256 elements, so that the device keeps up


def launch_costs(torch: Any, module: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Microseconds per launch for each way."""
    n = 256
    y, x, z = (torch.ones(n, device="cuda") for _ in range(3))
    stream = torch.cuda.current_stream()
    ways: dict[str, Callable[[], Callable[[], None]]] = {
        "tilec, CUDA C++ kernel, 2 torch tensors": lambda: lambda: module.elementwise(stream, y, x, 2.0, 0.5),
        "tilec, tile kernel, 3 torch tensors": lambda: lambda: module.vector_add(stream, y, x, z),
        "tilec, tile kernel, own buffers": lambda: own_buffers(module, n),
        "torch.add(out=)": lambda: lambda: torch.add(x, z, out=y),
        "cuda.core.launch, ready config": lambda: cuda_core(y, x, z, n),
        "CuPy RawKernel": lambda: cupy_raw(n),
        "Triton": lambda: triton_kernel(y, x, z, n),
    }
    yield "C loop over cuLaunchKernel", measured(torch, lambda: c_loop(y, x, z, n), whole=True)
    for name, make in ways.items():
        yield name, measured(torch, make)


def measured(torch: Any, make: Callable[[], Any], *, whole: bool = False) -> dict[str, Any]:
    """Minimum and median over batches; `whole` callables run a whole batch and give its seconds."""
    try:
        call = make()
        if whole:
            call(WARM)
        else:
            for _ in range(WARM):
                call()
        torch.cuda.synchronize()
        times = []
        for _ in range(BATCHES):
            times.append(call(LAUNCHES) if whole else batch(call))
            torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 (a way that is not installed, or refuses this GPU, is a row)
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
    each = [seconds / LAUNCHES * 1e6 for seconds in times]
    return {"minimum": round(min(each), 3), "median": round(statistics.median(each), 3)}


def batch(call: Callable[[], None]) -> float:
    """Seconds to enqueue a batch."""
    start = time.perf_counter()
    for _ in range(LAUNCHES):
        call()
    return time.perf_counter() - start


def own_buffers(module: Any, n: int) -> Callable[[], None]:
    """The tile kernel with tilec's own buffers."""
    import numpy as np

    from tilec.runtime import DeviceBuffer

    z, x, y = (DeviceBuffer.from_host(np.ones(n, np.float32)) for _ in range(3))
    return lambda: module.vector_add(0, z, x, y)


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


def c_loop(y: Any, x: Any, z: Any, n: int) -> Callable[[int], float]:
    """A C function that launches in a loop; needs a C compiler."""
    cuda = ctypes.CDLL("libcuda.so.1")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    ptx = compiled()
    for code in (cuda.cuModuleLoadData(ctypes.byref(module), ptx), cuda.cuModuleGetFunction(ctypes.byref(function), module, b"scale")):
        if code:
            raise RuntimeError(f"CUDA error {code}")
    values = (ctypes.c_uint64(y.data_ptr()), ctypes.c_uint64(x.data_ptr()), ctypes.c_uint64(z.data_ptr()), ctypes.c_int(n))
    params = (ctypes.c_void_p * 4)(*(ctypes.addressof(value) for value in values))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "loop.c").write_text(C_LOOP, encoding="utf-8")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", f"{folder}/loop.so", f"{folder}/loop.c"], check=True, capture_output=True)
        loop = ctypes.CDLL(f"{folder}/loop.so").loop
    loop.restype = ctypes.c_double
    launch = ctypes.cast(cuda.cuLaunchKernel, ctypes.c_void_p)

    def run(count: int, _keep: object = (values, params, cuda)) -> float:
        return float(loop(launch, function, None, params, count))

    return run


def cuda_core(y: Any, x: Any, z: Any, n: int) -> Callable[[], None]:
    """cuda.core with a launch configuration that is made once."""
    import numpy as np

    core = importlib.import_module("cuda.core")
    device = core.Device(0)
    device.set_current()
    stream = device.default_stream
    kernel = core.ObjectCode.from_ptx(compiled()).get_kernel("scale")
    config = core.LaunchConfig(grid=1, block=256)
    pointers = (y.data_ptr(), x.data_ptr(), z.data_ptr())
    count = np.int32(n)
    return lambda: core.launch(stream, config, kernel, *pointers, count)


def cupy_raw(n: int) -> Callable[[], None]:
    """CuPy's RawKernel."""
    import cupy

    kernel = cupy.RawKernel(KERNEL, "scale")
    y, x, z = (cupy.ones(n, cupy.float32) for _ in range(3))
    count = cupy.int32(n)
    return lambda: kernel((1,), (256,), (y, x, z, count))


def triton_kernel(y: Any, x: Any, z: Any, n: int) -> Callable[[], None]:
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
    return lambda: add[(1,)](y, x, z, n, B=256)


# ---- throughput


def throughputs(torch: Any, module: Any, *, small: bool) -> Iterator[dict[str, Any]]:
    """Rates of the examples and of torch on the same data; each function lets go of its data before the next one starts."""
    size = 1 << (24 if small else 28)
    yield vector_add(torch, module, size)
    yield vector_add(torch, module, size - 3)
    yield softmax(torch, module, size // 1024, 1024)
    yield reduce_sum(torch, module, size)
    side = 2048 if small else 8192
    yield gemm(torch, module, side, torch.bfloat16)
    yield gemm(torch, module, side, torch.float16)


def vector_add(torch: Any, module: Any, size: int) -> dict[str, Any]:
    """f32; sizes that 16 does not divide take the general variant."""
    x, y = torch.randn(size, device="cuda"), torch.randn(size, device="cuda")
    z, stream = torch.empty_like(x), torch.cuda.current_stream()
    work = {"name": f"vector_add f32 {size}", "unit": "TB/s", "amount": 3 * x.nbytes / 1e12}
    ours, theirs = (lambda: module.vector_add(stream, z, x, y)), (lambda: torch.add(x, y, out=z))
    return compared(torch, work, ours, theirs, lambda: torch.testing.assert_close(z, x + y))


def softmax(torch: Any, module: Any, rows: int, columns: int) -> dict[str, Any]:
    """f32 over rows."""
    x = torch.randn(rows, columns, device="cuda")
    y, stream = torch.empty_like(x), torch.cuda.current_stream()
    work = {"name": f"softmax f32 {rows} x {columns}", "unit": "TB/s", "amount": 2 * x.nbytes / 1e12}
    ours, theirs = (lambda: module.softmax(stream, y, x)), (lambda: torch.softmax(x, 1, out=y))
    return compared(torch, work, ours, theirs, lambda: torch.testing.assert_close(y, torch.softmax(x, 1)))


def reduce_sum(torch: Any, module: Any, size: int) -> dict[str, Any]:
    """f32 to one number."""
    x, total = torch.rand(size, device="cuda"), torch.zeros(1, device="cuda")
    stream = torch.cuda.current_stream()
    work = {"name": f"reduce_sum f32 {size}", "unit": "TB/s", "amount": x.nbytes / 1e12}
    ours, theirs = (lambda: module.reduce_sum(stream, total, x)), (lambda: torch.sum(x))
    return compared(torch, work, ours, theirs, lambda: torch.testing.assert_close(total[0], x.sum(), rtol=1e-4, atol=0))


def gemm(torch: Any, module: Any, side: int, dtype: Any) -> dict[str, Any]:
    """Square matrices."""
    a, b = (torch.randn(side, side, device="cuda", dtype=dtype) for _ in range(2))
    c, stream = torch.empty_like(a), torch.cuda.current_stream()
    work = {"name": f"gemm {str(dtype).removeprefix('torch.')} {side}^3", "unit": "TFLOP/s", "amount": 2 * side**3 / 1e12}
    ours, theirs = (lambda: module.gemm(stream, c, a, b)), (lambda: torch.matmul(a, b, out=c))
    return compared(torch, work, ours, theirs, lambda: torch.testing.assert_close(c, a @ b, rtol=2e-2, atol=0.01 * side**0.5))


def compared(
    torch: Any, work: dict[str, Any], ours: Callable[[], Any], theirs: Callable[[], Any], check: Callable[[], None]
) -> dict[str, Any]:
    """Both rates and their ratio, measured in turns; the result of ours is checked first."""
    row: dict[str, Any] = {"name": work["name"], "unit": work["unit"]}
    try:
        ours()
        torch.cuda.synchronize()
        check()
        turns = [(device_seconds(torch, ours), device_seconds(torch, theirs)) for _ in range(3)]
    except Exception as error:  # noqa: BLE001 (one kernel that fails must not hide the others)
        return {**row, "error": f"{type(error).__name__}: {error}"}
    mine, other = (statistics.median(times) for times in zip(*turns, strict=True))
    return {**row, "tilec": round(work["amount"] / mine, 3), "torch": round(work["amount"] / other, 3), "ratio": round(other / mine, 3)}


def device_seconds(torch: Any, call: Callable[[], Any]) -> float:
    """Median seconds of one call on the device."""
    for _ in range(3):
        call()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(TIMED)]
    for begin, end in events:
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in events) / 1000


def machine(torch: Any) -> dict[str, Any]:
    """Where the numbers come from."""
    facts = torch.cuda.get_device_properties(0)
    driver = Path("/proc/driver/nvidia/version")
    return {
        "device": facts.name,
        "compute_capability": [facts.major, facts.minor],
        "driver": driver.read_text(encoding="utf-8").splitlines()[0] if driver.is_file() else "unknown",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    sys.exit(main())
