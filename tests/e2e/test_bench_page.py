"""The report of `bench` in a browser: drawn in both themes, told of by its dots, and without an
error or a request beyond its own file.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.browser import Browser
from tests.unit.bench.test_page import HOSTILE, REPORT
from tilec.bench.page import render

pytestmark = pytest.mark.e2e
BACK = "getComputedStyle(document.body).backgroundColor"
STROKE = "getComputedStyle(document.querySelector('polyline.curve.c0')).stroke"
# The middles of the dots of a chart, in pixels of the window, and what lies there.
UNDER = (
    "[...document.querySelectorAll('figure')[0].querySelectorAll('circle.c0')].map(dot => { dot.scrollIntoView({block: 'center'});"
    " const b = dot.getBoundingClientRect(); const it = document.elementFromPoint(b.x + b.width / 2, b.y + b.height / 2);"
    " return it.querySelector('title')?.textContent; })"
)


def test_the_report_is_looked_at(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "bench.html"
    path.write_bytes(
        render(
            dataclasses.replace(REPORT, rows=[["g", "1 us"]] * 40),
            time_text=lambda s: f"{1e6 * s:g} us",
        )
    )
    browser.scheme("light")
    browser.open(path.as_uri())
    assert browser.evaluate(BACK) == "rgb(253, 253, 252)"
    light = browser.evaluate(STROKE)
    assert browser.evaluate(UNDER) == [
        f"{HOSTILE}, n={n}: {r} TFLOP/s, {1.01 * n:g} us"
        for n, r in ((1, "396"), (2, "198"), (4, "99.01"), (8, "49.5"))
    ]
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    browser.scheme("dark")
    assert browser.evaluate(BACK) == "rgb(22, 24, 27)"
    assert browser.evaluate(STROKE) not in (light, "none")
    assert browser.evaluate("document.querySelectorAll('img, script').length") == 0
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [path.as_uri()]
