"""Sweeps of a command line: their values, what `--set` says at each, and what is refused."""

from __future__ import annotations

import pytest

from tilec.case.sweeps import MOST, parse_sweep, refused_point, settings_at
from tilec_runtime.errors import UsageError


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n", "'--sweep n' is not NAME=VALUES"),
        ("n=", "is not NAME=VALUES"),
        ("2n=1,2", "is not NAME=VALUES"),
        ("n=5", "--sweep n=5 has 1 point: a sweep has 2 to 64"),
        ("n=1..64+", "'1..64+' is no range"),
        ("n=a..b", "is no range"),
        ("n=64..1", "goes nowhere"),
        ("n=0..8", "goes nowhere"),
        ("n=1..8*1", "goes nowhere"),
        ("n=1..8+0", "goes nowhere"),
        ("n=1..1000+1", "has more than 64 points"),
        ("n=1,,2", "takes numbers or words"),
        ("n=1,1", "a value stands there twice"),
        ("x=[1],[2]", "takes numbers or words"),
        (f"n={','.join(map(str, range(MOST + 1)))}", "has more than 64 points"),
    ],
)
def test_refuses_sweeps_that_are_none(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_sweep(text)
    assert said in caught.value.what


def test_settings_that_use_the_name_are_worked_out() -> None:
    sweep = parse_sweep("n=8,16")
    settings = ("x=f16[n, 2 * n]:normal:7", "y=[max(1, cdiv(n, 3)), 5]", "z=[7]", "alpha=n")
    assert settings_at(settings, sweep, "16") == (
        "x=f16[16,32]:normal:7",
        "y=[6,5]",
        "z=[7]",
        "alpha=16",
    )
    assert settings_at(("BM=T",), parse_sweep("T=f16,f32"), "f16") == ("BM=f16",)


def test_an_extent_without_a_value_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        settings_at(("x=[n, m * n]",), parse_sweep("n=8,16"), "8")
    assert caught.value.what.startswith("--set x=[n, m * n], with n = 8: ")
    with pytest.raises(UsageError):
        settings_at(("x=[n // 0]",), parse_sweep("n=8,16"), "8")


def test_a_point_that_is_refused_is_told_in_the_words_of_the_command_line() -> None:
    sweep = parse_sweep("n=8,16")
    error = refused_point(
        UsageError("--set n=8: kernel add has no parameter or axis 'n'", fix="other"), sweep, "8"
    )
    assert error.what == "--sweep n=8,16: kernel add has no parameter or axis 'n'"
    assert error.fix == "sweep an input or an axis, or let --set use n: --set x=[n]"
    other = UsageError("--set m=8: kernel add has no parameter or axis 'm'")
    assert refused_point(other, sweep, "8") is other
