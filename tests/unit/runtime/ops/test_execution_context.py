"""What an execution gives its ops: memory and copies, and no use once it is over."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from typing import Any

import numpy as np
import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import CPU, Held
from tests.waiting import becomes
from tilec_runtime.errors import OutOfMemoryError, SchedulingError, TensorError, UsageError
from tilec_runtime.ops.combinators import as_op, with_context
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.tensors.storage import Storage

HERE = "test_execution_context.py"


def test_contents_go_to_arrays_that_can_be_written_alone(held: Held) -> None:
    array = np.zeros((4, 4), np.float32)
    for target in (b"abc", [1, 2], array[:, ::2], np.broadcast_to(array, (2, 4, 4))):
        with pytest.raises(
            TensorError,
            match=r"^memcpy_dtoh_async cannot write into a .* read only, or not C-contiguous",
        ):
            with_context(
                lambda ctx, target=target: ctx.memcpy_dtoh_async(target, ctx.malloc_async(16))
            ).sync()


def test_out_of_memory_is_an_error_and_everything_still_works(held: Held) -> None:
    with pytest.raises(
        OutOfMemoryError,
        match=rf"has no memory of {2**62} bytes(.|\n)*op: with_context, created at .*{HERE}",
    ) as caught:
        with_context(lambda ctx: ctx.malloc_async(2**62)).sync()
    assert caught.value.requested == 2**62
    assert as_op(1).sync() == 1


def test_host_memory_lives_until_the_copy_is_done(held: Held) -> None:
    """`enqueue_on` gives its result before the device has read the source, which nobody else holds."""
    stream = held.device.new_stream()
    z, x = np.zeros(4, np.float32), ones(4)
    with held.held():

        def copy(ctx: ExecutionContext) -> tuple[int, Any]:
            held.increment(ctx, z, x)  # holds the stream up
            address = ctx.malloc_async(64)
            source = np.full(64, 7, np.uint8)
            ctx.memcpy_htod_async(address, source)
            return address, weakref.ref(source)

        address, source = with_context(copy).enqueue_on(stream)
        assert source() is not None
    stream.sync()
    back = np.zeros(64, np.uint8)
    with_context(lambda ctx: ctx.memcpy_dtoh_async(back, address)).sync_on(stream)
    assert back.tolist() == [7] * 64
    assert becomes(lambda: source() is None)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda ctx, _: ctx.malloc_async("16"),
            "malloc_async: nbytes is '16', and must be a whole number of bytes",
        ),
        (
            lambda ctx, a: ctx.memcpy_dtod_async(a, a, -8),
            "memcpy_dtod_async: nbytes is -8, and must be a whole number of bytes",
        ),
        (
            lambda ctx, a: ctx.memcpy_dtod_async(a, a, 1.5),
            "memcpy_dtod_async: nbytes is 1.5, and must be a whole number of bytes",
        ),
        (
            lambda ctx, _: ctx.free_async(None),
            "free_async: the address is None, and must be a whole number",
        ),
        (
            lambda ctx, _: ctx.memcpy_htod_async("0x10", np.zeros(1)),
            "memcpy_htod_async: the address is '0x10'",
        ),
        (lambda ctx, _: ctx.run(3), "ctx.run takes an op, and this is a int"),
        (
            lambda ctx, _: ctx.reads(3),
            r"reads and writes take memory of tensors, and this is a int\n  fix: .*t\.storage",
        ),
    ],
)
def test_calls_of_wrong_arguments_are_refused_and_lose_nothing(
    held: Held, call: Any, words: str
) -> None:
    def run(ctx: ExecutionContext) -> None:
        call(ctx, ctx.malloc_async(8))

    with pytest.raises(UsageError, match=f"^{words}"):
        with_context(run).sync()
    assert held.driver.pool_stats(CPU, held.driver.default_pool(CPU)).used == 0


def test_a_context_is_of_no_use_once_its_execution_is_over(held: Held) -> None:
    """Nothing would wait for what is enqueued then, nor know of the memory that it uses."""
    contexts: list[ExecutionContext] = []
    with_context(contexts.append).sync()
    with contextlib.suppress(ZeroDivisionError):
        with_context(lambda ctx: contexts.append(ctx) or 1 / 0).sync()
    op, storage, host = as_op(1), Storage.allocate(held.driver, CPU, 64, 0), np.zeros(1)
    calls: dict[str, tuple[Any, ...]] = {
        "run": (op,),
        "memcpy_htod_async": (storage.address, host),
        "memcpy_dtoh_async": (host, storage.address),
        "memcpy_dtod_async": (storage.address, storage.address, 8),
        "malloc_async": (8,),
        "free_async": (storage.address,),
        "keep": (storage,),
        "reads": (storage,),
        "writes": (storage,),
    }
    for ctx, (name, arguments) in itertools.product(contexts, calls.items()):
        with pytest.raises(
            SchedulingError,
            match=rf"^ctx\.{name} was called on .* an execution that is over\n  cause: .*\n  fix: ",
        ):
            getattr(ctx, name)(*arguments)
    assert op.sync() == 1  # nobody has used it up


def test_a_context_is_a_stream_for_others(held: Held) -> None:
    stream = held.device.new_stream()
    op = with_context(lambda ctx: ctx.__cuda_stream__())
    assert op.sync_on(stream) == (0, stream.handle)
