"""Streams of other libraries on the cpu device: taken wherever a stream is, and borrowed."""

from __future__ import annotations

import gc
import weakref

import pytest

from tests.cpu_samples import ones
from tests.unit.runtime.ops.device_samples import Held
from tilec_runtime import (
    Stream,
    api,
    as_op,
)
from tilec_runtime.errors import SchedulingError

SIZE = 1024


class Theirs:
    """A stream of another library, as cuda.core has it: the protocol alone."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return self.stream.__cuda_stream__()


def test_a_stream_of_others_is_taken_wherever_one_is(held: Held) -> None:
    with Stream(held.device) as own:
        theirs = Theirs(own)
        t, x = (api.from_host(ones(SIZE)).sync_on(theirs) for _ in range(2))
        with held.held():
            held.module.add(t, x, api.from_host(ones(SIZE)).enqueue_on(theirs), stream=theirs)
            found = api.to_host(t).enqueue_on(theirs)
        own.sync()
        assert found.tolist() == [2.0] * SIZE
        assert t.uses.sole is own.line
        assert as_op(1).map(lambda x: x + 1).sync_on(own.__cuda_stream__()[1]) == 2


def test_a_borrowed_stream_is_left_as_it_is(held: Held) -> None:
    with Stream(held.device) as own:
        theirs = Theirs(own)
        borrowed = Stream.borrow_raw(own.handle, held.device, owner=theirs, driver=held.driver)
        alive = weakref.ref(theirs)
        del theirs
        assert repr(borrowed).endswith("on cpu, borrowed>")
        borrowed.close()
        with pytest.raises(SchedulingError, match="the stream is closed"):
            borrowed.sync()
        assert alive() is not None
        del borrowed
        gc.collect()
        assert alive() is None
        assert as_op(1).sync_on(own) == 1, "its owner goes on"
