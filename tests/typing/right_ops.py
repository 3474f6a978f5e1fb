"""Types of ops as every type checker sees them; read by test_types.py, never run."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import assert_type

from tilec_runtime import (
    CudaGraph,
    Device,
    DeviceFuture,
    DeviceOp,
    ExecutionContext,
    Partition,
    SharedOp,
    SharedTensor,
    SingleStream,
    Stream,
    Tensor,
    TensorMut,
    TensorView,
    api,
    as_op,
    shared,
    with_context,
    zip_ops,
)


class Count(DeviceOp[int]):
    """An op of a user's own."""

    def __init__(self, start: int) -> None:
        self.start = start

    def _execute(self, ctx: ExecutionContext) -> int:
        return self.start + ctx.device


def combinators(stream: Stream) -> None:
    assert_type(Count(1).sync(), int)
    assert_type(as_op("a").sync_on(stream), str)
    assert_type(as_op(None).sync(), None)
    assert_type(as_op(1).map(str), DeviceOp[str])
    assert_type(as_op(1).then(lambda x: as_op([x])), DeviceOp[list[int]])
    assert_type(as_op(1).inspect(print), DeviceOp[int])
    assert_type(as_op(1).future(), DeviceFuture[int])
    assert_type(as_op(1).schedule(SingleStream(Device("cpu"))).result(), int)
    assert_type(as_op(1).enqueue_on(0), int)
    assert_type(with_context(lambda ctx: ctx.stream), DeviceOp[int])
    assert_type(with_context(lambda ctx: ctx.run(as_op("a"))), DeviceOp[str])


def tuples() -> None:
    assert_type(zip_ops(as_op(1)), DeviceOp[tuple[int]])
    pair = zip_ops(as_op(1), as_op("a"))
    assert_type(pair, DeviceOp[tuple[int, str]])
    assert_type(pair.first(), DeviceOp[int])
    assert_type(zip_ops(as_op(1), as_op("a"), as_op(2.0)).last(), DeviceOp[float])
    six = zip_ops(as_op(1), as_op("a"), as_op(2.0), as_op(b""), as_op(True), as_op(None))
    assert_type(six, DeviceOp[tuple[int, str, float, bytes, bool, None]])
    assert_type(six.last().sync(), None)
    one, text = zip_ops(as_op(1), as_op("a")).unzip(2)
    assert_type(one, DeviceOp[int])
    assert_type(text, DeviceOp[str])
    many: list[DeviceOp[int]] = [as_op(1)] * 9
    assert_type(as_op((1, "a")).then_unchecked(lambda pair: as_op(pair[1])), DeviceOp[str])
    assert_type(zip_ops(*many), DeviceOp[tuple[int, ...]])


def every_arity() -> None:
    of_1 = zip_ops(as_op(1))
    assert_type(of_1.unzip(1), tuple[DeviceOp[int]])
    assert_type(of_1.last(), DeviceOp[int])
    of_2 = zip_ops(as_op(1), as_op("a"))
    assert_type(of_2.unzip(), tuple[DeviceOp[int], DeviceOp[str]])
    assert_type(of_2.then(lambda made: as_op(made[-1])), DeviceOp[str])
    of_3 = zip_ops(as_op(1), as_op("a"), as_op(2.0))
    assert_type(of_3.unzip(3), tuple[DeviceOp[int], DeviceOp[str], DeviceOp[float]])
    of_4 = zip_ops(as_op(1), as_op("a"), as_op(2.0), as_op(b""))
    assert_type(
        of_4.unzip(4), tuple[DeviceOp[int], DeviceOp[str], DeviceOp[float], DeviceOp[bytes]]
    )
    assert_type(of_4.last(), DeviceOp[bytes])
    of_5 = zip_ops(as_op(1), as_op("a"), as_op(2.0), as_op(b""), as_op(True))
    assert_type(of_5.sync(), tuple[int, str, float, bytes, bool])
    assert_type(of_5.last(), DeviceOp[bool])


def tensors(array: npt.NDArray[np.float32], mutable: Partition[TensorMut]) -> None:
    op = api.from_host(array)
    assert_type(op, DeviceOp[Tensor])
    assert_type(op.reshape(3, 4).reinterpret("u8"), DeviceOp[Tensor])
    assert_type(op.view(12), DeviceOp[TensorView])
    assert_type(op.partition(4), DeviceOp[Partition[Tensor]])
    assert_type(op.partition(4).unpartition().dup(), DeviceOp[Tensor])
    assert_type(as_op(mutable).unpartition(), DeviceOp[TensorMut])
    assert_type(api.memcpy(mutable, array), DeviceOp[None])
    with mutable.base[0:2].view(-1) as part:
        assert_type(part, TensorMut)
        assert_type(part.borrow()[0], TensorView)
        assert_type(part.slice((0, 2)).partition(2), Partition[TensorMut])
        assert_type(list(part), list[TensorMut])
        assert_type(as_op(part).view(2, 1), DeviceOp[TensorMut])
        assert_type(api.memcpy(part[0:2], array), DeviceOp[None])
    assert_type(api.empty((2, 3), "bf16"), DeviceOp[Tensor])
    assert_type(api.zeros_like(array).sync(), Tensor)
    tensor = op.sync()
    assert_type(tensor.dup().sync(), Tensor)
    assert_type(tensor.to_host().ndim, int)
    assert_type(op.to_host().sync().size, int)
    assert_type(api.to_host(op).sync().size, int)


def shares(op: DeviceOp[Tensor], share: SharedTensor) -> None:
    assert_type(op.share(), DeviceOp[SharedTensor])
    assert_type(share[0:2].view(-1), TensorView)
    assert_type(op.shared(), SharedOp[SharedTensor])
    assert_type(op.shared().sync(), SharedTensor)
    assert_type(op.shared().shared(), SharedOp[SharedTensor])
    assert_type(op.shared().reshape(3, 4), DeviceOp[SharedTensor])
    assert_type(op.shared().try_partition(4), DeviceOp[Partition[Tensor]])
    assert_type(op.shared().unshare(), DeviceOp[Tensor])
    assert_type(shared(share), SharedOp[SharedTensor])
    assert_type(shared(op.sync()).sync(), SharedTensor)
    assert_type(as_op(1).shared(), SharedOp[int])
    assert_type(shared("a").sync(), str)
    assert_type(as_op(1).unshare(), DeviceOp[int])
    assert_type(zip_ops(op, as_op(1)).shared(), SharedOp[Any])


def graphs(stream: Stream, op: DeviceOp[tuple[Tensor, float]]) -> None:
    assert_type(as_op(1).graph(), CudaGraph[int])
    assert_type(op.graph_on(stream).take_output(), tuple[Tensor, float])
    graph = op.first().graph_on(stream)
    assert_type(graph.launch(), DeviceOp[None])
    assert_type(graph.update(as_op("a")), str)
    with CudaGraph.scope(stream) as s:
        pass
    assert_type(s.graph, CudaGraph[None])
    with graph as same:
        assert_type(same, CudaGraph[Tensor])


def wider(op: DeviceOp[bool]) -> DeviceOp[int]:
    return op


async def awaited() -> None:
    assert_type(await as_op(1), int)
    assert_type(await as_op(1).future(), int)
    assert_type(await asyncio.gather(as_op(1).future(), as_op("a")), tuple[int, str])
