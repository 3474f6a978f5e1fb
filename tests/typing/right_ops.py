"""Types of ops as every type checker sees them; read by test_types.py, never run."""

from __future__ import annotations

import asyncio

from typing_extensions import assert_type

from tilec.runtime import Device, DeviceFuture, DeviceOp, ExecutionContext, SingleStream, Stream, empty, value, with_context, zip_ops


class Count(DeviceOp[int]):
    """An op of a user's own."""

    def __init__(self, start: int) -> None:
        self.start = start

    def _execute(self, ctx: ExecutionContext) -> int:
        return self.start + ctx.device


def combinators(stream: Stream) -> None:
    assert_type(Count(1).sync(), int)
    assert_type(value("a").sync_on(stream), str)
    assert_type(empty().sync(), None)
    assert_type(value(1).map(str), DeviceOp[str])
    assert_type(value(1).then(lambda x: value([x])), DeviceOp[list[int]])
    assert_type(value(1).inspect(print), DeviceOp[int])
    assert_type(value(1).boxed(), DeviceOp[int])
    assert_type(value(1).future(), DeviceFuture[int])
    assert_type(value(1).schedule(SingleStream(Device("cpu"))).result(), int)
    assert_type(value(1).enqueue_on(0), int)
    assert_type(with_context(lambda ctx: ctx.stream), DeviceOp[int])
    assert_type(with_context(lambda ctx: ctx.run(value("a"))), DeviceOp[str])


def tuples() -> None:
    assert_type(zip_ops(value(1)), DeviceOp[tuple[int]])
    pair = zip_ops(value(1), value("a"))
    assert_type(pair, DeviceOp[tuple[int, str]])
    assert_type(pair.first(), DeviceOp[int])
    assert_type(zip_ops(value(1), value("a"), value(2.0)).last(), DeviceOp[float])
    six = zip_ops(value(1), value("a"), value(2.0), value(b""), value(True), empty())
    assert_type(six, DeviceOp[tuple[int, str, float, bytes, bool, None]])
    assert_type(six.last().sync(), None)
    one, text = zip_ops(value(1), value("a")).unzip(2)
    assert_type(one, DeviceOp[int])
    assert_type(text, DeviceOp[str])
    many: list[DeviceOp[int]] = [value(1)] * 9
    assert_type(zip_ops(*many), DeviceOp[tuple[int, ...]])


def wider(op: DeviceOp[bool]) -> DeviceOp[int]:
    return op


async def awaited() -> None:
    assert_type(await value(1), int)
    assert_type(await value(1).future(), int)
    assert_type(await asyncio.gather(value(1).future(), value("a")), tuple[int, str])
