"""Variables by function, in debug information of several versions, and what cannot be read."""

from __future__ import annotations

import pytest

from tests.cubin_samples import build_cubin
from tests.dwarf_samples import debug_cubin, dwarf_unit
from tilec.inspection.variables import variables


@pytest.mark.parametrize("version", [2, 4, 5])
def test_names_by_function(version: int) -> None:
    assert variables(debug_cubin(dwarf_unit(version))) == {"scale": ("y", "index", "loaded")}


def test_several_units() -> None:
    assert variables(debug_cubin(dwarf_unit() + dwarf_unit(5))) == {"scale": ("y", "index", "loaded")}


@pytest.mark.parametrize("data", [build_cubin(), b"PTX is no cubin", b"", debug_cubin(dwarf_unit(), b"")])
def test_what_knows_no_variables(data: bytes) -> None:
    assert variables(data) == {}


def test_damaged_information_is_passed_over() -> None:
    info = dwarf_unit()
    for end in range(len(info)):
        assert set(variables(debug_cubin(info[:end]))) <= {"scale"}
    for place in range(11, len(info)):
        variables(debug_cubin(info[:place] + b"\xff" + info[place + 1 :]))  # whatever it reads, it ends
