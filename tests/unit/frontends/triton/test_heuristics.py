"""Formulas of rules of `@triton.heuristics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tilec.frontends.triton.heuristics import Known, Rule, formula_of


def stopping(arguments: Mapping[str, Any]) -> object:
    raise SystemExit(arguments["n"])


def doubling(arguments: Mapping[str, Any]) -> object:
    value = arguments["n"]
    for _ in range(40):
        value = value * value % 7919
    return value == 0


@pytest.mark.parametrize("rule", [lambda a: a.get("n", 0) == 0, lambda a: "n" in a and a["n"] == 0])
def test_a_parameter_of_a_launch_is_unknown_however_it_is_read(rule: Rule) -> None:
    known = Known({"BLOCK": 64}, {"BLOCK"})
    with pytest.raises(KeyError):
        rule(known)
    assert known.read == "n"


@pytest.mark.parametrize(
    ("rule", "formula"),
    [
        (lambda a: a["K"] % a["BK"] == 0, "K % BK == 0"),
        (lambda a: a["K"] % (a["BK"] * a["SPLIT"]) == 0, "K % (BK * SPLIT) == 0"),
        (lambda a: (a["n"] + a["B"] - 1) // a["B"], "((n + B) - 1) // B"),
        (lambda a: 2 * a["n"] >= 64 - a["B"], "2 * n >= 64 - B"),
        (lambda a: 128 < a["n"], "n > 128"),  # noqa: SIM300
        (lambda a: (a["n"] > 4) == (a["m"] > 4), "(n > 4) == (m > 4)"),
        (lambda a: a["n"] > 0 and a["n"] % 16 == 0, ""),
        (lambda a: 16 if a["n"] > 4 else 8, ""),
        (lambda a: a["bias"] is not None, ""),
        (lambda a: a["n"] * 1.5 > 2, ""),
        (lambda a: a["n"].bit_length(), ""),
        (lambda a: 4, ""),
        (lambda a: a.get("n", 0) % 16 == 0, "n % 16 == 0"),
        (stopping, ""),
        (doubling, ""),
    ],
)
def test_formulas(rule: Rule, formula: str) -> None:
    assert formula_of(rule) == formula
