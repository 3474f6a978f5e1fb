"""Places inside text values: escapes, folded lines and quotes count as what they stand for."""

from __future__ import annotations

import pytest

from tilec.manifest.locate import Locator


@pytest.mark.parametrize(
    ("text", "index", "place"),
    [
        ('a = "xyz"', 0, "t:1:6"),
        ('a = "xyz"', 3, "t:1:9"),
        ('a = "xyz"', 99, "t:1:9"),
        ('a = "\\u0041\\tz"', 2, "t:1:14"),
        ("a = 'x\\tz'", 2, "t:1:8"),
        ('a = """\nxy\nz"""', 3, "t:3:1"),
        ('a = """x\\\n   \n  z"""', 1, "t:3:3"),
        ("a = '''\nx'''", 0, "t:2:1"),
        ("a = 3", 2, "t:1:5"),
    ],
)
def test_characters_of_a_text_value(text: str, index: int, place: str) -> None:
    assert str(Locator(text, "t").value(("a",), index)) == place


def test_nearest_enclosing_key() -> None:
    locator = Locator("# first\n[a]\nb = [1, { c = 2 }]\n", "t")
    assert str(locator(("a", "b", 1, "c"))) == "t:3:11"
    assert str(locator.value(("a", "b", 1, "c"))) == "t:3:15"
    assert str(locator(("a", "b", 1, "d"))) == "t:3:9"
    assert str(locator(("a", "b", 7, "d"))) == "t:3:1"
    assert str(locator(("a", "x"))) == "t:2:2"
    assert str(locator(())) == "t:1:1"
