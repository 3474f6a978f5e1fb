"""The closure of a CUDA source's project headers, read from the text: rather a file too many than one too few."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilec.errors import CompileError, Diagnostic, Location
from tilec.model.job import InputFile

_COMMENT = re.compile(
    # A header's name between angle brackets is a token of its own: `//` in it starts no comment.
    r"(?:include|include_next|import)[ \t]*<[^>\n]+>|"
    r'//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)|(?:u8|[uUL])?R"(?P<d>[^()\\\s]{0,16})\(.*?(?:\)(?P=d)"|\Z)|"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
_INCLUDE = re.compile(r"[ \t]*#[ \t]*(?:include|include_next|import)\b[ \t]*(.*)")
_HAS_INCLUDE = re.compile(r'__has_include(?:_next)?[ \t]*\([ \t]*(<[^>\n]+>|"[^"\n]+")?')
_NAMED = re.compile(r'<([^>\n]+)>|"([^"\n]+)"')
_SUFFIXES = {"", ".h", ".hh", ".hpp", ".hxx", ".cuh", ".cu", ".inl", ".inc", ".ipp", ".tcc", ".def"}
_MAX_FILES = 20_000
# What NVRTC's --minimal leaves out: textures, the CUDA runtime's functions and types, launches from device code.
_RUNTIME = re.compile(rb"\b(?:tex|surf)\w*|\bcuda[A-Z]\w*|\bdim3\b|<<<")
_SMALL_HEADERS = re.compile(r"cuda_(?:fp16|bf16|fp8|fp6|fp4)\.h|mma\.h|math_constants\.h|cooperative_groups(?:/\w+)?\.h")


@dataclasses.dataclass(frozen=True, slots=True)
class _Include:
    """An include: its name (empty for a computed one), and its line."""

    name: str
    line: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Scanned:
    digest: str
    includes: tuple[_Include, ...]
    has_kernels: bool
    has_runtime: bool


def closure(root: str, path: str, include: Sequence[str]) -> list[InputFile]:
    """The source and every project file that it can include, sorted by name.

    Names that no project directory has are the toolkit's: its digest stands for them.

    Raises:
        CompileError: a file cannot be read, or one leaves the project (through `..` or a symbolic link).
    """
    return sorted((InputFile(name=name, digest=scanned.digest) for name, scanned in _walk(root, path, include)), key=lambda f: f.name)


def kernel_files(root: str, path: str, include: Sequence[str]) -> list[str]:
    """Project headers in the closure that mention `__global__`, sorted by name (the source itself left out)."""
    own = _inside(Path(root), Path(root, path), path, None)
    return sorted(name for name, scanned in _walk(root, path, include) if scanned.has_kernels and name != own)


def is_small(root: str, path: str, include: Sequence[str]) -> bool:
    """Whether a source needs nothing that NVRTC leaves out under --minimal, as far as its text shows.

    A guess that saves a quarter of a small kernel's compile time: a compile that fails under it is done again without.
    """
    base = Path(root)
    for name, scanned in _walk(root, path, include):
        if scanned.has_runtime:
            return False
        folders = ((base / name).parent, Path(root, path).parent, *(base / folder for folder in include))
        for found in scanned.includes:
            if not _SMALL_HEADERS.fullmatch(found.name) and not any((folder / found.name).is_file() for folder in folders):
                return False
    return True


def _walk(root: str, path: str, include: Sequence[str]) -> Iterator[tuple[str, _Scanned]]:
    base = Path(root)
    folders = [base / folder for folder in include]
    source_folder = Path(root, path).parent
    first = _inside(base, Path(root, path), path, None)
    waiting: list[str] = [first]
    seen = {first}
    while waiting:
        name = waiting.pop()
        scanned = _scan_file(base, name)
        yield name, scanned
        for found in scanned.includes:
            where = Location(file=name, line=found.line)
            for hit in _resolve(base, name, found, folders, source_folder):
                target = _inside(base, hit, found.name or str(hit), where)
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)


def _resolve(base: Path, name: str, found: _Include, folders: list[Path], source_folder: Path) -> Iterator[Path]:
    here = (base / name).parent
    if found.name:
        # Which directory wins depends on the form and the compiler: every one that has the name counts.
        for folder in dict.fromkeys((here, source_folder, *folders)):
            hit = folder / found.name
            if hit.is_file():
                yield hit
        return
    count = 0
    for folder in dict.fromkeys((here, *folders)):
        for directory, names, files in os.walk(folder):
            names[:] = sorted(n for n in names if not n.startswith("."))
            for file in sorted(files):
                if Path(file).suffix in _SUFFIXES and not file.startswith("."):
                    count += 1
                    if count > _MAX_FILES:
                        raise _error(
                            f"{name}:{found.line}: a computed #include reaches more than {_MAX_FILES} files",
                            Location(file=name, line=found.line),
                            "name the header, or narrow the include directories",
                        )
                    yield Path(directory, file)


def _inside(base: Path, path: Path, written: str, where: Location | None) -> str:
    """The file's name relative to the project, links followed."""
    try:
        real, home = Path(os.path.realpath(path)), Path(os.path.realpath(base))
        return real.relative_to(home).as_posix()
    except ValueError:
        pass
    except OSError as exc:
        raise _error(f"cannot read {written}: {exc}", where, "") from exc
    inside = Path(os.path.normpath(path)).is_relative_to(os.path.normpath(base))
    through = "through a symbolic link" if inside else "through its path"
    raise _error(
        f"{written} leaves the project {through}: it is {real}",
        where,
        "copy the file into the project, or move tilec.toml up to a directory that holds both",
    )


def _scan_file(base: Path, name: str) -> _Scanned:
    path = base / name
    try:
        stat = path.stat()
        return _scan(str(path), stat.st_mtime_ns, stat.st_size, stat.st_ino)
    except OSError as exc:
        raise _error(f"cannot read {name}: {exc.strerror or exc}", Location(file=name), "see that the file is there and readable") from exc


@functools.lru_cache(maxsize=8192)
def _scan(path: str, mtime: int, size: int, inode: int) -> _Scanned:
    del mtime, size, inode  # part of the key only
    data = Path(path).read_bytes()
    text = data.decode("utf-8", "replace")
    return _Scanned(hashlib.sha256(data).hexdigest(), tuple(includes(text)), b"__global__" in data, _RUNTIME.search(data) is not None)


def includes(text: str) -> Iterator[_Include]:
    """Every include of a text, whatever its conditionals say; comments and strings do not count."""
    if "include" not in text and "import" not in text:
        return
    for number, line in _logical_lines(_COMMENT.sub(_blank, text)):
        if "include" not in line and "import" not in line:
            continue
        for match in _HAS_INCLUDE.finditer(line):
            yield _Include((match[1] or "")[1:-1], number)
        directive = _INCLUDE.match(line)
        if directive is not None:
            named = _NAMED.match(directive[1])
            yield _Include(named[1] or named[2] if named else "", number)


def _blank(match: re.Match[str]) -> str:
    text = match.group()
    if text.startswith("/"):
        return " " + "\n" * text.count("\n")
    # An include's own name is a string; raw strings may hold anything.
    return '""' + "\n" * text.count("\n") if match["d"] is not None else text


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    number, carried, start = 0, "", 0
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        start = start or number
        if line.endswith("\\"):
            carried += line[:-1]
            continue
        yield start, carried + line
        carried, start = "", 0
    if carried:
        yield start or number, carried


def _error(what: str, where: Location | None, fix: str) -> CompileError:
    return CompileError(what, diagnostics=(Diagnostic(message=what, location=where, hint=fix),), fix=fix)
