"""The JSON Schema, the loader and the sample manifests agree."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tilec.manifest.keys import json_schema
from tilec.manifest.load import load, load_text
from tilec.model.toml import tomllib
from tilec_runtime.errors import ManifestError

LANGUAGES = {
    "tile": (".py",),
    "cuda": (".cu", ".cuh"),
    "triton": (),
    "simt": (),
    "prebuilt": (".ptx", ".cubin"),
}


SAMPLES = Path(__file__).parents[2] / "samples" / "manifests"


GOOD = sorted((SAMPLES / "good").glob("*.toml"))


BAD = sorted((SAMPLES / "bad").glob("*.toml"))


# What is wrong in these takes more than one value to see (or the text itself is no TOML): no schema
# can say it.
SEMANTIC = {
    "duplicate",
    "meaning",
    "package-module",
    "profiles-circle",
    "sources",
    "symbols",
    "toml-string",
    "toml-syntax",
}


SCHEMA = json_schema()


VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_good_samples_are_valid(path: Path) -> None:
    VALIDATOR.validate(tomllib.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", [p for p in BAD if p.stem not in SEMANTIC], ids=lambda p: p.stem)
def test_bad_samples_are_refused(path: Path) -> None:
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(tomllib.loads(path.read_text(encoding="utf-8")))


BASE: dict[str, Any] = tomllib.loads((SAMPLES / "good" / "full.toml").read_text(encoding="utf-8"))


WRONG: list[Any] = [True, -7, "\u0007 no /..", [[]], {"nonesuch key": 1}]


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


def dumped(value: Any) -> str:
    """A value as TOML, in inline form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = "".join(f"\\u{ord(c):04x}" if ord(c) < 32 or c in '"\\' else c for c in value)
        return f'"{escaped}"'
    if isinstance(value, list):
        return "[" + ", ".join(map(dumped, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{dumped(k)} = {dumped(v)}" for k, v in value.items()) + " }"
    return repr(value)


def only(path: tuple[str | int, ...]) -> dict[str, Any]:
    """The full sample without what a path does not concern, so that each trial is small."""
    data = {
        "edition": 1,
        "package": {"name": "a", "version": "1"},
        "targets": {"default": ["sm_90"]},
    }
    data["kernel"] = {"add": {"source": "k.py"}}
    top = str(path[0])
    data[top] = BASE[top]
    if top == "kernel" and len(path) > 1:
        kernel = BASE["kernel"][path[1]]
        data[top] = {
            path[1]: {key: kernel[key] for key in ("source", "matrix", *path[2:3]) if key in kernel}
        }
    return copy.deepcopy(data)


def trials(top: str) -> Iterator[tuple[tuple[str | int, ...], Any, dict[str, Any]]]:
    """Every value of one table of the full sample, replaced by values of other kinds."""
    for path in places(BASE[top], (top,)):
        if any(isinstance(part, int) and part > 0 for part in path):
            continue
        for value in WRONG:
            data = only(path)
            inner: Any = data
            for part in path[:-1]:
                inner = inner[part]
            inner[path[-1]] = value
            yield path, value, data


def problems_of(data: dict[str, Any]) -> tuple[str, ...]:
    text = "\n".join(f"{dumped(key)} = {dumped(value)}" for key, value in data.items())
    try:
        load_text(text, Path("tilec.toml"), languages=LANGUAGES)
    except ManifestError as error:
        return tuple(problem.message for problem in error.problems)
    return ()


@pytest.mark.parametrize("top", BASE)
def test_loader_and_schema_are_of_one_mind(top: str) -> None:
    """The loader refuses all that the schema refuses, and the schema all that is of a wrong kind or
    an unknown key to the loader.
    """
    for path, value, data in trials(top):
        problems, valid = problems_of(data), VALIDATOR.is_valid(data)
        assert valid or problems, f"{path} = {value!r} is refused by the schema only"
        structural = [p for p in problems if " is expected, not " in p or ": unknown key" in p]
        assert not (valid and structural), (
            f"{path} = {value!r} is refused by the loader only: {structural[0]}"
        )


def test_every_default_is_a_value_that_its_key_takes() -> None:
    """Editors write defaults into manifests; `0` for "no bound" is none that anybody may write."""

    def schemas(part: Any) -> Iterator[dict[str, Any]]:
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if isinstance(part, dict) and "default" in part and "description" in part:
            yield part
        for item in inner:
            yield from schemas(item)

    found = list(schemas(SCHEMA))
    assert len(found) > 10
    for schema in found:
        jsonschema.Draft202012Validator(schema).validate(schema["default"])


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p.stem)
def test_good(path: Path) -> None:
    manifest = load(path, languages=LANGUAGES)
    assert manifest.kernels
    assert manifest.root == str(path.parent.absolute())


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_bad(path: Path, golden: Callable[[Path, str], None]) -> None:
    with pytest.raises(ManifestError) as caught:
        load(path, languages=LANGUAGES, shown="tilec.toml")
    places = [problem.location for problem in caught.value.problems]
    assert all(place is not None and place.line and place.column for place in places)
    assert places == sorted(
        places, key=lambda place: (place.line, place.column) if place else (0, 0)
    )
    golden(path.with_suffix(".txt"), f"{caught.value}\n")
