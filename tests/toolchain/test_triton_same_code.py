"""The code of a bundle is the code that Triton's own compiler makes of the same kernel with the
same facts and the same assembler.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.toolchain.prebuilt_samples import frontend as prebuilt
from tests.toolchain.prebuilt_samples import source as prebuilt_source
from tests.toolchain.projects import tool
from tests.toolchain.triton_jobs import ADD_ABI, ALIGNED, FAST, dot_job, frontend, job, slot, write
from tilec.frontends.tools.modules import load
from tilec.frontends.triton import api
from tilec.model.job import Job, KernelSpec, Variant
from tilec_runtime.bundle.cubin import section
from tilec_runtime.model.arch import Target

pytestmark = pytest.mark.toolchain
pytest.importorskip("triton")

POINTERS = {"x_ptr": "*fp32", "y_ptr": "*fp32", "z_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
DOT = {
    "a": "*fp16",
    "b": "*fp16",
    "c": "*fp32",
    "K": "i32",
    "lda": "i64",
    "ldk": "constexpr",
    "scale": "fp32",
    "flag": "u1",
}
DOT |= {"BM": "constexpr", "BK": "constexpr"}


def by_triton(
    own: Job,
    name: str,
    types: dict[str, str],
    constants: dict[Any, Any],
    divisible: tuple[int, ...],
    **options: Any,
) -> Any:
    """Return the result of `triton.compile` with the cache and assembler of the environment."""
    triton = api.load()
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module = load(own.spec.source)
    with module.active():
        kernel = api.kernel_of(vars(module.main)[name])
        source = ASTSource(
            kernel,
            types,
            {(k,): v for k, v in constants.items()},
            {(p,): [["tt.divisibility", 16]] for p in divisible},
        )
        capability = own.target.cc[0] * 10 + own.target.cc[1]
        return triton.compile(
            source,
            target=GPUTarget("cuda", capability, 32),
            options={"enable_fp_fusion": True, **options},
        )


@pytest.fixture
def same_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"):
        monkeypatch.setenv(name, tool("ptxas"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "1")


@pytest.mark.usefixtures("same_tools")
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_a_kernel_over_vectors(tmp_path: Path, target: str) -> None:
    own = job(write(tmp_path), target=target, assume=ALIGNED, abi=ADD_ABI)
    theirs = by_triton(own, "add", POINTERS, {4: 1024}, (0, 1, 2, 3)).asm["cubin"]
    assert section(frontend().compile(own).data, ".text.add") == section(theirs, ".text.add")


@pytest.mark.usefixtures("same_tools")
@pytest.mark.parametrize(
    ("target", "options"),
    [("sm_80", {"num_warps": 8}), ("sm_90", {"num_stages": 2}), ("sm_90", {"num_ctas": 2})],
)
def test_a_product(tmp_path: Path, target: str, options: dict[str, int]) -> None:
    own = dot_job(write(tmp_path), target, assume=FAST, hints=options)
    theirs = by_triton(own, "dot", DOT, {5: 1, 8: 64, 9: 32}, (0, 1, 3, 4), **options).asm["cubin"]
    assert section(frontend().compile(own).data, ".text.dot") == section(theirs, ".text.dot")


@pytest.mark.usefixtures("same_tools")
def test_what_triton_made_is_taken_as_a_prebuilt_file(tmp_path: Path) -> None:
    """Its cubin for its architecture, and its PTX for later ones too; the two addresses that it
    adds are said in `args`.
    """
    abi = (*ADD_ABI, slot("u64", "0", 8), slot("u64", "0", 8))
    for target, form, wanted in (
        ("sm_90", "cubin", "sm_90a"),
        ("sm_80", "ptx", "sm_80"),
        ("sm_80", "ptx", "compute_80"),
        ("sm_80", "ptx", "sm_120"),
    ):
        own = job(write(tmp_path), target=target, assume=ALIGNED, abi=ADD_ABI)
        made = by_triton(own, "add", POINTERS, {4: 1024}, (0, 1, 2, 3))
        data = made.asm[form] if form == "cubin" else made.asm[form].encode()
        where = prebuilt_source(tmp_path, {f"add.{form}": data})
        (decl,) = prebuilt().declare(where)
        assert decl.block == (32 * made.metadata.num_warps, 1, 1)
        spec = KernelSpec(
            name="add",
            language="prebuilt",
            source=where,
            decl=decl,
            symbol="add",
            params=own.spec.params,
            abi=abi,
        )
        variant = Variant(kernel="add", id="add", axes=(("T", "f32"),))
        image = prebuilt().compile(Job(spec=spec, variant=variant, target=Target.parse(wanted)))
        assert image.abi == abi
        assert image.info.required_block == (128, 1, 1)
        assert form != "cubin" or image.data == data
