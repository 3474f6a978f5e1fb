"""Names of C++ types, and instances of templates."""

from __future__ import annotations

import pytest

from tilec.model.cpp import dtype_of
from tilec_runtime.model.dtype import DTYPES


def test_every_dtype_is_found_by_its_own_name() -> None:
    assert {row.name: dtype_of(row.c) for row in DTYPES.values() if row.c} == {
        row.name: row.name for row in DTYPES.values() if row.c
    }


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("unsigned", "u32"),
        ("long unsigned int", "u64"),
        ("signed char", "i8"),
        ("std::size_t", "u64"),
        ("::cuda::std::int16_t", "i16"),
        ("half", "f16"),
        ("float4", ""),
        ("Mine", ""),
        ("", ""),
    ],
)
def test_other_names(name: str, dtype: str) -> None:
    assert dtype_of(name) == dtype
