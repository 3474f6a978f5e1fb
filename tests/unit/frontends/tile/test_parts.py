"""The parts of the tile frontend that need no compiler: targets, symbols, bindings, messages,
listings.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tilec.frontends.base import ToolSearch
from tilec.frontends.tile import api
from tilec.frontends.tile.frontend import TileFrontend
from tilec.frontends.tile.signature import FunctionParam, bind, symbol_of
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec_runtime.errors import CompileError, Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.signature import Assumption, Param, ParamKind

HERE = Location(file="k.py", line=3)


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


def tensor(name: str, **fields) -> Param:
    return Param(
        name=name,
        kind=ParamKind.TENSOR,
        dtype=fields.pop("dtype", "f32"),
        rank=fields.pop("rank", 2),
        **fields,
    )


def job(*params: Param, assume: tuple[Assumption, ...] = (), **axes) -> Job:
    decl = KernelDecl(name="k", location=HERE)
    spec = KernelSpec(
        name="k",
        language="tile",
        source=Source(root="", path="k.py"),
        decl=decl,
        symbol="",
        params=params,
    )
    return Job(
        spec=spec,
        variant=Variant(kernel="k", id="k", axes=tuple(axes.items()), assume=assume),
        target=Target.parse("sm_80"),
    )


def function(*names: str, **annotations: api.Annotation) -> list[FunctionParam]:
    found = [
        FunctionParam(name=n, annotation=api.Annotation(), default=None, location=HERE)
        for n in names
    ]
    return found + [
        FunctionParam(name=n, annotation=a, default=None, location=HERE)
        for n, a in annotations.items()
    ]


def arrays(made: Job, *names: str) -> list[api.Array]:
    return [b for b in bind(made, function(*names)).bindings if isinstance(b, api.Array)]


def test_facts_of_parameter_and_assumption_are_joined_by_their_least_common_multiple():
    made = job(
        tensor("x", shape_divisible=(4, 6), stride_divisible=(2, 1), align=4),
        assume=(
            Assumption(param="x", shape=(6, 4), stride=(3, 1), align=6),
            Assumption(param="y", align=128),
        ),
    )
    (array,) = arrays(made, "x")
    assert (array.shape_divisible, array.stride_divisible, array.align) == ((12, 12), (6, 1), 12)


def test_outputs_overlap_nothing_and_inputs_may_overlap_each_other():
    shared = [
        a.shared
        for a in arrays(job(tensor("x"), tensor("y"), tensor("z", out=True)), "x", "y", "z")
    ]
    assert shared == [True, True, False]
    assert [a.shared for a in arrays(job(tensor("x"), tensor("z", out=True)), "x", "z")] == [
        False,
        False,
    ]
    assert [
        a.shared for a in arrays(job(tensor("x", out=True), tensor("z", out=True)), "x", "z")
    ] == [False, False]


@pytest.mark.parametrize(
    ("inner", "value"), [(int, True), (int, 0.5), (bool, 1), (float, True), (int, "f32")]
)
def test_constants_of_the_wrong_kind(inner, value):
    with pytest.raises(CompileError, match="constant 'N' is"):
        bind(job(N=value), function(N=api.Annotation(constant=True, inner=inner)))
