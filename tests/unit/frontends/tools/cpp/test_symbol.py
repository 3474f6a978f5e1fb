"""From a symbol with places to a C++ name, and from declared parameters to the entry's ABI."""

from __future__ import annotations

import dataclasses

import pytest

from tilec.frontends.tools.abi import check
from tilec.frontends.tools.cpp.parse import find_kernels
from tilec.frontends.tools.cpp.symbol import (
    compiled_params,
    name_expression,
    symbol_advice,
)
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.bundle.cubin import CubinParam
from tilec_runtime.errors import CompileError
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import AbiSlot


def kernel(text: str) -> KernelDecl:
    return find_kernels(text, "k.cu")[0]


PLAIN = kernel("namespace n { __global__ void k(float* y, const float* x, int n) {} }")
TEMPLATE = kernel("template <typename T, int V = 4> __global__ void k(T* y, T a) {}")


def named(found: KernelDecl, symbol: str, **axes: AxisValue) -> str:
    return name_expression(symbol, axes, found)


def test_names() -> None:
    assert named(PLAIN, "") == "n::k"
    assert named(PLAIN, "k") == "n::k"
    assert named(PLAIN, "n::k") == "n::k"
    assert named(TEMPLATE, "k<{T}, {V}>", T="bf16", V=8) == "k<__nv_bfloat16, 8>"
    assert named(TEMPLATE, "k<{ T }>", T="f32") == "k<float>"
    assert named(TEMPLATE, "k<float, 3>") == "k<float, 3>"


def test_overloads_need_names_of_their_own() -> None:
    words = 'cannot determine which instance of overloaded function "k" is intended'
    assert symbol_advice(words, "n::k", PLAIN, ["n::k"]).startswith(
        "give each overload of k a name of its own"
    )


@pytest.mark.parametrize(
    ("symbol", "dtype"),
    [
        ("_Z1kI6__halfLi4EEvT_Pv", "f16"),
        ("_Z1kIfLi4EEvT_Pv", "f32"),
        ("_Z1kIjLi4EEvT_Pv", "u32"),
        ("_Z1kI4MineLi4EEvT_Pv", "T"),
        ("_Z1kIPfLi4EEvT_Pv", "T"),
        ("k", "T"),
    ],
)
def test_dtypes_of_numbers_of_template_types(symbol: str, dtype: str) -> None:
    number = ParamDecl(name="x", kind="scalar", dtype="T")
    kernel = dataclasses.replace(
        TEMPLATE, params=(number, ParamDecl(name="y", kind="tensor", dtype="T"))
    )
    assert [p.dtype for p in compiled_params(kernel, symbol)] == [dtype, "T"]


def params(*pairs: tuple[int, int]) -> list[CubinParam]:
    return [CubinParam(ordinal=i, offset=o, size=s) for i, (o, s) in enumerate(pairs)]


def test_structs_of_large_alignment_lie_where_the_architecture_puts_them() -> None:
    slots = (
        AbiSlot(type="ptr", expr="y.ptr", size=8, align=8),
        AbiSlot(type="struct", expr="m", size=128, align=64),
        AbiSlot(type="i32", expr="n", size=4, align=4),
    )
    for offset in (32, 48, 64):
        check(slots, params((0, 8), (offset, 128), (offset + 128, 4)), PLAIN, stated=False)
    with pytest.raises(CompileError, match="<- differs"):
        check(slots, params((0, 8), (48, 64), (112, 4)), PLAIN, stated=False)


def test_a_mismatch_shows_both_lists() -> None:
    slots = (
        AbiSlot(type="ptr", expr="x.ptr", size=8, align=8),
        AbiSlot(type="i32", expr="x.shape[0]", size=4, align=4),
    )
    with pytest.raises(CompileError) as caught:
        check(slots, params((0, 8), (8, 8), (16, 1)), PLAIN, stated=True)
    assert str(caught.value).split("\n") == [
        "k takes other parameters than a launch would pass",
        "     `args` of the manifest          compiled image",
        "   0 x.ptr (ptr): 8 bytes at 0       8 bytes at 0",
        "   1 x.shape[0] (i32): 4 bytes at 8  8 bytes at 8  <- differs",
        "   2 -                               1 bytes at 16  <- differs",
        "  fix: make `args` list what the kernel takes, with a type where it matters, such as i32(x.shape[0])",
    ]
