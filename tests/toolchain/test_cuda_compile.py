"""CUDA C++ to images: ABI, resources, templates, headers, targets, lowering, determinism."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolchain.cuda_jobs import NVCC, compile_text, frontend, job
from tests.toolchain.projects import write
from tilec.frontends.cuda.mangled import unseen
from tilec.model.job import Option, Source
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.bundle.ptx import read_entries
from tilec_runtime.errors import CompileError
from tilec_runtime.model.arch import ARCHS, Target, TargetKind
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.signature import AbiSlot

pytestmark = pytest.mark.toolchain

ADD = "__global__ void k(float* z, const float* x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) z[i] = x[i] + 1; }\n"


def test_a_plain_kernel(tmp_path: Path) -> None:
    image = compile_text(tmp_path, ADD)
    assert [(s.type, s.expr, s.size) for s in image.abi] == [
        ("ptr", "z.ptr", 8),
        ("ptr", "x.ptr", 8),
        ("i32", "n", 4),
    ]
    info = image.info
    assert (info.symbol, info.exact, info.ptx_isa, info.size, info.digest) == (
        "_Z1kPfPKfi",
        False,
        None,
        len(image.data),
        sha256(image.data),
    )
    assert info.cuda == (13, 0)
    assert (
        info.resources.spill_stores,
        info.resources.spill_loads,
        info.resources.shared,
        info.resources.stack,
    ) == (0, 0, 0, 0)
    assert (info.resources.registers or 0) > 0
    assert (info.resources.code or 0) > 0
    assert read_cubin(image.data).cc == (9, 0)
    assert image.warnings == ()


SEVERAL = """
__device__ __noinline__ float of_a(float x) { return sinf(x); }
__device__ __noinline__ float of_k(float x) { return cosf(x); }
__global__ void a(float* y) { y[0] = of_a(y[1]); }
__global__ void k(float* y) { y[0] = of_k(y[1]); }
#define MAKE(NAME) extern "C" __global__ void NAME(float* y) { y[0] = of_a(y[2]); }
MAKE(made)
"""


@pytest.mark.parametrize(
    ("options", "debug"),
    [({}, {}), ({}, {"lineinfo": True}), (NVCC, {"lineinfo": True})],
    ids=["nvrtc", "nvrtc, lineinfo", "nvcc, lineinfo"],
)
def test_an_image_carries_the_kernel_that_was_asked_for(
    tmp_path: Path, options: dict[str, Option], debug: dict[str, bool]
) -> None:
    image = compile_text(tmp_path, SEVERAL, options=options, **debug)
    assert [kernel.name for kernel in read_cubin(image.data).kernels] == ["_Z1kPf"]
    assert b"of_a" not in image.data
    assert compile_text(tmp_path, SEVERAL, options=options, **debug).data == image.data
    ptx = compile_text(tmp_path, SEVERAL, target="compute_90", options=options, **debug)
    text = ptx.data.decode()
    assert [entry.name for entry in read_entries(text)] == ["_Z1kPf"]
    assert ("of_a" in text, "of_k" in text) == (False, True)


@pytest.mark.parametrize("options", [{}, NVCC], ids=["nvrtc", "nvcc"])
def test_a_kernel_of_a_macro_is_named_as_it_is_compiled(
    tmp_path: Path, options: dict[str, Option]
) -> None:
    text = "#define MAKE(NAME) __global__ void NAME(float* y, int n) { y[0] = n; }\nMAKE(one)\nMAKE(two)\n"
    root = write(tmp_path, {"k/a.cu": text})
    decl = unseen("_Z3twoPfi", None, Source(root=str(root), path="k/a.cu"))
    image = compile_text(tmp_path, text, "_Z3twoPfi", decl=decl, options=options)
    assert [kernel.name for kernel in read_cubin(image.data).kernels] == ["_Z3twoPfi"]
    assert [(slot.type, slot.expr) for slot in image.abi] == [
        ("ptr", "param_0.ptr"),
        ("i32", "param_1"),
    ]


def test_a_kernel_of_a_macro_without_parameters_beside_another(tmp_path: Path) -> None:
    text = (
        "__device__ int n;\n#define MAKE(NAME) __global__ void NAME() { n = 1; }\nMAKE(one)\n" + ADD
    )
    root = write(tmp_path, {"k/a.cu": text})
    decl = unseen("_Z3onev", None, Source(root=str(root), path="k/a.cu"))
    assert compile_text(tmp_path, text, "_Z3onev", decl=decl).abi == ()


TARGETS = [
    Target(kind, cc, suffix)
    for cc, arch in ARCHS.items()
    for kind in (TargetKind.CUBIN, TargetKind.PTX)
    for suffix, exists in (("", True), ("a", arch.ptx_a), ("f", arch.ptx_f))
    if exists
]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_every_target_of_the_table(tmp_path: Path, target: Target) -> None:
    image = compile_text(tmp_path, "__global__ void k(float* z) { z[0] = 1; }", target=str(target))
    assert frontend().refuse(target) == ""
    if target.kind is TargetKind.CUBIN:
        cubin = read_cubin(image.data)
        assert cubin.cc == target.cc
        assert cubin.accelerated == (target.suffix == "a")
    else:
        assert f".target sm_{target.number}" in image.data.decode()


TEMPLATE = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
namespace acme::v1 {
template <typename T, int V, bool Exact = false>
__global__ void scale(T* __restrict__ y, const T* __restrict__ x, T a, unsigned n) {
  unsigned i = (blockIdx.x * blockDim.x + threadIdx.x) * V;
  for (unsigned j = i; j < i + V && j < n; ++j) y[j] = x[j] * a;
}
}
"""


