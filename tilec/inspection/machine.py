"""What this machine offers: Python and tilec, compilers, driver and GPUs, cache; every absence is a
row, never an error.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilec import __version__
from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.search import ToolReport, survey
from tilec_runtime.bundle.place import exposure
from tilec_runtime.errors import TilecError
from tilec_runtime.model.arch import ARCHS, Version
from tilec_runtime.model.driver import ptx_isa_of_cuda

if TYPE_CHECKING:
    from tilec_runtime.device.driver import Driver

# Without these nothing can be built; the rest serves single options.
NEEDED = {
    "cuda": ("libnvrtc", "libnvrtc-builtins", "headers", "ptxas"),
    "tile": ("tileiras",),
}
# Languages that an extra of tilec brings, with the package that each needs.
EXTRAS = {"simt": "numba-cuda", "triton": "triton"}
# The oldest driver that runs Tile IR.
_TILE_IR: Version = (13, 1)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One GPU. `known` says whether tilec's table has its compute capability."""

    ordinal: int
    name: str
    cc: Version
    multiprocessors: int
    known: bool


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DriverReport:
    """The driver. `problem` says why there is none; then the rest is empty.

    Attributes:
        cuda: CUDA release that it serves.
        ptx_isa: newest PTX ISA that it reads.
    """

    cuda: Version | None = None
    ptx_isa: Version | None = None
    gpus: tuple[Gpu, ...] = ()
    problem: str = ""
    fix: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """What of this toolkit's code this driver loads.

    Attributes:
        toolkit: its CUDA release.
        machine_code: whether it loads machine code, which drivers of the same major release and
            later ones do.
        portable: whether it reads PTX as new as the toolkit writes it; older PTX is written where
            `min-driver` asks for it.
        tile_ir: whether it reads Tile IR at all.
    """

    toolkit: Version
    machine_code: bool
    portable: bool
    tile_ir: bool


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CacheReport:
    """The cache directory: where, and why it cannot be written (empty where it can)."""

    path: str
    problem: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """A Python package that a language needs.

    Attributes:
        version: empty where it is not installed.
        problem: why what is installed does not do.
    """

    name: str
    use: str
    version: str
    problem: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """Everything that `tilec doctor` shows.

    Attributes:
        core_problem: why launches do without the launch core; empty where it makes them.
    """

    tilec: str
    python: str
    executable: str
    system: str
    tools: tuple[ToolReport, ...]
    packages: tuple[Package, ...]
    driver: DriverReport
    cache: CacheReport
    core_problem: str = ""

    @property
    def languages(self) -> dict[str, tuple[str, ...]]:
        """What each language lacks to be compiled here; an empty tuple where nothing is missing."""
        broken = {report.name for report in self.tools if report.tool is None or report.problem}
        lacks = {
            language: tuple(name for name in names if name in broken)
            for language, names in NEEDED.items()
        }
        absent = tuple(
            package.name
            for package in self.packages
            if not package.version and package.name not in EXTRAS.values()
        )
        return {
            language: names + (absent if language == "tile" else ())
            for language, names in lacks.items()
        }

    @property
    def extras(self) -> dict[str, str]:
        """What keeps each language of an extra from being built; empty where nothing does."""
        told = {
            package.name: package.problem if package.version else f"{package.name} is not installed"
            for package in self.packages
        }
        return {language: told.get(name, "") for language, name in EXTRAS.items()}

    @property
    def match(self) -> Match | None:
        """How toolkit and driver go together; None where one of them is not there."""
        versions = [
            report.tool.version
            for report in self.tools
            if report.tool is not None and report.name in ("ptxas", "libnvrtc")
        ]
        found = re.match(r"(\d+)\.(\d+)", versions[0]) if versions else None
        driver = self.driver.cuda
        if found is None or driver is None or self.driver.problem:
            return None
        toolkit = (int(found[1]), int(found[2]))
        return Match(
            toolkit=toolkit,
            machine_code=driver[0] >= toolkit[0],
            portable=driver >= toolkit,
            tile_ir=driver >= _TILE_IR,
        )

    @property
    def can_build(self) -> bool:
        """Whether every built-in language can be compiled."""
        return not any(self.languages.values())


def examine(
    search: ToolSearch, cache_dir: Path | None, driver: Callable[[], Driver] | None = None
) -> Machine:
    """Look at the machine.

    Args:
        search: where tools are looked for.
        cache_dir: the cache's directory, None where it is off.
        driver: starts the driver; default the real one.
    """
    from tilec_runtime.device.core import absence  # commands that build load no launcher

    return Machine(
        tilec=__version__,
        python=platform.python_version(),
        executable=sys.executable,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        tools=tuple(survey(search)),
        packages=(
            _package("cuda-tile", "compiles cuTile Python kernels"),
            _package("numba-cuda", "compiles SIMT kernels in Python"),
            _package("triton", "compiles Triton kernels"),
        ),
        driver=_driver(driver),
        cache=_cache(cache_dir),
        core_problem=absence(),
    )


