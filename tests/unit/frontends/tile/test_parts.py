"""The parts of the tile frontend that need no compiler: targets, symbols, bindings, messages,
listings.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tilec.frontends.base import ToolSearch
from tilec.frontends.tile import api
from tilec.frontends.tile.frontend import TileFrontend
from tilec.frontends.tile.signature import FunctionParam, bind, symbol_of
from tilec.frontends.tools import sass
from tilec.frontends.tools.python_errors import characters, function_node, parameter_place
from tilec.frontends.tools.tileiras import tileiras_diagnostics
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec_runtime.errors import CompileError, Location
from tilec_runtime.model.arch import Target, TargetKind
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


def test_the_protocol():
    assert TileFrontend.name == "tile"
    assert TileFrontend.suffixes == (".py",)
    assert TileFrontend.kinds == (TargetKind.CUBIN, TargetKind.TILEIR)


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
        FunctionParam(name=n, annotation=api.Annotation(), default=None, location=HERE, excerpt="")
        for n in names
    ]
    return found + [
        FunctionParam(name=n, annotation=a, default=None, location=HERE, excerpt="")
        for n, a in annotations.items()
    ]


def arrays(made: Job, *names: str) -> list[api.Array]:
    return [b for b in bind(made, function(*names), HERE).bindings if isinstance(b, api.Array)]


def test_contiguous_tensors_have_a_last_stride_of_one():
    assert [
        a.strides
        for a in arrays(
            job(tensor("x", rank=0), tensor("y", rank=1), tensor("z", rank=3)), "x", "y", "z"
        )
    ] == [
        (),
        (1,),
        (None, None, 1),
    ]
    (free,) = arrays(job(tensor("x", stride=(1, None))), "x")
    assert (free.strides, free.overlaps_itself) == ((1, None), False)
    (spread,) = arrays(job(tensor("x", stride=(0, 1))), "x")
    assert spread.overlaps_itself


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


def test_slots_follow_the_function_and_constants_are_dropped():
    constant = api.Annotation(constant=True, inner=int)
    params = [*function("y"), *function(N=constant), *function("s", "x")]
    made = job(
        tensor("x", rank=1),
        tensor("y", rank=0),
        Param(name="s", kind=ParamKind.SCALAR, dtype="T"),
        N=4,
        T="f16",
    )
    bound = bind(made, params, HERE)
    assert [(s.expr, s.type, s.size) for s in bound.abi] == [
        ("y.ptr", "ptr", 8),
        ("s", "f16", 2),
        ("x.ptr", "ptr", 8),
        ("x.shape[0]", "i32", 4),
        ("x.stride[0]", "i32", 4),
    ]
    assert bound.bindings[1] == api.Constant(4)


@pytest.mark.parametrize(
    ("inner", "value", "bound"),
    [
        (int, 4, 4),
        (float, 2, 2.0),
        (float, 0.5, 0.5),
        (bool, True, True),
        (None, 0.5, 0.5),
        (None, True, True),
    ],
)
def test_constants(inner, value, bound):
    (got,) = bind(
        job(N=value), function(N=api.Annotation(constant=True, inner=inner)), HERE
    ).bindings
    assert isinstance(got, api.Constant)
    assert got.value == bound
    assert type(got.value) is type(bound)


def test_an_axis_makes_an_unannotated_parameter_constant():
    assert bind(job(N=4), function("N"), HERE).bindings == (api.Constant(4),)


@pytest.mark.parametrize(
    ("inner", "value"), [(int, True), (int, 0.5), (bool, 1), (float, True), (int, "f32")]
)
def test_constants_of_the_wrong_kind(inner, value):
    with pytest.raises(CompileError, match="constant 'N' is"):
        bind(job(N=value), function(N=api.Annotation(constant=True, inner=inner)), HERE)


def test_all_problems_are_told_at_once():
    with pytest.raises(CompileError) as caught:
        bind(job(tensor("w"), tensor("x", dtype="F")), function("x", "y", "z"), HERE)
    assert [d.message.split(",")[0] for d in caught.value.diagnostics] == [
        "parameter 'x' has no dtype that cuda.tile knows ('F')",
        "neither params nor an axis of the matrix says what parameter 'y' is",
        "neither params nor an axis of the matrix says what parameter 'z' is",
        "the manifest has a parameter 'w' that kernel 'k' does not take",
    ]


def test_diagnostics_of_tileiras():
    texts = {"k.py": "one\ntwo\n"}
    text = (
        'loc("k.py":2:3): error: first\n'
        'loc(fused<#a>["k.py":1:1]): error: second\n'
        'loc("/elsewhere/lib.py":7:1): error: third\n'
        'loc("k.py":2:1): warning: slow\n'
        "error: plain\nnoise\nerror: plain\nptxas fatal   : no memory\n"
    )
    found = tileiras_diagnostics(text, texts)
    assert [d.message for d in found] == ["first", "second", "third", "plain", "no memory"]
    assert found[0].location == Location(file="k.py", line=2, column=3)
    assert (found[0].excerpt, found[1].excerpt) == ("two", "one")
    assert found[2].location is None
    assert [d.message for d in tileiras_diagnostics(text, texts, severity="warning")] == ["slow"]


def test_places_in_a_source():
    text = "@deco\n@other(1)\ndef f(a,\n      ü: int, *, b=2):\n    pass\n"
    texts = {"k.py": text}
    assert function_node(text, 1) is not None
    assert function_node(text, 99) is None
    assert function_node("def (", 1) is None
    at = Location(file="k.py", line=3, column=5)
    assert str(parameter_place(texts, at, "ü")) == "k.py:4:7"
    assert str(parameter_place(texts, at, "b")) == "k.py:4:18"
    assert parameter_place(texts, at, "c") == at
    assert characters("äöx", 4) == 2


def instruction(opcode: int, width: int = 4) -> bytes:
    return struct.pack("<QQ", 0x000660FF01007000 | opcode, 0x0007E20000100000 | width << 9)


def test_local_memory_in_machine_code():
    stores = (
        instruction(0x387) + instruction(0x387, 5) + instruction(0x387, 6) + instruction(0x387, 2)
    )
    loads = instruction(0x983) + instruction(0x983, 5) + instruction(0x983, 0)
    others = instruction(0x388) + instruction(0x981, 6) + b"1234"
    assert sass.count(stores + loads + others) == (4 + 8 + 16 + 2, 4 + 8 + 1)
    assert sass.count(b"") == (0, 0)
