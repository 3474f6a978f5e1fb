"""Kernels in the safe language to images: helpers, dataclasses, pointers, axes as values, variants
in one process, determinism.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.toolchain.projects import write
from tests.toolchain.tile_jobs import job, scalar, tensor
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.cpu.tileir.text import render
from tilec_runtime.model.dtype import DTYPES

pytestmark = pytest.mark.toolchain

TYPED = Path(__file__).parents[1] / "typing"
HEAD = """import cuda.tile as ct
import tilec.lang as tl
T = tl.dtype("T")
BM = tl.size("BM")
"""


def text_of(image):
    return render(read_module(image.data))


@pytest.mark.parametrize("target", ["sm_90", "tileir"])
def test_helper_dataclasses_and_scalars(tile, tmp_path, target):
    shutil.copy(TYPED / "right_kernels.py", tmp_path / "k.py")
    params = (tensor("z", "T", 2, out=True), tensor("x", "T", 2), scalar("by", "f64"))
    image = tile.compile(
        job(
            tile,
            tmp_path,
            "k.py",
            "normalize",
            params,
            target=target,
            axes={"T": "f16", "BM": 8, "BN": 64},
        )
    )
    assert [slot.expr for slot in image.abi][-1] == "by"
    assert str(image.info.target) == target


def test_shares_with_pointers_and_gathers(tile, tmp_path):
    shutil.copy(TYPED / "right_kernels.py", tmp_path / "k.py")
    params = (tensor("c", "T", 2, out=True), tensor("a", "T", 2), tensor("p", "T", 1, out=True))
    image = tile.compile(
        job(
            tile,
            tmp_path,
            "k.py",
            "shares",
            params,
            target="sm_90",
            axes={"T": "f32", "BM": 16, "BN": 16},
        )
    )
    assert image.info.resources.registers > 0


VALUES = """
def scaled(tile):
    return tile.astype(T) * BM


@tl.kernel
def k(z: tl.Mut[T, (BM,)]):
    z.store(scaled(tl.full((BM,), 3, tl.int32)))
"""


def test_axes_have_the_variants_values_in_helpers_too_and_none_afterwards(tile, tmp_path):
    write(tmp_path, {"k.py": HEAD + VALUES})
    found = []
    for dtype, size in (("f32", 16), ("i32", 64), ("f32", 64), ("f32", 16)):
        made = job(
            tile,
            tmp_path,
            "k.py",
            "k",
            (tensor("z", "T", 1, out=True),),
            target="tileir",
            axes={"T": dtype, "BM": size},
        )
        found.append(text_of(tile.compile(made)))
    assert found[0] == found[3]
    assert ["tile<16xf32>" in text for text in found] == [True, False, False, True]
    assert ["tile<64xi32>" in text for text in found] == [False, True, True, False]
    assert ["tile<64xf32>" in text for text in found] == [False, False, True, False]


def test_every_dtype_of_cuda_tile_can_be_fixed_and_be_an_axis(tile, tmp_path):
    names = [dtype for dtype in DTYPES.values() if dtype.tile and not dtype.packed]
    kernel = "@tl.kernel\ndef {0}(z: tl.Mut[tl.{1}, (16,)], x: tl.Ref[T, 1]):\n    z.store(x.load_tile_like(z))\n"
    write(tmp_path, {"k.py": HEAD + "".join(kernel.format(d.name, d.tile) for d in names)})
    for dtype in (each.name for each in names):
        params = (tensor("z", dtype, 1, out=True), tensor("x", dtype, 1))
        made = job(tile, tmp_path, "k.py", dtype, params, target="tileir", axes={"T": dtype})
        assert made.spec.decl.params[0].dtype == dtype
        assert tile.compile(made).data


BUILD = """
import sys
from tests.toolchain.tile_jobs import frontend, job, tensor
tile = frontend()
made = job(tile, sys.argv[1], "k.py", "k", (tensor("z", "T", 1, out=True),), target="sm_90", axes={"T": "f32", "BM": 16})
sys.stdout.write(tile.compile(made).info.digest)
"""


@pytest.mark.long
def test_images_do_not_depend_on_where_they_are_made(tmp_path):
    digests = []
    for name in ("a", "b/c"):
        root = write(tmp_path / name, {"k.py": HEAD + VALUES})
        command = [sys.executable, "-c", BUILD, str(root)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
            timeout=120,
        )
        digests.append(done.stdout)
    assert len(digests[0]) == 64
    assert digests[0] == digests[1]


def test_places_in_tile_ir_are_those_of_the_source(tile, tmp_path):
    write(tmp_path, {"k.py": HEAD + VALUES})
    made = job(
        tile,
        tmp_path,
        "k.py",
        "k",
        (tensor("z", "T", 1, out=True),),
        target="tileir",
        axes={"T": "f32", "BM": 16},
    )
    text = text_of(tile.compile(made))
    line = (HEAD + VALUES).split("\n").index("    return tile.astype(T) * BM") + 1
    assert f"k.py:{line}:" in text
    assert str(tmp_path) not in text
    assert "tilec/lang" not in text
    assert "<tilec" not in text
    made = job(
        tile,
        tmp_path,
        "k.py",
        "k",
        (tensor("z", "T", 1, out=True),),
        target="sm_90",
        axes={"T": "f32", "BM": 16},
        lineinfo=True,
    )
    assert b"arrays.py" not in tile.compile(made).data


def test_the_language_says_what_is_missing_without_cuda_tile(tmp_path):
    code = (
        "import sys\nsys.modules['cuda.tile'] = None\nsys.modules.pop('cuda', None)\n"
        "from tilec_runtime.errors import ToolchainError\n"
        "try:\n    import tilec.lang\nexcept ToolchainError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert done.stdout == (
        "tilec.lang needs cuda-tile, which is not installed\n"
        "  cause: kernel modules are for building: a generated package and its launchers do without\n  fix: pip install 'tilec[build]'\n"
    )
