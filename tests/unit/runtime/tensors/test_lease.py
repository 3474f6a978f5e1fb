"""Claims on a tensor that the collector ends."""

from __future__ import annotations

import gc

from tilec_runtime.errors import Location
from tilec_runtime.tensors.lease import Holder, Lease

COPY = Holder(name="the copy", location=Location(file="app.py", line=3))
ADD = Holder(name="the launch of add", location=Location(file="app.py", line=8))


def test_the_collector_may_end_claims_while_they_are_listed() -> None:
    class Cycle:
        me: object

    lease = Lease()
    kept = [
        lease.read(COPY) for _ in range(25)
    ]  # too many for a tuple that the interpreter has ready
    threshold = gc.get_threshold()
    try:
        for later in range(8):  # allocations until the collector runs
            gc.collect()
            gc.disable()
            cycle = Cycle()
            cycle.me = (cycle, lease.read(ADD))
            del cycle
            gc.enable()
            gc.set_threshold(gc.get_count()[0] + later)
            assert len(lease.claims) in (25, 26)
            gc.set_threshold(*threshold)
    finally:
        gc.enable()
        gc.set_threshold(*threshold)
    gc.collect()
    assert len(lease.claims) == len(kept)
