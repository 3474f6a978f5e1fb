"""CUDA Tile C++: from a template instance to Tile IR and cubins, the same bytes everywhere, errors
at the user's line.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolchain.projects import write
from tests.toolchain.tile_jobs import frontend
from tilec.model.job import Job, KernelSpec, Option, Source, Variant
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.errors import CompileError, UsageError
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.kernel import AxisValue

pytestmark = pytest.mark.toolchain

TEXT = """#include <cuda_fp16.h>
#include <cuda_tile.h>
#include "unit.cuh"

namespace ct = ::cuda::tiles;

namespace ops {
/// y = s * x, tile by tile.
template <typename T, int BLOCK>
__tile_global__ void scale(T* __restrict__ y, const T* __restrict__ x, int n, float s) {
    ct::partition_view from{ct::tensor_span{x, ct::extents{n}}, ct::shape<BLOCK>{}};
    ct::partition_view into{ct::tensor_span{y, ct::extents{n}}, ct::shape<BLOCK>{}};
    const auto i = ct::bid().x;
    into.store_masked(from.load_masked(i) * static_cast<T>(s * UNIT), i);
}
}  // namespace ops

__global__ void simt(float* y) { y[0] = 1.0f; }
"""
FILES = {"k/a.cu": TEXT, "k/unit.cuh": "#define UNIT 1.0f\n"}


def job(
    root: Path,
    target: str = "tileir",
    *,
    symbol: str = "ops::scale<{T}, {BLOCK}>",
    options: dict[str, Option] | None = None,
    hints: tuple[tuple[str, int], ...] = (),
    dtype: str = "f32",
    lineinfo: bool = False,
) -> Job:
    source = Source(root=str(root), path="k/a.cu", options=tuple(sorted((options or {}).items())))
    (decl,) = frontend().declare(source)
    axes: tuple[tuple[str, AxisValue], ...] = (("T", dtype), ("BLOCK", 64))
    spec = KernelSpec(
        name="scale",
        language="tile",
        source=source,
        decl=decl,
        symbol=symbol,
        params=(),
        lineinfo=lineinfo,
    )
    return Job(
        spec=spec,
        variant=Variant(kernel="scale", id=f"scale-{dtype}", axes=axes),
        target=Target.parse(target),
        hints=hints,
    )


def test_the_kernels_of_a_source_with_their_parameters(tmp_path: Path) -> None:
    source = Source(root=str(write(tmp_path, FILES)), path="k/a.cu")
    (decl,) = frontend().declare(source)
    assert (decl.qualified, decl.template, decl.simt, decl.doc) == (
        "ops::scale",
        ("T", "BLOCK"),
        False,
        "y = s * x, tile by tile.",
    )
    assert [(p.name, p.kind, p.dtype, p.out) for p in decl.params] == [
        ("y", "tensor", "T", True),
        ("x", "tensor", "T", False),
        ("n", "scalar", "i32", None),
        ("s", "scalar", "f32", None),
    ]
    names = [file.name for file in frontend().inputs(source)]
    assert {
        "k/a.cu",
        "k/unit.cuh",
        "<toolkit>/nvcc",
        "<toolkit>/cicc",
        "<toolkit>/headers",
        "<host>/gcc",
    } <= set(names)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_an_instance_becomes_portable_tile_ir(tmp_path: Path, dtype: str) -> None:
    image = frontend().compile(job(write(tmp_path, FILES), dtype=dtype))
    module = read_module(image.data)
    assert [function.name for function in module.functions] == [image.info.symbol], (
        "code for threads is left out"
    )
    assert image.info.target.kind is TargetKind.TILEIR
    assert image.info.cuda == module.version
    assert [(slot.type, slot.expr) for slot in image.abi] == [
        ("ptr", "y.ptr"),
        ("ptr", "x.ptr"),
        ("i32", "n"),
        ("f32", "s"),
    ]


@pytest.mark.parametrize("target", ["sm_80", "sm_120"])
def test_an_instance_becomes_a_cubin(tmp_path: Path, target: str) -> None:
    image = frontend().compile(job(write(tmp_path, FILES), target))
    kernel = read_cubin(image.data).kernel(image.info.symbol)
    assert [(p.offset, p.size) for p in kernel.params] == [(0, 8), (8, 8), (16, 4), (20, 4)]
    assert image.info.exact
    assert image.info.resources.registers
    assert image.info.resources.spill_stores == 0


@pytest.mark.parametrize("target", ["tileir", "sm_90"])
def test_the_same_project_gives_the_same_bytes_in_every_directory(
    tmp_path: Path, target: str
) -> None:
    images = [
        frontend().compile(job(write(tmp_path / name, FILES), target, lineinfo=True)).data
        for name in ("one", "a/longer/directory")
    ]
    assert images[0] == images[1]
    assert str(tmp_path).encode() not in images[0]
    assert b"site-packages" not in images[0]
    assert b"k/a.cu" in images[0] or b"a.cu" in images[0]


def test_places_in_tile_ir_are_the_projects(tmp_path: Path) -> None:
    (function,) = read_module(frontend().compile(job(write(tmp_path, FILES))).data).functions
    files = {place.file for op in function.walk() if (place := op.loc) is not None}
    assert "k/a.cu" in files
    assert all(file == "k/a.cu" or file.startswith("<cuda>/") for file in files), files


MORE = "template __tile_global__ void ops::scale<float, 32>(float*, const float*, int, float);\n"
ERRORS = {
    "an unknown name": (
        TEXT.replace("ct::bid().x", "block_number().x"),
        {},
        'k/a.cu:13:20: error: identifier "block_number" is undefined',
    ),
    "a tile that is no power of two": (
        TEXT,
        {"symbol": "ops::scale<{T}, 100>"},
        "k/a.cu:11:",
    ),
    "an instance that there is not": (
        TEXT,
        {"symbol": "ops::scale<Missing, {BLOCK}>"},
        "the source has no instance ops::scale<Missing, 64>: ",
    ),
    "an instance that the source makes too": (
        TEXT + MORE,
        {},
        "the source makes 2 instances of scale, so that ops::scale<float, 64> cannot be told from the others",
    ),
    "a hint that it does not have": (
        TEXT,
        {"hints": (("num_ctas", 2),)},
        "hint 'num_ctas': nvcc takes none of this name for CUDA Tile C++",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_does_not_compile(tmp_path: Path, name: str) -> None:
    text, changes, words = ERRORS[name]
    with pytest.raises(CompileError) as caught:
        frontend().compile(job(write(tmp_path, {**FILES, "k/a.cu": text}), **changes))
    error = caught.value
    assert words in "\n".join([error.what, *(found.render() for found in error.diagnostics)])


def test_a_source_without_tile_kernels(tmp_path: Path) -> None:
    root = write(tmp_path, {"k/a.cu": "__global__ void k(float* x) {}\n"})
    with pytest.raises(
        CompileError, match=r"k/a\.cu: there is no __tile_global__ function"
    ) as caught:
        frontend().declare(Source(root=str(root), path="k/a.cu"))
    assert "__global__ ones are of language" in caught.value.fix


def test_nvcc_alone_compiles_it(tmp_path: Path) -> None:
    root = write(tmp_path, FILES)
    with pytest.raises(UsageError, match="CUDA Tile C\\+\\+ is compiled by nvcc alone"):
        frontend().declare(Source(root=str(root), path="k/a.cu", options=(("compiler", "nvrtc"),)))


def test_macros_and_the_level_of_optimisation_reach_the_compiler(tmp_path: Path) -> None:
    root = write(tmp_path, {**FILES, "k/unit.cuh": ""})
    image = frontend().compile(
        job(root, "sm_90", options={"define": (("UNIT", "2.0f"),)}, hints=(("opt_level", 1),))
    )
    assert image.info.symbol
