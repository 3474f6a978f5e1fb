"""Places in the manifest, and names and paths that no file can have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness import HEAD, TWICE
from tilec.manifest.load import load_text
from tilec.manifest.locate import Locator
from tilec_runtime.errors import ManifestError


@pytest.mark.parametrize(
    ("text", "index", "place"),
    [
        ('a = "xyz"', 0, "t:1:6"),
        ('a = "xyz"', 3, "t:1:9"),
        ('a = "xyz"', 99, "t:1:9"),
        ('a = "\\u0041\\tz"', 2, "t:1:5"),
        ("a = 'x\\tz'", 2, "t:1:8"),
        ('a = """\nxy\nz"""', 3, "t:1:5"),
        ("a = '''\nx'''", 0, "t:1:5"),
        ('a = ""', 1, "t:1:6"),
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


@pytest.mark.parametrize(
    ("key", "place"),
    [
        (("inputs", "x"), "t:2:12"),
        (("inputs", "y", "dtype"), "t:3:19"),
        (("inputs", "z"), "t:3:8"),
        (("reference",), "t:4:1"),
        (("axes",), "t:3:6"),
    ],
)
def test_what_a_case_leaves_to_its_kernel(key: tuple[str, ...], place: str) -> None:
    text = "[kernel.k]\ninputs = { x = [1] }\ncase.a.inputs = { y = [1] }\nreference = 1\n"
    assert str(Locator(text, "t")(("kernel", "k", "case", "a", *key))) == place


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (
            "out/" + "a" * 256,
            "a name in the path has 256 bytes, the most is 255: file systems take no longer one",
        ),
        ("é" * 128, "a name in the path has 256 bytes"),
    ],
)
@pytest.mark.parametrize(
    ("key", "manifest"),
    [
        ("output.dir", HEAD + '[output]\ndir = "PATH"\n' + TWICE),
        ("kernel.twice.source", HEAD + TWICE.replace("k/twice.cu", "PATH")),
        ("kernel.twice.include[0]", HEAD + TWICE + 'include = ["PATH"]\n'),
    ],
)
def test_paths_that_no_file_system_takes(key: str, manifest: str, path: str, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load_text(manifest.replace("PATH", path), Path("tilec.toml"), languages={"cuda": (".cu",)})
    assert f"{key}: {message}" in str(caught.value)
