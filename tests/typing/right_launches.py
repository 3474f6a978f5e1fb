"""Ops that a generated package's functions give, as every type checker sees them; read by
test_types.py, never run.
"""

from __future__ import annotations

import numpy as np
import sample
from typing_extensions import assert_type

from tilec_runtime import (
    AsyncKernelLaunch,
    DeviceBuffer,
    DeviceOp,
    GraphScope,
    LazyLauncher,
    MappedPartition,
    Partition,
    SharedTensor,
    Tensor,
    TensorMut,
    TensorView,
    api,
    as_op,
    zip_ops,
)


def what_is_put_in_comes_out(
    z: Tensor, x: TensorView, y: SharedTensor, part: Partition[Tensor], host: DeviceBuffer
) -> None:
    assert_type(sample.ops.add(z, x, y).sync(), tuple[Tensor, TensorView, SharedTensor, float])
    assert_type(
        sample.ops.add(part, y, host, 2).sync(),
        tuple[Partition[Tensor], SharedTensor, DeviceBuffer, float],
    )
    assert_type(sample.ops.add(z=z, x=x, y=host, alpha=2.0).sync()[2], DeviceBuffer)
    assert_type(sample.ops.gemm(z, x, y, BM=64).sync(), tuple[Tensor, TensorView, SharedTensor])
    assert_type(sample.ops.everything(z, 3, True, 0x1000, b"bytes", ORDER="row").sync()[0], Tensor)
    assert_type(sample.ops.tiled(part).sync(), tuple[Partition[Tensor]])


def every_kind(z: TensorMut, part: Partition[TensorMut], mapped: MappedPartition[Tensor]) -> None:
    assert_type(
        sample.ops.add(z, part, mapped).sync(),
        tuple[TensorMut, Partition[TensorMut], MappedPartition[Tensor], float],
    )
    array = np.zeros(4, np.float32)
    sample.ops.add(array, z, array).sync()[1].release()


def ops_are_arguments(
    z: Tensor, x: DeviceOp[Tensor], y: DeviceOp[SharedTensor], alpha: DeviceOp[float]
) -> None:
    assert_type(sample.ops.add(z, x, y, alpha).sync(), tuple[Tensor, Tensor, SharedTensor, float])
    first = sample.ops.add(z, x, y).first()
    assert_type(first, DeviceOp[Tensor])
    assert_type(sample.ops.add(first, as_op(z), x).last(), DeviceOp[float])
    assert_type(
        sample.ops.add(x, z, z)
        .then(lambda found: sample.ops.add(found[1], found[0], found[2]))
        .sync()[0],
        Tensor,
    )


def they_are_ops(z: Tensor, x: TensorView) -> None:
    out, one, two, alpha = sample.ops.add(z, x, x).unzip(4)
    assert_type(out, DeviceOp[Tensor])
    assert_type(one, DeviceOp[TensorView])
    assert_type(alpha.sync(), float)
    assert_type(zip_ops(two, alpha).sync(), tuple[TensorView, float])
    op: DeviceOp[tuple[Tensor, TensorView, TensorView, float]] = sample.ops.add(z, x, x)
    assert_type(op.map(len).sync(), int)


async def awaited(z: Tensor, x: TensorView) -> None:
    assert_type((await sample.ops.add(z, x, x))[0], Tensor)


def choices(z: Tensor, x: TensorView) -> None:
    assert_type(
        sample.ops.gemm(z, x, x).variant(BM=64).sync(), tuple[Tensor, TensorView, TensorView]
    )
    assert_type(
        sample.ops.gemm(z, x, x).variant(BM=None, BK=64).sync(),
        tuple[Tensor, TensorView, TensorView],
    )
    assert_type(sample.ops.gemm(z, x, x).variant(T="f16").grid(4, 4).sync()[0], Tensor)
    assert_type(
        sample.ops.gemm(z, x, x).grid((4, 1)).variant(T="bf16", BM=128, BK=64).sync()[1],
        TensorView,
    )
    op = sample.ops.everything(z, 3, True, 0x1000, b"", ORDER="row", FAST=False, W=1.5)
    assert_type(
        op.options(occupancy=2)
        .options(num_ctas=2, occupancy=4)
        .variant(W=0.5, ORDER="column")
        .sync()[0],
        Tensor,
    )


def recorded(scope: GraphScope, z: Tensor, x: TensorView, launch: AsyncKernelLaunch) -> None:
    assert_type(scope.record(sample.ops.add(z, x, x)), tuple[Tensor, TensorView, TensorView, float])
    assert_type(
        scope.record(sample.ops.gemm(z, x, x).variant(BM=64).grid(4)),
        tuple[Tensor, TensorView, TensorView],
    )
    scope.record(api.memcpy(z, x))
    scope.record(api.fill(z, 0))
    scope.record(launch)


def of_a_module(z: Tensor, x: TensorView) -> None:
    kernels = sample.load("cpu")
    assert_type(kernels.ops, sample.Ops)
    assert_type(
        kernels.ops.gemm(z, x, x, BM=128).variant(BM=64).sync(),
        tuple[Tensor, TensorView, TensorView],
    )
    LazyLauncher(kernels["gemm"].variant(BM=64).options(occupancy=2))(z, x, x).options(
        occupancy=2
    ).sync()


def of_an_operator(y: Tensor, x: TensorView) -> None:
    kernels = sample.load()
    assert_type(kernels.scale(x), TensorView)
    assert_type(kernels.scale(x, factor=3.0, stream=0), TensorView)
    kernels.scale(y, x, 3.0)
