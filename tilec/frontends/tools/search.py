"""Find compilers, libraries and headers in wheels, CUDA_HOME and PATH."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.digests import actual_rows, file_sha256
from tilec.frontends.tools.wheels import owner_of, records
from tilec_runtime.errors import TilecError, ToolchainError, UsageError
from tilec_runtime.model.kernel import ToolInfo

used: set[str] = set()
"""Paths of all tools that this process used; a build records their file status."""

FIX = "pip install 'tilec[build]' (all compilers as wheels, no CUDA installation needed)"
_UNKNOWN = "its toolkit's release is unknown"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool, library or include directory.

    Attributes:
        name: name, as in `find_tool`.
        path: absolute path.
        version: version, such as `13.4.92`; empty if unknown.
        digest: SHA-256 of its bytes (of the file list for headers); empty if not requested.
        origin: `wheel`, `CUDA_HOME` or `PATH`.
    """

    name: str
    path: str
    version: str = ""
    digest: str = ""
    origin: str

    @property
    def info(self) -> ToolInfo:
        """Name, version and digest, as bundles and cache keys record them."""
        return ToolInfo(name=self.name, version=self.version, digest=self.digest)

    @property
    def release(self) -> tuple[int, int]:
        """Toolkit release (major, minor); (0, 0) if the version is unknown."""
        numbers = _numbers(self.version)
        return (numbers[0], numbers[1]) if len(numbers) >= 2 else (0, 0)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ToolReport:
    """One row of `survey`: the tool or None, its use, the searched paths, and a problem."""

    name: str
    use: str
    tool: Tool | None
    looked: tuple[str, ...]
    problem: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Root:
    """A toolkit directory; for wheels, `site` is their site-packages directory."""

    origin: str
    path: Path
    site: Path | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    """A row of the tool table.

    Attributes:
        kind: `bin`, `lib` or `include`.
        use: the purpose of the tool.
        files: for headers, one header of each wheel that has headers.
    """

    kind: str
    use: str
    files: tuple[str, ...] = ()


_TABLE: dict[str, _Row] = {
    "libnvrtc": _Row(kind="lib", use="compiles CUDA C++"),
    "libnvrtc-builtins": _Row(kind="lib", use="part of NVRTC"),
    "ptxas": _Row(kind="bin", use="verifies PTX"),
    "headers": _Row(
        kind="include",
        use="CUDA headers",
        files=("cuda_fp16.h", "crt/host_defines.h", "cccl/cuda/std/cstdint"),
    ),
    "nvcc": _Row(kind="bin", use='CUDA C++ with compiler = "nvcc"'),
    "cudafe++": _Row(kind="bin", use="part of nvcc"),
    "cicc": _Row(kind="bin", use="part of nvcc"),
    "fatbinary": _Row(kind="bin", use="part of nvcc"),
    "tileiras": _Row(kind="bin", use="compiles Tile IR"),
    "tileirdisasm": _Row(kind="bin", use="tilec inspect --tileir --raw"),
    "libnvfatbin": _Row(kind="lib", use="--emit fatbin"),
    "libnvJitLink": _Row(kind="lib", use="links device code"),
    "libnvvm": _Row(kind="lib", use="compiles NVVM IR"),
    "cuobjdump": _Row(kind="bin", use="tilec inspect"),
    "nvdisasm": _Row(kind="bin", use="tilec inspect --sass"),
}


def find_tool(name: str, search: ToolSearch) -> Tool:
    """Return a tool (`ptxas`), library (`libnvrtc`) or include directory (`headers`).

    Raises:
        ToolchainError: it is missing (lists every searched path), or outside of `search.cuda`.
        UsageError: `search.cuda` is no version range.
    """
    return require((name,), search)[name]


def require(names: Sequence[str], search: ToolSearch, *, digest: bool = True) -> dict[str, Tool]:
    """Return several tools of one toolkit release, in the range `search.cuda`.

    Raises:
        ToolchainError: some are missing or do not fit; the message names all of them.
        UsageError: `search.cuda` is no version range.
    """
    tools: dict[str, Tool] = {}
    missing: list[str] = []
    searched: list[str] = []
    for name in names:
        tool, looked = locate(name, search)
        if tool is None:
            missing.append(name)
            searched.extend(p for p in looked if p not in searched)
        else:
            tools[name] = tool
            used.add(tool.path)
    if missing:
        have = ", ".join(f"{t.name} {t.version} ({t.origin})" for t in tools.values())
        half = f"the toolchain is half installed (there is {have}): " if tools else ""
        listing = "".join(f"\n    {entry}" for entry in searched)
        raise ToolchainError(f"{half}{_listed(missing)} not found; looked for:{listing}", fix=FIX)
    _check_release(tools.values(), search)
    if digest:
        tools = {
            name: dataclasses.replace(tool, digest=_digest(tool, search))
            for name, tool in tools.items()
        }
    return tools


