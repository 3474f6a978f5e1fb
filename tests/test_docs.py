"""The documentation as a whole: how much there is to read, and whether the site has all of it."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

import tilec_runtime

DOCS = Path(__file__).parent.parent / "docs"
API = DOCS / "reference" / "api"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.parent != API]

# Limits are what was reached: lower them when pages get shorter.
WORDS = 30_000
LONG_LINES = 12
COLUMNS = 100


def test_pages_do_not_grow() -> None:
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in PAGES) <= WORDS


def test_lines_wrap() -> None:
    long = [
        f"{page.relative_to(DOCS)}: {line[:60]}"
        for page in PAGES
        for line in re.sub(
            r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
        ).splitlines()
        if len(line) > COLUMNS and not line.startswith("<!-- edit:")
    ]
    assert len(long) <= LONG_LINES, "\n".join(long)


def named() -> list[str]:
    """Return the objects that the pages of the API describe."""
    text = "".join(page.read_text(encoding="utf-8") for page in sorted(API.glob("*.md")))
    return re.findall(r"^\.\. (?:auto|py:)\w+:: ([\w.]+)$", text, re.MULTILINE)


def test_the_api_reference_has_every_public_name() -> None:
    described = {name.rpartition(".")[2] for name in named() if name.startswith("tilec_runtime.")}
    assert set(tilec_runtime.__all__) - described == set()


@pytest.mark.parametrize("name", named())
def test_the_api_reference_names_objects_that_exist(name: str) -> None:
    if name.startswith("tilec.lang."):
        pytest.importorskip("cuda.tile")
    assert pkgutil.resolve_name(name) is not None


def test_the_landing_page_is_short() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    assert len(text.partition("\n\n")[2].partition("```")[0].split()) <= 100


def test_the_landing_page_lists_pages_that_exist() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^((?:start|how-to|reference|background)/[\w-]+)$", text, re.MULTILINE)
    assert len(listed) > 20
    assert [page for page in listed if not (DOCS / f"{page}.md").is_file()] == []


def test_pictures_are_shown_and_small() -> None:
    pictures = set((DOCS / "pictures").iterdir())
    text = {page: page.read_text(encoding="utf-8") for page in PAGES}
    shown = {
        (page.parent / path).resolve()
        for page in PAGES
        for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text[page])
    }
    assert shown == pictures  # scripts/docs_pictures.py renews them
    large = {
        picture.name
        for picture in pictures
        if picture.stat().st_size > 1024 * (300 if picture.suffix == ".png" else 100)
    }
    assert not large
