"""Plans: matrix, assumption sets, ids, targets, overrides, and the problems that only show with the
source at hand.
"""

from __future__ import annotations

import dataclasses

import pytest

from tilec.manifest.locate import Locator
from tilec.manifest.types import (
    AssumeSet,
    Exclude,
    Kernel,
    Launch,
    Manifest,
    Matrix,
    Override,
    Package,
    ParamTable,
    Profile,
    Targets,
)
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import Source
from tilec.plan import LanguageFacts, Plan, make_plan
from tilec_runtime.errors import Location, ManifestError, UsageError
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.table import DispatchRule

HERE = Location(file="k.py", line=3)
HINTS = ("num_ctas", "occupancy")
TILE = LanguageFacts(
    kinds=(TargetKind.CUBIN, TargetKind.TILEIR),
    refuse=lambda t: "plain names only" if t.suffix else "",
    simt=False,
    hints=HINTS,
)
CUDA = LanguageFacts(kinds=(TargetKind.CUBIN, TargetKind.PTX), refuse=lambda _t: "", simt=True)
TRITON = dataclasses.replace(CUDA, kinds=(TargetKind.CUBIN,), simt=False)

TILE_DECL = KernelDecl(
    name="gemm",
    location=HERE,
    params=(
        ParamDecl(name="c", kind="tensor"),
        ParamDecl(name="a", kind="tensor"),
        ParamDecl(name="BM", kind="constant", type="ct.Constant[int]"),
        ParamDecl(name="BN", kind="constant", type="ct.Constant[int]"),
    ),
)
CUDA_DECL = KernelDecl(
    name="scale",
    qualified="scale",
    location=Location(file="k.cu", line=1),
    template=("T", "VEC"),
    params=(
        ParamDecl(name="y", type="T*", kind="tensor", dtype="T", out=True),
        ParamDecl(name="x", type="const T*", kind="tensor", dtype="T", out=False),
        ParamDecl(name="n", type="int", kind="scalar", dtype="i32"),
        ParamDecl(name="s", type="float", kind="scalar", dtype="f32"),
    ),
)


UNKNOWN_KIND = (
    "kernel.gemm: the source does not say what parameter 'a' is: "
    'params.a = { dtype = "f32", rank = 1 } for a tensor, { dtype = "f32" } for a number'
)


def tile_kernel(**changes: object) -> Kernel:
    kernel = Kernel(
        name="gemm",
        source="k.py",
        function="gemm",
        language="tile",
        matrix=Matrix(axes=(("T", ("f16", "bf16")), ("BM", (64, 128)), ("BN", (128, 256)))),
        params=(
            ParamTable(name="c", dtype="T", rank=2, out=True),
            ParamTable(name="a", dtype="T", rank=2),
        ),
        launch=Launch(grid=("cdiv(c.shape[0], BM)", "cdiv(c.shape[1], BN)")),
        default=(("BM", 128), ("BN", 128)),
    )
    return dataclasses.replace(kernel, **changes)


def cuda_kernel(**changes: object) -> Kernel:
    kernel = Kernel(
        name="scale",
        source="k.cu",
        function="scale",
        symbol="scale<{T}, {VEC}>",
        language="cuda",
        matrix=Matrix(axes=(("T", ("f16", "f32")), ("VEC", (1, 4)))),
        params=(ParamTable(name="x", rank=1), ParamTable(name="y", rank=1), ParamTable(name="s")),
        args=("y.ptr", "x.ptr", "i32(x.size)", "s"),
        launch=Launch(grid=("cdiv(x.size, 256 * VEC)",), block=("256",)),
        default=(("VEC", 4),),
    )
    return dataclasses.replace(kernel, **changes)


def launch(**changes: object) -> Launch:
    return dataclasses.replace(cuda_kernel().launch, **changes)  # type: ignore[arg-type]


ARRAYS = cuda_kernel().params[:2]
REQUIRES = "kernel.scale.launch.requires[0]"


