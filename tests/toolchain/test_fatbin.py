"""Fatbins: what goes in comes out of cuobjdump, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolchain.projects import run_tool
from tests.toolchain.tile_jobs import SAMPLE, frontend, job, vectors
from tilec.package.fatbin import write_fatbin
from tilec_runtime.errors import CompileError
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import ImageInfo

pytestmark = pytest.mark.toolchain

Images = list[tuple[ImageInfo, bytes]]

PTX = """.version {isa}
.target {target}
.address_size 64
.visible .entry scale(.param .u64 p) {{ .reg .b64 r; ld.param.u64 r, [p]; st.global.u32 [r], 7; ret; }}
"""


def image(target: str, data: bytes, **more: object) -> tuple[ImageInfo, bytes]:
    info = ImageInfo(
        target=Target.parse(target), digest=sha256(data), size=len(data), symbol="scale", **more
    )  # type: ignore[arg-type]
    return info, data


@pytest.fixture(scope="module")
def simt(tmp_path_factory: pytest.TempPathFactory) -> Images:
    """Cubins and PTX of one small kernel."""
    directory = tmp_path_factory.mktemp("simt")
    images = []
    for target in ("sm_80", "sm_90", "sm_90a", "sm_100f", "sm_120"):
        (directory / "k.ptx").write_text(PTX.format(isa="8.8", target=target))
        made = directory / f"{target}.cubin"
        run_tool("ptxas", directory / "k.ptx", f"--gpu-name={target}", "-o", made)
        images.append(image(target, made.read_bytes()))
    return [
        *images,
        image("compute_80", PTX.format(isa="8.0", target="sm_80").encode(), ptx_isa=(8, 0)),
    ]


@pytest.fixture(scope="module")
def tile() -> Images:
    """Cubins and bytecode of one tile kernel."""
    compiler = frontend()
    built = [
        compiler.compile(
            job(
                compiler,
                SAMPLE,
                "kernels/vector.py",
                "add",
                vectors("a", "b", "c"),
                axes={"TILE": 256},
                target=target,
            )
        )
        for target in ("sm_80", "sm_90", "sm_120", "tileir")
    ]
    return [(one.info, one.data) for one in built]


def cuobjdump(directory: Path, data: bytes, *options: str) -> str:
    (directory / "k.fatbin").write_bytes(data)
    return run_tool("cuobjdump", *options, "k.fatbin", cwd=directory)


def test_cubins_and_ptx_come_back_unchanged(simt: Images, tmp_path: Path) -> None:
    fatbin = write_fatbin(simt)
    assert cuobjdump(tmp_path, fatbin, "-lelf").count("ELF file") == 5
    assert cuobjdump(tmp_path, fatbin, "-lptx").count("PTX file") == 1
    cuobjdump(tmp_path, fatbin, "-xelf", "all", "-xptx", "all")
    extracted = sorted(
        path.read_bytes() for path in tmp_path.iterdir() if path.suffix in (".cubin", ".ptx")
    )
    assert extracted == sorted(data for _, data in simt)


def test_tile_cubins_are_picked_for_their_capability_only(tile: Images, tmp_path: Path) -> None:
    listed = cuobjdump(tmp_path, write_fatbin(tile), "-all")
    archs = [
        line.split("=")[1].strip() for line in listed.splitlines() if line.startswith("arch =")
    ]
    assert sorted(archs) == [
        "sm_120a",
        "sm_80",
        "sm_80",
        "sm_90a",
    ]  # Tile IR is listed under the oldest capability


def test_tile_ir_is_in_it(tile: Images, tmp_path: Path) -> None:
    (bytecode,) = (data for info, data in tile if info.target.kind is TargetKind.TILEIR)
    fatbin = write_fatbin(tile)
    assert bytecode in fatbin
    assert "tile ir code" in cuobjdump(tmp_path, fatbin, "-all")


def test_same_images_same_bytes_in_any_order(simt: Images, tile: Images) -> None:
    assert write_fatbin(simt) == write_fatbin(simt[::-1])
    assert write_fatbin(tile) == write_fatbin(tile[::-1])


@pytest.mark.parametrize("data", [b"", b"no cubin at all"])
def test_what_is_no_cubin_is_refused(data: bytes) -> None:
    with pytest.raises(CompileError) as caught:
        write_fatbin([image("sm_80", data)])
    assert caught.value.what.startswith("nvFatbin refuses the sm_80 image of scale: ")
    assert caught.value.target == "sm_80"
    assert "tilec doctor" in caught.value.fix
