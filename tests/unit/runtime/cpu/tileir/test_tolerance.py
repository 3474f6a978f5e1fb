"""What the documentation says of functions is what the table says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.runtime.cpu.tileir import tolerance
from tilec_runtime.cpu.tileir.ir import Scalar

PAGE = Path(__file__).parents[5] / "docs" / "cpu-numbers.md"
CALLED = {"pow": ("fpowf",)}


def test_the_page_says_what_the_table_says() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Functions")[1].split("## ")[0]
    told = {}
    for names, single, double in re.findall(
        r"^\| ((?:`\w+` ?)+) \| ([\d.]+) \| ([\d.]+) \|$", section, re.MULTILINE
    ):
        for name in re.findall(r"\w+", names):
            told.update(dict.fromkeys(CALLED.get(name, (name,)), (float(single), float(double))))
    assert told == tolerance.FUNCTIONS


def test_tolerances_of_single_operations() -> None:
    assert tolerance.of("addf", Scalar.F32) == 0.5
    assert tolerance.of("exp", Scalar.BF16) == tolerance.of("exp", Scalar.F32) == 0.51
    assert tolerance.of("tan", Scalar.F64) == 4
    assert tolerance.of_sum(Scalar.F32, 10) == 10 * 2.0**-24
