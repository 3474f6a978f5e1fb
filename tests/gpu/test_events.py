"""Events of tilec's own on a GPU: they order streams and measure time."""

from __future__ import annotations

import numpy as np
import pytest

from tilec_runtime import DeviceBuffer, Event, Stream
from tilec_runtime.errors import NoDeviceError

pytestmark = pytest.mark.gpu


def test_a_mark_orders_two_streams_and_measures_time() -> None:
    try:
        start, end = Event(0), Event(0)
    except NoDeviceError as error:
        pytest.skip(error.what)
    with start, end, Stream() as one, Stream() as two:
        buffer = DeviceBuffer((1 << 28,), "u8")
        start.record(one)
        for byte in range(64):
            buffer.fill(byte, one)
        end.record(one)
        end.hold(two)
        host = buffer.to_host(two)
        assert end.reached
        assert np.unique(host[:: 1 << 16]).tolist() == [63]
        assert 0 < end.since(start) < 10
