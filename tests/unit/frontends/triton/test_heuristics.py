"""Formulas of rules of `@triton.heuristics`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tilec.frontends.triton.heuristics import Rule, apply, formula_of


def stopping(arguments: Mapping[str, Any]) -> object:
    raise SystemExit(arguments["n"])


def doubling(arguments: Mapping[str, Any]) -> object:
    value = arguments["n"]
    for _ in range(40):
        value = value * value % 7919
    return value == 0


@pytest.mark.parametrize(
    ("rule", "reads"),
    [
        (lambda a: a.get("n", 0) == 0, ("n",)),
        (lambda a: "n" in a and a["n"] == 0, ("n",)),
        (lambda a: a["n"] > 0 and a["BLOCK"] > 0, ("n",)),
        (lambda a: a["WARPS"] * a["BLOCK"], ("WARPS", "BLOCK")),
        (lambda a: a["bias"] is not None, ("bias",)),
        (lambda a: a["HALF"] * a["n"], ("BLOCK", "n")),
        (stopping, ("n",)),
    ],
)
def test_rules_that_read_unknown_parameters_give_no_value(
    rule: Rule, reads: tuple[str, ...]
) -> None:
    config: dict[str, object] = {"BLOCK": 64}
    rules: list[tuple[str, Rule]] = [("HALF", lambda a: a["BLOCK"] // 2), ("X", rule)]
    computed = apply(rules, config, {"X": False})
    assert (config, computed["X"].reads) == ({"BLOCK": 64, "HALF": 32}, reads)


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
