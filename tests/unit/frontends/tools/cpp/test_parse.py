"""What `declare` reads from CUDA C++ text."""

from __future__ import annotations

import pytest

from tilec.frontends.tools.cpp.parse import find_kernels
from tilec.model.declaration import KernelDecl, ParamDecl


def one(text: str) -> KernelDecl:
    found = find_kernels(text, "k.cu")
    assert len(found) == 1, [f.qualified for f in found]
    return found[0]


def param(declaration: str, template: str = "") -> ParamDecl:
    return one(f"{template} __global__ void k({declaration}) {{}}").params[0]


@pytest.mark.parametrize(
    ("declaration", "kind", "dtype", "out"),
    [
        ("float* x", "tensor", "f32", True),
        ("const float* x", "tensor", "f32", False),
        ("float const* x", "tensor", "f32", False),
        ("const float* __restrict__ x", "tensor", "f32", False),
        ("float* __restrict__ const x", "tensor", "f32", True),
        ("float *const __restrict x", "tensor", "f32", True),
        ("float x[]", "tensor", "f32", True),
        ("const float x[4]", "tensor", "f32", False),
        ("float (*x)[4]", "tensor", "f32", True),
        ("const __half* x", "tensor", "f16", False),
        ("half* x", "tensor", "f16", True),
        ("half2* x", "tensor", "f16", True),
        ("nv_bfloat16* x", "tensor", "bf16", True),
        ("const __nv_bfloat16* x", "tensor", "bf16", False),
        ("__nv_fp8_e4m3* x", "tensor", "f8e4m3", True),
        ("const __nv_fp8_e5m2* x", "tensor", "f8e5m2", False),
        ("const float4* x", "tensor", "f32", False),
        ("void* x", "tensor", "", True),
        ("float** x", "tensor", "u64", True),
        ("const std::uint8_t* x", "tensor", "u8", False),
        ("int x", "scalar", "i32", None),
        ("const int x", "scalar", "i32", None),
        ("unsigned x", "scalar", "u32", None),
        ("unsigned int x", "scalar", "u32", None),
        ("long unsigned int x", "scalar", "u64", None),
        ("long long x", "scalar", "i64", None),
        ("signed char x", "scalar", "i8", None),
        ("short int x", "scalar", "i16", None),
        ("size_t x", "scalar", "u64", None),
        ("std::size_t x", "scalar", "u64", None),
        ("::cuda::std::int64_t x", "scalar", "i64", None),
        ("bool x", "scalar", "bool", None),
        ("double x", "scalar", "f64", None),
        ("__half x", "scalar", "f16", None),
        ("cudaTextureObject_t x", "scalar", "u64", None),
        ("Params x", "struct", "", None),
        ("struct Params x", "struct", "", None),
        ("const __grid_constant__ Params x", "struct", "", None),
        ("std::array<float, 3> x", "struct", "", None),
    ],
)
def test_types(declaration: str, kind: str, dtype: str, out: bool | None) -> None:
    found = param(declaration)
    assert (found.name, found.kind, found.dtype, found.out) == ("x", kind, dtype, out)


@pytest.mark.parametrize(
    ("declaration", "size"),
    [
        ("float4 x", 16),
        ("double2 x", 16),
        ("__nv_fp8x4_e4m3 x", 4),
        ("dim3 x", 12),
        ("CUtensorMap x", 128),
        ("Mine x", 0),
        ("_Mine x", 0),
    ],
)
def test_sizes_of_structs_that_are_known(declaration: str, size: int) -> None:
    assert (param(declaration).kind, param(declaration).size) == ("struct", size)


@pytest.mark.parametrize(
    ("declaration", "default"),
    [
        ("int x = 5", 5),
        ("int x = -0x10", -16),
        ("float x = 1e-5f", 1e-5),
        ("bool x = true", True),
        ("unsigned x = 1'000u", 1000),
        ("int x = N", None),
    ],
)
def test_defaults(declaration: str, default: object) -> None:
    assert param(declaration).default == default


def test_template_parameters_are_dtypes() -> None:
    decl = one(
        "template <typename T, int V = 4, class U = T> __global__ void k(T* z, const T* x, U a) { }"
    )
    assert decl.template == ("T", "V", "U")
    assert [(p.dtype, p.out) for p in decl.params] == [("T", True), ("T", False), ("U", None)]


