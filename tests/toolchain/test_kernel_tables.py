"""The tuning tables of examples/kernels: they hold, and an H200 takes from them what was fastest,
for each size that was measured.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.build import BuildRequest, plan_only
from tilec.compile.events import SilentObserver
from tilec.manifest.tuning_file import read_record
from tilec.model.tuning import TuningRecord
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.table import look_up, same_point

pytestmark = pytest.mark.toolchain

ROOT = Path(__file__).resolve().parents[2] / "examples" / "kernels"
KERNELS = ("softmax",)


@pytest.fixture(scope="module")
def planned() -> dict[str, tuple[KernelInfo, set[object]]]:
    """Of each kernel what a build for the H200 ships, and its points; a record that does not hold
    is refused here.
    """
    plan = plan_only(
        BuildRequest(manifest_path=ROOT / "tilec.toml", targets=("sm_90",)), SilentObserver()
    )
    return {
        kernel.info.name: (kernel.info, {job.variant.axes for job in kernel.jobs})
        for kernel in plan.kernels
    }


def record(name: str) -> TuningRecord:
    return read_record((ROOT / "tuning" / f"{name}.json").read_bytes(), name)


@pytest.mark.parametrize("name", KERNELS)
def test_what_was_measured_is_taken(planned, name: str) -> None:
    info, shipped = planned[name]
    (device,) = record(name).devices
    assert (device.name, device.multiprocessors, str(device.target)) == (
        "NVIDIA H200",
        132,
        "sm_90",
    )
    assert info.table is not None
    for entry in device.entries:
        dtypes = {axis: value for axis, value in entry.point if axis in info.dtype_axes}
        found = look_up(
            info.table,
            device="NVIDIA H200",
            cc=(9, 0),
            multiprocessors=132,
            sizes=entry.at,
            fits=lambda point, dtypes=dtypes: same_point(point, dtypes),
        )
        assert found.entry is not None, found.reason
        assert found.entry.point == entry.point
        assert entry.point in shipped
        assert entry.code, "what `tilec tune --confirm` holds the code against"
        (best, *others) = entry.candidates
        assert best.point == entry.point
        assert {other.status.value for other in others} <= {"measured", "pruned"}
