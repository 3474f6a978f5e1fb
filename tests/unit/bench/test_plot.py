"""Where plots put lines, dots and ticks."""

from __future__ import annotations

import pytest

from tilec.bench.plot import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Chart, Dot, Limit, Scale, Series, draw, is_wide, number_text


def chart(*values: tuple[float, float], x_log: bool = False, y_log: bool = False, **more: object) -> Chart:
    dots = tuple(Dot(x=x, y=y, low=y * 0.9, high=y * 1.1, tip=f"{x}") for x, y in values)
    return draw(
        [Series(label="a", dots=dots)],
        title="t",
        x_label="n",
        y_label="u",
        x_log=x_log,
        y_log=y_log,
        **more,  # type: ignore[arg-type]
    )


def test_everything_is_in_the_box_in_its_order() -> None:
    limit = Limit(label="most", places=((1.0, 40.0), (100.0, 40.0)))
    found = chart((1, 10), (10, 20), (100, 30), x_log=True, limits=[limit])
    (line,) = found.series
    assert [mark.x for mark in line.marks] == [LEFT + 14, pytest.approx((LEFT + WIDTH - RIGHT) / 2), WIDTH - RIGHT - 14]
    heights = [mark.y for mark in line.marks]
    assert heights == sorted(heights, reverse=True)  # pixels count from above
    for mark in line.marks:
        assert TOP <= mark.high < mark.y < mark.low <= HEIGHT - BOTTOM
    assert line.path.split()[0] == f"{line.marks[0].x:g},{line.marks[0].y:g}"
    ((path, label, (x, y)),) = found.limits
    assert (label, len(path.split()), x) == ("most", 2, WIDTH - RIGHT - 14)
    assert TOP < y < min(heights)


def test_heights_begin_at_zero_unless_they_are_logarithms() -> None:
    assert chart((1, 10), (2, 20)).y_ticks[0] == (HEIGHT - BOTTOM, "0")
    assert [text for _, text in chart((1, 1), (2, 1000), y_log=True).y_ticks] == ["1", "3", "10", "30", "100", "300", "1000"]


def test_one_dot_has_no_line() -> None:
    found = chart((5, 5))
    assert found.series[0].path == ""
    assert found.series[0].marks[0].x == (LEFT + WIDTH - RIGHT) / 2


@pytest.mark.parametrize(
    ("low", "high", "log", "ticks"),
    [
        (0, 10, False, [0, 2, 4, 6, 8, 10]),
        (0, 0.7, False, [0, 0.2, 0.4, 0.6]),
        (0, 3141, False, [0, 1000, 2000, 3000]),
        (1, 10, True, [1, 2, 5, 10]),
        (0.5, 2e7, True, [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7]),
        (3, 4, True, [3, 4]),
    ],
)
def test_ticks_are_round(low: float, high: float, log: bool, ticks: list[float]) -> None:
    assert Scale(low=low, high=high, start=0, end=100, log=log).ticks() == pytest.approx(ticks)


def test_many_values_have_few_ticks() -> None:
    values = [(float(n), str(n)) for n in range(1, 41)]
    found = chart((1, 1), (40, 1), x_values=values).x_ticks
    assert [text for _, text in found] == [str(n) for n in range(1, 41, 5)]


def test_wide_ranges_are_logarithmic() -> None:
    assert is_wide([1, 2, 8])
    assert not is_wide([1, 2, 4])
    assert not is_wide([0, 100])


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.25, "0.25"), (4096, "4096"), (2e6, "2e+06"), (1e-5, "1e-05")])
def test_numbers(value: float, text: str) -> None:
    assert number_text(value) == text