def test_namespaces_and_linkage() -> None:
    text = """
    namespace a::b { namespace { __global__ void one(int* x) {} } inline namespace v1 { __global__ void two(int* x) {} } }
    extern "C" { __global__ void three(int* x) {} }
    extern "C" __global__ void four(int* x) {}
    struct S { void host() { __builtin_trap(); } };
    static inline __global__ void five(int* x) {}
    """
    assert [f.qualified for f in find_kernels(text, "k.cu")] == [
        "a::b::one",
        "a::b::v1::two",
        "three",
        "four",
        "five",
    ]
    # Their compiled names hold types, but where the linkage is C's.
    assert [f.typed for f in find_kernels(text, "k.cu")] == [True, True, False, False, True]


def test_places_and_the_comment_before() -> None:
    decl = one(
        "int a; // not this\n\n// Adds.\n// Two lines.\ntemplate <typename T>\n__global__ void\n  add(T* z) {}\n"
    )
    assert str(decl.location) == "k.cu:7:3"
    assert str(decl.params[0].location) == "k.cu:7:10"
    assert decl.doc == "Adds.\nTwo lines."


@pytest.mark.parametrize(
    ("head", "bound"),
    [
        ("__launch_bounds__(256)", 256),
        ("__launch_bounds__(256, 2)", 256),
        ("__launch_bounds__(B)", 128),
        ("__launch_bounds__(B * 2)", 0),
        ("__launch_bounds__(N)", 64),
        ("__launch_bounds__((1 << 4))", 0),
        ("__launch_bounds__(T::size)", 0),
    ],
)
def test_launch_bounds(head: str, bound: int) -> None:
    before = "#define B 128\nconstexpr int N = 64;\n"
    assert one(f"{before}__global__ void {head} k(int* x) {{}}").max_threads == bound
    assert one(f"{before}__global__ {head} void k(int* x) {{}}").max_threads == bound


def test_what_is_no_kernel() -> None:
    text = r"""
    // __global__ void a() {}
    /* __global__ void b() {} */
    const char* s = "__global__ void c() {}";
    const char* r = R"x(__global__ void d() {} )x";
    #if 0
    __global__ void e() {}
    #endif
    char q = '"'; int million = 1'000'000;
    __global__ void real(int* x) { if (x) { } }
    template __global__ void inst<float>(float*);
    template <> __global__ void spec<int>(int* x) {}
    void host() { real<<<1, 1>>>(nullptr); auto f = [](int& a) { return a; }; }
    """
    assert one(text).name == "real"


def test_a_declaration_gives_way_to_its_definition() -> None:
    found = find_kernels(
        "__global__ void k(int*, const int*);\n__global__ void k(int* z, const int* x) {}\n", "k.cu"
    )
    assert [[p.name for p in f.params] for f in found] == [["z", "x"]]


def test_macros_aliases_and_conditionals() -> None:
    text = """
    #define KERNEL extern "C" __global__ void
    #define RESTRICT __restrict__
    using scalar_t = float;
    typedef unsigned long long u64;
    KERNEL plain(scalar_t* RESTRICT z, const scalar_t* RESTRICT x, u64 n) {}
    #ifdef WIDE
    __global__ void wide(int* x) {
    #else
    __global__ void wide(int* x, int n) {
    #endif
    }
    #if A
    __global__ void left(int* x) {}
    #elif B
    __global__ void right(int* x) {}
    #endif
    __global__ void BOUNDS(3) odd(int* x) __attribute__((used)) {}
    """
    found = {f.name: f for f in find_kernels(text, "k.cu")}
    assert list(found) == ["plain", "wide", "left", "right", "odd"]
    assert [p.dtype for p in found["plain"].params] == ["f32", "f32", "u64"]
    assert [p.out for p in found["plain"].params] == [True, False, None]


def test_a_reference_is_refused_where_it_stands() -> None:
    text = "__global__ void k(int* z,\n  const Params& p) {}\n__global__ void fine(int* z) {}"
    refused, fine = find_kernels(text, "k.cu")
    (diagnostic,) = refused.refused
    assert fine.refused == ()
    assert diagnostic.render().startswith(
        "k.cu:2:3: error: a kernel cannot take a reference: const Params&p"
    )
    assert "by value" in diagnostic.hint


def test_macros_that_grow_without_end_stop() -> None:
    bomb = "\n".join(f"#define A{i} {f'A{i + 1} ' * 40}" for i in range(12))
    assert one(f"{bomb}\nint x = A0;\n__global__ void k(int* z) {{}}").name == "k"


def test_unbalanced_text_is_the_compilers_business() -> None:
    for text in (
        "__global__ void k(",
        "__global__",
        "__global__ void k(int* x) {",
        "template < __global__ void k() {}",
        "}}} __global__ void k() {}",
        f"__global__ void k(float x = {'(' * 5000}1{')' * 5000}) {{}}",
    ):
        assert len(find_kernels(text, "k.cu")) <= 1
