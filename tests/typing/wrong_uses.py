"""Uses of a generated package that every type checker refuses, each on its own line; read by
test_types.py, never run.
"""

from __future__ import annotations

import sample

from tilec_runtime import (
    DeviceBuffer,
    DeviceOp,
    GraphScope,
    SharedTensor,
    Tensor,
    api,
    as_op,
    zip_ops,
)


def uses(kernels: sample.Module, t: DeviceBuffer) -> None:
    kernels.add(t, t)  # wrong: an argument is missing
    kernels.add(t, t, t, 1.0, 2.0)  # wrong: one too many
    kernels.add(t, t, [1.0])  # wrong: a list is no tensor
    kernels.add(0, t, t, t)  # wrong: the stream goes by name
    kernels.add(t, t, t, stream="cuda")  # wrong: a text is no stream
    kernels.add(t, t, t, alpha="1")  # wrong: a text is no number
    kernels.add(t, t, t, beta=1.0)  # wrong: no such argument
    kernels.gemm(t, t, t, BM=32)  # wrong: not built
    kernels.gemm(t, t, t, 64)  # wrong: axes go by name
    kernels.everything(t, 3, True, 0, b"x")  # wrong: an axis without default has to be chosen
    kernels.everything(t, 3, True, 0, "x", ORDER="row")  # wrong: a text is no struct
    kernels.missing(t)  # wrong: no such kernel


def launches_that_run_later(t: Tensor, number: DeviceOp[float], tensor: DeviceOp[Tensor]) -> None:
    sample.ops.add(t, t)  # wrong: an argument is missing
    sample.ops.add(0, t, t, t)  # wrong: there is no stream
    sample.ops.add(t, t, [1.0])  # wrong: a list is no tensor
    sample.ops.add(t, t, number)  # wrong: an op that gives no tensor
    sample.ops.add(t, t, t, tensor)  # wrong: an op that gives no number
    sample.ops.add(t, t, t, beta=1.0)  # wrong: no such argument
    sample.ops.gemm(t, t, t, BM=32)  # wrong: not built
    sample.ops.gemm(t, t, t).variant(BM=32)  # wrong: not built
    sample.ops.gemm(t, t, t).variant(BN=64)  # wrong: no such axis
    sample.ops.gemm(t, t, t).variant(64)  # wrong: axes go by name
    sample.ops.gemm(t, t, t).options(occupancy=2)  # wrong: built without options
    sample.ops.gemm(t, t, t).grid("4")  # wrong: a text is no extent
    sample.ops.add(t, t, t).variant(BM=64)  # wrong: it has no axes
    sample.ops.everything(t, 3, True, 0, b"", ORDER="row").options(occupancy=3)  # wrong: not built
    sample.ops.everything(t, 3, True, 0, b"", ORDER="row").options(warps=2)  # wrong: no such option
    sample.ops.everything(t, 3, True, 0, b"")  # wrong: an axis without default has to be chosen
    sample.ops.missing(t)  # wrong: no such kernel
    first: DeviceOp[int] = sample.ops.add(t, t, t).first()  # wrong: it gives the tensor
    sample.load().ops.gemm(t, t, t, BM=32)  # wrong: not built
    first.sync()


def recorded(scope: GraphScope, t: Tensor, tensor: DeviceOp[Tensor]) -> None:
    scope.record(api.zeros(4))  # wrong: it allocates
    scope.record(t.dup())  # wrong: likewise
    scope.record(api.from_host(b""))  # wrong: likewise
    scope.record(api.memcpy(t, b""))  # wrong: a graph keeps no contents of the host
    scope.record(api.memcpy(t, tensor))  # wrong: the op may allocate
    scope.record(tensor)  # wrong: any op
    scope.record(t)  # wrong: no op


def ops(tensor: DeviceOp[Tensor], shared: DeviceOp[SharedTensor]) -> None:
    as_op(1).reshape(3)  # wrong: a number has no shape
    as_op("a").to_host()  # wrong: a text is no tensor
    zip_ops(tensor, shared).dup()  # wrong: a tuple is no tensor
    tensor.unpartition()  # wrong: a tensor is no partition
    shared.share()  # wrong: shared tensors are cloned
    tensor.try_partition(4)  # wrong: a tensor has one owner
    as_op(1).then(lambda x: x)  # wrong: a number is no op
    as_op(1).then_unchecked(lambda x: x)  # wrong: likewise
    as_op(1).first()  # wrong: a number has no elements


def operators(y: Tensor, x: Tensor) -> None:
    kernels = sample.load()
    kernels.scale(x, 3.0)  # wrong: the second value by place is x
    kernels.scale(x, fctor=3.0)  # wrong: no such argument
    kernels.scale(factor=3.0)  # wrong: no input
    len(kernels.scale(y, x))  # wrong: nothing is returned where the output is given