@pytest.mark.parametrize(("dtype", "size"), [("bf16", 2), ("f64", 8)])
@pytest.mark.parametrize("options", [{}, NVCC], ids=["nvrtc", "nvcc"])
def test_template_instances(
    tmp_path: Path, dtype: str, size: int, options: dict[str, Option]
) -> None:
    image = compile_text(
        tmp_path,
        TEMPLATE,
        "scale<{T}, {V}, {E}>",
        axes={"T": dtype, "V": 4, "E": True},
        options=options,
    )
    assert [(s.type, s.size) for s in image.abi] == [
        ("ptr", 8),
        ("ptr", 8),
        (dtype, size),
        ("u32", 4),
    ]
    assert image.info.symbol.startswith("_ZN4acme2v15scaleI")
    assert len(read_cubin(image.data).kernels) == 1


def test_a_template_parameter_pack(tmp_path: Path) -> None:
    text = "template <typename T, int... Ns> __global__ void k(T* y) { y[threadIdx.x] = T((Ns + ... + 0)); }"
    for symbol in ("k<{T}>", "k<{T}, 1>", "k<{T}, 1, {N}, 3>"):
        image = compile_text(tmp_path, text, symbol, axes={"T": "f32", "N": 2})
        assert [(s.type, s.expr) for s in image.abi] == [("ptr", "y.ptr")]


def test_structs_by_value(tmp_path: Path) -> None:
    text = """
    struct P { int a; double b; char c; };
    struct alignas(64) Wide { float v[32]; };
    __global__ void k(float* y, char n, P p, const __grid_constant__ P q, const __grid_constant__ Wide w, float4 f) {
      y[0] = n + p.a + q.b + w.v[threadIdx.x] + f.x;
    }
    """
    image = compile_text(tmp_path, text)
    assert [(s.type, s.expr, s.size) for s in image.abi] == [
        ("ptr", "y.ptr", 8),
        ("i8", "n", 1),
        ("struct", "p", 24),
        ("struct", "q", 24),
        ("struct", "w", 128),
        ("struct", "f", 16),
    ]
    assert compile_text(tmp_path, text, target="compute_80").abi == image.abi


