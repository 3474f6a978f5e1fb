"""The report as a browser's parser sees it: what is plotted, and that no name becomes markup."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re

from tests.bench_samples import CEILINGS, H200
from tests.unit.inspection.test_html import VOID, Tree
from tilec.bench.measure import Measurement
from tilec.bench.page import Report, render
from tilec.bench.report import CaseBench, Point, RivalResult
from tilec.bench.statistics import Interval
from tilec.bench.work import Work, rates_of

HOSTILE = "</style><script>alert(1)</script><img src=x>&\"'"


def measured(name: str, seconds: float, point: Point | None, *, flops: float = 1e6, rival: float = 0.0) -> CaseBench:
    work = Work(flops=flops, bytes=4e5, dtype="bf16")
    interval = Interval(low=1.0, high=1.0, coverage=0.95)
    rivals = (RivalResult(text=f"torch:{HOSTILE}", measurement=times(rival), interval=interval),) if rival else ()
    return CaseBench(
        name=name,
        kernel=HOSTILE,
        measurement=times(seconds),
        point=point,
        work=work,
        rates=rates_of(work, seconds, CEILINGS),
        rivals=rivals,
    )


def times(seconds: float) -> Measurement:
    return Measurement(samples=tuple(seconds * (1 + 0.01 * (n % 3)) for n in range(9)), launches=1, steady=True)


SWEEP = [measured(f"g n={n}", 1e-6 * n, Point(base=f"g{HOSTILE}", at=str(n)), flops=4e8, rival=2e-6 * n) for n in (1, 2, 4, 8)]
REPORT = Report(
    title=HOSTILE,
    setting=H200,
    ceilings=CEILINGS,
    results=SWEEP,
    sweep="n",
    heads=("case", "time"),
    rows=[(HOSTILE, "1 us")],
    notes=("on a GPU", "note: " + HOSTILE),
)


def text_of(report: Report) -> str:
    return render(report, time_text=lambda seconds: f"{1e6 * seconds:g} us").decode()


def tree_of(report: Report) -> Tree:
    # What SVG closes in itself is as void as HTML's.
    text = re.sub(r"<(line|polyline|circle|rect)([^>]*)/>", r"<\1\2></\1>", text_of(report))
    return Tree(text.replace("<!doctype html>", ""))


def test_a_sweep_is_two_plots_with_a_line_for_each_that_was_measured() -> None:
    tree = tree_of(REPORT)
    assert tree.all("h2") == [f"g{HOSTILE} by n", "Roofline", "All measurements"]
    assert len(tree.all("polyline", **{"class": "curve c0"})) == len(tree.all("polyline", **{"class": "curve c1"})) == 2
    assert len(tree.all("polyline", **{"class": "limit"})) == 2  # the product's rate, and the roof
    tips = tree.all("title")[1:]
    assert len(tips) == 4 * 4 + 4
    assert f"torch:{HOSTILE}, n=4: 8.08 us" in tips
    assert tree.all("td") == [HOSTILE, "1 us"]


def test_a_limit_far_above_all_does_not_press_a_plot_flat() -> None:
    slow = [dataclasses.replace(case, measurement=times(1e-3), rivals=()) for case in SWEEP]
    assert tree_of(dataclasses.replace(REPORT, results=slow)).all("polyline", **{"class": "limit"}) == [""]  # the roof


def test_nothing_of_the_manifest_is_markup_and_nothing_else_may_style() -> None:
    tree, text = tree_of(REPORT), text_of(REPORT)
    assert {"script", "img", "a", "iframe"}.isdisjoint(name for name, _ in tree.elements)
    assert {"meta", "link"} <= VOID
    (style,) = tree.all("style")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in text.replace("&#39;", "'")
    assert not re.search(r"(href|src)=\"(?!data:)", text)
    assert text == text_of(REPORT)


def test_variants_are_bars_the_fastest_first() -> None:
    rows = [measured(f"g BM={size}", 1e-6 * size, Point(base="g", variant=f"BM={size}")) for size in (64, 32)]
    tree = tree_of(dataclasses.replace(REPORT, results=rows, sweep="", ceilings=None, rows=[]))
    assert tree.all("h2") == ["g by variant", "All measurements"]
    assert tree.all("td") == ["BM=32", "32.32 us", "1.00x", "", "BM=64", "64.64 us", "2.00x", ""]


def test_without_work_there_are_times_alone() -> None:
    rows = [dataclasses.replace(case, work=Work(), rates=rates_of(Work(), 1.0)) for case in SWEEP]
    tree = tree_of(dataclasses.replace(REPORT, results=rows, rows=[]))
    assert tree.all("h2") == [f"g{HOSTILE} by n", "All measurements"]
    assert len(tree.all("polyline")) == 2


def test_a_sweep_over_words_has_its_points_in_a_row() -> None:
    rows = [measured(f"g T={name}", 1e-6, Point(base="g", at=name)) for name in ("f16", "bf16")]
    tree = tree_of(dataclasses.replace(REPORT, results=rows, sweep="T", rows=[]))
    assert {"f16", "bf16"} <= set(tree.all("text"))
