"""Words that a shell completes: names of the project at hand, read fast and never with an error."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from tilec.cli.app import App

MOST_MANIFEST = 4 << 20  # bytes; a larger one takes longer than a key press should
MOST_WORDS = 2000
PROFILES = ("release", "debug")

Words = Callable[[click.Context], Iterable[str]]
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def completes(words: Words) -> Complete:
    """Return a completion of one value, or of the last one of a list with commas.

    It gives nothing where the manifest cannot be read: it is just being written.
    """

    @functools.wraps(words)
    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        try:
            fitting = [word for word in dict.fromkeys(words(ctx)) if word.startswith(last)]
        except Exception:  # noqa: BLE001
            return []
        return [f"{before}{comma}{word}" for word in fitting[:MOST_WORDS]]

    return complete


def kernels_of(ctx: click.Context) -> list[str]:
    """Return the kernels of the manifest."""
    return list(_table(_manifest(ctx), "kernel"))


def cases_of(ctx: click.Context) -> list[str]:
    """Return names of the cases of the kernels on the command line, or of all."""
    # Arguments are in `args` while an option lacks its value.
    kernels = ctx.params.get("kernels") or ctx.args
    cases = [name.split("/") for name in names_of(ctx)]
    return [case for kernel, case in cases if not kernels or kernel in kernels]


def names_of(ctx: click.Context) -> list[str]:
    """Return whole names of all cases, such as `gemm/4k`."""
    kernels = _table(_manifest(ctx), "kernel")
    return [f"{name}/{case}" for name in kernels for case in _table(_table(kernels, name), "case")]


def targets_of(ctx: click.Context) -> list[str]:
    """Return the targets and groups of the manifest."""
    targets = _table(_manifest(ctx), "targets")
    return [*targets.get("default", ()), *_table(targets, "groups"), "tileir"]


def profiles_of(ctx: click.Context) -> list[str]:
    """Return the profiles: those that always exist, and the manifest's."""
    return [*PROFILES, *_table(_manifest(ctx), "profile")]


def devices_of(_ctx: click.Context) -> list[str]:
    """Return names of devices, without asking a driver."""
    return ["cpu", "cuda", "cuda:0"]


def raw_manifest(path: Path) -> Mapping[str, Any]:
    """Return a manifest as TOML, unchecked.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no TOML.
    """
    with path.open("rb") as file:
        text = file.read(MOST_MANIFEST).decode("utf-8")
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    manifest: Mapping[str, Any] = tomllib.loads(text)
    return manifest


def _manifest(ctx: click.Context) -> Mapping[str, Any]:
    app = ctx.find_object(App)
    return {} if app is None else raw_manifest(app.manifest_path())


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = table.get(name)
    return value if isinstance(value, dict) else {}