def test_project_headers_defines_and_flags(tmp_path: Path) -> None:
    root = write(
        tmp_path / "ein projekt é",
        {
            "k/a.cu": '#include "near.h"\n#include <far/far.h>\n__global__ void k(float* y) { y[0] = near_() * far_() * FACTOR; }',
            "k/near.h": "__device__ float near_() { return 2.0f; }",
            "inc dir/far/far.h": "__device__ float far_() { return __fdividef(1.0f, 3.0f); }",
        },
    )
    options: dict[str, Option] = {
        "include": ("inc dir",),
        "define": (("FACTOR", "7"),),
        "flags": ("--use_fast_math", "-maxrregcount=32"),
    }
    made = job(root, options=options)
    assert frontend().compile(made).info.symbol == "_Z1kPf"
    assert [f.name for f in frontend().inputs(made.spec.source)] == [
        "inc dir/far/far.h",
        "k/a.cu",
        "k/near.h",
    ]


@pytest.mark.parametrize("options", [{}, NVCC], ids=["nvrtc", "nvcc"])
def test_extern_c_and_hidden_kernels(tmp_path: Path, options: dict[str, Option]) -> None:
    text = 'extern "C" __global__ void plain(float* y) { y[0] = 1; }\nnamespace { __global__ void hidden(float* y) { y[0] = 2; } }\n'
    assert compile_text(tmp_path, text, "plain", options=options).info.symbol == "plain"
    assert "hidden" in compile_text(tmp_path, text, "hidden", options=options).info.symbol


@pytest.mark.parametrize("target", ["sm_90", "compute_90"])
def test_launch_bounds_and_cluster_dims(tmp_path: Path, target: str) -> None:
    text = (
        "__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(192) k(float* y) { y[0] = 1; }"
    )
    image = compile_text(tmp_path, text, target=target)
    assert (image.info.max_threads, image.info.cluster) == (192, (2, 1, 1))
    assert compile_text(tmp_path, text, target=target, cluster=(2,)).info.cluster == (2, 1, 1)
    with pytest.raises(
        CompileError, match="manifest asks for clusters of 4x1x1, the source fixes 2x1x1"
    ):
        compile_text(tmp_path, text, target=target, cluster=(4, 1, 1))


def test_a_cluster_of_one_block_is_none(tmp_path: Path) -> None:
    """Older targets take it; that they take no larger one is the plan's to say."""
    assert compile_text(tmp_path, ADD, target="sm_80", cluster=(1, 1, 1)).info.cluster == ()


def test_shared_memory_and_spills(tmp_path: Path) -> None:
    text = """__global__ void __launch_bounds__(1024) k(float* y, int n) {
      __shared__ float s[64];
      float v[96];
      for (int i = 0; i < 96; ++i) v[i] = y[i * n];
      s[threadIdx.x & 63] = v[3]; __syncthreads();
      for (int r = 0; r < n; ++r) {
        #pragma unroll
        for (int i = 0; i < 96; ++i) v[i] = v[i] * v[(i * 7 + 1) % 96] + s[i & 63];
      }
      for (int i = 0; i < 96; ++i) y[i * n] = v[i];
    }"""
    for target in ("sm_90", "compute_80"):
        used = compile_text(tmp_path, text, target=target).info.resources
        assert used.shared == 256
        assert (used.spill_stores or 0) > 0
        assert (used.spill_loads or 0) > 0
        assert used.registers == 64


@pytest.mark.long
def test_cooperative_groups_and_cccl(tmp_path: Path) -> None:
    text = """#include <cooperative_groups.h>
    #include <cub/block/block_reduce.cuh>
    template <typename T> __global__ void k(T* y, const T* x) {
      using Reduce = cub::BlockReduce<T, 128>;
      __shared__ typename Reduce::TempStorage store;
      T sum = Reduce(store).Sum(x[blockIdx.x * 128 + threadIdx.x]);
      if (cooperative_groups::this_thread_block().thread_rank() == 0) y[blockIdx.x] = sum;
    }
    """
    image = compile_text(tmp_path, text, "k<{T}>", axes={"T": "f32"})
    assert (image.info.resources.shared or 0) > 0
    assert image.warnings == ()  # the toolkit's own headers are not the user's business


