"""Kernels that come compiled on a GPU: every form of one kernel gives the same numbers, machine
code and PTX alike.

The bundle is built elsewhere: `python -m tests.gpu.test_prebuilt build/prebuilt`, where the toolkit
is, and there `tilec build`. The variable TILEC_PREBUILT_DIST names another place of its `dist`.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest

from tilec_runtime import errors, load
from tilec_runtime.bundle.read import Bundle

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]

DIST = Path(__file__).resolve().parents[2] / "build" / "prebuilt" / "dist"
TARGET = "sm_90"
HEAD = f"""edition = 1
[package]
name = "pre"
version = "1.0.0"
[targets]
default = ["{TARGET}", "compute_80"]
min-driver = "580"
"""
NAMED = """launch = { grid = ["cdiv(n, 256)"], block = [256] }
params.y = { dtype = "f32", rank = 1 }
params.x = { dtype = "f32", rank = 1, out = false }
params.s = { dtype = "f32" }
params.n = { dtype = "i32" }
params.box = {}
"""


def write(root: Path) -> None:
    """The project: one kernel in every form that CUDA C++ gives, one in NVVM IR, and a tile kernel
    as bytecode and as machine code.
    """
    from tests.toolchain.prebuilt_samples import FILL_LL, TILE_ARGS, fatbin, nvrtc_made, tile_made
    from tilec_runtime.model.digest import sha256

    root.mkdir(parents=True, exist_ok=True)
    forms = {
        "by_ptx.ptx": nvrtc_made("PTX", "compute_80"),
        "by_cubin.cubin": nvrtc_made("CUBIN", TARGET),
        "by_lto.ltoir": nvrtc_made("LTOIR", "compute_80"),
        "by_fatbin.fatbin": fatbin(),
    }
    text = HEAD
    for name, data in forms.items():
        (root / name).write_bytes(data)
        text += f'[kernel.{name.partition(".")[0]}]\nsource = "{name}:scale"\nsha256 = "{sha256(data)}"\n{NAMED}'
    (root / "fill.ll").write_bytes(FILL_LL.encode())
    text += f'[kernel.fill]\nsource = "fill.ll"\nsha256 = "{sha256(FILL_LL.encode())}"\n'
    text += 'params = { y = { dtype = "f32", rank = 1 }, value = {} }\nargs = ["y.ptr", "value", "i32(y.size)"]\n'
    text += 'launch = { grid = ["cdiv(y.size, 256)"], block = [256] }\n'
    (root / "add.tileirbc").write_bytes(tile_made("tileir"))
    (root / "add.cubin").write_bytes(tile_made(TARGET))
    for kernel, file in (("tile_bytecode", "add.tileirbc"), ("tile_cubin", "add.cubin")):
        text += f'[kernel.{kernel}]\nsource = "{file}:add_tile"\nsha256 = "{sha256((root / file).read_bytes())}"\nargs = {list(TILE_ARGS)}\n'
        text += "params = { x = { rank = 1, dtype = 'f32', out = false }, y = { rank = 1, dtype = 'f32', out = false }"
        text += ", z = { rank = 1, dtype = 'f32' } }\n"
        text += 'launch = { grid = ["cdiv(z.size, 128)"] }\n'
    (root / "tilec.toml").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def compiled(torch):
    """The kernels of the bundle, loaded."""
    path = Path(os.environ.get("TILEC_PREBUILT_DIST", str(DIST))) / "pre-1.0.0.tilec"
    if not path.is_file():
        pytest.skip(f"{path} is not there: build it first, as this file says")
    try:
        return load(Bundle.open(path), 0).kernels
    except errors.DeviceError as error:
        pytest.skip(f"no GPU: {error.what}")


@pytest.mark.parametrize("form", ["by_ptx", "by_cubin", "by_lto", "by_fatbin"])
@pytest.mark.parametrize("size", [1, 255, 100_003])
def test_every_form_gives_the_same(compiled, torch, form: str, size: int) -> None:
    x = torch.randn(size, device="cuda")
    y = torch.full_like(x, torch.nan)
    compiled[form](y, x, 2.0, size, struct.pack("ffd", 0.0, 1.5, 0.0))
    assert torch.equal(y, torch.clamp(x * 2.0, max=1.5))


def test_nvvm_ir(compiled, torch) -> None:
    y = torch.zeros(1000, device="cuda")
    compiled["fill"](y, 3.5)
    assert bool((y == 3.5).all())


@pytest.mark.parametrize("kernel", ["tile_bytecode", "tile_cubin"])
def test_tile_kernels(compiled, torch, kernel: str) -> None:
    x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
    z = torch.full_like(x, torch.nan)
    compiled[kernel](x, y, z)
    assert torch.equal(z, x + y)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
