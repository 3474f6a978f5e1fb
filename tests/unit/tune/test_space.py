"""The candidates of a tuning, those that are not worth measuring, and the targets they are for."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.tune_samples import A, B, C, built, kernel_with, points
from tilec.case.functions import Functions
from tilec.manifest.load import load_text
from tilec.manifest.types import Budget, Case, Manifest
from tilec.model.tuning import size_expressions
from tilec.testing.fake_driver import H200
from tilec.tune.cases import prepare_case, spaces_of
from tilec.tune.prune import identity, refusal
from tilec.tune.targets import target_for
from tilec_runtime.cpu.driver import CPU
from tilec_runtime.errors import CaseError, UsageError
from tilec_runtime.model.kernel import KernelInfo


def test_a_case_of_two_dtypes_is_two_searches_over_the_other_axes(info: KernelInfo, kernel) -> None:
    spaces = spaces_of(kernel, info, ())
    assert [space.case.name for space in spaces] == ["gemm/4k[f16]", "gemm/4k[bf16]"]
    assert [dict(point)["BM"] for point in spaces[1].points] == [32, 64, 128]
    assert {dict(point)["T"] for point in spaces[1].points} == {"bf16"}
    assert spaces[0].free == ("BM",)


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
            Functions(str(tmp_path)),
            tmp_path,
            on_reference=lambda _: None,
        )
    assert caught.value.what == "gemm/4k[f16]: c has no elements: the launch does nothing"
    assert caught.value.fix == "give the case sizes above 0, or leave it out with --case"


def test_sizes_that_cannot_be_worked_out_name_the_case(info: KernelInfo, kernel, tmp_path) -> None:
    (space, _) = spaces_of(kernel, info, ())
    for text, what in (
        (
            "1 // (c.shape[0] - 128)",
            r"gemm/4k\[f16\]: the size 1 // .* cannot be computed: division by zero",
        ),
        ("c.shape[0] - 129", r"gemm/4k\[f16\]: c.shape\[0\] - 129 is -1, which is no size"),
    ):
        with pytest.raises(CaseError, match=what):
            prepare_case(
                space, (text,), Functions(str(tmp_path)), tmp_path, on_reference=lambda _: None
            )


POINT = points()[0]


@pytest.mark.parametrize(
    ("used", "budget", "said"),
    [
        ({"registers": 168}, Budget(registers=128), "registers 168, over the budget of 128"),
        (
            {"spill_stores": 4, "spill_loads": 12},
            Budget(spills=0),
            "spills 12, over the budget of 0",
        ),
        ({"shared": 65536}, Budget(shared=49152), "shared 65536, over the budget of 49152"),
        ({"stack": 32}, Budget(stack=0), "stack 32, over the budget of 0"),
        ({"registers": 128}, Budget(registers=128), ""),
        ({}, Budget(registers=1, spills=0), ""),
    ],
)
def test_prunes_candidates_over_budget(used, budget: Budget, said: str) -> None:
    assert refusal(built(POINT, **used).images, budget) == said


def test_equal_code_is_one_candidate_only_where_the_launch_is_equal_too(info: KernelInfo) -> None:
    first, second = ((("T", "f16"), ("BM", 64), ("BK", bk)) for bk in (32, 64))
    assert identity(info, first, [built(first, symbol="s")]) == identity(
        info, second, [built(second, symbol="s")]
    )
    assert identity(info, first, [built(first, symbol="s")]) != identity(
        info, second, [built(second, symbol="t")]
    )
    other = (("T", "f16"), ("BM", 128), ("BK", 32))  # the grid counts tiles of BM
    assert identity(info, first, [built(first, symbol="s")]) != identity(
        info, other, [built(other, symbol="s")]
    )
    launch = dataclasses.replace(info.launch, shared="BK * 2")
    dynamic = dataclasses.replace(info, launch=launch)
    assert identity(dynamic, first, [built(first, symbol="s")]) != identity(
        dynamic, second, [built(second, symbol="s")]
    )


HEAD = 'edition = 1\n[package]\nname = "a"\nversion = "1.0"\n[targets]\ndefault = [{}]\ngroups.more = [{}]\n[kernel.k]\nsource = "k.py"\n'


B200 = dataclasses.replace(H200, name="B200", cc=(10, 0))


def project(*default: str, more: str = "sm_80", jit: str = "deny") -> Manifest:
    text = HEAD.format(", ".join(f'"{name}"' for name in default), f'"{more}"')
    text = text.replace("[kernel.k]", f'jit-fallback = "{jit}"\n[kernel.k]')
    return load_text(text, Path("tilec.toml"), languages={"tile": (".py",)})


@pytest.mark.parametrize(
    ("default", "more", "device", "found"),
    [
        (("sm_80", "sm_90"), "sm_100", H200, "sm_90"),
        (("sm_80",), "sm_90", H200, "sm_90"),
        (("sm_90", "sm_90a"), "sm_80", H200, "sm_90a"),
        (("sm_80", "compute_80", "tileir"), "sm_80", H200, "compute_80"),
        (("sm_90", "tileir"), "sm_80", CPU, "tileir"),
        (("sm_80", "compute_80", "compute_90"), "sm_80", B200, "compute_90"),
    ],
)
def test_the_best_of_the_project_that_the_device_runs(default, more, device, found) -> None:
    assert str(target_for(project(*default, more=more, jit="allow"), "k", device, "")) == found


def test_tunes_for_ptx_only_where_jit_fallback_allows_it() -> None:
    found = project("sm_80", "compute_80", "lto_80", "tileir")
    with pytest.raises(
        UsageError, match=r"cannot be tuned on .*: no target of this project runs there"
    ) as caught:
        target_for(found, "k", H200, "")
    assert caught.value.fix.startswith("add sm_90 to [targets]; ")
    with pytest.raises(
        UsageError,
        match=r"--target compute_80: .* would have to compile it at load, and jit-fallback is deny",
    ) as caught:
        target_for(found, "k", H200, "compute_80")
    assert caught.value.fix == 'set jit-fallback = "allow" in [targets], or tune for machine code'
    with pytest.raises(UsageError, match="--target lto_80 does not run on device 0"):
        target_for(project("lto_80", jit="allow"), "k", H200, "lto_80")


def test_without_a_device_the_only_machine_code_is_meant() -> None:
    assert str(target_for(project("sm_80", "tileir"), "k", None, "")) == "sm_80"
    with pytest.raises(UsageError) as caught:
        target_for(project("sm_90", "sm_100"), "k", None, "")
    assert caught.value.what == "this project has 3 machine code targets: name one"
    assert caught.value.fix.startswith("--target sm_100;")


@pytest.mark.parametrize(
    ("wanted", "device", "said"),
    [
        ("sm_91", None, "--target: unknown architecture"),
        ("sm_100", None, "--target sm_100 is no target of this project"),
        ("sm_80", H200, "--target sm_80 does not run on device 0 (Fake H200)"),
        ("sm_90", CPU, "--target sm_90 does not run on the cpu device"),
    ],
)
def test_a_target_that_does_not_do_is_refused(wanted: str, device, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        target_for(project("sm_80", "sm_90"), "k", device, wanted)
    assert said in caught.value.what