def locate(name: str, search: ToolSearch) -> tuple[Tool | None, tuple[str, ...]]:
    """Return a tool without its digest, or None, and every path searched for it."""
    row = _TABLE[name]
    looked: list[str] = []
    for root in _roots(search):
        for path in _candidates(name, row, root):
            absent = (path / file for file in row.files if not (path / file).is_file())
            looked.append(str(next(absent, path)))
            hit = _existing(path, row)
            if hit is not None:
                version = _version(hit, row, root)
                tool = Tool(name=name, path=str(hit), version=version, origin=root.origin)
                return tool, tuple(looked)
    if not looked:
        looked.append(
            "site-packages/nvidia/cu13 (no CUDA wheels installed), CUDA_HOME (not set), PATH (no CUDA there)"
        )
    return None, tuple(looked)


def survey(search: ToolSearch) -> list[ToolReport]:
    """Return a report on every tool that tilec can use; problems are fields, not exceptions."""
    reports = []
    for name, row in _TABLE.items():
        try:
            tool, looked = locate(name, search)
            problem = "" if tool else "not found"
            if tool and not tool.version:
                problem = _UNKNOWN
            elif tool and search.cuda and not check_range(tool.version, search.cuda):
                problem = f"version {tool.version} is outside of the range {search.cuda}"
        except (TilecError, OSError) as exc:
            tool, looked, problem = None, (), str(exc)
        reports.append(
            ToolReport(name=name, use=row.use, tool=tool, looked=looked, problem=problem)
        )
    newest = max((r.tool.release for r in reports if r.tool), default=(0, 0))
    for index, report in enumerate(reports):
        release = report.tool.release if report.tool else newest
        if release != newest and not report.problem:
            message = f"of release {release[0]}.{release[1]}, others are of {newest[0]}.{newest[1]}"
            reports[index] = dataclasses.replace(report, problem=message)
    return reports


# --- versions


def check_range(version: str, wanted: str) -> bool:
    """Return whether a version such as `13.4.92` is in a range such as `>=13.2,<13.5`.

    Raises:
        UsageError: `wanted` is no range.
    """
    from packaging.specifiers import InvalidSpecifier, Specifier  # few manifests have a range

    have = ".".join(map(str, _numbers(version)))
    for clause in filter(None, (c.strip() for c in wanted.split(","))):
        try:
            bound = Specifier(clause)
        except InvalidSpecifier as exc:
            raise UsageError(
                f"{wanted!r} is no version range", fix='write one such as ">=13.2,<13.5"'
            ) from exc
        # A toolkit's version has three numbers; a bound with two means the whole release.
        means_release = bound.operator in ("==", "!=", "<=") and not bound.version.endswith(".*")
        parts = have.split(".")[: bound.version.count(".") + 1] if means_release else [have]
        if not bound.contains(".".join(parts)):
            return False
    return True


def _check_release(tools: Collection[Tool], search: ToolSearch) -> None:
    for tool in tools:
        if not tool.version:
            raise ToolchainError(
                f"{tool.path}: {_UNKNOWN}",
                cause="the toolkit has neither version.json nor include/cuda.h",
                fix=f"install that toolkit whole, or {FIX}",
            )
    if len({tool.release for tool in tools}) > 1:
        listing = "".join(f"\n    {t.name} {t.version} ({t.origin}: {t.path})" for t in tools)
        raise ToolchainError(
            f"the toolchain is mixed, its parts are of different CUDA releases:{listing}",
            cause="some of the wheels were upgraded alone, or only part of a toolkit is installed",
            fix=f'{FIX}; or set prefer in [toolchain] to the place where all of them are ("wheels" or "system")',
        )
    for tool in tools:
        if search.cuda and not check_range(tool.version, search.cuda):
            raise ToolchainError(
                f"{tool.name} is of version {tool.version}, the manifest wants cuda {search.cuda} ({tool.origin}: {tool.path})",
                fix="change the range in [toolchain], or install a toolkit in it: " + FIX,
            )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:4])


def _version(path: Path, row: _Row, root: _Root) -> str:
    """Return the version of a wheel, or of the toolkit that a file is in; empty if unknown."""
    owner = owner_of(root.site, path.joinpath(*row.files[:1])) if root.site is not None else None
    return owner[0] if owner is not None else _root_version(root.path)


