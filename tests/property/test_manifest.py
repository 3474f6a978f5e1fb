"""Manifests with damage: whatever is cut out of one or put into it, it loads or is refused with
places, and never ends in a traceback.
"""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tilec.manifest.load import load_text
from tilec_runtime.errors import ManifestError

SAMPLES = Path(__file__).parents[1] / "samples" / "manifests"
TEXTS = [path.read_text(encoding="utf-8") for path in sorted(SAMPLES.glob("*/*.toml"))]
LINES = sorted({line for text in TEXTS for line in text.split("\n") if line.strip()})
PIECES = [
    '"',
    "'",
    "[",
    "]",
    "{",
    "}",
    "=",
    ",",
    ".",
    "#",
    "\n",
    "0",
    "-1",
    "true",
    "\\",
    '""',
    "{}",
    "[]",
    "nan",
    "0xfffffffffffffffffff",
    "é",
]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    lines = draw(st.sampled_from(TEXTS)).split("\n")
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(["drop", "put", "swap", "insert", "value"]))
        line = lines[at]
        if kind == "drop" and len(lines) > 1:
            del lines[at]
        elif kind == "put":
            lines.insert(at, draw(st.sampled_from(LINES)))
        elif kind == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], line
        elif kind == "insert":
            column = draw(st.integers(0, len(line)))
            lines[at] = (
                line[:column]
                + draw(st.sampled_from(PIECES))
                + line[column + draw(st.integers(0, 2)) :]
            )
        elif kind == "value" and "=" in line:
            lines[at] = (
                line.split("=")[0] + "= " + draw(st.sampled_from(LINES)).split("=")[-1].strip()
            )
    return "\n".join(lines)


@examples(60)
@given(damaged())
def test_damage_is_refused_with_places(text: str) -> None:
    problems = ()
    try:
        manifest = load_text(
            text,
            Path("/project/tilec.toml"),
            languages={"tile": (".py",), "cuda": (".cu",)},
            shown="tilec.toml",
        )
        assert manifest.kernels
    except ManifestError as error:
        problems = error.problems
    lines = text.split("\n")
    for problem in problems:
        assert problem.message
        assert problem.location is not None
        assert problem.location.file == "tilec.toml"
        assert problem.location.line <= len(lines)
        if problem.location.line:
            assert 1 <= problem.location.column <= len(lines[problem.location.line - 1]) + 1
