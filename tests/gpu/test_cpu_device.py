"""The cpu device on a machine with a GPU: torch's tensors on both sides, and who refuses which."""

from __future__ import annotations

from typing import Any

import pytest

from tilec_runtime.errors import PlacementError, SchedulingError

pytestmark = pytest.mark.gpu


def test_tensors_are_launched_on_where_they_live(package: Any, torch: Any) -> None:
    on_cpu, on_gpu = package.load("cpu"), package.load(torch.device("cuda", 0))
    assert str(on_cpu["vector_add"]) == "<Launcher vector_add on the cpu device>"
    x, y, z = torch.randn(1003), torch.randn(1003).pin_memory(), torch.empty(1003)
    from tilec_runtime import Stream

    with Stream("cpu") as stream:
        on_cpu.vector_add(z, x, y, stream=stream)
        stream.sync()
    assert torch.equal(z, x + y)
    there = torch.empty(1003, device="cuda")
    on_gpu.vector_add(there, x.cuda(), y.cuda())
    assert torch.equal(there.cpu(), z)
    with pytest.raises(
        PlacementError, match="'x' is on device 0, and the kernel is loaded on the cpu device"
    ):
        on_cpu.vector_add(z, x.cuda(), y)
    with pytest.raises(
        PlacementError, match="'x' is on the CPU, and the kernel is loaded on device 0"
    ):
        on_gpu.vector_add(there, x, y.cuda())
    with pytest.raises(SchedulingError, match="is no stream of the cpu device"):
        on_cpu.vector_add(z, x, y, stream=torch.cuda.Stream())
