"""What a target cannot do, or a name cannot hold, is told by `check`: clusters, shared memory, ids."""

from __future__ import annotations

import dataclasses

from tests.unit.plan.test_plan import CUDA_DECL, cuda_kernel, launch, plan, problems, tile_kernel
from tilec.manifest.types import Launch, Override
from tilec_runtime.model.arch import Target


def test_clusters_are_for_newer_targets() -> None:
    clustered = cuda_kernel(launch=launch(cluster=(2, 2)))
    (said,) = problems(clustered)
    assert said.startswith(
        "kernel.scale.launch.cluster: clusters of 4 blocks need compute capability 9.0, and sm_80, compute_80 are older: "
    )
    assert said.endswith("limit the kernel to newer targets in [[override]]")
    assert {str(job.target) for job in plan(clustered, targets=("sm_90",)).jobs} == {"sm_90"}
    newer = Override(select="scale-*", targets=(Target.parse("sm_90"),))
    assert {str(job.target) for job in plan(clustered, overrides=(newer,)).jobs} == {"sm_90"}
    fixed = dataclasses.replace(CUDA_DECL, cluster=(2,))
    (said,) = problems(cuda_kernel(), decls={"scale": fixed})
    assert said.startswith(
        "kernel.scale: clusters of 2 blocks need compute capability 9.0, and sm_80, compute_80 are older"
    )
    assert plan(cuda_kernel(launch=launch(cluster=(1,)))).jobs


def test_dimensions_that_are_left_out_are_1() -> None:
    """What the source fixes has three of them, and the manifest as many as it likes."""
    fixed = {"scale": dataclasses.replace(CUDA_DECL, cluster=(2, 1, 1))}
    assert plan(cuda_kernel(launch=launch(cluster=(2,))), decls=fixed, targets=("sm_90",)).jobs
    for other in ((1,), (2, 2), (1, 2, 1)):
        (said,) = problems(
            cuda_kernel(launch=launch(cluster=other)), decls=fixed, targets=("sm_90",)
        )
        assert (
            said
            == f"kernel.scale.launch.cluster: cluster {list(other)}, but the source fixes [2, 1, 1] (__cluster_dims__)"
        )


def test_compilers_of_tiles_choose_clusters() -> None:
    (said,) = problems(
        tile_kernel(launch=Launch(grid=("1",), cluster=(2, 1, 1))), targets=("sm_90",)
    )
    assert said == (
        "kernel.gemm.launch.cluster: the cluster of a tile kernel is chosen by its compiler: "
        "leave launch.cluster out; hints = { num_ctas = 2 } lets two blocks work as one"
    )
    assert plan(tile_kernel(launch=Launch(grid=("1",), cluster=(1, 1, 1))), targets=("sm_90",)).jobs


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
