"""A project of kernels that come compiled: PTX, a cubin, LTO-IR, a fatbin, NVVM IR and Tile IR,
from `tilec build` to a launch.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.e2e.harness import Cli
from tests.toolchain import projects, tile_jobs
from tests.toolchain.prebuilt_samples import FILL_LL, TILE_ARGS, fatbin, nvrtc_made, tile_made
from tilec_runtime import Device, load
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.signature import Param, ParamKind

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

HEAD = """edition = 1
[package]
name = "pre"
version = "1.0.0"
[targets]
default = ["sm_80", "sm_90", "compute_80", "tileir"]
"""
NAMED = """launch = { grid = ["cdiv(n, 256)"], block = [256] }
params.y = { dtype = "f32", rank = 1 }
params.x = { dtype = "f32", rank = 1, out = false }
params.s = { dtype = "f32" }
params.n = { dtype = "i32" }
params.box = {}
"""
ADD = f"""params = {{ x = {{ rank = 1, out = false }}, y = {{ rank = 1, out = false }}, z = {{ rank = 1 }} }}
args = {list(TILE_ARGS)}
launch = {{ requires = ["x.size == z.size", "y.size == z.size"], grid = ["cdiv(z.size, 128)"] }}
[kernel.add.case.odd]
inputs.x = {{ shape = [1000] }}
inputs.y = {{ shape = [1000], seed = 1 }}
inputs.z = {{ shape = [1000], dist = "empty" }}
reference = "reference.py:add"
"""


def project(root: Path) -> dict[str, str]:
    """Write the project; the digests of its files."""
    files = {
        "k/scale.ptx": nvrtc_made("PTX", "compute_80"),
        "k/scale.sm_90.cubin": nvrtc_made("CUBIN", "sm_90"),
        "k/scale.ltoir": nvrtc_made("LTOIR", "compute_80"),
        "k/scale.fatbin": fatbin(),
        "k/fill.ll": FILL_LL.encode(),
        "k/add.tileirbc": tile_made("tileir"),
        "reference.py": b"def add(x, y):\n    return x + y\n",
    }
    (root / "k").mkdir(parents=True)
    for name, data in files.items():
        (root / name).write_bytes(data)
    digests = {name: sha256(data) for name, data in files.items()}
    text = HEAD
    for kernel, name in (
        ("by_ptx", "k/scale.ptx"),
        ("by_lto", "k/scale.ltoir"),
        ("by_fatbin", "k/scale.fatbin"),
    ):
        text += f'[kernel.{kernel}]\nsource = "{name}:scale"\nsha256 = "{digests[name]}"\n{NAMED}'
    name = "k/scale.sm_90.cubin"
    text += f'[kernel.by_two]\nsource = "k/scale.ptx:scale"\nsha256 = "{digests["k/scale.ptx"]}"\nfiles = {{ "{name}" = "{digests[name]}" }}\n'
    text += NAMED
    text += f'[kernel.fill]\nsource = "k/fill.ll"\nsha256 = "{digests["k/fill.ll"]}"\n'
    text += 'params = { y = { dtype = "f32", rank = 1 }, value = {} }\nargs = ["y.ptr", "value", "i32(y.size)"]\n'
    text += 'launch = { grid = ["cdiv(y.size, 256)"], block = [256] }\n'
    text += f'[kernel.add]\nsource = "k/add.tileirbc:add_tile"\nsha256 = "{digests["k/add.tileirbc"]}"\n{ADD}'
    (root / "tilec.toml").write_text(text, encoding="utf-8")
    return digests


def test_a_project_of_compiled_kernels(cli: Cli, tmp_path: Path) -> None:
    project(tmp_path)
    done = cli.good(tmp_path, "build")
    assert "built 18 jobs: 18 compiled" in done.out
    bundle = Bundle.open(tmp_path / "dist" / "pre-1.0.0.tilec")
    found = {
        k.name: [str(image.target) for v in k.variants for image in v.images]
        for k in bundle.info.kernels
    }
    machine = ["sm_80", "sm_90", "compute_80"]
    simt = dict.fromkeys(("by_ptx", "by_lto", "by_fatbin", "by_two", "fill"), machine)
    assert found == {**simt, "add": ["sm_80", "sm_90", "tileir"]}
    assert cli.good(tmp_path, "build").up_to_date
    images = {
        k.name: {str(i.target): i.digest for v in k.variants for i in v.images}
        for k in bundle.info.kernels
    }
    assert images["by_two"]["sm_90"] == sha256(nvrtc_made("CUBIN", "sm_90"))
    assert images["by_ptx"]["sm_80"] == images["by_two"]["sm_80"]


def test_bytecode_runs_on_the_cpu_device(cli: Cli, tmp_path: Path) -> None:
    project(tmp_path)
    assert "ok" in cli.good(tmp_path, "run", "add", "--device", "cpu").out
    cli.good(tmp_path, "build", "--targets", "tileir", "--select", "add")
    kernels = load(Bundle.open(tmp_path / "dist" / "pre-1.0.0.tilec"), "cpu").kernels
    x, y = np.arange(300, dtype=np.float32), np.ones(300, np.float32)
    z = np.zeros(300, np.float32)
    kernels["add"](x, y, z)
    Device("cpu").sync()
    assert (z == x + y).all()


@pytest.mark.parametrize("command", ["run", "sanitize"])
def test_without_a_gpu_what_comes_as_machine_code_is_skipped(
    cli: Cli, tmp_path: Path, command: str
) -> None:
    """Only the file says what can be made of it: its language takes Tile IR too."""
    project(tmp_path)
    with (tmp_path / "tilec.toml").open("a") as file:
        file.write(
            '[kernel.fill.case.some]\ninputs.y = { shape = [256], dist = "empty" }\ninputs.value = 2.0\n'
        )
    done = cli(tmp_path, command, "--device", "cpu", "--json")
    assert done.code == 0, done.err
    assert {case["name"]: case["status"] == "skipped" for case in done.json()["cases"]} == {
        "fill/some": True,
        "add/odd": False,
    }
    alone = cli(tmp_path, command, "fill", "--device", "cpu")
    assert alone.code == 3
    assert "skipped fill: it " in alone.out


# The order in which cuTile Rust passes what it launches: of a tensor that is written, its address,
# extents and strides, then those of its partition; of one that is read, the first three.
RUST_ORDER = """import cuda.tile as ct


