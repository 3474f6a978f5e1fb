"""Variants of a CUDA source that are compiled in one go: one program, its entry points each with
what it needs alone.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.toolchain.cuda_jobs import NVCC, frontend, job
from tests.toolchain.projects import write
from tilec.frontends.cuda.mangled import unseen
from tilec.frontends.tools.cpp.nvrtc import Nvrtc
from tilec.model.job import Job, Member, Option, Source
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.errors import CompileError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.image import Image

pytestmark = pytest.mark.toolchain

TEXT = """
#include <cuda_fp16.h>
#include "size.cuh"
template <typename T, int N> __global__ void k(T* y) {
    __shared__ T part[N * SIZE];
    static_assert(N < 64, "N is too large");
    part[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    for (int i = 0; i < N; ++i) y[threadIdx.x] += part[(threadIdx.x + i) % N];
}
__global__ void plain(float* y) { y[threadIdx.x] = 2.0f; }
"""
FILES = {"k/a.cu": TEXT, "k/size.cuh": "#define SIZE 4\n"}
POINTS = (("f16", 1), ("f16", 8), ("f32", 1), ("f32", 8))


def members(*points: tuple[str, int]) -> tuple[Member, ...]:
    return tuple(
        Member(symbol="k<{T}, {N}>", axes=(("T", dtype), ("N", size))) for dtype, size in points
    )


def jobs(
    root: Path,
    *points: tuple[str, int],
    target: str = "sm_90",
    options: dict[str, Option] | None = None,
    **spec,
) -> list[Job]:
    """A job for each point, in one group."""
    made = []
    for dtype, size in points:
        one = job(
            root, "k<{T}, {N}>", target, axes={"T": dtype, "N": size}, options=options, **spec
        )
        variant = dataclasses.replace(one.variant, id=f"k-{dtype}-N{size}")
        made.append(dataclasses.replace(one, variant=variant, group=members(*points)))
    return made


def alone(one: Job) -> Image:
    return frontend().compile(dataclasses.replace(one, group=()))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entry points each run of NVRTC was for."""
    counts: list[int] = []
    real = Nvrtc.compile

    def compile_and_count(self, source, name, options, *, names, **more):
        counts.append(len(names))
        return real(self, source, name, options, names=names, **more)

    monkeypatch.setattr(Nvrtc, "compile", compile_and_count)
    return counts


MACROS = """
__device__ int counter;
#define RESET(NAME) __global__ void NAME(int* y) { counter = y[0]; }
RESET(reset)
template <int N> __global__ void count(int* y) { y[0] = atomicAdd(&counter, N); }
__global__ void other(int* y) { y[0] = 1; }
"""


def test_kernels_of_macros_share_an_image_and_its_variables(tmp_path: Path) -> None:
    root = write(tmp_path, {"k/a.cu": MACROS})
    decl = unseen("_Z5resetPi", None, Source(root=str(root), path="k/a.cu"))
    assert decl is not None
    assert decl.together > 1
    reset = job(root, "_Z5resetPi", decl=decl)
    count = job(root, "count<{N}>", axes={"N": 3})
    group = (Member(symbol="_Z5resetPi"), Member(symbol="count<{N}>", axes=(("N", 3),)))
    shared = frontend()
    first, second = (shared.compile(dataclasses.replace(j, group=group)) for j in (reset, count))
    assert first.data == second.data
    names = {kernel.name for kernel in read_cubin(first.data).kernels}
    assert names == {"_Z5resetPi", "_Z5countILi3EEvPi"}
    assert first.warnings == ()
    (warning,) = alone(count).warnings
    assert warning.message.startswith("the variable counter is not shared with reset: images have")


@pytest.mark.parametrize("target", ["sm_100a", "compute_80"])
@pytest.mark.parametrize("lineinfo", [False, True], ids=["plain", "lineinfo"])
def test_a_group_is_one_program_and_each_entry_is_as_it_would_be_alone(
    tmp_path: Path, compiled, target: str, lineinfo: bool
) -> None:
    group = jobs(write(tmp_path, FILES), *POINTS, target=target, lineinfo=lineinfo)
    shared = frontend()
    images = [shared.compile(one) for one in group]
    assert compiled == [4]
    assert len({image.info.digest for image in images}) == 1
    assert len({image.info.symbol for image in images}) == 4
    for one, image in zip(group, images, strict=True):
        single = alone(one)
        assert image.info.digest != single.info.digest
        # Equal but for the bytes: registers, spills, shared memory, size of the code, ISA, oldest
        # driver, arguments.
        assert dataclasses.replace(image.info, digest="", size=0) == dataclasses.replace(
            single.info, digest="", size=0
        )
        assert (image.abi, image.warnings) == (single.abi, single.warnings)
    assert images[1].info.resources.shared == 8 * 4 * 2
    assert images[3].info.resources.shared == 8 * 4 * 4


@pytest.mark.parametrize("lineinfo", [False, True], ids=["plain", "lineinfo"])
@pytest.mark.parametrize(("number", "bound"), [("80", (8, 0)), ("90a", None), ("100f", (8, 8))])
def test_ptx_comes_with_the_machine_code_of_its_architecture(
    tmp_path: Path, compiled, lineinfo: bool, number: str, bound: tuple[int, int] | None
) -> None:
    """Half of the work is the same: what comes out must not show who did it."""
    root = write(tmp_path, FILES)
    for one in (
        job(root, "plain", f"sm_{number}", lineinfo=lineinfo, max_isa=bound),
        jobs(root, *POINTS, target=f"sm_{number}")[0],
    ):
        compiled.clear()
        shared = frontend()
        other = dataclasses.replace(one, target=Target.parse(f"compute_{number}"))
        cubin, ptx = shared.compile(one), shared.compile(other)
        assert len(compiled) == 1
        assert ptx == frontend().compile(other)
        assert cubin == frontend().compile(one)
        backwards = frontend()
        assert (backwards.compile(other), backwards.compile(one)) == (ptx, cubin)


def test_an_edited_header_is_a_new_program(tmp_path: Path, compiled) -> None:
    group = jobs(write(tmp_path, FILES), *POINTS)
    shared = frontend()
    before = shared.compile(group[0])
    write(tmp_path, {"k/size.cuh": "#define SIZE 8\n"})
    after = shared.compile(group[1])
    assert compiled == [4, 4]
    assert after.info.resources.shared == 8 * 8 * 2
    assert before.info.digest != after.info.digest


def test_other_targets_levels_and_options_are_other_programs(tmp_path: Path, compiled) -> None:
    root = write(tmp_path, FILES)
    shared = frontend()
    for one in (
        *jobs(root, *POINTS)[:2],
        jobs(root, *POINTS, target="sm_80")[0],
        jobs(root, *POINTS, opt=1)[0],
        jobs(root, *POINTS, options={"define": (("N1", "1"),)})[0],
        jobs(root, *POINTS[:2])[0],
    ):
        shared.compile(one)
    assert compiled == [4, 4, 4, 4, 2]


def test_a_member_that_does_not_compile_is_the_only_one_that_fails(
    tmp_path: Path, compiled
) -> None:
    group = jobs(write(tmp_path, FILES), ("f16", 1), ("f16", 64), ("f32", 1))
    shared = frontend()
    good = [shared.compile(group[0]), shared.compile(group[2])]
    # Once for all of them, then each for itself.
    assert compiled[:2] == [3, 1]
    assert set(compiled[2:]) == {1}
    assert [image.info.digest for image in good] == [
        alone(group[0]).info.digest,
        alone(group[2]).info.digest,
    ]
    with pytest.raises(CompileError) as caught:
        shared.compile(group[1])
    with pytest.raises(CompileError) as as_before:
        alone(group[1])
    error, expected = caught.value, as_before.value
    assert (str(error), error.log, error.command, error.diagnostics) == (
        str(expected),
        expected.log,
        expected.command,
        expected.diagnostics,
    )
    assert "N is too large" in error.diagnostics[0].message
    assert error.diagnostics[0].location.line == 6


def test_a_member_that_cannot_be_named_harms_no_other(tmp_path: Path) -> None:
    (good,) = jobs(write(tmp_path, FILES), POINTS[0])
    bad = Member(symbol="k<{T}>", axes=(("T", "f16"),))
    image = frontend().compile(dataclasses.replace(good, group=(*good.group, bad)))
    assert image.info.digest == alone(good).info.digest


@pytest.mark.parametrize(
    ("files", "options", "together"),
    [
        ({}, {}, 16),
        ({}, {"group": 3}, 3),
        ({}, {"group": 1}, 1),
        ({}, NVCC, 1),
        ({}, {**NVCC, "group": 8}, 1),
        ({"k/size.cuh": "#define SIZE 4\n#include <cub/cub.cuh>\n"}, {}, 1),
        ({"k/size.cuh": '#define SIZE 4\n#include "cute/tensor.hpp"\n'}, {}, 1),
        ({"k/size.cuh": "#define SIZE 4\n#include <cub/cub.cuh>\n"}, {"group": 4}, 4),
        ({"k/size.cuh": "#define SIZE 4\n#include <cuda/std/cstdint>\n"}, {}, 16),
    ],
)
def test_how_many_are_compiled_together(
    tmp_path: Path, files: dict[str, str], options: dict[str, Option], together: int
) -> None:
    source = Source(
        root=str(write(tmp_path, {**FILES, **files})),
        path="k/a.cu",
        options=tuple(sorted(options.items())),
    )
    assert [decl.together for decl in frontend().declare(source)] == [together] * 2


def test_a_group_that_takes_too_long_says_so_and_is_not_tried_alone_here(tmp_path: Path) -> None:
    """Whoever handed out the job decides: what a time limit cuts off depends on the machine."""
    with pytest.raises(CompileError) as caught:
        frontend().compile(jobs(write(tmp_path, FILES), *POINTS, timeout=1e-9)[0])
    assert caught.value.overtime
    assert caught.value.what == "compiling for sm_90 took longer than 4e-09 s and was ended"
