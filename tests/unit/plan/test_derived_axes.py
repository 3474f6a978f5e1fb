"""Derived axes, values of axes by target, configurations, lists, and ids with digits."""

from __future__ import annotations

import dataclasses

import pytest

from tests.unit.plan.test_plan import TILE_DECL, plan, problems, tile_kernel
from tilec.manifest.types import Exclude, Kernel, Launch, Matrix
from tilec.model.declaration import ParamDecl
from tilec.plan import Plan
from tilec_runtime.errors import ManifestError
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.table import DispatchRule

AXES = (("T", ("f16",)), ("BM", (48, 64)))


def derived(*let: tuple[str, str], **changes: object) -> Kernel:
    return tile_kernel(matrix=Matrix(axes=AXES), let=let, default=(("BM", 64),), **changes)


def test_a_derived_axis_is_a_constant_of_each_point_and_in_no_id() -> None:
    (kernel,) = plan(derived(("WIDE", "next_pow2(BM)"), ("BN", "WIDE * 2"))).kernels
    assert {job.variant.id: job.variant.let for job in kernel.jobs} == {
        "gemm-f16-BM48": (("WIDE", 64), ("BN", 128)),
        "gemm-f16-BM64": (("WIDE", 64), ("BN", 128)),
    }


def test_launches_have_the_formula_in_its_place() -> None:
    grid = ("cdiv(c.shape[0], BN)", "min(sm_count, 4)")
    rows = Launch(grid=grid, requires=("EVEN", "c.shape[1:] == (BN,)"))
    (kernel,) = plan(derived(("EVEN", "BM % 16 == 0"), ("BN", "BM * 2"), launch=rows)).kernels
    assert kernel.info.launch.grid == ("cdiv(c.shape[0], (BM * 2))", "min(sm_count, 4)")
    assert kernel.info.launch.requires == ("(BM % 16 == 0)", "c.shape[1:] == ((BM * 2),)")
    assert [name for name, _ in kernel.info.axes] == ["T", "BM"]


def test_points_are_excluded_by_derived_axes() -> None:
    matrix = Matrix(axes=AXES, exclude=(Exclude(when="BN > 100"),))
    kernel = tile_kernel(matrix=matrix, let=(("BN", "BM * 2"),), default=())
    assert {job.variant.id for job in plan(kernel).jobs} == {"gemm-f16-BM48"}


@pytest.mark.parametrize(
    ("let", "said"),
    [
        (
            (("BN", "BM // (BM - 64)"),),
            "kernel.gemm.let.BN: division by zero in 'BM // (BM - 64)' with BM = 64",
        ),
        (
            (("BN", "BM"), ("SPARE", "BM")),
            "kernel.gemm.let.SPARE: axis 'SPARE' is neither a constant of the kernel nor used by its symbol, dtypes or launch; it has BM, BN",
        ),
    ],
)
def test_what_is_wrong_with_a_derived_axis_is_said(
    let: tuple[tuple[str, str], ...], said: str
) -> None:
    assert said in problems(derived(*let))


def by_target(**changes: object) -> Kernel:
    values = (("sm_90", (128,)), ("*", (64,)))
    matrix = Matrix(
        axes=(("T", ("f16",)), ("BM", (128, 64)), ("BN", (64,))), by_target=(("BM", values),)
    )
    return tile_kernel(matrix=matrix, default=(), **changes)


def test_a_target_may_have_values_of_its_own() -> None:
    assert [job.id for job in plan(by_target()).jobs] == [
        "gemm-f16-BM128-BN64-sm_90",
        "gemm-f16-BM64-BN64-sm_80",
        "gemm-f16-BM64-BN64-tileir",
    ]


def test_a_kernel_with_values_by_target_names_a_target_that_its_language_refuses() -> None:
    assert problems(by_target(), targets=("sm_90a",)) == [
        "kernel.gemm: target sm_90a: plain names only"
    ]