def test_what_the_quick_form_of_nvrtc_lacks_is_compiled_all_the_same(tmp_path: Path) -> None:
    hidden = "#define GLUE(a, b) a##b\n__global__ void k(GLUE(cu, daStream_t) s, float* y) { y[0] = s != nullptr; }"
    assert [s.size for s in compile_text(tmp_path, hidden, abi=(
        AbiSlot(type="u64", expr="s", size=8, align=8), AbiSlot(type="ptr", expr="y.ptr", size=8, align=8)
    )).abi] == [8, 8]  # fmt: skip
    textures = (
        "__global__ void k(cudaTextureObject_t t, float* y) { y[0] = tex1Dfetch<float>(t, 3); }"
    )
    assert [s.type for s in compile_text(tmp_path, textures).abi] == ["u64", "ptr"]


# --- lowering
# ---------------------------------------------------------------------------------------------------------------------


def test_an_instruction_that_needs_more_is_quoted(tmp_path: Path) -> None:
    text = (
        "__global__ void k(float* y) {\n"
        '  asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;");\n  y[0] = 1;\n}'
    )
    with pytest.raises(CompileError) as caught:
        compile_text(tmp_path, text, target="compute_90", max_isa=(8, 0))
    said = str(caught.value)
    assert "cannot be lowered to ISA 8.0" in said
    assert "Feature '.sync_restrict' requires PTX ISA .version 8.6" in said
    assert "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;" in said
    assert "it needs ISA 8.6: raise min-driver to 565 (CUDA 12.7)" in said
    assert compile_text(tmp_path, text, target="compute_90", max_isa=(8, 6)).info.ptx_isa == (8, 6)


def test_what_the_target_lacks_is_not_blamed_on_the_driver(tmp_path: Path) -> None:
    """No newer driver gives sm_80 an instruction of sm_90."""
    text = '__global__ void k(float* y) {\n  asm volatile("griddepcontrol.wait;");\n  y[0] = 1;\n}'
    with pytest.raises(CompileError) as caught:
        compile_text(tmp_path, text, target="compute_80", max_isa=(8, 0))
    said = "\n".join([caught.value.what, *(d.render() for d in caught.value.diagnostics)])
    assert "k/a.cu does not compile for compute_80: " in said
    assert "Instruction 'griddepcontrol' requires .target sm_90 or higher" in said
    assert "min-driver" not in said + caught.value.fix


def test_a_bound_below_the_target_itself(tmp_path: Path) -> None:
    with pytest.raises(
        CompileError, match=r"min-driver reads PTX up to ISA 8\.0, compute_120 needs ISA 8\.7"
    ) as caught:
        compile_text(tmp_path, ADD, target="compute_120", max_isa=(8, 0))
    assert "570 (CUDA 12.8)" in caught.value.fix


# --- the parameters of the manifest and of the image
# -------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["sm_80", "compute_80"])
def test_args_of_the_manifest_are_checked(tmp_path: Path, target: str) -> None:
    right = (
        AbiSlot(type="ptr", expr="z.ptr", size=8, align=8),
        AbiSlot(type="ptr", expr="x.ptr", size=8, align=8),
        AbiSlot(type="i32", expr="x.size", size=4, align=4),
    )
    assert compile_text(tmp_path, ADD, target=target, abi=right).abi == right
    with pytest.raises(
        CompileError, match=r"takes other parameters than a launch would pass(.|\n)*<- differs"
    ):
        compile_text(
            tmp_path,
            ADD,
            target=target,
            abi=(*right[:2], AbiSlot(type="i64", expr="x.size", size=8, align=8)),
        )
    with pytest.raises(CompileError, match="takes other parameters"):
        compile_text(tmp_path, ADD, target=target, abi=right[:2])


def test_a_warning_of_a_header_is_said_for_every_instance(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "k/a.cu": '#include "h.h"\n' + TEMPLATE,
            "k/h.h": "__device__ inline void f() { int unused; }\n",
        },
    )
    images = [
        frontend().compile(job(root, "scale<{T}, 4>", axes={"T": d})) for d in ("f16", "f32", "f64")
    ]
    assert [str(i.warnings[0].location) for i in images] == ["k/h.h:1:34"] * 3


# --- toolchain
# --------------------------------------------------------------------------------------------------------------------


def test_the_toolchain() -> None:
    tools = {t.name: t for t in frontend().toolchain()}
    assert {"libnvrtc", "libnvrtc-builtins", "ptxas", "headers"} <= set(tools)
    assert all(len(t.digest) == 64 and t.version for t in tools.values())
