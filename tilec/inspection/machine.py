"""Capabilities of this machine to build and run kernels.

Missing parts are rows of the report, not errors.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.search import Tool, ToolReport, survey
from tilec_runtime.bundle.place import exposure
from tilec_runtime.device.devices import process_driver
from tilec_runtime.errors import TilecError
from tilec_runtime.model.arch import ARCHS, Version
from tilec_runtime.model.driver import ptx_isa_of_cuda, required_driver

# Tools and packages that each language requires.
NEEDED = {
    "cuda": ("libnvrtc", "libnvrtc-builtins", "headers", "ptxas"),
    "tile": ("tileiras", "cuda-tile"),
    "simt": ("numba-cuda",),
    "triton": ("triton",),
}
BASIC = ("cuda", "tile")  # languages that `pip install tilec[build]` installs
PACKAGES = {
    "cuda-tile": "compiles cuTile Python kernels",
    "numba-cuda": "compiles SIMT kernels in Python",
    "triton": "compiles Triton kernels",
}
TILE_IR: Version = (13, 1)  # oldest driver release that runs Tile IR


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One row: its subject, its text, whether it is fine, and the fix otherwise."""

    name: str
    text: str
    ok: bool = True
    fix: str = ""


def examine_tools(search: ToolSearch) -> tuple[ToolReport, ...]:
    """Return a row for each package and tool that compiles."""
    return (*(_package(name, use) for name, use in PACKAGES.items()), *survey(search))


def examine(tools: Sequence[ToolReport], cache_dir: Path | None) -> list[Check]:
    """Return what this machine can do: driver, GPUs, cache, languages, launches.

    Args:
        tools: result of `examine_tools`.
        cache_dir: directory of the cache, or None if the cache is off.
    """
    return [*_driver(tools), _cache(cache_dir), *_languages(tools), _launches()]


def can_build(checks: Sequence[Check]) -> bool:
    """Return whether kernels in CUDA C++ and in cuTile Python can be compiled."""
    return all(check.ok for check in checks if check.name in BASIC)


def _languages(tools: Sequence[ToolReport]) -> Iterator[Check]:
    problems = {
        one.name: one.problem or "not found" for one in tools if not one.tool or one.problem
    }
    for language, names in NEEDED.items():
        lacks = [f"{name}: {problems[name]}" for name in names if name in problems]
        extra = "build" if language in BASIC else language
        text = f"cannot be built: {'; '.join(lacks)}" if lacks else "can be built"
        fix = f"pip install 'tilec[{extra}]'" if lacks else ""
        yield Check(name=language, text=text, ok=not lacks, fix=fix)


def _package(name: str, use: str) -> ToolReport:
    try:
        installed = version(name)
    except PackageNotFoundError:
        return ToolReport(name=name, use=use, tool=None, looked=(), problem="not installed")
    tool = Tool(name=name, path="", version=installed, origin="package")
    return ToolReport(name=name, use=use, tool=tool, looked=(), problem=_unfit(name, installed))


def _unfit(name: str, installed: str) -> str:
    """Return why a package's frontend rejects this version, or an empty string."""
    from tilec.frontends.simt import api as simt
    from tilec.frontends.tile.patches import TESTED
    from tilec.frontends.tools.packages import FIX, require_minor
    from tilec.frontends.triton import api as triton

    tested = {"numba-cuda": (simt.TESTED, simt.FIX), "triton": (triton.TESTED, triton.FIX)}
    try:
        require_minor(name, installed, *tested.get(name, (TESTED, FIX)))
    except TilecError as exc:
        return exc.what
    return ""


def _driver(tools: Sequence[ToolReport]) -> Iterator[Check]:
    try:
        driver = process_driver()
        cuda = driver.version()
        gpus = [driver.device(ordinal) for ordinal in range(driver.device_count())]
    except TilecError as exc:
        yield Check(name="driver", text=f"none: {exc.what}", ok=False, fix=exc.fix)
        return
    isa = ptx_isa_of_cuda(cuda)
    yield Check(
        name="driver", text=f"of CUDA {cuda[0]}.{cuda[1]}, reads PTX ISA up to {isa[0]}.{isa[1]}"
    )
    for ordinal, gpu in enumerate(gpus):
        major, minor = gpu.cc
        note = "not in tilec's table: build PTX (compute_NN) for it"
        note = f"target sm_{major}{minor}" if gpu.cc in ARCHS else note
        facts = f"compute capability {major}.{minor}, {gpu.multiprocessors} multiprocessors"
        yield Check(name=f"GPU {ordinal}", text=f"{gpu.name}, {facts} ({note})")
    versions = [one.tool.version for one in tools if one.tool and one.name in ("ptxas", "libnvrtc")]
    match = re.match(r"(\d+)\.(\d+)", versions[0]) if versions else None
    if match:
        yield from _code((int(match[1]), int(match[2])), cuda)


def _code(toolkit: Version, driver: Version) -> Iterator[Check]:
    """Compare driver and toolkit.

    A driver loads code of its own major release and of older ones.
    """
    release = f"{toolkit[0]}.{toolkit[1]}"
    if driver[0] < toolkit[0]:
        least = required_driver((toolkit[0], 0))
        text = f"the driver is too old for toolkit {release}: its code needs {least}"
        yield Check(name="code", text=text, ok=False, fix=f"install a driver of {least}")
        return
    forms = "PTX and Tile IR" if driver >= TILE_IR else "PTX"
    older = " of this driver's version or older (min-driver in [targets])"
    older = older if driver < toolkit else ""
    yield Check(name="code", text=f"toolkit {release}: machine code loads, and {forms}{older}")
    if driver < TILE_IR:
        least = required_driver(TILE_IR)
        text = f"Tile IR needs {least}: build tile kernels for sm_NN"
        yield Check(name="code", text=text)


def _cache(directory: Path | None) -> Check:
    if directory is None:
        return Check(name="cache", text="off")
    problem = exposure(directory)
    if problem:
        problem = f"not used, since others may change it: {problem}"
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    if not problem and not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        problem = f"{existing} cannot be written"
    fix = "export TILEC_CACHE_DIR=DIRECTORY (a directory that only you can write to, or off)"
    text = f"{directory} ({problem or 'writable'})"
    return Check(name="cache", text=text, ok=not problem, fix=fix if problem else "")


def _launches() -> Check:
    from tilec_runtime.device.core import absence  # slow: imports the launcher

    problem = absence()
    if not problem:
        return Check(name="launches", text="by the launch core in C")
    fix = "install a C compiler, reinstall tilec-runtime, and unset TILEC_NATIVE: launches are then several times faster"
    return Check(name="launches", text=f"in Python: {problem}", ok=False, fix=fix)
