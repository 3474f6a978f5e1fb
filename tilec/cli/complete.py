"""Words that a shell completes: kernels, cases, targets, axes and profiles of the project at hand,
read fast and never with an error.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from tilec.cli.app import App
from tilec_runtime.errors import TilecError

MOST_MANIFEST = 4 << 20  # bytes; whoever waits for a key to be pressed does not wait for more
MOST_WORDS = 2000
PROFILES = ("release", "debug")
DEVICES = ("auto", "cpu", "cuda", "cuda:0", "all")

Words = Callable[[click.Context], Iterable[str]]
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def completes(words: Words) -> Complete:
    """What completes a value: those of the words that begin so; none where the manifest, or
    whatever they are of, cannot be read.
    """

    @functools.wraps(words)
    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        return _fitting(words, ctx, incomplete)

    return complete


def completes_list(words: Words) -> Complete:
    """The same for words with commas between them: the last one is completed."""

    @functools.wraps(words)
    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{word}" for word in _fitting(words, ctx, last)]

    return complete


def _fitting(words: Words, ctx: click.Context, incomplete: str) -> list[str]:
    try:
        found = [word for word in dict.fromkeys(words(ctx)) if word.startswith(incomplete)]
    except Exception:  # noqa: BLE001
        return []
    return found[:MOST_WORDS]


def project_kernels(ctx: click.Context) -> list[str]:
    """Kernels of the manifest."""
    return list(_kernels(ctx))


def project_cases(ctx: click.Context) -> list[str]:
    """Names of the cases of the kernels on the command line, or of all."""
    return [case for kernel in _named(ctx).values() for case in _table(kernel, "case")]


def whole_cases(ctx: click.Context) -> list[str]:
    """Whole names of all cases, `gemm/4k`."""
    return [
        f"{name}/{case}"
        for name, kernel in _kernels(ctx).items()
        for case in _table(kernel, "case")
    ]


def case_names(ctx: click.Context) -> list[str]:
    """Whole names of cases, `gemm/4k`, and kernels."""
    named = _named(ctx)
    return [
        *named,
        *(f"{name}/{case}" for name, kernel in named.items() for case in _table(kernel, "case")),
    ]


def changeable(ctx: click.Context) -> list[str]:
    """What `--set` gives a value: inputs of the cases and axes of the matrix, each with the equals
    sign.
    """
    kernels = _named(ctx).values()
    axes = [
        f"{axis}={value}"
        for kernel in kernels
        for axis, values in _table(kernel, "matrix").items()
        for value in _listed(values)
    ]
    return [*(f"{name}=" for name in _inputs(kernels)), *axes]


def swept(ctx: click.Context) -> list[str]:
    """What a sweep may change: as `changeable`, without values."""
    return [f"{word.partition('=')[0]}=" for word in changeable(ctx)]


def input_names(ctx: click.Context) -> list[str]:
    """Inputs of the cases, each with the equals sign."""
    return [f"{name}=" for name in _inputs(_named(ctx).values())]


def known_targets(ctx: click.Context) -> list[str]:
    """Targets of the manifest and its groups first, then all that there are."""
    from tilec_runtime.model.arch import ARCHS

    numbers = [
        f"{cc[0]}{cc[1]}{suffix}" for cc, arch in ARCHS.items() for suffix in ("", *_suffixes(arch))
    ]
    own: list[str] = []
    with contextlib.suppress(
        OSError, ValueError, RecursionError, TilecError
    ):  # there are targets without a project
        table = _table(_manifest(ctx), "targets")
        own = [*_listed(table.get("default")), *_table(table, "groups")]
    return [
        *own,
        "tileir",
        *(f"{kind}_{number}" for kind in ("sm", "compute", "lto") for number in numbers),
    ]


def architectures(_ctx: click.Context) -> list[str]:
    """Devices that `inspect --why` can be asked about."""
    from tilec_runtime.model.arch import ARCHS

    return [*(f"sm_{major}{minor}" for major, minor in ARCHS), "cuda:0", "cpu"]


def profiles(ctx: click.Context) -> list[str]:
    """Profiles: those that are always there, and the manifest's."""
    return [*PROFILES, *_table(_manifest(ctx), "profile")]


def devices(_ctx: click.Context) -> Sequence[str]:
    """Devices of `tilec run`; no driver is asked."""
    return DEVICES


def checkers(_ctx: click.Context) -> Sequence[str]:
    """Devices of commands that take one, and have to be told which."""
    return ("cpu", *gpus(_ctx))


def gpus(_ctx: click.Context) -> Sequence[str]:
    """GPUs."""
    return ("cuda", "cuda:0")


def kernels_inside(ctx: click.Context) -> list[str]:
    """Kernels of the bundle on the command line; of the project where that is none."""
    words = _words(ctx, "file")
    if not words:
        return project_kernels(ctx)
    from tilec.inspection.container import open_container

    return list(open_container(_app(ctx).built_path(words[0])).bundle.kernels)


def _app(ctx: click.Context) -> App:
    app = ctx.find_object(App)
    if app is None:
        raise LookupError
    return app


def _manifest(ctx: click.Context) -> Mapping[str, Any]:
    """The manifest as TOML: neither checked nor filled in, since it is just being written."""
    return raw_manifest(_app(ctx).manifest_path())


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
    found: Mapping[str, Any] = tomllib.loads(text)
    return found


def _kernels(ctx: click.Context) -> Mapping[str, Mapping[str, Any]]:
    return {
        name: kernel
        for name, kernel in _table(_manifest(ctx), "kernel").items()
        if isinstance(kernel, dict)
    }


def _named(ctx: click.Context) -> Mapping[str, Mapping[str, Any]]:
    """The kernels that the command line names already; all where it names none."""
    known, named = _kernels(ctx), _words(ctx, "kernels")
    return {name: kernel for name, kernel in known.items() if not named or name in named}


def _words(ctx: click.Context, name: str) -> Sequence[str]:
    """What the command line holds of an argument; where an option still lacks its value, click has
    not told them apart.
    """
    found = ctx.params.get(name) or ctx.args
    return (found,) if isinstance(found, str) else tuple(found)


def _inputs(kernels: Iterable[Mapping[str, Any]]) -> list[str]:
    cases = [
        case
        for kernel in kernels
        for case in _table(kernel, "case").values()
        if isinstance(case, dict)
    ]
    return [name for case in cases for name in _table(case, "inputs")]


def _table(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = table.get(name)
    return found if isinstance(found, dict) else {}


def _listed(values: Any) -> list[str]:
    """The values of a list as a command line has them."""
    shown = values if isinstance(values, list) else []
    return [
        str(value).lower() if isinstance(value, bool) else str(value)
        for value in shown
        if isinstance(value, str | int | float)
    ]


def _suffixes(arch: Any) -> list[str]:
    return [suffix for suffix, isa in (("f", arch.ptx_f), ("a", arch.ptx_a)) if isa is not None]