def test_values_stand_apart_from_names_that_end_in_digits() -> None:
    matrix = Matrix(axes=(("T", ("f16",)), ("M1", (32,)), ("BM", (64,)), ("BN", (64,))))
    kernel = tile_kernel(matrix=matrix, launch=Launch(grid=("cdiv(c.shape[0], M1)",)), default=())
    assert plan(kernel).jobs[0].variant.id == "gemm-f16-M1=32-BM64-BN64"


CONFIGS = (
    (("BM", 64), ("BN", 64), ("occupancy", 1)),
    (("BM", 128), ("BN", 64), ("occupancy", 2)),
)


def tuned(
    *configs: tuple[tuple[str, int], ...],
    exclude: tuple[Exclude, ...] = (),
    include: tuple[tuple[tuple[str, AxisValue], ...], ...] = (),
    **changes: object,
) -> Plan:
    decls = {"gemm": dataclasses.replace(TILE_DECL, configs=configs)}
    matrix = Matrix(axes=(("T", ("f16",)),), autotune=True, exclude=exclude, include=include)
    return plan(tile_kernel(matrix=matrix, **{"default": (), **changes}), decls=decls)


def test_configurations_of_the_source_are_points() -> None:
    (kernel,) = tuned(*CONFIGS).kernels
    assert [job.variant.id for job in kernel.jobs[::3]] == [
        "gemm-f16-BM64-BN64-occupancy1",
        "gemm-f16-BM128-BN64-occupancy2",
    ]
    assert [dict(job.hints)["occupancy"] for job in kernel.jobs[::3]] == [1, 2]
    assert kernel.info.default == CONFIGS[0]


def test_points_are_included_beside_configurations() -> None:
    point = (("T", "f16"), ("BM", 32), ("BN", 64), ("occupancy", 1))
    (kernel,) = tuned(*CONFIGS, include=(point,)).kernels
    assert kernel.jobs[-1].variant.id == "gemm-f16-BM32-BN64-occupancy1"
    with pytest.raises(ManifestError, match="unknown axis 'BMM'; did you mean 'BM'"):
        tuned(*CONFIGS, include=((("T", "f16"), ("BMM", 32)),))


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({"rules": (DispatchRule(when="c.size > 9", take=(("BM", 128),)),)}, 0),
        ({"table": "gemm.tuned.toml"}, 0),
        ({"default": (("BM", 128),)}, 1),
        ({"default": (("BN", 64),)}, 0),
        ({"exclude": (Exclude(when="BM == 64"),)}, 1),
    ],
)
def test_the_first_configuration_completes_the_default(
    changes: dict[str, object], number: int
) -> None:
    (kernel,) = tuned(*CONFIGS, **changes).kernels
    assert dict(kernel.info.default) == dict(CONFIGS[number])


def test_a_constant_that_follows_from_a_replaced_one_is_computed_again() -> None:
    follows = ParamDecl(name="L", kind="constant", reads=("BM",))
    decls = {
        "gemm": dataclasses.replace(
            TILE_DECL,
            params=(*TILE_DECL.params, follows),
            configs=((*CONFIGS[0], ("L", 640)), (*CONFIGS[1], ("L", 1280))),
        )
    }
    matrix = Matrix(axes=(("T", ("f16",)), ("BM", (32, 64))), autotune=True)
    kernel = tile_kernel(matrix=matrix, default=())
    with pytest.raises(ManifestError, match="computes L from BM by a heuristic"):
        plan(kernel, decls=decls)
    kernel = tile_kernel(matrix=matrix, default=(), let=(("L", "BM * 10"),))
    variants = {job.variant for job in plan(kernel, decls=decls).jobs}
    assert {dict(v.constants)["L"] for v in variants} == {320, 640}


@pytest.mark.parametrize(
    ("configs", "said"),
    [
        ((), "gemm has no @triton.autotune whose configurations could be taken"),
        ((CONFIGS[0], CONFIGS[1][:2]), "some configurations of gemm say nothing of occupancy"),
    ],
)
def test_configurations_that_make_no_matrix_are_refused(
    configs: tuple[tuple[tuple[str, int], ...], ...], said: str
) -> None:
    with pytest.raises(ManifestError, match=said):
        tuned(*configs)
