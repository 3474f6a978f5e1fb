"""The page of `inspect --html`: its data, and markup that no text of a bundle becomes part of."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import html.parser
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.page_samples import HOSTILE, SOURCE, nvdisasm, page, sample
from tilec.cli.tables import bytes_text
from tilec.inspection import page as inspected
from tilec.inspection.html import page_json, render
from tilec.inspection.page import Page
from tilec_runtime.model.arch import Target


@pytest.fixture(autouse=True)
def _no_wheels(monkeypatch) -> None:
    monkeypatch.setattr("tilec.frontends.tools.search._wheel_roots", list)


def embedded(found: Page, name: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(found.embedded[name])))


def test_code_and_sources_side_by_side(tmp_path: Path) -> None:
    found = page(sample(tmp_path), nvdisasm(tmp_path), tmp_path)
    cubin, ptx = found.images
    assert (found.left_out, found.tool) == ("", "nvdisasm 13.4.0")
    assert [(one.code, one.note) for one in found.images] == [("code0", ""), ("code1", "")]
    assert [(file.name, file.code) for file in found.files] == [
        ("scale.cu", "file0"),
        ("lib.cuh", ""),
    ]
    assert found.files[1].note.startswith("only sources of the bundle have their text here")
    assert embedded(found, "file0") == {"lines": SOURCE.splitlines()}
    code = embedded(found, "code0")
    assert code["places"] == [[[0, 1]], [[0, 3]], [[1, 7], [0, 3]], [[0, 4]]]
    assert code["at"] == [-1, -1, 0, 1, 1, 1, 2, 3]
    assert embedded(found, "code1")["places"] == [[[0, 3]], [[0, 4]]]
    assert cubin.held is not None
    assert (cubin.held.limiter, round(cubin.held.fraction, 2)) == ("registers", 0.75)
    assert cubin.warnings == (
        "registers are spilled to local memory, 8 bytes a thread: smaller tiles or more registers help",
    )
    assert (ptx.held, ptx.warnings) == (None, ())


def test_a_source_that_has_changed_is_not_shown(tmp_path: Path) -> None:
    bundle = sample(tmp_path)
    (tmp_path / "scale.cu").write_text(SOURCE + "// edited\n")
    found = page(bundle, nvdisasm(tmp_path), tmp_path)
    assert [file.code for file in found.files] == ["", ""]
    assert "has changed since the build" in found.files[0].note
    assert not any(name.startswith("file") for name in found.embedded)


def test_files_that_only_line_tables_name_are_never_read(tmp_path: Path) -> None:
    """A cubin of a stranger may name any file of this machine; its text must not get into a report
    that is passed on.
    """
    (tmp_path / "lib.cuh").write_text("a secret\n")
    found = page(sample(tmp_path), nvdisasm(tmp_path), tmp_path)
    assert [(file.name, file.code) for file in found.files][1] == ("lib.cuh", "")


def test_large_bundles_have_limits_that_are_told(tmp_path: Path, monkeypatch) -> None:
    bundle, search = sample(tmp_path, kernels=("a", "b", "c")), nvdisasm(tmp_path)
    monkeypatch.setattr(inspected, "MOST_IMAGES", 3)
    found = page(bundle, search, tmp_path)
    assert [bool(one.code) for one in found.images] == [True, True, True, False, False, False]
    assert (
        found.left_out == "the code of 3 images is left out, 3 have it: choose others with --select"
    )
    assert found.images[-1].note == "left out: --html with --select 'c-compute_80' shows it"
    runs = (tmp_path / "cuda" / "calls").read_text().count("image.cubin")
    assert runs == 2, "each is disassembled once"
    monkeypatch.setattr(inspected, "MOST_BYTES", 10)
    small = page(bundle, search, tmp_path)
    assert [bool(one.code) for one in small.images] == [True, False, False, False, False, False]
    assert small.files[0].note == small.images[1].note == "left out: the page is full"


VOID = {"meta", "link", "input"}


class Tree(html.parser.HTMLParser):
    """Elements with their attributes and texts; what is opened has to be closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[int, str] = {}
        self._open: list[int] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self._open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        for number in self._open:
            self.texts[number] = self.texts.get(number, "") + data

    def all(self, tag: str, **attrs: str) -> list[str]:
        """Texts of the elements with these attributes."""
        wanted = attrs.items()
        return [
            self.texts.get(n, "")
            for n, (name, has) in enumerate(self.elements)
            if name == tag and wanted <= has.items()
        ]


@pytest.fixture
def text(tmp_path: Path, monkeypatch) -> str:
    monkeypatch.setattr("tilec.frontends.tools.search._wheel_roots", list)
    found = page(sample(tmp_path, kernels=("scale", HOSTILE)), nvdisasm(tmp_path), tmp_path)
    return render(found, amount=bytes_text, title=HOSTILE).decode()


def test_no_text_of_a_bundle_becomes_markup(text: str) -> None:
    tree = Tree(text)
    assert not {"img", "object", "iframe", "svg", "base", "form"} & {
        name for name, _ in tree.elements
    }
    assert not [name for _, attrs in tree.elements for name in attrs if name.startswith("on")]
    assert tree.all("title") == [HOSTILE]
    assert tree.all("h1") == [f"{HOSTILE} 1.0"]
    assert [name for name, _ in tree.elements].count("script") == text.count("</script>")


def test_nothing_is_fetched_and_only_the_page_s_own_script_may_run(text: str) -> None:
    tree = Tree(text)
    (policy,) = [
        str(attrs["content"])
        for _, attrs in tree.elements
        if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert (rules["default-src"], rules["base-uri"]) == ("'none'", "'none'")
    for rule, texts in (
        ("script-src", [t for t in tree.all("script") if "use strict" in t]),
        ("style-src", tree.all("style")),
    ):
        assert len(texts) == 1
        assert (
            rules[rule]
            == f"'sha256-{base64.b64encode(hashlib.sha256(texts[0].encode()).digest()).decode()}'"
        )
    sources = [
        value
        for _, attrs in tree.elements
        for name, value in attrs.items()
        if name in ("src", "href")
    ]
    assert all(re.fullmatch(r"#|#image-\d+|data:,", str(value)) for value in sources), sources
    assert "http://" not in text
    assert "https://" not in text


def test_names_that_are_no_unicode_can_be_written(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tilec.frontends.tools.search._wheel_roots", list)
    found = page(sample(tmp_path, kernels=("k\ud800",)), nvdisasm(tmp_path), tmp_path)
    assert b"k\\ud800" in render(found, amount=bytes_text, title="t")


def test_ltoir_has_no_text(tmp_path: Path) -> None:
    made = sample(tmp_path)
    (kernel,) = made.info.kernels
    images = tuple(
        dataclasses.replace(image, target=Target.parse("lto_80"))
        for image in kernel.variants[0].images[1:]
    )
    variants = (
        dataclasses.replace(kernel.variants[0], images=(*kernel.variants[0].images[:1], *images)),
    )
    info = dataclasses.replace(made.info, kernels=(dataclasses.replace(kernel, variants=variants),))
    rows = page_json(
        page(dataclasses.replace(made, info=info), nvdisasm(tmp_path), tmp_path), bytes_text
    )["images"]
    assert [(row["form"], row["code"] != "") for row in rows] == [("sass", True), ("ltoir", False)]
    assert (
        rows[1]["note"]
        == "LTO-IR has no text: nvJitLink makes machine code of it where it is loaded"
    )
