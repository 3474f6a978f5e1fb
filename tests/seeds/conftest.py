"""Programs of the documents about cuTile Rust and cuda-oxide, translated by the table in
docs/background/from-rust.md: what builds and imports them.

Tests marked `gpu` need what was built where the compilers are: TILEC_SEEDS_DIST names a folder that
one run fills, and another one uses.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.e2e.harness import Cli, environment
from tilec_runtime import Device, Stream, use_device

Built = Callable[..., ModuleType]


def place(tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    """Where a project is built."""
    shared = os.environ.get("TILEC_SEEDS_DIST")
    if not shared:
        return tmp_path_factory.mktemp(name)
    root = Path(shared).resolve() / name
    root.mkdir(parents=True, exist_ok=True)
    return root


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """The command, with a cache that the tests of one document share."""
    return Cli(environment(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Iterator[Built]:
    """Builds a project of these files, and imports its package."""
    added: list[str] = []
    with pytest.MonkeyPatch.context() as patch:

        def build(name: str, **files: str) -> ModuleType:
            root = place(tmp_path_factory, name)
            if not (root / "dist").is_dir():
                for file, text in files.items():
                    (root / file.replace("__", ".")).write_text(text)
                cli.good(root, "build", "-j", "1")
            patch.syspath_prepend(str(root / "dist"))
            added.append(name)
            return importlib.import_module(name)

        yield build
        for name in added:
            sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a program runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def stream() -> Iterator[Stream]:
    device = Device("cpu")
    with use_device(device):
        yield device.new_stream()