def plan(
    *kernels: Kernel,
    decls: dict[str, KernelDecl] | None = None,
    overrides: tuple[Override, ...] = (),
    options: dict[str, tuple[tuple[str, str], ...]] | None = None,
    **request: object,
) -> Plan:
    defaults = tuple(map(Target.parse, ("sm_80", "sm_90", "compute_80", "tileir")))
    manifest = Manifest(
        path="tilec.toml",
        root="project",
        package=Package(name="p", version="1", module="p"),
        targets=Targets(
            default=defaults, groups=(("ci", (Target.parse("sm_90"),)),), min_driver=580
        ),
        profiles=(Profile(name="release"), Profile(name="debug", lineinfo=True)),
        kernels=kernels,
        overrides=overrides,
        locate=Locator("", "tilec.toml"),
    )
    known = {"gemm": TILE_DECL, "scale": CUDA_DECL, **(decls or {})}
    return make_plan(
        manifest,
        {k.name: known[k.name] for k in kernels},
        {"tile": TILE, "cuda": CUDA, "triton": TRITON},
        {
            k.name: Source(root="project", path=k.source, options=(options or {}).get(k.name, ()))
            for k in kernels
        },
        **request,  # type: ignore[arg-type]
    )


def problems(*kernels: Kernel, **more: object) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        plan(*kernels, **more)  # type: ignore[arg-type]
    return [p.message for p in caught.value.problems]


def test_ids_are_readable_stable_and_unique() -> None:
    jobs = plan(tile_kernel(), cuda_kernel()).jobs
    ids = [job.id for job in jobs]
    assert ids[:3] == [
        "gemm-f16-BM64-BN128-sm_80",
        "gemm-f16-BM64-BN128-sm_90",
        "gemm-f16-BM64-BN128-tileir",
    ]
    assert ids[-1] == "scale-f32-VEC4-compute_80"
    assert len(ids) == len(set(ids)) == 2 * 2 * 2 * 3 + 2 * 2 * 3


