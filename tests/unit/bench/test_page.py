"""The report as a browser's parser sees it: what is plotted, and that no name becomes markup."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence

from tests.bench_samples import CEILINGS
from tests.unit.inspection.test_page import VOID, Tree
from tilec.bench.measure import Measurement
from tilec.bench.page import render
from tilec.bench.report import CaseBench, Point, RivalResult
from tilec.bench.statistics import Interval
from tilec.bench.work import Work, rates_of

HOSTILE = "</style><script>alert(1)</script><img src=x>&\"'"


def measured(
    name: str, seconds: float, point: Point | None, *, flops: float = 1e6, rival: float = 0.0
) -> CaseBench:
    work = Work(flops=flops, bytes=4e5, dtype="bf16")
    interval = Interval(low=1.0, high=1.0, coverage=0.95)
    rivals = (
        (RivalResult(text=f"torch:{HOSTILE}", measurement=times(rival), interval=interval),)
        if rival
        else ()
    )
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
    return Measurement(
        samples=tuple(seconds * (1 + 0.01 * (n % 3)) for n in range(9)), launches=1, steady=True
    )


SWEEP = [
    measured(f"g n={n}", 1e-6 * n, Point(base=f"g{HOSTILE}", at=str(n)), flops=4e8, rival=2e-6 * n)
    for n in (1, 2, 4, 8)
]


def page(results: Sequence[CaseBench] = SWEEP, sweep: str = "n") -> str:
    data = render(
        results,
        title=HOSTILE,
        ceilings=CEILINGS,
        sweep=sweep,
        heads=("case", "time"),
        rows=[(HOSTILE, "1 us")],
        notes=("on a GPU", "note: " + HOSTILE),
        time_text=lambda seconds: f"{1e6 * seconds:g} us",
    )
    return data.decode()


def tree_of(text: str) -> Tree:
    # An image is as void as a line break.
    return Tree(re.sub(r"<img ([^>]*)>", r"<img \1></img>", text.replace("<!doctype html>", "")))


def images(text: str) -> list[str]:
    """The plots of a page, as text of SVG."""
    found = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]*)"', text)
    return [base64.b64decode(one).decode() for one in found]


def test_a_sweep_is_two_plots_and_a_table() -> None:
    tree = tree_of(page())
    assert tree.all("h2") == [f"g{HOSTILE} by n", "Roofline", "All measurements"]
    assert len(images(page())) == 3
    cells = tree.all("td")
    assert cells[:8] == ["1", HOSTILE, "1.01 us", "396", "1", f"torch:{HOSTILE}", "2.02 us", "198"]
    assert cells[-2:] == [HOSTILE, "1 us"]


def test_nothing_of_the_manifest_is_markup_and_nothing_else_may_style() -> None:
    tree, text = tree_of(page()), page()
    assert {"script", "a", "iframe"}.isdisjoint(name for name, _ in tree.elements)
    assert {"meta", "link"} <= VOID
    (style,) = tree.all("style")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in text.replace("&#39;", "'")
    assert not re.search(r"(href|src)=\"(?!data:)", text)
    assert text == page()


def test_a_sweep_over_words_has_a_plot() -> None:
    rows = [measured(f"g T={name}", 1e-6, Point(base="g", at=name)) for name in ("f16", "bf16")]
    assert len(images(page(rows, "T"))) == 3
