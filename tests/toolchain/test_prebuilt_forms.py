"""Compiled kernels of every form: what is read of them, what is made of them for each target, and
what is refused.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.toolchain.prebuilt_samples import (
    FILL_LL,
    SCALE_PARAMS,
    SEARCH,
    fatbin,
    frontend,
    job,
    nvrtc_made,
    source,
    tile_made,
)
from tilec.frontends.prebuilt.frontend import PrebuiltFrontend
from tilec.model.declaration import KernelDecl
from tilec.model.job import Source
from tilec.testing import contract
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.errors import CompileError
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind

pytestmark = pytest.mark.toolchain

EXPECTED_ABI = (("ptr", 8), ("ptr", 8), ("f32", 4), ("i32", 4), ("struct", 16))
TILE_ABI = tuple(
    slot
    for name in "xyz"
    for slot in (
        AbiSlot(type="ptr", expr=f"{name}.ptr", size=8, align=8),
        AbiSlot(type="i32", expr=f"{name}.shape[0]", size=4, align=4),
        AbiSlot(type="i32", expr=f"{name}.stride[0]", size=4, align=4),
    )
)


def ptx() -> bytes:
    return nvrtc_made("PTX", "compute_80")


def forms() -> dict[str, bytes]:
    return {
        "scale.ptx": ptx(),
        "scale.cubin": nvrtc_made("CUBIN", "sm_90"),
        "scale.ltoir": nvrtc_made("LTOIR", "compute_80"),
        "scale.fatbin": fatbin(),
        "lto.fatbin": fatbin(cubin=False, ptx=False, tileir=False),
    }


@pytest.mark.parametrize(
    "name", ["scale.ptx", "scale.cubin", "scale.ltoir", "scale.fatbin", "lto.fatbin"]
)
def test_every_form_gives_machine_code_that_takes_what_a_launch_passes(
    tmp_path: Path, name: str
) -> None:
    where = source(tmp_path, {name: forms()[name]})
    image = frontend().compile(job(where))
    assert tuple((slot.type, slot.size) for slot in image.abi) == EXPECTED_ABI
    cubin = read_cubin(image.data)
    assert (cubin.cc, cubin.toolkit[0]) == ((9, 0), 13)
    assert image.info.max_threads == 256
    assert image.info.cuda == (13, 0)
    assert image.info.resources.registers == cubin.kernel("scale").registers > 0
    assert (image.info.resources.spill_stores, image.info.exact) == (0, False)


def test_ptx_is_taken_as_it_is_and_lowered_where_the_driver_asks_for_it(tmp_path: Path) -> None:
    where = source(tmp_path, {"k.ptx": ptx()})
    image = frontend().compile(job(where, target="compute_80"))
    assert image.data == ptx().rstrip(b"\0")
    assert image.info.ptx_isa == (9, 4)
    lowered = frontend().compile(job(where, target="compute_80", max_isa=(9, 0)))
    assert lowered.info.ptx_isa == (9, 0)
    assert lowered.info.cuda == (13, 0)
    assert lowered.data == image.data.replace(b".version 9.4", b".version 9.0")
    with pytest.raises(
        CompileError, match=r"min-driver reads PTX up to ISA 6\.5, compute_80 needs ISA 7\.0"
    ) as caught:
        frontend().compile(job(where, target="compute_80", max_isa=(6, 5)))
    assert "450 (CUDA 11.0)" in caught.value.fix


def test_lto_ir_in_a_fatbin_serves_its_architecture_and_later_ones(tmp_path: Path) -> None:
    where = source(tmp_path, {"k.fatbin": fatbin(cubin=False, ptx=False, tileir=False)})
    assert read_cubin(frontend().compile(job(where, target="sm_120")).data).cc == (12, 0)
    alone = source(tmp_path, {"t.fatbin": fatbin(cubin=False, ptx=False, ltoir=False)})
    with pytest.raises(CompileError, match="this fatbin holds Tile IR alone"):
        frontend().declare(alone)


def test_files_for_exactly_a_target_come_before_what_is_compiled(tmp_path: Path) -> None:
    exact = nvrtc_made("CUBIN", "sm_90")
    where = source(
        tmp_path, {"k.ptx": ptx(), "k90.cubin": exact, "k100.cubin": nvrtc_made("CUBIN", "sm_100")}
    )
    assert frontend().compile(job(where)).data == exact
    assert read_cubin(frontend().compile(job(where, target="sm_80")).data).cc == (8, 0)
    assert frontend().compile(job(where, target="sm_100")).data == nvrtc_made("CUBIN", "sm_100")


def test_code_for_an_architecture_alone_serves_that_alone(tmp_path: Path) -> None:
    alone = nvrtc_made("CUBIN", "sm_90a")
    where = source(tmp_path, {"k.cubin": alone})
    image = frontend().compile(job(where, target="sm_90a"))
    assert image.data == alone
    assert str(image.info.target) == "sm_90a"


def refused() -> dict[str, tuple[dict[str, bytes], str, str]]:
    """Files, a target and what is said of them."""
    sm_90, newer = nvrtc_made("CUBIN", "sm_90"), nvrtc_made("LTOIR", "compute_90")
    both = {"k.cubin": sm_90, "k.fatbin": fatbin(ptx=False, ltoir=False)}
    return {
        "neither file": (both, "sm_80", "    k.fatbin: Tile IR, in a fatbin"),
        "both files": (both, "sm_90", "two files serve sm_90 equally"),
        "a cubin for one alone": (
            {"k.cubin": nvrtc_made("CUBIN", "sm_90a")},
            "sm_90",
            "no file of this kernel serves sm_90; there is:\n    k.cubin: a cubin for sm_90a",
        ),
        "PTX for one alone": (
            {"k.ptx": nvrtc_made("PTX", "compute_90a")},
            "sm_90",
            "PTX 9.4 for sm_90a alone",
        ),
        "an older target": (
            {"k.fatbin": fatbin(cubin=False, ptx=False, tileir=False)},
            "sm_75",
            "LTO-IR for sm_80 and later, in a fatbin",
        ),
        "newer LTO-IR": (
            {"k.ltoir": newer},
            "sm_80",
            "this LTO-IR was made for compute_90, which is newer than sm_80",
        ),
    }


@pytest.mark.parametrize(
    "name",
    [
        "neither file",
        "both files",
        "a cubin for one alone",
        "PTX for one alone",
        "an older target",
        "newer LTO-IR",
    ],
)
def test_a_target_that_the_files_do_not_serve(tmp_path: Path, name: str) -> None:
    files, target, what = refused()[name]
    with pytest.raises(CompileError) as caught:
        frontend().compile(job(source(tmp_path, files), target=target))
    assert what in caught.value.what


FILL_PARAMS = (
    Param(name="param_0", kind=ParamKind.TENSOR, dtype="f32", rank=1, out=True),
    Param(name="param_1", kind=ParamKind.SCALAR, dtype="f32"),
    Param(name="param_2", kind=ParamKind.SCALAR, dtype="i32"),
)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120", "compute_80"])
def test_nvvm_ir_is_compiled(tmp_path: Path, target: str) -> None:
    image = frontend().compile(
        job(source(tmp_path, {"fill.ll": FILL_LL.encode()}), "fill", target, params=FILL_PARAMS)
    )
    assert [slot.type for slot in image.abi] == ["ptr", "f32", "i32"]
    assert (image.info.ptx_isa is None) == target.startswith("sm_")


def test_nvvm_ir_with_opaque_pointers_serves_newer_targets(tmp_path: Path) -> None:
    text = FILL_LL.replace("float*", "ptr").replace("void (ptr, float, i32)*", "ptr")
    where = source(tmp_path, {"fill.ll": text.encode()})
    assert read_cubin(
        frontend().compile(job(where, "fill", "sm_100", params=FILL_PARAMS)).data
    ).cc == (10, 0)
    with pytest.raises(CompileError, match="libNVVM refuses this NVVM IR for sm_90") as caught:
        frontend().compile(job(where, "fill", "sm_90", params=FILL_PARAMS))
    assert "opaque ones from 10.0 on" in caught.value.cause
    assert [str(d.location) for d in caught.value.diagnostics] == ["fill.ll:4"]


def test_tile_ir_is_assembled_and_shipped(tmp_path: Path) -> None:
    where = source(tmp_path, {"add.tileirbc": tile_made("tileir")})
    (decl,) = frontend().declare(where)
    assert (decl.simt, decl.named, decl.kinds) == (False, False, ("cubin", "tileir"))
    assert [(p.type, p.kind) for p in decl.params[:2]] == [("ptr<f32>", "tensor"), ("", "scalar")]
    image = frontend().compile(job(where, "add_tile", "tileir", params=(), abi=TILE_ABI))
    assert image.data == tile_made("tileir")
    assert image.info.ptx_isa == image.info.cuda >= (13, 1)
    cubin = frontend().compile(job(where, "add_tile", "sm_90", params=(), abi=TILE_ABI))
    assert cubin.info.exact
    with pytest.raises(CompileError, match="takes other parameters"):
        frontend().compile(job(where, "add_tile", "tileir", params=(), abi=TILE_ABI[:8]))
    with pytest.raises(CompileError, match="no file of this kernel serves compute_80"):
        frontend().compile(job(where, "add_tile", "compute_80", params=(), abi=TILE_ABI))


def test_a_kernel_that_a_file_does_not_have(tmp_path: Path) -> None:
    other = nvrtc_made("CUBIN", "sm_90", 'extern "C" __global__ void twice(float* y) { *y = 1; }')
    where = source(tmp_path, {"k.ltoir": nvrtc_made("LTOIR", "compute_80"), "k.cubin": other})
    assert read_cubin(frontend().compile(job(where)).data).kernel(
        "scale"
    )  # the cubin has it not, and so does not serve it
    alone = dataclasses.replace(
        job(source(tmp_path, {"k.ptx": ptx()})).spec, source=source(tmp_path, {"k.cubin": other})
    )
    with pytest.raises(CompileError, match="what serves sm_90 has no kernel 'scale', but twice"):
        frontend().compile(dataclasses.replace(job(where), spec=alone))


def test_ptx_that_ptxas_refuses_is_shown_at_its_line(tmp_path: Path) -> None:
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n  nonsense.u32 %r1;\n  ret;\n}\n"
    with pytest.raises(CompileError, match="ptxas refuses this PTX for sm_90") as caught:
        frontend().compile(job(source(tmp_path, {"k.ptx": text.encode()}), "k", params=()))
    assert str(caught.value.diagnostics[0].location) == "k.ptx:6"
    assert caught.value.diagnostics[0].excerpt == "  nonsense.u32 %r1;"


@pytest.mark.parametrize("name", ["scale.cubin", "scale.fatbin", "add.tileirbc"])
@pytest.mark.parametrize("seed", range(6))
def test_damaged_files_give_an_image_or_an_error_of_ours(
    tmp_path: Path, name: str, seed: int
) -> None:
    whole = bytearray({**forms(), "add.tileirbc": tile_made("tileir")}[name])
    for step in range(4):
        whole[(seed * 7919 + step * 104729) % len(whole)] ^= 1 << (seed % 8)
    where = source(tmp_path, {name: bytes(whole)})
    tile = name.startswith("add")
    kernel = "add_tile" if tile else "scale"
    error: CompileError | None = None
    try:
        if kernel not in [decl.name for decl in frontend().declare(where)]:
            return  # the damage is in the kernel's name
        image = frontend().compile(
            job(where, kernel, params=() if tile else SCALE_PARAMS, abi=TILE_ABI if tile else ())
        )
        assert image.info.size == len(image.data)
    except CompileError as raised:
        error = raised
    assert error is None or error.diagnostics


def contract_job(where: Source, decl: KernelDecl) -> contract.Job:
    params = {"scale": SCALE_PARAMS, "fill": FILL_PARAMS, "add_tile": ()}[decl.name]
    made = job(where, decl.name, params=params, abi=TILE_ABI if decl.name == "add_tile" else ())
    return dataclasses.replace(made, spec=dataclasses.replace(made.spec, decl=decl))


@pytest.mark.parametrize("name", ["scale.ptx", "scale.fatbin", "add.tileirbc", "fill.ll"])
def test_the_contract_of_frontends(tmp_path: Path, name: str) -> None:
    data = {**forms(), "add.tileirbc": tile_made("tileir"), "fill.ll": FILL_LL.encode()}[name]
    more = nvrtc_made("CUBIN", "sm_80") if name != "add.tileirbc" else tile_made("sm_80")
    options = source(tmp_path / "stated", {name: data, "more.cubin": more}).options
    sample = contract.Sample(
        make=PrebuiltFrontend,
        files={name: data, "more.cubin": more},
        path=name,
        pulled_in="more.cubin",
        kernel={"add.tileirbc": "add_tile", "fill.ll": "fill"}.get(name, "scale"),
        job=contract_job,
        broken=(data[:-1], 1),
        options=options,
        search=SEARCH,
    )
    contract.check_all(sample, tmp_path / "work")
