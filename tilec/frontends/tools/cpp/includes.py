"""Find the project headers that a CUDA source can include, at any depth.

The result may hold a file too many, since a missing one would make a cache key wrong.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tilec.frontends.tools.files import fault, read
from tilec.model.inside import is_inside
from tilec.model.job import InputFile
from tilec_runtime.errors import Location

_COMMENT = re.compile(
    # A header's name in angle brackets is one token: `//` in it starts no comment.
    r"(?:include|include_next|import)[ \t]*<[^>\n]+>|"
    r'//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)|(?<![A-Za-z0-9_])(?:u8|[uUL])?R"(?P<d>[^()\\\s]{0,16})\(.*?(?:\)(?P=d)"|\Z)|"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
_BLANK = r"[ \t\f\v]*"
_INCLUDE = re.compile(
    rf"\ufeff?{_BLANK}(?:#|%:){_BLANK}(?:include|include_next|import)\b{_BLANK}(.*)"
)  # %: is another spelling of #
_CONDITION = re.compile(rf"{_BLANK}(?:#|%:){_BLANK}(if(?:n?def)?|elif(?:n?def)?|else|endif)\b")
_HAS_INCLUDE = re.compile(r'__has_include(?:_next)?[ \t]*\([ \t]*(<[^>\n]+>|"[^"\n]+")?')
_DEFINE = re.compile(rf"{_BLANK}(?:#|%:){_BLANK}define\b.*", re.DOTALL)
# A backslash may split a word over two lines.
_MENTIONS = re.compile(r"include|import|define|\\\r?\n")
_NAMED = re.compile(r'<([^>\n]+)>|"([^"\n]+)"')
_GUARD = re.compile(
    r"\s*#[ \t]*if(?:ndef[ \t]+|[ \t]+!defined[ \t(]+)(?P<name>\w+)[ \t)]*\n\s*#[ \t]*define[ \t]+(?P=name)\b"
)
NVRTC = "__CUDACC_RTC__"
"""The macro by which sources hide host code from NVRTC."""
_SUFFIXES = {"", ".h", ".hh", ".hpp", ".hxx", ".cuh", ".cu", ".inl", ".inc", ".ipp", ".tcc", ".def"}
_MAX_FILES = 20_000
# First letters of headers of heavy template libraries.
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
    """An include.

    Attributes:
        name: the header; empty if a macro computes it.
        line: line number.
        macro: whether the name stands in a macro's value, which a computed include may use.
        certain: whether it is a directive under no condition; an include guard is none.
    """

    name: str
    line: int
    macro: bool = False
    certain: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Scanned:
    """A scanned file; `for_nvrtc` is whether it hides code from NVRTC itself."""

    digest: str
    includes: tuple[_Include, ...]
    has_kernels: bool
    for_nvrtc: bool


def closure(
    root: str, path: str, include: Sequence[str], define: Iterable[str] = ()
) -> list[InputFile]:
    """Return the source and every project file that it can include, sorted by name.

    Headers that no project directory has belong to the toolkit; the toolkit's digest covers them.

    Args:
        root: the project's directory.
        path: the source, relative to the project.
        include: include directories, relative to the project.
        define: values of macros that are defined outside of the text.

    Raises:
        CompileError: a file cannot be read, or lies outside of the project (through `..` or a
            symbolic link).
    """
    return sorted(
        (
            InputFile(name=name, digest=scanned.digest)
            for name, scanned, _ in _walk(root, path, include, define)
        ),
        key=lambda f: f.name,
    )


def source_bytes(root: str, name: str) -> bytes:
    """Return the bytes of a source.

    Raises:
        CompileError: it cannot be read, or holds a zero byte.
    """
    data = read(root, name)
    if b"\0" in data:
        raise fault(name, "it holds a zero byte: it is no C++ text")
    return data


def kernel_files(root: str, path: str, include: Sequence[str]) -> list[str]:
    """Return the project headers that mention `__global__` or `__tile_global__`.

    They are sorted by name; the source itself is left out.
    """
    own = _inside(Path(root), Path(root, path), path, None)
    return sorted(
        name
        for name, scanned, _ in _walk(root, path, include)
        if scanned.has_kernels and name != own
    )


def is_heavy(root: str, path: str, include: Sequence[str]) -> bool:
    """Whether a source may include a library of heavy templates.

    An instance of these takes long enough to be worth a process.
    """
    names = (
        included.name
        for _, scanned, _ in _walk(root, path, include)
        for included in scanned.includes
    )
    return any(name.startswith(_HEAVY) for name in names)


def foreign(root: str, path: str, include: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each header that a compile with NVRTC needs and the project lacks, with its includer."""
    for file, _, missing in _walk(root, path, include, certain=True):
        yield from ((name, file) for name in missing)


