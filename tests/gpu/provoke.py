"""One failure of a GPU, provoked on purpose, in a process of its own: `python -m tests.gpu.provoke
NAME` prints what was raised as JSON.

The context dies here, and with it all use of the device in this process.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tilec_runtime import (
    AsyncKernelLaunch,
    Device,
    DeviceBuffer,
    DeviceOp,
    Event,
    KernelFunction,
    LaunchConfig,
    Stream,
    Tensor,
    as_op,
    load_module_from_bytes,
    load_module_from_ptx,
    with_context,
)
from tilec_runtime.device.driver import driver
from tilec_runtime.device.seam import LaunchParts, LaunchShape
from tilec_runtime.errors import DeviceError, TilecError

# The body of a kernel of one address, by what it does.
BODIES = {
    "fine": "st.global.u32 [%rd1], 1;",
    "illegal_address": "st.global.u32 [%rd1], 1;",
    "misaligned_address": "st.global.u32 [%rd1+1], 1;",
    "trap": "trap;",
    "assertion": """
        mov.u64 %rd2, text;
        cvta.global.u64 %rd2, %rd2;
        { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
          st.param.b64 [a], %rd2; st.param.b64 [b], %rd2; st.param.b32 [c], 7; st.param.b64 [d], %rd2; st.param.b64 [e], 1;
          call.uni __assertfail, (a, b, c, d, e); }""",
    "bounded": "st.global.u32 [%rd1], 1;",
    # More values at a time than 64 registers hold, so that 1024 threads have too few: volatile
    # accesses stay in their order.
    "crowded": "\n".join(
        [".reg .b32 %r<160>;"]
        + [f"ld.volatile.global.u32 %r{i}, [%rd1+{4 * i}];" for i in range(160)]
        + [f"st.volatile.global.u32 [%rd1+{4 * i}], %r{159 - i};" for i in range(160)]
    ),
}
HEAD = """
.version 7.0
.target sm_70
.address_size 64
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 text[6] = {105, 32, 60, 32, 110, 0};
"""
NOWHERE = 0x10  # an address of no memory


def ptx(*names: str) -> str:
    kernels = [
        f".visible .entry {name}(.param .u64 data) {'.maxntid 32, 1, 1' if name == 'bounded' else ''}\n"
        f"{{ .reg .b64 %rd<3>; ld.param.u64 %rd1, [data]; {BODIES[name]} ret; }}\n"
        for name in names
    ]
    return HEAD + "".join(kernels)


def told(error: BaseException | None) -> dict[str, Any]:
    if error is None:
        return {"class": ""}
    fields = (
        "what",
        "cause",
        "fix",
        "op",
        "kernel",
        "device",
        "result",
        "code",
        "since",
        "launches",
        "again",
    )
    return {
        "class": type(error).__name__,
        "text": str(error),
        **{name: getattr(error, name, None) for name in fields},
    }


def caught(call: Callable[[], object]) -> dict[str, Any]:
    try:
        call()
    except TilecError as error:
        return told(error)
    return told(None)


def launch(function: KernelFunction, address: int) -> DeviceOp[Any]:
    return (
        AsyncKernelLaunch(function)
        .push_device_ptr(address)
        .set_launch_config(LaunchConfig(grid=2, block=32))
    )


def fault(name: str) -> dict[str, Any]:
    """A kernel that fails, and every later call."""
    module = load_module_from_ptx(ptx("fine", name), 0)
    fine, bad = module.function("fine"), module.function(name)
    device, stream, other = Device(0), Stream(0), Stream(0)
    buffer, event = DeviceBuffer((64,), "u32", 0), Event(0)
    tensors = [
        Tensor.uninitialized((64,), "u32", driver=driver(), ordinal=0, stream=stream.handle)
        for _ in range(3)
    ]
    tensors[0].storage.pass_through(other.handle, write=True)
    shared = as_op(1).shared()
    waited = launch(fine, buffer.ptr)
    waited.sync_on(stream)
    future = as_op(7).future()
    future.result()
    first = caught(
        lambda: launch(bad, NOWHERE if name == "illegal_address" else buffer.ptr).sync_on(stream)
    )

    async def awaiting() -> None:
        await launch(fine, buffer.ptr)

    host = np.zeros(64, np.uint32)
    later = {
        "launch": lambda: launch(fine, buffer.ptr).sync_on(stream),
        "enqueue": lambda: launch(fine, buffer.ptr).enqueue_on(other),
        "future": lambda: launch(fine, buffer.ptr).future().result(),
        "await": lambda: asyncio.run(awaiting()),
        "shared": shared.sync,
        "sync": stream.sync,
        "other stream": other.sync,
        "device": device.sync,
        "new stream": lambda: Stream(0),
        "event": lambda: event.record(stream),
        "reached": lambda: event.reached,
        "allocate": lambda: DeviceBuffer((4,), "u32", 0),
        "allocate in order": lambda: with_context(lambda ctx: ctx.malloc_async(64)).sync_on(stream),
        "copy out": buffer.to_host,
        "copy in": lambda: DeviceBuffer.from_host(host, 0),
        "load": lambda: load_module_from_ptx(ptx("fine"), 0),
        "memory": lambda: driver().memory_info(0),
        "in order": lambda: with_context(lambda ctx: ctx.free_async(tensors[1].ptr)).sync_on(
            stream
        ),
    }
    found = {call: caught(function) for call, function in later.items()}
    stream.close()
    event.close()
    buffer.free()
    tensors.pop()
    return {"first": first, "later": found, "done": future.done()}


def refused(shape: LaunchShape, name: str = "bounded") -> dict[str, Any]:
    """A launch that the driver itself refuses: tilec's own checks, which come first, are passed by.
    The device works afterwards.
    """
    seam = driver()
    module = load_module_from_ptx(ptx("fine", name), 0)
    fine, other = module.function("fine"), module.function(name)
    buffer = DeviceBuffer((64,), "u32", 0)
    seam.adopt(0)
    parts = LaunchParts(kernel=name, sizes=(8,), addresses=(), tensors=())
    from tilec_runtime.launch.packing import ArgumentBlock

    block = ArgumentBlock(buffer.ptr.to_bytes(8, "little"), (0,))
    call = seam.bind_launch(0, other.handle, shape, 0, parts)

    def try_it() -> None:
        result = call(block.address, 0)[0]
        if result:
            seam.launch_failed(0, result, 0, lambda: call(block.address, 0)[0], name)

    first = caught(try_it)
    launch(fine, buffer.ptr).sync_on(0)
    return {"first": first, "works": int(buffer.to_host()[0]) == 1}


def image(data: str | bytes, symbol: str = "") -> dict[str, Any]:
    """An image that the driver does not load, or an entry point that is not in it. The device works
    afterwards.
    """

    def load() -> None:
        module = load_module_from_bytes(data.encode() if isinstance(data, str) else data, 0)
        if symbol:
            module.function(symbol)

    first = caught(load)
    fine = load_module_from_ptx(ptx("fine"), 0).function("fine")
    buffer = DeviceBuffer((64,), "u32", 0)
    launch(fine, buffer.ptr).sync_on(0)
    return {"first": first, "works": int(buffer.to_host()[0]) == 1}


def foreign_cubin() -> dict[str, Any]:
    """A cubin of another architecture, out of the bundle whose path is on the command line."""
    from pathlib import Path

    from tilec_runtime.bundle.read import Bundle

    major = Device(0).info.cc[0]
    bundle = Bundle.open(Path(sys.argv[2]))
    images = [
        image
        for kernel in bundle.info.kernels
        for variant in kernel.variants
        for image in variant.images
    ]
    cubins = [
        bundle.image(image.digest)
        for image in images
        if str(image.target).startswith("sm_") and f"sm_{major}" not in str(image.target)
    ]
    return image(cubins[0])


SCENARIOS: dict[str, Callable[[], dict[str, Any]]] = {
    **{
        name: (lambda name=name: fault(name))
        for name in ("illegal_address", "misaligned_address", "trap", "assertion")
    },  # type: ignore[misc]
    "out_of_resources": lambda: refused(LaunchShape(grid=(1, 1, 1), block=(1024, 1, 1)), "crowded"),
    "beyond_its_bounds": lambda: refused(LaunchShape(grid=(1, 1, 1), block=(64, 1, 1))),
    "too_much_shared_memory": lambda: refused(
        LaunchShape(grid=(1, 1, 1), block=(32, 1, 1), shared=100_000)
    ),
    "cooperative_too_large": lambda: refused(
        LaunchShape(grid=(1_000_000, 1, 1), block=(32, 1, 1), cooperative=True)
    ),
    "grid_too_large": lambda: refused(LaunchShape(grid=(1, 100_000, 1), block=(32, 1, 1))),
    "unsupported_ptx": lambda: image(ptx("fine").replace(".version 7.0", ".version 99.0")),
    "invalid_ptx": lambda: image(ptx("fine").replace("st.global", "no.such.global")),
    "ptx_of_another_gpu": lambda: image(
        ptx("fine").replace(".version 7.0", ".version 9.0").replace("sm_70", "sm_121a")
    ),
    "foreign_cubin": foreign_cubin,
}


def main() -> None:
    found = SCENARIOS[sys.argv[1]]()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    try:
        main()
    except DeviceError as error:  # outside of what was provoked
        sys.exit(f"unexpected: {error}")
