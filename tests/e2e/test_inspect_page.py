"""The HTML report in a browser: clicked through in both themes, without an error, and without a
request beyond its own file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser import Browser
from tests.page_samples import HOSTILE, nvdisasm, page, sample
from tilec.cli.tables import bytes_text
from tilec.inspection.html import render

pytestmark = pytest.mark.e2e
PANES = (
    "[...document.querySelectorAll('.pane:not([hidden])')].map(pane => pane.dataset.kind).join(' ')"
)
IDS = "[...document.querySelectorAll('#images tbody tr:not([hidden])')].map(row => row.cells[0].textContent)"
HITS = (
    "Object.fromEntries([...document.querySelectorAll('.pane')].map(pane =>"
    " [pane.dataset.kind, [...pane.querySelectorAll('.hit')].map(row => row.lastChild.textContent)]))"
)


@pytest.fixture
def report(tmp_path: Path, monkeypatch) -> str:
    monkeypatch.setattr("tilec.frontends.tools.search._wheel_roots", list)
    found = page(sample(tmp_path, kernels=("scale", HOSTILE)), nvdisasm(tmp_path), tmp_path)
    path = tmp_path / "report.html"
    path.write_bytes(render(found, amount=bytes_text, title="a report"))
    return path.as_uri()


@pytest.mark.long
def test_the_report_is_clicked_through(browser: Browser, report: str) -> None:
    browser.scheme("light")
    browser.open(report)
    _tables(browser)
    _code(browser)
    assert (
        browser.evaluate("document.title") == "a report"
    )  # which the hostile names would have changed
    assert browser.evaluate("document.images.length") == 0
    assert browser.errors == []
    assert {url.split("#")[0] for url in browser.requests if not url.startswith("data:")} == {
        report
    }


def _tables(browser: Browser) -> None:
    every = browser.evaluate(IDS)
    assert every == ["scale-sm_90", "scale-compute_80", f"{HOSTILE}-sm_90", f"{HOSTILE}-compute_80"]
    browser.click("#images th:nth-child(9) button")  # by size, the largest first
    sizes = "[...document.querySelectorAll('#images tbody tr')].map(row => Number(row.cells[8].dataset.v))"
    assert browser.evaluate(sizes) == sorted(browser.evaluate(sizes), reverse=True)
    browser.click("#images th:nth-child(9) button")
    assert browser.evaluate(sizes) == sorted(browser.evaluate(sizes))
    browser.click("#images th:nth-child(1) button")
    assert (
        browser.evaluate("document.querySelectorAll('#images th[aria-sort=ascending]').length") == 1
    )
    browser.click("#filter")
    browser.type("SCALE sm_90")
    assert browser.evaluate(IDS) == ["scale-sm_90"]
    browser.type(" nothing")
    assert browser.evaluate("document.getElementById('none').hidden") is False
    browser.evaluate("document.getElementById('filter').value = ''")
    browser.click("#kernels tbody tr:first-child .link")
    assert sorted(browser.evaluate(IDS)) == ["scale-compute_80", "scale-sm_90"]
    browser.click("#warned")
    assert browser.evaluate(IDS) == ["scale-sm_90"]


def _code(browser: Browser) -> None:
    browser.click("#images tbody tr:not([hidden]) a")
    browser.until("document.documentElement.dataset.ready === '0'")
    assert browser.evaluate("location.hash") == "#image-0"
    assert browser.evaluate(PANES) == "source ptx sass"
    assert browser.evaluate("document.getElementById('doc').textContent") == HOSTILE
    assert browser.evaluate("document.querySelectorAll('#warnings li').length") == 1
    browser.click(".pane[data-kind=source] [data-line='2']")
    hits = browser.evaluate(HITS)
    assert hits["sass"] == [
        "0010  LDG.E R0, desc[UR4][R2.64] ;",
        "0020  FADD R0, R0, R0 ;",
        "0030  STL [R1], R0 ;",
        "0040  STG.E desc[UR4][R2.64], R0 ;",
    ]
    assert hits["ptx"] == ["\tld.global.f32 %f1, [%rd1];", "\tmul.f32 %f2, %f1, 0f40000000;"]
    assert hits["source"] == [f"    y[threadIdx.x] *= 2.0f; // {HOSTILE}"]
    browser.click(".pane[data-kind=ptx] [data-line='7']")
    browser.until("document.querySelectorAll('.pane[data-kind=sass] .hit').length === 1")
    assert browser.evaluate(HITS)["source"] == ["}"]
    browser.click(
        ".pane[data-kind=sass] [data-line='6']"
    )  # inlined from a file whose text is not there
    browser.until("document.querySelector('.pane[data-kind=source] .empty') !== null")
    browser.click("#panes-shown label:nth-child(2) input")
    assert browser.evaluate(PANES) == "source sass"
    browser.click("#after")
    browser.until("document.documentElement.dataset.ready === '1'")
    assert (
        browser.evaluate("document.getElementById('detail-title').textContent")
        == "scale-compute_80"
    )