def _walk(
    root: str,
    path: str,
    include: Sequence[str],
    define: Iterable[str] = (),
    *,
    certain: bool = False,
) -> Iterator[tuple[str, _Scanned, list[str]]]:
    """Yield each file's name and content, and the headers in it that no project directory has.

    With `certain`, only includes under no condition count, and none of files `for_nvrtc`.
    """
    base = Path(root)
    around = [Path(root, path).parent, *(base / folder for folder in include)]
    start = _inside(base, Path(root, path), path, None)
    macros = [_Include(name, 1, macro=True) for value in define for name in _quoted(value)]
    waiting = [start]
    seen = {start}
    while waiting:
        name = waiting.pop()
        scanned = _scan_file(base, name)
        targets: set[str] = set()
        missing: list[str] = []
        for included in (*scanned.includes, *(macros if name == start else ())):
            if certain and (scanned.for_nvrtc or not included.certain):
                continue
            folders = dict.fromkeys(((base / name).parent, *around))
            at = Location(file=name, line=included.line)
            if not included.name:
                hits = _everything(base, at, folders)
            elif included.macro:
                hits = (hit for hit in _named(included.name, folders) if is_inside(hit, base))
            else:
                hits = _named(included.name, folders)
            files = {_inside(base, hit, included.name or str(hit), at) for hit in hits}
            targets |= files
            missing += [] if files else [included.name]
        yield name, scanned, missing
        waiting += sorted(targets - seen)
        seen |= targets


def _named(name: str, folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the file `name` in every directory that has it.

    Which one wins depends on the form of the include and on the compiler, so all count.
    """
    return (folder / name for folder in folders if os.path.isfile(folder / name))  # noqa: PTH113 - no name is too long for it


def _everything(base: Path, at: Location, folders: Iterable[Path]) -> Iterator[Path]:
    """Yield every header below some directories, for a computed include."""
    count = 0
    walked: set[str] = set()
    for folder in folders:
        for directory, names, files in os.walk(folder, followlinks=True):
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
                        raise fault(
                            at.file,
                            f"a computed #include reaches more than {_MAX_FILES} files",
                            line=at.line,
                            fix="name the header, or narrow the include directories",
                        )
                    yield Path(directory, file)


def _inside(base: Path, path: Path, written: str, where: Location | None) -> str:
    """Return a file's name relative to the project, with links followed.

    Raises:
        CompileError: the file lies outside of the project.
    """
    real, home = Path(os.path.realpath(path)), Path(os.path.realpath(base))
    if real.is_relative_to(home):
        return real.relative_to(home).as_posix()
    inside = Path(os.path.normpath(path)).is_relative_to(os.path.normpath(base))
    through = "through a symbolic link" if inside else "through its path"
    raise fault(
        where.file if where else written,
        f"{written} leaves the project {through}: it is {real}",
        line=where.line if where else 0,
        fix="copy the file into the project, or move tilec.toml up to a directory that holds both",
    )


def _scan_file(base: Path, name: str) -> _Scanned:
    path = base / name
    try:
        stat = path.stat()
        return _scan(str(path), stat.st_mtime_ns, stat.st_size, stat.st_ino)
    except OSError as exc:
        message = f"cannot be read: {exc.strerror or exc}"
        raise fault(name, message, fix="see that the file is there and readable") from exc


@functools.lru_cache(maxsize=8192)
def _scan(path: str, mtime: int, size: int, inode: int) -> _Scanned:
    del mtime, size, inode  # part of the key only
    data = Path(path).read_bytes()
    text = data.decode("utf-8", "replace")
    return _Scanned(
        hashlib.sha256(data).hexdigest(),
        tuple(includes(text)),
        b"_global__" in data,
        NVRTC in text,
    )


def includes(text: str) -> Iterator[_Include]:
    """Yield every include of a text, in every branch of its conditionals."""
    if not _MENTIONS.search(text):
        return
    plain = without_comments(text)
    guard = 1 if _GUARD.match(plain) else 0
    for number, line, conditions in _conditional_lines(plain):
        for match in _HAS_INCLUDE.finditer(line):
            yield _Include((match[1] or "")[1:-1], number)
        directive = _INCLUDE.match(line)
        if directive is not None:
            named = _NAMED.match(directive[1])
            name = named[1] or named[2] if named else ""
            yield _Include(name, number, certain=len(conditions) <= guard)
        elif _DEFINE.match(line):
            yield from (_Include(name, number, macro=True) for name in _quoted(line))


def _quoted(text: str) -> Iterator[str]:
    """Yield the texts between quotes or angle brackets."""
    return (match[1] or match[2] for match in _NAMED.finditer(text))


def _blank(match: re.Match[str]) -> str:
    text = match.group()
    if text.startswith("/"):
        return " " + "\n" * text.count("\n")
    # Ordinary strings stay, since an include's name is one; raw strings may hold any text.
    return '""' + "\n" * text.count("\n") if match["d"] is not None else text


def without_comments(text: str) -> str:
    """Replace comments and raw strings by blanks; line numbers stay the same."""
    return _COMMENT.sub(_blank, text)


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with the number of its first line; continued lines are joined."""
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


def _conditional_lines(plain: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield each line's number, text and conditional directives, innermost last."""
    around: list[str] = []
    for number, line in logical_lines(plain):
        match = _CONDITION.match(line)
        if match and not match[1].startswith("if"):
            del around[-1:]
        if match and match[1] != "endif":
            around.append(f"{' '.join(line.split())} (line {number})")
        yield number, line, list(around)


def condition(root: str, location: Location) -> str:
    """Return the innermost conditional directive around a location, or an empty string.

    An example is `#ifdef X (line 3)`.
    """
    try:
        text = Path(root, location.file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    around: list[str] = []
    for number, _, conditions in _conditional_lines(without_comments(text)):
        if number <= location.line:
            around = conditions
    return around[-1] if around else ""
