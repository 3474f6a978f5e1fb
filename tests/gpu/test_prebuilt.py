"""Kernels that come compiled on a GPU: every form of one kernel gives the same numbers, machine code and PTX alike."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tilec.build import BuildRequest, build
from tilec.bundle.read import Bundle
from tilec.compiler.events import SilentObserver
from tilec.runtime import load

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")]

HEAD = """edition = 1
[package]
name = "pre"
version = "1.0.0"
[targets]
default = ["TARGET", "compute_80"]
min-driver = "580"
"""
NAMED = """launch = { grid = ["cdiv(n, 256)"], block = [256] }
params.y = { dtype = "f32", rank = 1 }
params.x = { dtype = "f32", rank = 1, out = false }
params.s = { dtype = "f32" }
params.n = { dtype = "i32" }
params.box = {}
"""


@pytest.fixture(scope="module")
def compiled(torch, tmp_path_factory):
    """A project of one kernel in every form, built for this device, loaded; nothing where the toolkit is not installed."""
    pytest.importorskip("cuda.tile")
    pytest.importorskip("cuda.bindings.nvfatbin")
    from tests.toolchain.prebuilt_samples import FILL_LL, TILE_ARGS, fatbin, nvrtc_made, tile_made
    from tilec.model.digest import sha256

    root: Path = tmp_path_factory.mktemp("prebuilt")
    major, minor = torch.cuda.get_device_capability()
    target = f"sm_{major}{minor}"
    forms = {
        "by_ptx.ptx": nvrtc_made("PTX", "compute_80"),
        "by_cubin.cubin": nvrtc_made("CUBIN", target),
        "by_lto.ltoir": nvrtc_made("LTOIR", "compute_80"),
        "by_fatbin.fatbin": fatbin(),
    }
    text = HEAD.replace("TARGET", target)
    for name, data in forms.items():
        (root / name).write_bytes(data)
        text += f'[kernel.{name.partition(".")[0]}]\nsource = "{name}:scale"\nsha256 = "{sha256(data)}"\n{NAMED}'
    (root / "fill.ll").write_bytes(FILL_LL.encode())
    text += f'[kernel.fill]\nsource = "fill.ll"\nsha256 = "{sha256(FILL_LL.encode())}"\n'
    text += 'params = { y = { dtype = "f32", rank = 1 }, value = {} }\nargs = ["y.ptr", "value", "i32(y.size)"]\n'
    text += 'launch = { grid = ["cdiv(y.size, 256)"], block = [256] }\n'
    (root / "add.tileirbc").write_bytes(tile_made("tileir"))
    (root / "add.cubin").write_bytes(tile_made(target))
    for kernel, file in (("tile_bytecode", "add.tileirbc"), ("tile_cubin", "add.cubin")):
        text += (
            f'[kernel.{kernel}]\nsource = "{file}:add_tile"\nsha256 = "{sha256((root / file).read_bytes())}"\nargs = {list(TILE_ARGS)}\n'
        )
        text += "params = { x = { rank = 1, dtype = 'f32', out = false }, y = { rank = 1, dtype = 'f32', out = false }"
        text += ", z = { rank = 1, dtype = 'f32' } }\n"
        text += 'launch = { grid = ["cdiv(z.size, 128)"] }\n'
    (root / "tilec.toml").write_text(text, encoding="utf-8")
    build(BuildRequest(manifest_path=root / "tilec.toml", cache_dir=root / "cache"), SilentObserver())
    return load(Bundle.open(root / "dist" / "pre-1.0.0.tilec"), 0).kernels


@pytest.mark.parametrize("form", ["by_ptx", "by_cubin", "by_lto", "by_fatbin"])
@pytest.mark.parametrize("size", [1, 255, 100_003])
def test_every_form_gives_the_same(compiled, torch, form: str, size: int) -> None:
    x = torch.randn(size, device="cuda")
    y = torch.full_like(x, torch.nan)
    compiled[form](torch.cuda.current_stream(), y, x, 2.0, size, struct.pack("ffd", 0.0, 1.5, 0.0))
    assert torch.equal(y, torch.clamp(x * 2.0, max=1.5))


def test_nvvm_ir(compiled, torch) -> None:
    y = torch.zeros(1000, device="cuda")
    compiled["fill"](torch.cuda.current_stream(), y, 3.5)
    assert bool((y == 3.5).all())


@pytest.mark.parametrize("kernel", ["tile_bytecode", "tile_cubin"])
def test_tile_kernels(compiled, torch, kernel: str) -> None:
    x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
    z = torch.full_like(x, torch.nan)
    compiled[kernel](torch.cuda.current_stream(), x, y, z)
    assert torch.equal(z, x + y)