def _root_version(root: Path) -> str:
    try:
        return str(json.loads((root / "version.json").read_bytes())["cuda"]["version"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    for include in _include_dirs(root):
        try:
            match = re.search(rb"#define\s+CUDA_VERSION\s+(\d+)", (include / "cuda.h").read_bytes())
        except OSError:
            continue
        if match:
            return f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}"
    return ""


# --- places


def _roots(search: ToolSearch) -> Iterator[_Root]:
    wheels, system = _wheel_roots(), _system_roots(search)
    yield from (system + wheels) if search.prefer == "system" else (wheels + system)


def wheel_programs(name: str) -> list[Path]:
    """Return the paths of a program in wheels; it may not exist."""
    return [root.path / "bin" / name for root in _wheel_roots()]


def _wheel_roots() -> list[_Root]:
    try:
        spec = importlib.util.find_spec("nvidia")  # imports nothing: it is a top-level name
    except (ImportError, ValueError):
        spec = None
    places = (spec.submodule_search_locations or ()) if spec else ()
    toolkits = (Path(place, "cu13") for place in places)
    return [_Root(origin="wheel", path=p, site=p.parents[1]) for p in toolkits if p.is_dir()]


def _system_roots(search: ToolSearch) -> list[_Root]:
    roots = []
    if search.cuda_home:
        roots.append(_Root(origin="CUDA_HOME", path=Path(search.cuda_home)))
    for entry in search.path.split(os.pathsep):
        folder = Path(entry)
        if not entry or not folder.is_absolute():
            continue
        driver = next((folder / n for n in ("nvcc", "ptxas") if (folder / n).is_file()), None)
        if driver is None:
            continue
        roots.append(_Root(origin="PATH", path=driver.resolve().parent.parent))
    return roots


def _include_dirs(root: Path) -> tuple[Path, ...]:
    return (
        root / "include",
        root / "targets" / "x86_64-linux" / "include",
        root / "targets" / "sbsa-linux" / "include",
    )


def _candidates(name: str, row: _Row, root: _Root) -> tuple[Path, ...]:
    base = root.path
    if row.kind == "include":
        return _include_dirs(base)[: 1 if root.site else 3]
    if row.kind == "bin":
        return (base / ("nvvm/bin" if name == "cicc" else "bin") / name,)
    folders: tuple[str, ...] = (
        ("lib",)
        if root.site
        else ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")
    )
    if name == "libnvvm" and not root.site:
        folders = (
            "nvvm/lib64",
            "nvvm/lib",
            *folders,
        )  # toolkits have libNVVM in a directory of its own
    return tuple(base / folder / f"{name}.so" for folder in folders)


def _existing(path: Path, row: _Row) -> Path | None:
    if row.kind == "include":
        return path if all((path / file).is_file() for file in row.files) else None
    if row.kind == "bin":
        return path if path.is_file() and os.access(path, os.X_OK) else None
    # If both `libnvrtc.so` and `libnvrtc.so.13` exist, they are links to one file.
    files = sorted(path.parent.glob(f"{path.name}*"), key=lambda file: (len(file.name), file.name))
    numbered = re.compile(r".*\.so[\d.]*")
    return next((f for f in files if numbered.fullmatch(f.name) and f.is_file()), None)


# --- digests


def _digest(tool: Tool, search: ToolSearch) -> str:
    path, site = Path(tool.path), _site(tool)
    try:
        if _TABLE[tool.name].kind == "include":
            return _headers_digest(path, site, search)
        owner = owner_of(site, path) if site and not search.verify else None
        if owner and owner[1] and owner[2] == path.stat().st_size:
            return owner[1]
        return file_sha256(path.resolve(), search.state_dir)
    except OSError as exc:
        raise ToolchainError(f"cannot read {tool.name}: {exc}", fix=FIX) from exc


def _site(tool: Tool) -> Path | None:
    if tool.origin != "wheel":
        return None
    return next((p.parent for p in Path(tool.path).parents if p.name == "nvidia"), None)


def _headers_digest(include: Path, site: Path | None, search: ToolSearch) -> str:
    """Return the digest of the wheels' file lists, or of a system toolkit's version files."""
    if site is not None:
        prefix = include.relative_to(site).as_posix() + "/"
        lines = sorted(
            line.strip()
            for _, record in records(site)
            if prefix in record
            for line in record.splitlines()
            if line.startswith(prefix)
        )
        if search.verify:
            lines = sorted(actual_rows(site, lines))
        if lines:
            return hashlib.sha256("\n".join(lines).encode()).hexdigest()
    state = hashlib.sha256()
    for name in (
        "../version.json",
        "cuda.h",
        "cuda_fp16.hpp",
        "crt/host_config.h",
        "cccl/cuda/std/__cccl/version.h",
    ):
        path = include / name
        state.update(f"{name}:{file_sha256(path) if path.is_file() else ''}\n".encode())
    return state.hexdigest()
