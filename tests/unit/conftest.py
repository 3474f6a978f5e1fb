"""The command, in this process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from tilec.cli.main import run
from tilec_runtime.device import driver as _driver
from tilec_runtime.errors import NoDeviceError


@dataclasses.dataclass(frozen=True)
class Ran:
    """What one command line did."""

    code: int
    out: str
    err: str


Cli = Callable[..., Ran]


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command line in `tmp_path` with an environment of its own."""

    def call(*args: str, env: dict[str, str] | None = None, cwd: Path = tmp_path) -> Ran:
        capsys.readouterr()
        code = run(args, {"HOME": str(tmp_path / "home"), **(env or {})}, cwd)
        caught = capsys.readouterr()
        return Ran(code, caught.out, caught.err)

    return call


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a driver, and so without a GPU."""

    def missing() -> None:
        raise NoDeviceError(
            "the CUDA driver (libcuda) cannot be loaded: not found",
            cause="none is installed",
            fix="install one",
        )

    monkeypatch.setattr(_driver, "driver", missing)
