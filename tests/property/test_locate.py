"""Places of keys and values, over generated TOML documents: every path that the parser finds is
located, and what stands there is right.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tilec.manifest.locate import Locator
from tilec.model.toml import tomllib

BARE = st.text("abcXYZ019_-", min_size=1, max_size=4)
CHARS = st.characters(codec="utf-8", exclude_characters="\r", exclude_categories=("Cc", "Cs"))
TEXT = st.text(CHARS, max_size=6)
BLANK = st.sampled_from(["", " ", "\t", "  "])


def basic(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def escaped(text: str) -> str:
    """The same with every second character by four digits, and the others by eight."""
    found = (f"\\U{ord(c):08x}" if i % 2 else f"\\u{ord(c):04x}" for i, c in enumerate(text))
    return '"' + "".join(found) + '"'


NO_QUOTES = TEXT.filter(lambda text: "'" not in text)
PLAIN = TEXT.filter(lambda text: text.isascii())
STRINGS = st.one_of(
    TEXT.map(basic),
    NO_QUOTES.map("'{}'".format),
    TEXT.map(lambda text: '"""\n' + basic(text)[1:-1] + '\n"""'),
    NO_QUOTES.map("'''\n{}\n'' ]]'''".format),
    PLAIN.map(escaped),
    TEXT.map(lambda text: '"""a\\\n   ' + basic(text)[1:-1] + '"""'),
    st.just('"""""q""x"""""'),
)
KEYS = st.one_of(BARE, TEXT.map(basic), NO_QUOTES.map("'{}'".format))


SCALARS = st.one_of(
    STRINGS,
    st.integers(-(2**40), 2**40).map(str),
    st.sampled_from(
        [
            "true",
            "false",
            "1.5",
            "inf",
            "1979-05-27",
            "1979-05-27 07:32:00",
            "1979-05-27T07:32:00Z",
            "07:32:00",
            "0xff",
            "1_0",
        ]
    ),
)


@st.composite
def arrays(draw: st.DrawFn, items: st.SearchStrategy[str]) -> str:
    parts = draw(st.lists(items, max_size=3))
    glue = draw(st.sampled_from([", ", ",", " ,\n  ", ", # a ], comment\n"]))
    tail = draw(st.sampled_from(["", "\n", ","])) if parts else ""
    return "[" + draw(BLANK) + glue.join(parts) + tail + "]"


@st.composite
def inlines(draw: st.DrawFn, items: st.SearchStrategy[str]) -> str:
    names = draw(st.lists(KEYS, max_size=3))
    return (
        "{ " + ", ".join(f"{name}{draw(BLANK)}={draw(BLANK)}{draw(items)}" for name in names) + " }"
    )


VALUES = st.recursive(SCALARS, lambda inner: st.one_of(arrays(inner), inlines(inner)), max_leaves=6)


@st.composite
def documents(draw: st.DrawFn) -> str:
    lines = []
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["pair", "pair", "pair", "header", "array", "comment"]))
        dotted = f"{draw(BLANK)}.{draw(BLANK)}".join(draw(st.lists(KEYS, min_size=1, max_size=3)))
        if kind == "pair":
            lines.append(
                f"{draw(BLANK)}{dotted}{draw(BLANK)}={draw(BLANK)}{draw(VALUES)}{draw(BLANK)}"
            )
        elif kind == "header":
            lines.append(f"[{draw(BLANK)}{dotted}{draw(BLANK)}] # [x]")
        elif kind == "array":
            lines.append(f"[[{dotted}]]")
        else:
            lines.append("# a = 1")
    return "\n".join(lines)


def walk(value: Any, path: tuple[str | int, ...] = ()) -> Any:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key), inner
            yield from walk(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield (*path, index), inner
            yield from walk(inner, (*path, index))


@examples(60)
@given(documents())
def test_every_path_is_located(text: str) -> None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        # Generated keys collide at times. The scan must come to an end.
        Locator(text, "t")(())
        return
    locator = Locator(text, "t")
    lines = text.split("\n")
    for path, value in walk(data):
        assert path in locator._scan.places, path
        key, place = locator(path), locator.value(path)
        rest = lines[key.line - 1][key.column - 1 :]
        name = path[-1]
        if isinstance(name, str):
            assert rest.startswith((name, "'", '"'))
        if isinstance(value, str):
            start = text[locator._scan.places[path][1] :]
            assert start[:1] in ("'", '"')
            for index, char in enumerate(value):
                at = locator.value(path, index)
                # A text without escapes and line ends is located by character.
                assert at == place or lines[at.line - 1][at.column - 1] == char
        elif isinstance(value, bool | int) and isinstance(name, str):
            written = lines[place.line - 1][place.column - 1 :]
            assert (
                tomllib.loads(
                    "v = " + written.split("#")[0].split(",")[0].split("}")[0].split("]")[0]
                )["v"]
                == value
            )