def test_groups_and_single_targets() -> None:
    assert {str(j.target) for j in plan(tile_kernel(), targets=("ci",)).jobs} == {"sm_90"}
    assert {str(j.target) for j in plan(tile_kernel(), targets=("ci", "sm_80")).jobs} == {
        "sm_80",
        "sm_90",
    }


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sm90", "sm_90"),
        ("sm_9.0", "sm_90"),
        ("90a", "sm_90a"),
        ("9.0", "sm_90"),
        ("hopper", "sm_90"),
        ("H100", "sm_90"),
        ("compute90", "compute_90"),
    ],
)
def test_an_unknown_target_has_a_suggestion(name: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan(tile_kernel(), targets=(name,))
    assert caught.value.what == f"unknown target {name!r}; did you mean {meant!r}"


def test_an_override_or_a_selection_keeps_a_kernel_from_a_target_that_its_language_refuses() -> (
    None
):
    """So that one bundle can hold sm_90a for CUDA kernels beside tile kernels, which know sm_90
    only.
    """
    both = (tile_kernel(), cuda_kernel())
    only = Override(select="gemm-*", targets=(Target.parse("sm_90"),))
    jobs = plan(*both, overrides=(only,), targets=("sm_90", "sm_90a")).jobs
    assert {(job.spec.name, str(job.target)) for job in jobs} == {
        ("gemm", "sm_90"),
        ("scale", "sm_90"),
        ("scale", "sm_90a"),
    }
    assert {
        job.spec.name for job in plan(*both, targets=("sm_90a",), select=("scale-*",)).jobs
    } == {"scale"}
    assert {
        job.spec.name for job in plan(*both, targets=("compute_80",), select=("scale",)).jobs
    } == {"scale"}
    assert problems(*both, targets=("compute_80",), select=("*-compute_80",)) == [
        "kernel.gemm: none of the targets compute_80 concerns tile kernels, which are made for sm_* or tileir"
    ]


def test_exclude_include_and_limits() -> None:
    matrix = tile_kernel().matrix
    fewer = dataclasses.replace(
        matrix, exclude=(Exclude(when="BM * BN > 16384"), Exclude(values=(("BM", 64), ("BN", 128))))
    )
    ids = {j.variant.id for j in plan(tile_kernel(matrix=fewer)).jobs}
    assert ids == {
        "gemm-f16-BM64-BN256",
        "gemm-f16-BM128-BN128",
        "gemm-bf16-BM64-BN256",
        "gemm-bf16-BM128-BN128",
    }
    more = dataclasses.replace(matrix, include=((("T", "f32"), ("BM", 32), ("BN", 32)),))
    planned = plan(tile_kernel(matrix=more)).kernels[0]
    assert "gemm-f32-BM32-BN32-sm_80" in {j.id for j in planned.jobs}
    assert dict(planned.info.axes)["BM"] == (64, 128, 32)
    part = dataclasses.replace(matrix, include=((("T", "f32"), ("BM", 32)),))
    assert problems(tile_kernel(matrix=part)) == [
        "kernel.gemm.matrix.include[0]: an included point gives every axis, and lacks BN"
    ]
    strange = dataclasses.replace(matrix, exclude=(Exclude(when="BM > BX"),))
    assert "unknown name 'BX'" in problems(tile_kernel(matrix=strange))[0]
    huge = Matrix(axes=(("T", ("f16",)), *((n, tuple(range(1, 1201))) for n in ("BM", "BN"))))
    assert "1440000 points" in problems(tile_kernel(matrix=huge, default=()))[0]


def test_assumption_sets_become_variants_with_facts() -> None:
    sets = (
        AssumeSet(divisible=(("a", (1, 16)), ("c", (16, 16))), aligned=(("", 16),)),
        AssumeSet(),
    )
    info = plan(tile_kernel(assume=sets)).kernels[0]
    first, second = (
        next(j.variant for j in info.jobs if j.variant.id == f"gemm-f16-BM64-BN128{s}")
        for s in ("-div16", "")
    )
    assert [(f.param, f.shape, f.stride, f.align) for f in first.assume] == [
        ("c", (16, 16), (16, 1), 16),
        ("a", (1, 16), (16, 1), 16),
    ]
    assert second.assume == ()
    bad = (AssumeSet(divisible=(("a", (16,)), ("zz", (1,)))),)
    assert problems(tile_kernel(assume=bad)) == [
        "kernel.gemm.assume.sets[0].divisible.a: 1 divisors for a, which has rank 2",
        "kernel.gemm.assume.sets[0].divisible.zz: 'zz' is no tensor parameter of the kernel: it has c, a",
    ]


def test_hints_by_target_and_overrides_last_wins() -> None:
    kernel = tile_kernel(hints=(("", (("occupancy", 1),)), ("sm_90", (("num_ctas", 2),))))
    rules = (
        Override(select="gemm-*-sm_90", hints=(("occupancy", 2),)),
        Override(select="gemm-f16-*", hints=(("occupancy", 4),)),
        Override(select="*-BM64-*", targets=(Target.parse("sm_80"),)),
    )
    jobs = {j.id: dict(j.hints) for j in plan(kernel, overrides=rules).jobs}
    assert jobs["gemm-f16-BM128-BN128-sm_90"] == {"occupancy": 4, "num_ctas": 2}
    assert jobs["gemm-bf16-BM128-BN128-sm_90"] == {"occupancy": 2, "num_ctas": 2}
    assert jobs["gemm-bf16-BM128-BN128-sm_80"] == {"occupancy": 1}
    assert "gemm-f16-BM64-BN128-sm_90" not in jobs
    assert "gemm-f16-BM64-BN128-sm_80" in jobs


def test_axes_that_are_hints() -> None:
    """They give each variant its own, whatever else says of them."""
    axes = (("T", ("f16",)), ("BM", (64,)), ("BN", (128,)), ("occupancy", (1, 2)))
    kernel = tile_kernel(
        matrix=Matrix(axes=axes), default=(), hints=(("", (("occupancy", 8), ("num_ctas", 2))),)
    )
    rules = (Override(select="gemm-*", hints=(("occupancy", 4),)),)
    jobs = {j.variant.id: dict(j.hints) for j in plan(kernel, overrides=rules).jobs}
    assert {name: hints["occupancy"] for name, hints in jobs.items()} == {
        f"gemm-f16-BM64-BN128-occupancy{n}": n for n in (1, 2)
    }
    assert {hints["num_ctas"] for hints in jobs.values()} == {2}
    wrong = tile_kernel(matrix=Matrix(axes=(*axes[:3], ("occupancy", ("high",)))), default=())
    assert problems(wrong) == [
        "kernel.gemm.matrix.occupancy: occupancy is a hint of the compiler, and 'high' is no integer"
    ]


def test_unknown_hints_are_reported_where_they_stand() -> None:
    kernel = tile_kernel(hints=(("", (("ocupancy", 1),)), ("sm_90", (("warps", 2),))))
    rules = (
        Override(select="scale-*", hints=(("occupancy", 2),)),
        Override(select="nothing-*", hints=(("x", 2),)),
    )
    assert problems(kernel, cuda_kernel(), overrides=rules) == [
        "kernel.gemm.hints.ocupancy: unknown hint 'ocupancy'; did you mean 'occupancy'",
        "kernel.gemm.hints.sm_90.warps: unknown hint 'warps'; it has num_ctas, occupancy",
        "override[0].hints.occupancy: cuda kernels take no hints: say it in the source or in flags",
    ]


def test_select_takes_jobs_variants_and_kernels() -> None:
    assert len(plan(tile_kernel(), cuda_kernel(), select=("scale",)).jobs) == 12
    assert [j.id for j in plan(tile_kernel(), select=("gemm-f16-BM64-BN128-sm_80",)).jobs] == [
        "gemm-f16-BM64-BN128-sm_80"
    ]
    assert len(plan(tile_kernel(), select=("*-bf16-*-sm_90",)).jobs) == 4
    notes = plan(tile_kernel(), targets=("sm_80",), select=("*-BM64-*",)).notes
    assert notes == ("--select takes 4 of 8 jobs: bundle and package hold these alone",)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (
            cuda_kernel(args=("y.ptr", "x.ptr", "s")),
            "kernel.scale.args: 3 args, but scale takes 4 parameters: T* y, const T* x, int n, float s",
        ),
        (
            cuda_kernel(args=("y.ptr", "x.ptr", "i64(x.size)", "s")),
            "kernel.scale.args[2]: 'i64(x.size)' packs i64, but the source takes int n (i32)",
        ),
        (
            cuda_kernel(args=("y.ptr", "x.ptr", "i32(x.size)", "y.ptr"), params=ARRAYS),
            "kernel.scale.args[3]: 'y.ptr' is an address, but the source takes float s",
        ),
        (
            cuda_kernel(symbol="scale"),
            'kernel.scale.symbol: scale is a template: say which instance, for example symbol = "scale<{T}, {VEC}>"',
        ),
        (
            cuda_kernel(launch=Launch(grid=("s.shape[0]",), block=("256",))),
            "kernel.scale.launch.grid[0]: s.shape: s is a scalar, not a tensor",
        ),
        (
            cuda_kernel(launch=Launch(grid=("x",), block=("256",))),
            "kernel.scale.launch.grid[0]: x is a tensor: say x.shape[0], x.size or x.dtype",
        ),
        (
            cuda_kernel(launch=Launch(grid=("1",))),
            "kernel.scale.launch: no block: say how many threads a block has, for example block = [256]",
        ),
        (
            cuda_kernel(launch=Launch(grid=("1",), open=("grid", "block"))),
            "kernel.scale.launch.grid: grid is given, and block left to the caller: give all that is open, or none",
        ),
        (
            cuda_kernel(launch=Launch(open=("grid",))),
            "kernel.scale.launch: no block: say how many threads a block has, for example block = [256]",
        ),
        (
            tile_kernel(launch=Launch(open=("grid",))),
            "kernel.gemm.launch.open: callers configure kernels of threads alone, and tile is none: leave launch.open out",
        ),
        (
            tile_kernel(launch=Launch()),
            'kernel.gemm.launch: no grid: say how many blocks are launched, for example grid = ["cdiv(x.shape[0], 256)"]',
        ),
        (
            tile_kernel(launch=Launch(grid=("1",), block=("128",))),
            "kernel.gemm.launch.block: the block of a tile kernel is chosen by its compiler: leave launch.block out",
        ),
        (
            tile_kernel(default=(("BM", 256),)),
            "kernel.gemm.dispatch.default.BM: no variant has BM = 256: built are 128, 64",
        ),
        (
            tile_kernel(rules=(DispatchRule(when="q.shape[0] < 9", take=(("BM", 64),)),)),
            "kernel.gemm.dispatch.rules[0].when: unknown name 'q'; known are BM, BN, T, a, block_shared, c, cc, l2_size, sm_count",
        ),
        (
            tile_kernel(rules=(DispatchRule(when="a.shape[0]", take=(("BM", 64),)),)),
            "kernel.gemm.dispatch.rules[0].when: 'a.shape[0]' is not a condition: compare it, as in x.size == y.size",
        ),
        (
            tile_kernel(rules=(DispatchRule(when="a.shape[7] < BM", take=(("BM", 64),)),)),
            "kernel.gemm.dispatch.rules[0].when: BM is an axis, which the rule itself chooses: write a condition on the arguments",
        ),
        (
            tile_kernel(rules=(DispatchRule(when="", take=(("T", "f16"),)),)),
            "kernel.gemm.dispatch.rules[0].take.T: T is bound by the dtype of the arguments: no rule can choose it",
        ),
        (
            tile_kernel(rules=(DispatchRule(when="", take=(("BM", ""),)),)),
            "kernel.gemm.dispatch.rules[0].take: no variant has BM = '': the matrix does not make it",
        ),
        (
            tile_kernel(rules=(DispatchRule(when="", take=(("BM", 256),)),)),
            "kernel.gemm.dispatch.rules[0].take: no variant has BM = 256: the matrix does not make it",
        ),
        (
            tile_kernel(params=(*tile_kernel().params, ParamTable(name="aa", dtype="T"))),
            "kernel.gemm.params.aa: kernel 'gemm' has no parameter 'aa'; did you mean 'a'",
        ),
        (
            tile_kernel(
                params=(
                    dataclasses.replace(tile_kernel().params[0], divisible=(16,)),
                    *tile_kernel().params[1:],
                )
            ),
            "kernel.gemm.params.c.divisible: 1 given for a tensor of rank 2",
        ),
        (
            tile_kernel(params=tile_kernel().params[:1]),
            UNKNOWN_KIND,
        ),
        (
            tile_kernel(
                matrix=Matrix(axes=(("T", ("f16",)), ("BM", (64,)), ("BN", (64,)), ("BK", (8,)))),
                default=(),
            ),
            "kernel.gemm.matrix.BK: axis 'BK' is neither a constant of the kernel nor used by its symbol, dtypes or launch; it has BM, BN",
        ),
        (
            tile_kernel(
                matrix=Matrix(axes=(("T", ("f16", "f17")), ("BM", (64,)), ("BN", (64,)))),
                default=(),
            ),
            "kernel.gemm.matrix.T: axis T is the dtype of c, and 'f17' is no dtype; did you mean 'f16'",
        ),
        (
            cuda_kernel(launch=launch(requires=("x.size",))),
            f"{REQUIRES}: 'x.size' is not a condition: compare it, as in x.size == y.size",
        ),
        (
            cuda_kernel(launch=launch(requires=("x.shape[1] == 1",))),
            f"{REQUIRES}: x has rank 1: there is no x.shape[1]",
        ),
        (
            cuda_kernel(launch=launch(grid=("x.size > 1",))),
            "kernel.scale.launch.grid[0]: 'x.size > 1' is a condition and must be a number",
        ),
        (
            cuda_kernel(launch=launch(shared="x.dtype")),
            "kernel.scale.launch.shared: 'x.dtype' is text and must be a number",
        ),
        (
            cuda_kernel(args=("y.ptr", "x.ptr", "i32(x.stride[-2])", "s")),
            "kernel.scale.args[2]: x has rank 1: there is no x.stride[-2]",
        ),
        (
            cuda_kernel(params=(*cuda_kernel().params, ParamTable(name="w", dtype="f32"))),
            "kernel.scale.params.w: parameter 'w' is used by none of args, grid, block, shared and requires: take it out, or pass it on",
        ),
        (
            cuda_kernel(symbol="scale<flot, {VEC}>", matrix=Matrix(axes=(("VEC", (1, 4)),))),
            "kernel.scale.params.x: 'flot' of the symbol is no dtype that tilec knows: write it as params.x.dtype",
        ),
        (
            cuda_kernel(symbol="scale<{T}, VEC>"),
            "kernel.scale.symbol: the template argument VEC is the name of an axis, whose value is {VEC}",
        ),
    ],
)
def test_problems_say_what_and_where(kernel: Kernel, expected: str) -> None:
    assert expected in problems(kernel)


def test_an_override_that_matches_no_job_is_noted() -> None:
    idle = Override(select="gem-*", hints=(("occupancy", 2),))
    used = Override(select="gemm-*-sm_80", hints=(("occupancy", 2),))
    assert (
        plan(tile_kernel(), overrides=(used, idle)).notes[-1]
        == "override[1] matches no job: select = 'gem-*'; did you mean 'gemm'"
    )
    assert not [
        note
        for note in plan(tile_kernel(), overrides=(used, idle), targets=("sm_90",)).notes
        if "override" in note
    ]


def test_min_driver_caps_the_isa_and_profile_reaches_the_jobs() -> None:
    job = plan(cuda_kernel(), profile="debug").jobs[0]
    assert job.spec.max_isa == (9, 0)
    assert job.spec.lineinfo is True


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
