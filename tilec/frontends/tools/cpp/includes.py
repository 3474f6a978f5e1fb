"""The closure of a CUDA source's project headers, read from the text: rather a file too many than
one too few.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tilec.model.inside import is_inside
from tilec.model.job import InputFile
from tilec_runtime.errors import CompileError, Diagnostic, Location

_COMMENT = re.compile(
    # A header's name between angle brackets is a token of its own: `//` in it starts no comment.
    r"(?:include|include_next|import)[ \t]*<[^>\n]+>|"
    r'//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)|(?<![A-Za-z0-9_])(?:u8|[uUL])?R"(?P<d>[^()\\\s]{0,16})\(.*?(?:\)(?P=d)"|\Z)|"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
_BLANK = r"[ \t\f\v]*"
_INCLUDE = re.compile(
    rf"\ufeff?{_BLANK}(?:#|%:){_BLANK}(?:include|include_next|import)\b{_BLANK}(.*)"
)  # %: is # by another spelling
_HAS_INCLUDE = re.compile(r'__has_include(?:_next)?[ \t]*\([ \t]*(<[^>\n]+>|"[^"\n]+")?')
_DEFINE = re.compile(rf"{_BLANK}(?:#|%:){_BLANK}define\b.*", re.DOTALL)
_NAMED = re.compile(r'<([^>\n]+)>|"([^"\n]+)"')
_SUFFIXES = {"", ".h", ".hh", ".hpp", ".hxx", ".cuh", ".cu", ".inl", ".inc", ".ipp", ".tcc", ".def"}
_MAX_FILES = 20_000
# What NVRTC's --minimal leaves out: textures, the CUDA runtime's functions and types, launches from
# device code.
_RUNTIME = re.compile(rb"\b(?:tex|surf)\w*|\bcuda[A-Z]\w*|\bdim3\b|<<<")
_SMALL_HEADERS = re.compile(
    r"cuda_(?:fp16|bf16|fp8|fp6|fp4)\.h|mma\.h|math_constants\.h|cooperative_groups(?:/\w+)?\.h"
)
# How the headers of heavy template libraries begin.
_HEAVY = (
    "cub/",
    "thrust/",
    "cute/",
    "cutlass/",
    "cuco/",
    "raft/",
    "cublasdx",
    "cufftdx",
    "cusolverdx",
)


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


def closure(
    root: str, path: str, include: Sequence[str], define: Iterable[str] = ()
) -> list[InputFile]:
    """The source and every project file that it can include, sorted by name.

    Names that no project directory has are the toolkit's: its digest stands for them. `define` are
    the values of macros that are defined outside of the text.

    Raises:
        CompileError: a file cannot be read, or one leaves the project (through `..` or a symbolic
            link).
    """
    return sorted(
        (
            InputFile(name=name, digest=scanned.digest)
            for name, scanned in _walk(root, path, include, define)
        ),
        key=lambda f: f.name,
    )


def kernel_files(root: str, path: str, include: Sequence[str]) -> list[str]:
    """Project headers in the closure that mention `__global__` or `__tile_global__`, sorted by name
    (the source itself left out).
    """
    own = _inside(Path(root), Path(root, path), path, None)
    return sorted(
        name for name, scanned in _walk(root, path, include) if scanned.has_kernels and name != own
    )


def is_small(root: str, path: str, include: Sequence[str]) -> bool:
    """Whether a source needs nothing that NVRTC leaves out under --minimal, as far as its text
    shows.

    A guess that saves a quarter of a small kernel's compile time: a compile that fails under it is
    done again without.
    """
    base = Path(root)
    for name, scanned in _walk(root, path, include):
        if scanned.has_runtime:
            return False
        folders = (
            (base / name).parent,
            Path(root, path).parent,
            *(base / folder for folder in include),
        )
        for found in scanned.includes:
            if not _SMALL_HEADERS.fullmatch(found.name) and not any(
                (folder / found.name).is_file() for folder in folders
            ):
                return False
    return True


def is_heavy(root: str, path: str, include: Sequence[str]) -> bool:
    """Whether a source may include a library of heavy templates, whose instances take long enough
    to be worth a process each.
    """
    names = (found.name for _, scanned in _walk(root, path, include) for found in scanned.includes)
    return any(name.startswith(_HEAVY) for name in names)


def _walk(
    root: str, path: str, include: Sequence[str], define: Iterable[str] = ()
) -> Iterator[tuple[str, _Scanned]]:
    base = Path(root)
    around = [Path(root, path).parent, *(base / folder for folder in include)]
    waiting = [_inside(base, Path(root, path), path, None)]
    seen = {*waiting}
    computed: list[tuple[str, _Include]] = []
    while waiting:
        name = waiting.pop()
        scanned = _scan_file(base, name)
        yield name, scanned
        targets: set[str] = set()
        for found in scanned.includes:
            places = dict.fromkeys(((base / name).parent, *around))
            if not found.name:
                computed.append((name, found))
            hits = (
                _named(found.name, places) if found.name else _everything(base, name, found, places)
            )
            targets.update(
                _inside(base, hit, found.name or str(hit), Location(file=name, line=found.line))
                for hit in hits
            )
        if computed and not waiting and targets <= seen:  # all files are known, and so all macros
            macros = {
                macro
                for text in (*define, *(_macro_lines(base / file) for file in seen))
                for macro in _quoted(text)
            }
            for name, _ in computed:
                hits = (
                    hit
                    for macro in sorted(macros)
                    for hit in _named(macro, ((base / name).parent, *around))
                )
                targets.update(
                    os.path.relpath(hit.resolve(), base.resolve())
                    for hit in hits
                    if is_inside(hit, base)
                )
        waiting += sorted(targets - seen)
        seen |= targets


def _named(name: str, places: Iterable[Path]) -> Iterator[Path]:
    """Which directory wins depends on the form and the compiler: every one that has the name
    counts.
    """
    return (place / name for place in places if os.path.isfile(place / name))  # noqa: PTH113 - no name is too long for it


def _everything(base: Path, name: str, found: _Include, places: Iterable[Path]) -> Iterator[Path]:
    """What looks like a header in and below some directories, links followed: any of them may be
    what a macro names.
    """
    count = 0
    walked: set[str] = set()
    for place in places:
        for directory, names, files in os.walk(place, followlinks=True):
            real = os.path.realpath(directory)
            if real in walked or not is_inside(Path(directory), base):
                names.clear()
                continue
            walked.add(real)
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
        raise _error(
            f"cannot read {name}: {exc.strerror or exc}",
            Location(file=name),
            "see that the file is there and readable",
        ) from exc


@functools.lru_cache(maxsize=8192)
def _scan(path: str, mtime: int, size: int, inode: int) -> _Scanned:
    del mtime, size, inode  # part of the key only
    data = Path(path).read_bytes()
    text = data.decode("utf-8", "replace")
    return _Scanned(
        hashlib.sha256(data).hexdigest(),
        tuple(includes(text)),
        b"_global__" in data,
        _RUNTIME.search(data) is not None,
    )


def includes(text: str) -> Iterator[_Include]:
    """Every include of a text, whatever its conditionals say; comments and strings do not count."""
    if (
        "include" not in text
        and "import" not in text
        and "\\\n" not in text
        and "\\\r\n" not in text
    ):
        return  # a word may be split over two lines
    for number, line in logical_lines(without_comments(text)):
        if "include" not in line and "import" not in line:
            continue
        for match in _HAS_INCLUDE.finditer(line):
            yield _Include((match[1] or "")[1:-1], number)
        directive = _INCLUDE.match(line)
        if directive is not None:
            named = _NAMED.match(directive[1])
            yield _Include(named[1] or named[2] if named else "", number)


def _macro_lines(path: Path) -> str:
    """The definitions of macros in a file."""
    text = path.read_bytes().decode("utf-8", "replace")
    return "\n".join(
        line for _, line in logical_lines(without_comments(text)) if _DEFINE.match(line)
    )


def _quoted(text: str) -> Iterator[str]:
    """What stands between quotes or angle brackets."""
    return (match[1] or match[2] for match in _NAMED.finditer(text))


def _blank(match: re.Match[str]) -> str:
    text = match.group()
    if text.startswith("/"):
        return " " + "\n" * text.count("\n")
    # An include's own name is a string; raw strings may hold anything.
    return '""' + "\n" * text.count("\n") if match["d"] is not None else text


def without_comments(text: str) -> str:
    """A text with blanks in place of comments and raw strings; its lines are where they were."""
    return _COMMENT.sub(_blank, text)


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, text) of each line, continued ones joined."""
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
    return CompileError(
        what, diagnostics=(Diagnostic(message=what, location=where, hint=fix),), fix=fix
    )
