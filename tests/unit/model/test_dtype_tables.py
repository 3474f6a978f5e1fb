"""A new dtype has a row in each table of dtypes, or is named here as one that the table leaves out."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tilec.case.compare import _DEFAULTS
from tilec.case.files import _SAFETENSORS
from tilec.frontends.simt.entry import NAMES as SIMT_NAMES
from tilec.frontends.tools.cpp.diagnostics import _HEADERS
from tilec.frontends.tools.tile_bytecode import dtype_of
from tilec.frontends.triton.api import NAMES as TRITON_NAMES
from tilec.model.cpp import _NAMES as CPP_NAMES
from tilec_runtime.cpu.tileir.ir import Scalar
from tilec_runtime.cpu.tileir.values import STORAGE
from tilec_runtime.device.scalars import _FORMATS, _SMALL
from tilec_runtime.kernels import CODES
from tilec_runtime.kernels.elements import _NANS
from tilec_runtime.model.dtype import DTYPES

FLOATS = {name for name, row in DTYPES.items() if row.kind == "float"}
# Tile IR's integers have no sign.
SIGNED = {name for name, row in DTYPES.items() if row.kind != "uint"}
TILE_IR = {dtype_of(str(element)) for element in STORAGE}
# C++ types that a header declares.
DECLARED = {row.c for row in DTYPES.values() if row.c.startswith("__")}
F8 = {"f8e4m3", "f8e5m2", "f8e8m0"}
F4 = {"f4e2m1"}


@pytest.mark.parametrize(
    ("table", "wanted", "left_out"),
    [
        pytest.param(_FORMATS, set(DTYPES), set(), id="device/scalars.py _FORMATS"),
        pytest.param(_SMALL, FLOATS, {"f16", "f32", "f64"}, id="device/scalars.py _SMALL"),
        pytest.param(CODES, set(DTYPES), F4, id="kernels/__init__.py CODES"),
        pytest.param(TILE_IR, SIGNED, set(), id="cpu/tileir/values.py STORAGE"),
        pytest.param(CPP_NAMES.values(), set(DTYPES), set(), id="tilec/model/cpp.py"),
        pytest.param(TRITON_NAMES, set(DTYPES), F4 | {"f8e8m0"}, id="frontends/triton/api.py"),
        pytest.param(SIMT_NAMES, set(DTYPES), F4 | F8, id="frontends/simt/entry.py"),
        pytest.param(_HEADERS, DECLARED, set(), id="tools/cpp/diagnostics.py _HEADERS"),
        pytest.param(_NANS, FLOATS, {"f8e8m0"}, id="kernels/elements.py _NANS"),
        pytest.param(_DEFAULTS, FLOATS, F4, id="case/compare.py _DEFAULTS"),
        pytest.param(_SAFETENSORS.values(), set(DTYPES), F4, id="case/files.py _SAFETENSORS"),
    ],
)
def test_tables_have_all_dtypes(table: Iterable[str], wanted: set[str], left_out: set[str]) -> None:
    assert wanted - set(table) == left_out


def test_elements_fill_bytes_or_divide_one() -> None:
    assert all(8 % row.bits == 0 or row.bits % 8 == 0 for row in DTYPES.values())


def test_every_element_of_tile_ir_has_storage() -> None:
    assert set(STORAGE) == set(Scalar)
