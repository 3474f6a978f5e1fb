"""What end-to-end tests share: the command with a cache per file, and a small disk that can be
filled or write-protected.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, BrowserGoneError, find_browser
from tests.e2e.distributions import ROOT, wheel_of
from tests.e2e.harness import Cli, environment

Disk = Callable[..., Path]


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """The command, with a cache that the tests of one file share."""
    return Cli(environment(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Mounts a small file system: `disk("64k")`; `disk.write_protect` is `mount -o remount,ro` of
    the last one.
    """
    mounted: list[Path] = []

    def mount(size: str) -> Path:
        place = tmp_path / f"disk-{len(mounted)}"
        place.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)],
            capture_output=True,
            check=False,
            timeout=120,
        )
        if done.returncode:
            pytest.skip("a tmpfs cannot be mounted here (that needs root)")
        mounted.append(place)
        return place

    try:
        yield mount
    finally:
        for place in mounted:
            subprocess.run(["umount", "-l", str(place)], check=True, timeout=120)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A Chromium that is closed behind the test; skipped where there is none."""
    program = find_browser()
    if program is None:
        pytest.skip("there is no Chromium on PATH")
    opened = Browser(program, tmp_path / "profile")
    try:
        opened.start()
    except BrowserGoneError as error:
        pytest.skip(f"{program} does not start here: {error}")
    with contextlib.closing(opened):
        yield opened


@pytest.fixture(scope="session")
def runtime_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of tilec-runtime, built from this checkout."""
    return wheel_of(ROOT / "runtime", tmp_path_factory.mktemp("runtime"))
