"""The space of a case: what its inputs leave open, and what there is none of."""

from __future__ import annotations

import dataclasses

import pytest

from tests.tune_samples import A, B, C, kernel_with
from tilec.case.cases import expand_cases
from tilec.case.reference import References
from tilec.manifest.types import Case
from tilec.model.tuning import size_expressions
from tilec.tune.cases import file_name, prepare_case, spaces_of
from tilec.tune.space import point_text, space_of
from tilec_runtime.errors import CaseError, UsageError
from tilec_runtime.model.kernel import KernelInfo


def test_a_case_of_two_dtypes_is_two_searches_over_the_other_axes(info: KernelInfo, kernel) -> None:
    spaces = spaces_of(kernel, info, ())
    assert [space.case.name for space in spaces] == ["gemm/4k[f16]", "gemm/4k[bf16]"]
    assert [dict(point)["BM"] for point in spaces[1].points] == [32, 64, 128]
    assert {dict(point)["T"] for point in spaces[1].points} == {"bf16"}
    assert spaces[0].free == ("BM",)


def test_a_point_reads_as_its_free_axes() -> None:
    point = (("T", "f16"), ("BM", 64), ("FAST", True))
    assert point_text(point) == "T=f16 BM=64 FAST=true"
    assert point_text(point, ("BM",)) == "BM=64"
    assert point_text(()) == "its only point"


def test_a_space_without_a_point_is_refused(info: KernelInfo, kernel) -> None:
    case = expand_cases(kernel, info)[0]
    with pytest.raises(CaseError) as caught:
        space_of(info, dataclasses.replace(case, choose=(("BM", 256),)))
    assert (
        caught.value.what
        == "gemm/4k[f16]: the matrix of gemm has no point for T = 'f16', BM = 256: there is nothing to tune"
    )
    assert "kernel.gemm.matrix" in caught.value.fix


def test_inputs_must_not_depend_on_what_is_searched(info: KernelInfo) -> None:
    kernel = kernel_with(
        Case(name="odd", inputs=(dataclasses.replace(A, shape=("4 * BM", "BK")), B, C))
    )
    with pytest.raises(CaseError) as caught:
        spaces_of(kernel, info, ())
    assert (
        "inputs.a has the extent '4 * BM', which changes with BM: candidates would do other work"
        in caught.value.what
    )
    assert "axes = { BM = … }" in caught.value.fix


def test_a_kernel_without_a_case_says_what_tuning_needs_one_for(info: KernelInfo) -> None:
    with pytest.raises(UsageError) as caught:
        spaces_of(kernel_with(), info, ())
    assert caught.value.what.startswith("kernel gemm has no case: tuning needs inputs")
    assert "[kernel.gemm.case.NAME]" in caught.value.fix


def test_a_case_that_is_not_there_gets_a_hint(info: KernelInfo, kernel) -> None:
    with pytest.raises(UsageError, match="kernel gemm has no case '4K'; did you mean '4k'"):
        spaces_of(kernel, info, ("4K",))


@pytest.mark.parametrize("key", ["shape", "small"])
def test_a_case_that_launches_nothing_is_refused(
    info: KernelInfo, kernel, tmp_path, key: str
) -> None:
    """Its time would be none, and the record would choose by it; or whatever is compared would be
    right.
    """
    inputs = tuple(
        dataclasses.replace(item, **{key: ("0", "128")} if item.name == "c" else {})
        for item in kernel.cases[0].inputs
    )
    (space, _) = spaces_of(
        kernel_with(dataclasses.replace(kernel.cases[0], inputs=inputs)), info, ()
    )
    with pytest.raises(CaseError) as caught:
        prepare_case(
            space,
            size_expressions(info),
            References(str(tmp_path)),
            tmp_path,
            on_reference=lambda _: None,
        )
    assert caught.value.what == "gemm/4k[f16]: c has no elements: such a launch does nothing"
    assert caught.value.fix == "give the case sizes above 0, or leave it out with --case"


def test_sizes_that_cannot_be_worked_out_name_the_case(info: KernelInfo, kernel, tmp_path) -> None:
    (space, _) = spaces_of(kernel, info, ())
    for text, what in (
        (
            "1 // (c.shape[0] - 128)",
            r"gemm/4k\[f16\]: the size 1 // .* cannot be worked out: division by zero",
        ),
        ("c.shape[0] - 129", r"gemm/4k\[f16\]: c.shape\[0\] - 129 is -1, which is no size"),
    ):
        with pytest.raises(CaseError, match=what):
            prepare_case(
                space, (text,), References(str(tmp_path)), tmp_path, on_reference=lambda _: None
            )


def test_names_of_files_are_plain() -> None:
    assert file_name("gemm/4k[f16,bf16]") == "gemm.4k_f16_bf16"
