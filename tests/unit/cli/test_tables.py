from __future__ import annotations

import click
import pytest

from tilec.cli.style import style
from tilec.cli.tables import bytes_text, columns, table, wrapped

HEADS = columns("~job", "target", ">size")
ROWS = [["gemm-f16-BM128-BN128-BK64-sm_100", "sm_100", "9 B"], ["add-sm_80", "sm_80", "100 KiB"]]


def plain(lines: list[str]) -> list[str]:
    return [click.unstyle(line) for line in lines]


def test_texts_that_may_shrink_do_and_keep_both_ends() -> None:
    lines = plain(table(HEADS, ROWS, width=40, indent="  "))
    assert lines == [
        "  job                    target     size",
        "  gemm-f16-B…K64-sm_100  sm_100      9 B",
        "  add-sm_80              sm_80   100 KiB",
    ]
    assert {len(line) for line in lines} == {40}


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (102_250, "99.9 KiB"),
        (102_400, "100 KiB"),
        (1_048_575, "1 MiB"),
        (1 << 20, "1 MiB"),
        (90 << 20, "90 MiB"),
        (3 << 40, "3 TiB"),
        (5000 << 40, "5000 TiB"),
    ],
)
def test_bytes(size: int | None, text: str) -> None:
    assert bytes_text(size) == text


def test_wide_characters_line_up() -> None:
    assert plain(
        table(columns("path", ">size"), [["出力/核.tilec", "1 B"], ["ge\u0301ant", "10 B"]])
    ) == [
        "path           size",
        "出力/核.tilec   1 B",
        "ge\u0301ant          10 B",
    ]


def test_words_are_not_broken_where_the_terminal_ends() -> None:
    error = (
        style("error:", fg="red", bold=True)
        + " one two three four five\n  fix: six seven eight nine\n    code that is left as it is"
    )
    assert click.unstyle(wrapped(error, 20)).split("\n") == [
        "error: one two three",
        "  four five",
        "  fix: six seven",
        "    eight nine",
        "    code that is left as it is",
    ]
    assert wrapped(error, None) == error
    assert (
        wrapped("a " + "b" * 30, 20) == "a " + "b" * 30
    )  # a path that fits nowhere stays where it is
