"""The reader and the printer against the toolkit's disassembler: same operations, types and
attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("cuda.tile", reason="needs cuda-tile")

from tests.toolchain.projects import run_tool
from tests.toolchain.tile_corpus import KERNELS, compiled
from tests.toolchain.tile_disassembly import canonical, disassembled
from tests.toolchain.tile_encoder import encoders
from tests.toolchain.tile_jobs import frontend
from tests.toolchain.tile_samples import SAMPLES, Call, module
from tilec.compile.events import Observer
from tilec.frontends.tile import api
from tilec.planning import BuildRequest, plan_only
from tilec_runtime.cpu.tileir.ir import Loc, Module, Version
from tilec_runtime.cpu.tileir.ops import BY_CODE, OPS, Arity
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.cpu.tileir.text import render
from tilec_runtime.model.arch import TargetKind

pytestmark = pytest.mark.toolchain

VERSIONS: tuple[Version, ...] = ((13, 1), (13, 2), (13, 3), (13, 4))
CASES = [
    (name, version)
    for name, (_, _, since) in KERNELS.items()
    for version in VERSIONS
    if version >= since
]

CPP = """#include <cuda_tile.h>
namespace ct = ::cuda::tiles;
using namespace ct::literals;

__tile__ auto twice(ct::tile<float, ct::shape<64>> v) { return v + v; }

__tile_global__ void sums(float* __restrict__ a, float* b, int n) {
  ct::partition_view in{ct::tensor_span{a, ct::extents{n}}, ct::shape{64_ic}};
  ct::partition_view out{ct::tensor_span{b, ct::extents{n}}, ct::shape{64_ic}};
  auto i = ct::bid().x;
  auto x = in.load(i);
  for (int k = 0; k < n; ++k) {
    x = x + twice(x);
    if (k > 5) break;
  }
  out.store(x, i);
}
"""


def same(data: bytes) -> Module:
    """Read a file, and hold what tilec prints of it against the disassembler."""
    read = read_module(data)
    assert canonical(render(read)) == canonical(disassembled(data))
    return read


@pytest.mark.parametrize(
    ("name", "version"),
    CASES,
    ids=lambda part: part if isinstance(part, str) else f"{part[0]}.{part[1]}",
)
def test_kernels_of_cuda_tile(name: str, version: Version) -> None:
    assert same(compiled(name, version)).version == version


@pytest.mark.parametrize("divisible", [4, 16])
@pytest.mark.parametrize("name", ["products", "views", "parts"])
def test_kernels_with_assumptions(name: str, divisible: int) -> None:
    assert any(
        op.name == "assume" for op in same(compiled(name, divisible=divisible)).functions[0].walk()
    )


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.name}")
def test_every_operation(sample: Call) -> None:
    same(module(sample))


def test_the_samples_leave_no_operation_out() -> None:
    read = (read_module(module(sample)) for sample in SAMPLES)
    assert {op.name for one in read for op in one.functions[0].walk()} == OPS.keys()


def chain(loc: Loc | None) -> Iterator[Loc]:
    while loc is not None:
        yield loc
        loc = loc.caller


def test_a_helper_in_a_helper_names_every_call() -> None:
    source = (Path(__file__).parent / "tile_corpus.py").read_text(encoding="utf-8").splitlines()
    chains = [
        list(chain(op.loc))
        for op in read_module(compiled("floats")).functions[0].walk()
        if op.name == "fma"
    ]
    [deepest] = [found for found in chains if len(found) == 3]
    lines = [source[loc.line - 1].strip() for loc in deepest]
    assert lines[0] == "return x * 2.0 + 1.0"
    assert lines[1] == "return ct.exp(inner(x))"
    assert "helper(b)" in lines[2]
    assert lines[0][deepest[0].column - 5 :].startswith("x * 2.0")


@pytest.mark.long
def test_every_variant_of_the_tile_examples() -> None:
    plan = plan_only(
        BuildRequest(manifest_path=Path(__file__).parents[2] / "tilec.toml"), Observer()
    )
    jobs = [
        job
        for kernel in plan.kernels
        for job in kernel.jobs
        if job.spec.language == "tile" and job.target.kind is TargetKind.TILEIR
    ]
    assert len({job.variant.id for job in jobs}) == len(jobs) >= 20
    tile = frontend()
    for job in jobs:
        same(tile.compile(job).data)


def test_the_sample_is_what_its_source_compiles_to() -> None:
    import cuda.tile as ct
    import cuda.tile.compilation as ctc

    from tests.samples.tileir.scale import scale

    arrays = [
        ctc.ArrayConstraint(
            ct.float32,
            rank,
            index_dtype=ct.int32,
            stride_lower_bound_incl=0,
            alias_groups=(),
            may_alias_internally=False,
            stride_constant=(*(None,) * (rank - 1), 1),
            base_addr_divisible_by=16,
        )
        for rank in (2, 1)
    ]
    bindings = [*arrays, ctc.ScalarConstraint(ct.int32), ctc.ConstantConstraint(2.5)]
    made = api.export(scale, bindings, symbol="scale", target="", version=(13, 3)).bytecode
    assert made == (Path(__file__).parents[1] / "samples" / "tileir" / "scale.tilebc").read_bytes()
    same(made)


def test_the_table_has_exactly_what_the_encoder_writes() -> None:
    written = tuple(encoders())
    assert {encoder.code for encoder in written} == BY_CODE.keys()
    for encoder in written:
        spec = BY_CODE[encoder.code]
        assert spec.name.replace("_", "") == encoder.name.lower()
        optional = [o.name for o in spec.operands if o.arity is Arity.OPTIONAL]
        assert sum(
            re.search(r"Optional\[[\w.]*Value\]", each) is not None for each in encoder.annotations
        ) in (
            len(optional),
            len(optional) + 1,
        )


@pytest.fixture(scope="module")
def cpp(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Bytecode that nvcc writes for CUDA Tile C++, with line information."""
    folder = tmp_path_factory.mktemp("cpp")
    source, output = folder / "sums.cu", folder / "sums.tilebc"
    source.write_text(CPP)
    options = [
        "--tilebc",
        "--enable-tile",
        "-std=c++20",
        "-arch=sm_90",
        "-lineinfo",
    ]
    run_tool("nvcc", *options, "-o", output, source)
    return output.read_bytes()


def test_tile_cpp_is_read_too(cpp: bytes) -> None:
    read = same(cpp)
    assert read.producer.startswith("Cuda compilation tools")
    assert {"loop", "if", "break", "load_view_tko"} <= {op.name for op in read.functions[0].walk()}
