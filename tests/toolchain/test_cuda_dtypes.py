"""Dtypes that the preprocessor hides, and sizes of structs: the compiled entry says them, and what it
does not say has to be written.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolchain.projects import built, write
from tilec_runtime.errors import BuildError, CompileError, ManifestError

pytestmark = pytest.mark.toolchain

HEADER = """#pragma once
#include <cuda_bf16.h>
#ifndef WIDE
typedef __nv_bfloat16 elem_t;
#else
typedef float elem_t;
#endif
"""
KERNELS = """#include "types.cuh"
__global__ void twice(elem_t* out, const elem_t* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + x[i];
}
template <int N>
__global__ void times(elem_t* out, const elem_t* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] * elem_t(N);
}
extern "C" __global__ void plain(elem_t* out, const elem_t* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + x[i];
}
"""


def project(root: Path, kernel: str, *, out: str = "", more: str = "", options: str = "") -> Path:
    manifest = f"""edition = 1
[package]
name = "hidden"
version = "1"
[targets]
default = ["sm_90", "compute_80"]
{options}
[kernel.{kernel}]
source = "k.cu"
{more}
launch = {{ grid = ["cdiv(n, 256)"], block = ["256"] }}
params = {{ out = {{ rank = 1{out} }}, x = {{ rank = 1{out} }} }}
"""
    return write(root, {"types.cuh": HEADER, "k.cu": KERNELS, "tilec.toml": manifest})


def dtypes(root: Path) -> dict[str, str]:
    (kernel,) = built(root).info.kernels
    return {param.name: param.dtype for param in kernel.params}


def refused(root: Path) -> list[str]:
    with pytest.raises((BuildError, ManifestError)) as caught:
        built(root)
    return [problem.render() for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("kernel", "more", "options", "dtype"),
    [
        ("twice", "", "", "bf16"),
        ("twice", "", '[frontend.cuda]\ncompiler = "nvcc"', "bf16"),
        ("twice", "", '[frontend.cuda]\ndefine = { WIDE = "1" }', "f32"),
        ("times", 'symbol = "times<{N}>"\nmatrix = { N = [2, 3] }', "", "bf16"),
    ],
)
def test_dtypes_that_typedefs_hide_are_those_that_were_compiled(
    tmp_path, kernel, more, options, dtype
):
    assert dtypes(project(tmp_path, kernel, more=more, options=options)) == {
        "out": dtype,
        "x": dtype,
        "n": "i32",
    }


def test_a_wrong_dtype_is_refused_with_both_types(tmp_path):
    wanted = (
        "k.cu:2:31: error: dtype 'f32' of 'out' is not what the compiled kernel takes, __nv_bfloat16* (bf16)\n"
        '  hint: params.out.dtype = "bf16", or leave it out: the compiled name says it'
    )
    assert set(refused(project(tmp_path, "twice", out=', dtype = "f32"'))) == {wanted}


def test_names_without_types_leave_the_dtype_to_the_manifest(tmp_path):
    said = [
        message.split("\n")[0].removeprefix(f"{tmp_path}/")
        for message in refused(project(tmp_path, "plain"))
    ]
    assert said == [
        f"tilec.toml:12:{column}: error: kernel.plain.params.{name}: the source does not say the dtype: write it as params.{name}.dtype"
        for name, column in (("out", 12), ("x", 32))
    ]
    assert dtypes(project(tmp_path, "plain", out=', dtype = "bf16"')) == {
        "out": "bf16",
        "x": "bf16",
        "n": "i32",
    }


def test_targets_that_compile_other_dtypes_share_no_launcher(tmp_path):
    root = project(tmp_path, "twice")
    (root / "types.cuh").write_text(
        HEADER.replace("#ifndef WIDE", "#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900")
    )
    with pytest.raises(CompileError) as caught:
        built(root)
    assert (
        caught.value.what
        == "tensor 'out' has bf16 in twice-sm_90, f32 in twice-compute_80: one launcher takes one dtype"
    )
    assert caught.value.fix == "split kernel.twice into kernels whose images take one dtype each"


STRUCT = """edition = 1
[package]
name = "p"
version = "1"
[targets]
default = ["sm_90"]
[kernel.k]
source = "k.cu"
launch = { grid = [1], block = [32] }
"""


def test_the_launcher_takes_the_bytes_of_a_struct_that_were_compiled(tmp_path):
    source = (
        "struct Box { float lo, hi; int mode; };\n"
        'extern "C" __global__ void k(float* y, const __grid_constant__ Box box) { y[0] = box.lo; }\n'
    )
    result = built(write(tmp_path, {"k.cu": source, "tilec.toml": STRUCT}))
    param = result.info.kernels[0].params[1]
    assert (param.name, param.size) == ("box", 12)
    assert (
        "box: 12 bytes, passed by value" in (tmp_path / "dist" / "p" / "__init__.pyi").read_text()
    )


def test_variants_that_take_different_structs_have_no_common_launcher(tmp_path):
    source = "template <int N> struct Box { float v[N]; };\ntemplate <int N> __global__ void k(float* y, Box<N> box) { y[0] = box.v[N - 1]; }\n"
    manifest = STRUCT + 'symbol = "k<{N}>"\nmatrix = { N = [2, 4] }\n'
    with pytest.raises(
        CompileError,
        match="struct 'box' has 8 bytes in k-N2, 16 bytes in k-N4: one launcher takes one size",
    ):
        built(write(tmp_path, {"k.cu": source, "tilec.toml": manifest}))
    assert not (tmp_path / "dist").exists()