@ct.kernel
def double(z, tile, step, x):
    i = ct.bid(0)
    ct.store(z, (i,), 2 * ct.load(x, (i,), (128,)))
"""


def test_bytecode_with_the_arguments_of_cutile_rust(cli: Cli, tmp_path: Path) -> None:
    params = (
        *tile_jobs.vectors("z"),
        *(Param(name=name, kind=ParamKind.SCALAR, dtype="i32") for name in ("tile", "step")),
    )
    root = projects.write(tmp_path / "made", {"t.py": RUST_ORDER})
    frontend = tile_jobs.frontend()
    made = frontend.compile(
        tile_jobs.job(
            frontend, root, "t.py", "double", (*params, *tile_jobs.vectors("x")), target="tileir"
        )
    ).data
    (tmp_path / "k").mkdir()
    (tmp_path / "k" / "double.tileirbc").write_bytes(made)
    text = f"""[kernel.double]
source = "k/double.tileirbc:double_tile"
sha256 = "{sha256(made)}"
params = {{ z = {{ rank = 1 }}, x = {{ rank = 1, out = false }} }}
args = ["z.ptr", "i32(z.shape[0])", "i32(z.stride[0])", "i32(128)", "i32(1)", "x.ptr", "i32(x.shape[0])", "i32(x.stride[0])"]
launch = {{ requires = ["x.size == z.size"], grid = ["cdiv(z.size, 128)"] }}
"""
    (tmp_path / "tilec.toml").write_text(HEAD + text, encoding="utf-8")
    cli.good(tmp_path, "build", "--targets", "sm_90,tileir")
    kernels = load(Bundle.open(tmp_path / "dist" / "pre-1.0.0.tilec"), "cpu").kernels
    x, z = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    kernels["double"](z, x)
    Device("cpu").sync()
    assert (z == 2 * x).all()
