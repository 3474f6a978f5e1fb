"""What the mangled name of an entry says of its parameters' types."""

from __future__ import annotations

import pytest

from tilec.frontends.cuda.mangled import check
from tilec.frontends.tools.cpp.symbol import parameter_types
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.errors import CompileError, Location
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind


@pytest.mark.parametrize(
    ("symbol", "wanted"),
    [
        ("_Z1kv", []),
        ("_Z1kP6__halfi", [("__half*", "f16"), ("int", "i32")]),
        (
            "_Z1kP13__nv_bfloat16PKfh",
            [("__nv_bfloat16*", "bf16"), ("float const*", "f32"), ("unsigned char", "u8")],
        ),
        (
            "_Z1kPVKdxybca",
            [
                *[
                    ("double const*", "f64"),
                    ("long long", "i64"),
                    ("unsigned long long", "u64"),
                ],
                *[("bool", "bool"), ("char", "i8"), ("signed char", "i8")],
            ],
        ),
        (
            "_Z1kP13__nv_fp8_e4m3PK13__nv_fp8_e5m2",
            [("__nv_fp8_e4m3*", "f8e4m3"), ("__nv_fp8_e5m2 const*", "f8e5m2")],
        ),
        (
            "_ZN2ns1kIfLi4EEEvPT_PKS1_i",
            [("float*", "f32"), ("float const*", "f32"), ("int", "i32")],
        ),
        (
            "_Z1kPK6__halfS1_PS_",
            [("__half const*", "f16"), ("__half const*", "f16"), ("__half*", "f16")],
        ),
        ("_ZN12_GLOBAL__N_11kEPA4_fPFviE", [("float(*)[4]", "f32"), ("void(*)(int)", "")]),
        (
            "_Z1kP6float4PK1SIfLi3EEPPf",
            [("float4*", "f32"), ("S<float, 3> const*", ""), ("float**", "u64")],
        ),
        ("_Z1k1SIPfLi3EEPv", [("S<float*, 3>", ""), ("void*", "")]),
        ("k", None),
        ("_Zbroken", None),
    ],
)
def test_types_of_parameters(symbol, wanted):
    found = parameter_types(symbol)
    assert (None if found is None else [(type_.type, type_.dtype) for type_ in found]) == wanted
    assert all(
        (type_.kind == "tensor") == type_.type.endswith(("*", "*)[4]", ")(int)"))
        for type_ in found or ()
    )


def slots(*exprs):
    return tuple(
        AbiSlot(type="ptr" if text.endswith(".ptr") else "i32", expr=text, size=8, align=8)
        for text in exprs
    )


def tensor(name, dtype):
    return Param(name=name, kind=ParamKind.TENSOR, dtype=dtype, rank=1)


def decl(visible=""):
    at = Location(file="k.cu", line=3, column=9)
    x = ParamDecl(
        name="x",
        type="elem*",
        kind="tensor",
        dtype=visible,
        location=Location(file="k.cu", line=3, column=20),
    )
    return KernelDecl(name="k", location=at, params=(x,))


@pytest.mark.parametrize(
    ("symbol", "dtype", "visible"),
    [
        ("_Z1kPf", "f32", ""),
        ("_Z1kPf", "T", ""),
        ("_Z1kPf", "", ""),
        ("_Z1kPv", "f32", ""),
        ("_Z1kP1S", "bf16", ""),
        ("_Z1kPh", "f8e4m3", ""),  # a typedef of storage
        ("_Z1kPt", "bf16", ""),
        ("_Z1kPh", "f4e2m1", ""),
        ("k", "bf16", ""),
    ],
)
def test_these_dtypes_are_taken(symbol, dtype, visible):
    check(slots("x.ptr"), symbol, [tensor("x", dtype)], {"T": "f32"}, decl(visible))


@pytest.mark.parametrize(
    ("symbol", "dtype", "visible", "what", "fix"),
    [
        (
            "_Z1kP13__nv_bfloat16",
            "f32",
            "",
            "dtype 'f32' of 'x' is not what the compiled kernel takes, __nv_bfloat16* (bf16)",
            'params.x.dtype = "bf16", or leave it out: the compiled name says it',
        ),
        (
            "_Z1kPKh",
            "f32",
            "",
            "dtype 'f32' of 'x' is not what the compiled kernel takes, unsigned char const* (u8)",
            'params.x.dtype = "u8", or leave it out: the compiled name says it',
        ),
        (
            "_Z1kPt",
            "bf16",
            "u16",
            "dtype 'bf16' of 'x' is not what the compiled kernel takes, unsigned short* (u16)",
            'params.x.dtype = "u16", or leave it out: the compiled name says it',
        ),
        (
            "_Z1kPv",
            "",
            "",
            "nothing says the dtype of 'x': the compiled kernel takes void*, which is no dtype",
            "write it as params.x.dtype",
        ),
        (
            "k",
            "",
            "",
            "nothing says the dtype of 'x': its compiled name holds no types, as of extern \"C\"",
            "write it as params.x.dtype",
        ),
    ],
)
def test_these_dtypes_are_refused_at_the_parameters_place(symbol, dtype, visible, what, fix):
    with pytest.raises(CompileError) as caught:
        check(slots("x.ptr"), symbol, [tensor("x", dtype)], {}, decl(visible))
    (found,) = caught.value.diagnostics
    assert (caught.value.what, found.message, found.hint) == (f"k: {what}", what, fix)
    assert str(found.location) == "k.cu:3:20"


def test_a_scalar_is_passed_as_what_it_is():
    with pytest.raises(
        CompileError, match=r"k: n is passed as i32, and the compiled kernel takes float \(f32\)"
    ):
        check(slots("n"), "_Z1kf", [], {}, decl())
    check(slots("n"), "_Z1kj", [], {}, decl())
