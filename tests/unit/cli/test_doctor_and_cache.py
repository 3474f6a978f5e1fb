from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.search import Tool, ToolReport
from tilec.inspection import machine
from tilec_runtime.errors import ToolchainError

PACKAGE = machine._package  # as it is, where a test has another in its place


def report(name: str) -> ToolReport:
    tool = Tool(name=name, path=f"/w/bin/{name}", version="13.4.92", origin="wheel")
    return ToolReport(name=name, use=f"use of {name}", tool=tool, looked=(), problem="")


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the tools around launches is there, the other is not, whatever this machine has."""

    def find(name: str, _search: ToolSearch) -> str:
        if name == "ncu":
            raise ToolchainError("ncu not found", fix="install it")
        return f"/opt/{name}"

    monkeypatch.setattr("tilec.case.tools.find_outside_tool", find)


pytestmark = pytest.mark.usefixtures("outside")
NAMES = ("libnvrtc", "libnvrtc-builtins", "ptxas", "headers", "tileiras", "nvcc")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with everything, and a GPU that the table knows beside one that it does not."""

    def device(ordinal: int) -> SimpleNamespace:
        return SimpleNamespace(
            name=("NVIDIA H200", "NVIDIA New")[ordinal],
            cc=((9, 0), (19, 0))[ordinal],
            multiprocessors=132,
        )

    driver = SimpleNamespace(version=lambda: (13, 0), device_count=lambda: 2, device=device)
    monkeypatch.setattr(machine, "survey", lambda search: [report(name) for name in NAMES])
    monkeypatch.setattr(machine, "_package", lambda name, _use: report(name))
    monkeypatch.setattr(machine, "process_driver", lambda: driver)
    monkeypatch.setattr("tilec_runtime.device.core.CORE", object())


def test_doctor_names_packages_that_frontends_refuse(
    cli, full, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"cuda-tile": "1.7.0", "numba-cuda": "0.31.1", "triton": "3.8.1"}
    monkeypatch.setattr(machine, "version", versions.__getitem__)
    monkeypatch.setattr(machine, "_package", PACKAGE)
    lines = cli("doctor").out.splitlines()
    simt = "numba-cuda is of version 0.31.1, and tilec compiles with 0.30"
    assert f"simt      cannot be built: numba-cuda: {simt}" in lines
    triton = "triton is of version 3.8.1, and tilec compiles with 3.9"
    assert f"triton    cannot be built: triton: {triton}" in lines
    versions["triton"] = "3.9.0"
    assert "triton    can be built" in cli("doctor").out.splitlines()


@pytest.mark.parametrize(
    ("driver", "text"),
    [
        ((13, 4), "toolkit 13.4: machine code loads, and PTX and Tile IR"),
        ((14, 0), "toolkit 13.4: machine code loads, and PTX and Tile IR"),
        (
            (13, 2),
            "PTX and Tile IR of this driver's version or older (min-driver in [targets])",
        ),
        (
            (12, 9),
            "too old for toolkit 13.4: its code needs CUDA 13.0 (driver branch 580",
        ),
    ],
)
def test_a_driver_is_compared_with_the_toolkit(
    cli, full, monkeypatch, driver: tuple[int, int], text: str
) -> None:
    found = SimpleNamespace(version=lambda: driver, device_count=lambda: 0)
    monkeypatch.setattr(machine, "process_driver", lambda: found)
    (line,) = [line for line in cli("doctor").out.splitlines() if line.startswith("code ")]
    assert text in line


def fill(root: Path) -> None:
    from tilec.compile.cache import Cache

    cache = Cache(root, note=print)
    for i in range(3):
        cache.put_record(f"{i:064x}", {"value": "x" * 1000})


def test_cache_info_gc_and_clear(cli, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    env = {"TILEC_CACHE_DIR": str(root), "TILEC_CACHE_MAX": "1 MiB"}
    assert cli("cache", "info", env=env).out == f"{root}\n0 entries, 0 B of at most 1 MiB\n"
    fill(root)
    out = cli("cache", "info", env=env).out
    assert out.startswith(f"{root}\n3 entries, ")
    assert out.endswith(" of at most 1 MiB, the oldest last used less than a minute ago\n")
    document = json.loads(cli("cache", "info", "--json", env=env).out)
    assert (document["kind"], document["entries"], document["max_bytes"]) == ("cache", 3, 1 << 20)
    assert cli("cache", "gc", env=env).out.startswith("freed 0 B; ")
    assert cli("cache", "gc", "--max-size", "2 KiB", env=env).out.startswith("freed ")
    assert json.loads(cli("cache", "info", "--json", env=env).out)["entries"] == 1
    assert cli("cache", "clear", env=env).out.endswith(f"; 0 B left in {root}\n")
    assert json.loads(cli("cache", "clear", "--json", env=env).out)["freed"] == 0
