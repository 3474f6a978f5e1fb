"""Words for shell completion: names of the project, read fast and without errors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from tilec.cli.app import App

MOST_MANIFEST = 4 << 20  # bytes; a larger one would delay the completion noticeably
MOST_WORDS = 2000
PROFILES = ("release", "debug")

Words = Callable[[click.Context], Iterable[str]]
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def completes(words: Words) -> Complete:
    """Return a completion of one value, or of the last value of a list with commas.

    It gives no words if the manifest cannot be read, for example while the user edits it.
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
    # click keeps arguments in `args` while an option lacks its value.
    kernels = ctx.params.get("kernels") or ctx.args
    cases = [name.split("/") for name in names_of(ctx)]
    return [case for kernel, case in cases if not kernels or kernel in kernels]


def names_of(ctx: click.Context) -> list[str]:
    """Return the full names of all cases, such as `gemm/4k`."""
    kernels = _table(_manifest(ctx), "kernel")
    return [f"{name}/{case}" for name in kernels for case in _table(_table(kernels, name), "case")]


def targets_of(ctx: click.Context) -> list[str]:
    """Return the targets and groups of the manifest."""
    targets = _table(_manifest(ctx), "targets")
    return [*targets.get("default", ()), *_table(targets, "groups"), "tileir"]


def profiles_of(ctx: click.Context) -> list[str]:
    """Return the predefined profiles and those of the manifest."""
    return [*PROFILES, *_table(_manifest(ctx), "profile")]


def devices_of(_ctx: click.Context) -> list[str]:
    """Return names of devices without calling a driver."""
    return ["cpu", "cuda", "cuda:0"]


def raw_manifest(path: Path) -> Mapping[str, Any]:
    """Return a manifest as TOML, unchecked.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not TOML.
    """
    with path.open("rb") as file:
        text = file.read(MOST_MANIFEST).decode("utf-8")
    from tilec.model.toml import tomllib

    manifest: Mapping[str, Any] = tomllib.loads(text)
    return manifest


def _manifest(ctx: click.Context) -> Mapping[str, Any]:
    app = ctx.find_object(App)
    return {} if app is None else raw_manifest(app.manifest_path())


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = table.get(name)
    return value if isinstance(value, dict) else {}
