"""Kernels in the safe language against the same kernels written in cuda.tile: no operation,
register or instruction more.
"""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.toolchain.safe_kernels import HEAD, PAIRS
from tests.toolchain.tile_jobs import frontend, job, tensor, write
from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.search import find_tool
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.cpu.tileir.text import render
from tilec_runtime.model.signature import Assumption

pytestmark = pytest.mark.toolchain


@pytest.fixture(scope="module")
def tile():
    return frontend()


def compiled(tile, root, pair, kernel, target):
    text, dtype, arrays, axes = PAIRS[pair]
    write(root, {"k.py": HEAD + text})
    params = tuple(
        tensor(name, dtype, 2, out=name == "z") for name in ("z", "x", "y") if name in arrays
    )
    assume = tuple(
        Assumption(param=p.name, shape=(16, 16), stride=(16, 1), align=16) for p in params
    )
    return tile.compile(
        job(
            tile,
            root,
            "k.py",
            kernel,
            params,
            target=target,
            axes={"T": dtype, **axes},
            assume=assume,
            name="k",
        )
    )


def operations(image):
    """The Tile IR as text, without places in the source."""
    return re.sub(r" *//.*", "", render(read_module(image.data)))


def instructions(image, folder):
    file = folder / "k.cubin"
    file.write_bytes(image.data)
    tool = find_tool("cuobjdump", ToolSearch()).path
    done = subprocess.run(
        [tool, "-sass", str(file)], capture_output=True, text=True, check=True, timeout=120
    )
    return re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(.*?);", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    "pair", [name for name in PAIRS if name != "persistent"]
)  # what is worked out twice there, tileiras works out once
def test_the_tile_ir_is_the_same(tile, tmp_path, pair):
    safe, plain = (compiled(tile, tmp_path, pair, kernel, "tileir") for kernel in ("safe", "plain"))
    assert operations(safe) == operations(plain)


@pytest.mark.parametrize("pair", PAIRS)
def test_the_machine_code_is_the_same(tile, tmp_path, pair):
    safe, plain = (compiled(tile, tmp_path, pair, kernel, "sm_90") for kernel in ("safe", "plain"))
    assert safe.info.resources == plain.info.resources
    code = instructions(safe, tmp_path)
    assert len(code) > 20
    assert code == instructions(plain, tmp_path)