def to_json(machine: Machine) -> dict[str, Any]:
    """The machine as JSON values."""
    from tilec_runtime.cpu.tileir.read import NEWEST, OLDEST  # here: it brings NumPy along

    driver = machine.driver
    return {
        "ok": machine.can_build,
        "tilec": machine.tilec,
        "python": {"version": machine.python, "executable": machine.executable},
        "system": machine.system,
        "languages": {
            name: {"ok": not lacks, "missing": list(lacks)}
            for name, lacks in machine.languages.items()
        }
        | {
            name: {
                "ok": not problem,
                "missing": [EXTRAS[name]] if problem else [],
                "problem": problem,
            }
            for name, problem in machine.extras.items()
        },
        "tools": [_tool_json(report) for report in machine.tools],
        "packages": [dataclasses.asdict(package) for package in machine.packages],
        "driver": {
            "found": not driver.problem,
            "cuda": list(driver.cuda) if driver.cuda else None,
            "ptx_isa": list(driver.ptx_isa) if driver.ptx_isa else None,
            "problem": driver.problem,
        },
        "toolkit": _match_json(machine.match) if machine.match else None,
        "cpu": {"tile_ir": [list(OLDEST), list(NEWEST)]},
        "gpus": [dataclasses.asdict(gpu) | {"cc": list(gpu.cc)} for gpu in driver.gpus],
        "launch_core": {"used": not machine.core_problem, "problem": machine.core_problem},
        "cache": {
            "path": machine.cache.path or None,
            "writable": not machine.cache.problem,
            "problem": machine.cache.problem,
        },
    }


def _match_json(match: Match) -> dict[str, Any]:
    return dataclasses.asdict(match) | {"toolkit": list(match.toolkit)}


def _tool_json(report: ToolReport) -> dict[str, Any]:
    tool = report.tool
    return {
        "name": report.name,
        "use": report.use,
        "found": tool is not None,
        "path": tool.path if tool else None,
        "version": tool.version if tool else None,
        "origin": tool.origin if tool else None,
        "problem": report.problem,
        "looked": list(report.looked),
    }


def _driver(start: Callable[[], Driver] | None) -> DriverReport:
    try:
        found = _real_driver() if start is None else start()
        cuda = found.version()
        gpus = []
        for ordinal in range(found.device_count()):
            device = found.device(ordinal)
            known = device.cc in ARCHS
            gpus.append(
                Gpu(
                    ordinal=ordinal,
                    name=device.name,
                    cc=device.cc,
                    multiprocessors=device.multiprocessors,
                    known=known,
                )
            )
        return DriverReport(cuda=cuda, ptx_isa=ptx_isa_of_cuda(cuda), gpus=tuple(gpus))
    except TilecError as exc:
        return DriverReport(problem=exc.what, fix=exc.fix)
    except ImportError as exc:
        return DriverReport(
            problem=f"the runtime cannot be imported: {exc}", fix="reinstall tilec-runtime"
        )


def _real_driver() -> Driver:
    from tilec_runtime.device.driver import driver

    return driver()


def _cache(directory: Path | None) -> CacheReport:
    if directory is None:
        return CacheReport(path="", problem="")
    if why := exposure(directory):
        return CacheReport(
            path=str(directory), problem=f"not used, since others may change it: {why}"
        )
    existing = next((path for path in (directory, *directory.parents) if path.exists()), Path("/"))
    try:
        if existing != directory:
            # Asking must not make directories: the nearest one that exists decides.
            problem = (
                ""
                if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
                else f"{existing} cannot be written"
            )
            return CacheReport(path=str(directory), problem=problem)
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b"\0" * 4096)
    except OSError as exc:
        return CacheReport(path=str(directory), problem=f"cannot be written: {exc.strerror or exc}")
    return CacheReport(path=str(directory))


def _package(name: str, use: str) -> Package:
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version(name)
    except PackageNotFoundError:
        return Package(name=name, use=use, version="")
    return Package(name=name, use=use, version=found, problem=_unfit(name, found))


def _unfit(name: str, found: str) -> str:
    """Why this version of a package is refused by the frontend that compiles with it."""
    from importlib.metadata import version

    from tilec.frontends.simt import api
    from tilec.frontends.tile.patches import TESTED
    from tilec.frontends.tools.packages import FIX, require_minor
    from tilec.frontends.triton import api as api_module

    try:
        if name == EXTRAS["simt"]:
            api.require_version(found)
            api.require_numpy(version("numpy"))
        elif name == EXTRAS["triton"]:
            api_module.require_version(found)
        elif name == "cuda-tile":
            require_minor(name, found, TESTED, FIX)
    except TilecError as exc:
        return exc.what
    return ""
