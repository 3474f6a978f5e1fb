"""Plans of kernels that come compiled: parameters without names, blocks that the code fixes, and
kinds of targets of one kernel.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.manifest.load import load_text
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import Job, Source
from tilec.plan import LanguageFacts, make_plan
from tilec_runtime.errors import Location, ManifestError
from tilec_runtime.model.arch import TargetKind

FACTS = LanguageFacts(kinds=tuple(TargetKind), refuse=lambda _: "", simt=True)
PLACE = Location(file="k.cubin", line=1)
DECL = KernelDecl(
    name="k",
    qualified="k",
    location=PLACE,
    params=(
        ParamDecl(name="param_0", kind="", size=8, out=True),
        ParamDecl(name="param_1", kind="", size=8, out=True),
        ParamDecl(name="param_2", kind="scalar", dtype="u32"),
    ),
    named=False,
    simt=True,
    kinds=("cubin",),
)
HEAD = """edition = 1
[package]
name = "a"
version = "1.0"
[targets]
default = ["sm_90", "compute_80", "tileir"]
[kernel.k]
source = "k.cubin"
sha256 = "0000000000000000000000000000000000000000000000000000000000000001"
"""
PARAMS = 'params = { y = { dtype = "f32", rank = 1 }, x = { dtype = "f16", rank = 1, out = false }, n = { dtype = "i32" } }\n'
LAUNCH = 'launch = { grid = ["cdiv(y.size, 256)"], block = [256] }\n'


def jobs(text: str, decl: KernelDecl = DECL) -> tuple[Job, ...]:
    manifest = load_text(
        HEAD + text,
        Path("/project/tilec.toml"),
        languages={"prebuilt": (".cubin",)},
        shown="tilec.toml",
    )
    source = Source(root="/project", path="k.cubin")
    return make_plan(manifest, {"k": decl}, {"prebuilt": FACTS}, {"k": source}).jobs


def problems(text: str, decl: KernelDecl = DECL) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        jobs(text, decl)
    return [problem.message for problem in caught.value.problems]


def test_names_that_the_frontend_gives_may_be_used_too() -> None:
    (job,) = jobs(
        'params = { param_0 = { dtype = "f32", rank = 1 }, param_1 = { kind = "ptr" } }\nlaunch = { grid = [1], block = [1] }\n'
    )
    assert [(p.name, p.kind.value, p.dtype) for p in job.spec.params] == [
        ("param_0", "tensor", "f32"),
        ("param_1", "ptr", ""),
        ("param_2", "scalar", "u32"),
    ]


def test_too_few_names() -> None:
    found = problems('params = { y = { dtype = "f32", rank = 1 } }\n' + LAUNCH)
    expected = "kernel.k.params: 1 params, but k takes 3 parameters, which have no names of their own (8 bytes, 8 bytes, u32)"
    assert found[0] == f"{expected}: name each, in order, or say with args what each of them gets"


def test_only_targets_that_can_be_made_of_the_files_concern_the_kernel() -> None:
    assert [str(job.target) for job in jobs(PARAMS + LAUNCH)] == ["sm_90"]
    ptx = KernelDecl(
        name="k", location=PLACE, params=DECL.params, named=False, kinds=("cubin", "ptx")
    )
    assert [str(job.target) for job in jobs(PARAMS + LAUNCH, ptx)] == ["sm_90", "compute_80"]
    tile = KernelDecl(
        name="k", location=PLACE, params=DECL.params, named=False, simt=False, kinds=("tileir",)
    )
    assert [str(job.target) for job in jobs(PARAMS + 'launch = { grid = ["y.size"] }\n', tile)] == [
        "tileir"
    ]


def test_the_block_that_code_was_compiled_for_is_the_blocks() -> None:
    fixed = KernelDecl(
        name="k",
        location=PLACE,
        params=DECL.params,
        named=False,
        simt=True,
        block=(128, 1, 1),
        kinds=("cubin",),
    )
    assert jobs(PARAMS + 'launch = { grid = ["y.size"] }\n', fixed)
    (found,) = problems(PARAMS + LAUNCH, fixed)
    assert (
        found
        == "kernel.k.launch.block: a block of [256, 1, 1], but k was compiled for exactly [128, 1, 1]"
    )
