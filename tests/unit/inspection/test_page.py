from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.page_samples import SOURCE, nvdisasm, page, sample
from tilec.inspection.page import Page
from tilec_runtime.errors import BundleError


@pytest.fixture(autouse=True)
def _no_wheels(monkeypatch) -> None:
    monkeypatch.setattr("tilec.frontends.tools.search._wheel_roots", list)


def embedded(found: Page, name: str) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(found.embedded[name])))


def test_code_and_sources_side_by_side(tmp_path: Path) -> None:
    found = page(sample(tmp_path), nvdisasm(tmp_path), tmp_path)
    cubin, ptx = found.images
    assert (found.left_out, found.tool) == ("", "nvdisasm")
    assert [(one.code, one.note) for one in found.images] == [("code0", ""), ("code1", "")]
    assert [(file.name, file.code) for file in found.files] == [
        ("scale.cu", "file0"),
        ("lib.cuh", ""),
    ]
    assert found.files[1].note.startswith("its text is not at hand")
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


def test_the_same_page_twice_has_the_same_bytes(tmp_path: Path) -> None:
    bundle, search = sample(tmp_path), nvdisasm(tmp_path)
    assert page(bundle, search, tmp_path).embedded == page(bundle, search, tmp_path).embedded


def test_a_source_that_has_changed_is_not_shown(tmp_path: Path) -> None:
    bundle = sample(tmp_path)
    (tmp_path / "scale.cu").write_text(SOURCE + "// edited\n")
    found = page(bundle, nvdisasm(tmp_path), tmp_path)
    assert [file.code for file in found.files] == ["", ""]
    assert "has changed since this was built" in found.files[0].note
    assert not any(name.startswith("file") for name in found.embedded)


def test_files_that_only_line_tables_name_are_never_read(tmp_path: Path) -> None:
    """A cubin of a stranger may name any file of this machine; its text must not get into a report
    that is passed on.
    """
    (tmp_path / "lib.cuh").write_text("a secret\n")
    found = page(sample(tmp_path), nvdisasm(tmp_path), tmp_path)
    assert [(file.name, file.code) for file in found.files][1] == ("lib.cuh", "")


def test_a_damaged_image_is_an_error(tmp_path: Path, monkeypatch) -> None:
    bundle = sample(tmp_path)

    def image(_self: object, digest: str) -> bytes:
        raise BundleError(f"image {digest} is damaged")

    monkeypatch.setattr(type(bundle), "image", image)
    with pytest.raises(BundleError, match="is damaged"):
        page(bundle, nvdisasm(tmp_path), tmp_path)


def test_large_bundles_have_limits_that_are_told(tmp_path: Path) -> None:
    bundle, search = sample(tmp_path, kernels=("a", "b", "c")), nvdisasm(tmp_path)
    found = page(bundle, search, tmp_path, images=3)
    assert [bool(one.code) for one in found.images] == [True, True, True, False, False, False]
    assert (
        found.left_out
        == "the code of 3 images is left out, beyond the first 3: narrow the report with --select to see it"
    )
    assert found.images[-1].note == "left out: the page has no more room"
    assert (
        len((tmp_path / "cuda" / "calls").read_text().splitlines()) < 2 * 3
    )  # each is disassembled once, and one not at all
    small = page(bundle, search, tmp_path, bytes=10)
    assert [bool(one.code) for one in small.images] == [True, False, False, False, False, False]
    assert small.files[0].note == "left out: the page has no more room"
