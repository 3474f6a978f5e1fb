"""Device operations on a GPU: ops on real streams, awaits, cancellation, and a PTX kernel without a
bundle.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from tilec_runtime import (
    AsyncKernelLaunch,
    Device,
    DeviceOp,
    ExecutionContext,
    KernelFunction,
    LaunchConfig,
    SingleStream,
    as_op,
    load_module_from_ptx,
    use_device,
    with_context,
)
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.errors import KernelCacheError, OutOfMemoryError
from tilec_runtime.tensors.tensor import Tensor

pytestmark = pytest.mark.gpu

COUNT = 1 << 20
# y[i] = y[i] * factor, written for PTX ISA 7.0 so that every driver reads it.
PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry scale(.param .u64 data, .param .u32 count, .param .f32 factor)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [count];
    ld.param.f32 %f1, [factor];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4];
    mul.f32 %f3, %f2, %f1;
    st.global.f32 [%rd4], %f3;
DONE:
    ret;
}
"""


@pytest.fixture(scope="module")
def function() -> KernelFunction:
    return load_module_from_ptx(PTX, 0).function("scale", ("ptr", "u32", "f32"))


def ones() -> DeviceOp[Tensor]:
    """A tensor of ones, made in the order of the op's stream."""

    def make(ctx: ExecutionContext) -> Tensor:
        made = Tensor.uninitialized(
            (COUNT,), "f32", driver=ctx.driver, ordinal=ctx.device, stream=ctx.stream
        )
        ctx.memcpy_htod_async(made.ptr, np.ones(COUNT, np.float32))
        return made

    return with_context(make)


def scaled(function: KernelFunction, tensor: Tensor, factor: float) -> DeviceOp[Tensor]:
    launch = AsyncKernelLaunch(function).push_arg(tensor).push_arg(COUNT).push_arg(factor)
    return launch.set_launch_config(LaunchConfig.for_num_elems(COUNT)).first()


def host(tensor: Tensor) -> DeviceOp[Any]:
    def read(ctx: ExecutionContext) -> Any:
        ctx.reads(tensor.storage)
        back = np.empty(tensor.shape, np.float32)
        ctx.memcpy_dtoh_async(back, tensor.ptr)
        ctx.keep(tensor)
        return back

    return with_context(read)


def test_a_chain_stays_in_order(function: KernelFunction) -> None:
    op = ones()
    for _ in range(20):
        op = op.then(lambda t: scaled(function, t, 2.0)).then(lambda t: scaled(function, t, 0.5))
    assert (op.then(lambda t: scaled(function, t, 3.0)).then(host).sync() == 3.0).all()


def test_uses_on_different_streams_are_ordered(function: KernelFunction) -> None:
    """Each op runs on the next stream of the default policy, and writes what the one before it
    wrote.
    """
    tensor = ones().sync()
    for _ in range(30):
        tensor = scaled(function, tensor, 2.0).future().result()
        tensor = scaled(function, tensor, 0.5).enqueue_on(Device(0).new_stream())
    assert (host(tensor).sync() == 1.0).all()


def test_hundreds_of_awaits_and_cancellations(function: KernelFunction) -> None:
    async def one(number: int) -> float:
        back = await ones().then(lambda t: scaled(function, t, float(number))).then(host)
        return float(back[COUNT // 2])

    async def main() -> list[Any]:
        tasks = [asyncio.ensure_future(one(number)) for number in range(100)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    results = asyncio.run(main())
    assert all(
        isinstance(found, asyncio.CancelledError) or found == float(number)
        for number, found in enumerate(results)
    )
    assert results[1::2] == [float(number) for number in range(1, 100, 2)]
    assert COMPLETIONS.drain(10)


def test_what_is_refused_leaves_the_device_usable(function: KernelFunction) -> None:
    with pytest.raises(OutOfMemoryError):
        with_context(lambda ctx: ctx.malloc_async(1 << 50)).sync()
    with pytest.raises(KernelCacheError, match="cannot be loaded"):
        load_module_from_ptx(PTX.replace("mul.f32", "no.such.f32"), 0)
    launch = AsyncKernelLaunch(function).push_device_ptr(0).push_arg(0).push_arg(1.0)
    assert launch.set_launch_config(LaunchConfig.for_num_elems(0)).sync() == (0, 0, 1.0)
    with use_device(0):
        assert as_op(1).schedule(SingleStream(0)).result() == 1
