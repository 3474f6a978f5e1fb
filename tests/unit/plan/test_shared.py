"""Shared memory that is known before a launch: machine code that no launch could use is told by
`check`.
"""

from __future__ import annotations

from tests.unit.plan.test_plan import cuda_kernel, launch, plan, problems
from tilec.manifest.types import Override
from tilec_runtime.model.arch import Target

TARGETS = ("sm_80", "sm_90", "sm_120", "compute_80")


def test_more_than_a_block_of_the_target_has() -> None:
    greedy = cuda_kernel(launch=launch(shared="200 * 1024"))
    (said,) = problems(greedy, targets=TARGETS)
    assert said.startswith(
        "kernel.scale.launch.shared: sm_80, sm_120 have less shared memory than launches take: 204800 bytes for scale-"
    )
    assert said.endswith(
        ", and a block has 166912 at most: limit what needs it to other targets in [[override]], or take less"
    )
    newer = Override(select="scale-*", targets=(Target.parse("sm_90"),))
    assert {str(job.target) for job in plan(greedy, targets=TARGETS, overrides=(newer,)).jobs} == {
        "sm_90"
    }
