"""The parts of the tile frontend that need no compiler: targets, symbols, imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tilec.frontends.base import ToolSearch
from tilec.frontends.tile.frontend import TileFrontend
from tilec.frontends.tile.signature import symbol_of
from tilec_runtime.model.arch import Target


@pytest.mark.parametrize(
    ("target", "refusal"),
    [
        ("sm_80", ""),
        ("sm_90", ""),
        ("sm_121", ""),
        ("tileir", ""),
        (
            "sm_90a",
            "tile targets take plain names: use sm_90 (tileiras makes an sm_90a image of it)",
        ),
        ("sm_100f", "tile targets take plain names: use sm_100"),
        (
            "sm_75",
            "tile kernels cannot be compiled for sm_75: the oldest architecture of Tile IR is sm_80",
        ),
        ("compute_80", "tile kernels become cubins or Tile IR, not PTX: use sm_80 or tileir"),
    ],
)
def test_targets(target, refusal):
    assert TileFrontend(ToolSearch()).refuse(Target.parse(target)) == refusal


def test_what_is_up_to_date_costs_no_import_of_a_compiler(tmp_path):
    (tmp_path / "k.py").write_text("import os\n")
    code = (
        "import sys\nfrom tilec.frontends.tile.frontend import TileFrontend\nfrom tilec.frontends.base import ToolSearch\n"
        "from tilec.model.job import Source\nTileFrontend(ToolSearch()).inputs(Source(root=sys.argv[1], path='k.py'))\n"
        "heavy = ('cuda.tile', 'cuda.bindings', 'numpy', 'numba')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        ("add", "add_tile"),
        ("vector-add", "vector_add_tile"),
        ("2d", "_2d_tile"),
        ("größe", "gr_uf6_udfe_tile"),
        ("exp", "exp_tile"),
    ],
)
def test_symbols(name, symbol):
    assert symbol_of(name) == symbol
    assert symbol.isascii()
    assert symbol.isidentifier()
