"""Find every project module that a Python source can import, without executing any."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilec.frontends.tools.environment import OWN, is_environment
from tilec.frontends.tools.files import read, within
from tilec.model.job import InputFile, Source
from tilec_runtime.model.digest import sha256

# Packages that compilers of kernels need: a project's directory of the same name never replaces
# them.
KEPT = {
    "cuda",
    "cutile_cache",
    "llvmlite",
    "ml_dtypes",
    "numba",
    "numba_cuda",
    "numpy",
    "tilec",
    "tilec_runtime",
    "triton",
}
# Imports of packages outside of the project are followed up to this many files; of a larger
# package only its own files are inputs.
_MOST_FOLLOWED = 100


@dataclasses.dataclass(frozen=True, slots=True)
class _Import:
    """One name that a statement may import.

    Attributes:
        name: dotted name.
        level: number of dots of a relative import.
        star: whether `*` is imported, which may be every module of a package.
    """

    name: str
    level: int = 0
    star: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Scan:
    """A scanned file: its status (time, size, inode), digest and imports."""

    stamp: tuple[int, int, int]
    digest: str
    imports: tuple[_Import, ...]


_scans: dict[str, _Scan] = {}


def closure(source: Source) -> tuple[InputFile, ...]:
    """Return the source, project modules it may import at any depth, and the files of `reads`.

    The result is sorted by name. Imports are looked up next to the source and in the project's
    root; conditional imports count too. A module outside of the project that is not installed (but
    on PYTHONPATH, for example) is listed with its whole package.

    Raises:
        CompileError: a file cannot be read, or lies outside of the project.
    """
    real_root = Path(source.root).resolve()
    digests = {name: sha256(read(source.root, name)) for name in _declared(source)}
    start = within(source.root, source.path)
    bases = search_bases(source)
    seen: set[str] = set()
    queue = [start]
    elsewhere: dict[str, tuple[str, ...]] = {}
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        scan = _scan(source.root, name)
        digests[name] = scan.digest
        for item in scan.imports:
            if item.level and name.startswith("../"):
                continue  # its whole package is listed already
            inner = [within(source.root, n) for n in _resolve(item, name, source.root, bases)]
            queue.extend(inner)
            top = item.name.partition(".")[0]
            if inner or item.level or top in elsewhere:
                continue
            outer = elsewhere[top] = _outside(top, real_root)
            if len(outer) <= _MOST_FOLLOWED:
                queue.extend(outer)
            else:
                digests.update((n, _scan(source.root, n).digest) for n in outer)
    return tuple(InputFile(name=n, digest=digests[n]) for n in sorted(digests))


def _declared(source: Source) -> Iterator[str]:
    """Yield the files of the option `reads`; a directory stands for all files in it."""
    names = dict(source.options).get("reads", ())
    for name in map(str, names) if isinstance(names, tuple) else ():
        full = Path(source.root, within(source.root, name))
        files = (
            sorted(path for path in full.rglob("*") if path.is_file()) if full.is_dir() else [full]
        )
        yield from (within(source.root, path.relative_to(source.root).as_posix()) for path in files)


def language(root: str, files: Sequence[InputFile]) -> tuple[InputFile, ...]:
    """Return the safe tile language's own code as an input, if the files import it.

    Its library is compiled into kernels, and its proofs accept or refuse them. A changed version
    must therefore not reuse declarations and images that another one cached.
    """
    imported = (item.name for file in files for item in _scan(root, file.name).imports)
    if not any(name == "tilec" or name.startswith("tilec.") for name in imported):
        return ()
    return (InputFile(name=f"{OWN}lang", digest=_language_digest()),)


@functools.cache
def _language_digest() -> str:
    here = Path(__file__).resolve().parents[2]
    files = (*here.joinpath("lang").glob("*.py"), *here.joinpath("frontends/tile").glob("*.py"))
    return sha256(b"".join(path.read_bytes() for path in sorted(files)))


def is_unchanged(root: str, item: InputFile) -> bool:
    """Whether an input still has the time and size at which its digest was taken."""
    known = _scans.get(f"{root}/{item.name}")
    return (
        known is not None
        and known.digest == item.digest
        and known.stamp == _stamp(f"{root}/{item.name}")
    )


def search_bases(source: Source) -> tuple[str, ...]:
    """Return the directories to search for project modules, relative to the root.

    The source's own directory is first, then the root (an empty string).
    """
    own = source.path.rpartition("/")[0]
    return (own, "") if own else ("",)


def module_files(root: str, base: str, dotted: str) -> tuple[str, ...]:
    """Return the file of module `dotted` under `base`, or an empty tuple.

    The name is relative to the root. A package's `__init__.py` is preferred.
    """
    stem = "/".join(filter(None, (base, *dotted.split("."))))
    return tuple(n for n in (f"{stem}/__init__.py", f"{stem}.py") if Path(root, n).is_file())[:1]


def _scan(root: str, name: str) -> _Scan:
    path = f"{root}/{name}"
    stamp = _stamp(path)
    known = _scans.get(path)
    if known is not None and known.stamp == stamp:
        return known
    data = read(root, name)
    try:
        imports = tuple(dict.fromkeys(_imports(ast.parse(importlib.util.decode_source(data)))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        imports = ()  # loading the module reports the error with its location
    _scans[path] = scan = _Scan(stamp=stamp, digest=sha256(data), imports=imports)
    return scan


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        stat = Path(path).stat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)


def _imports(tree: ast.AST) -> Iterator[_Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield _Import(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield _Import(base, node.level, star=any(a.name == "*" for a in node.names))
            for alias in node.names:
                if alias.name != "*":
                    yield _Import(f"{base}.{alias.name}" if base else alias.name, node.level)
        elif isinstance(node, ast.Call) and node.args:
            # A literal argument of import_module or __import__.
            called = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            first = node.args[0]
            if (
                called in ("import_module", "__import__")
                and isinstance(first, ast.Constant)
                and isinstance(first.value, str)
            ):
                name = first.value.lstrip(".")
                yield _Import(name, len(first.value) - len(name))


def _resolve(item: _Import, importer: str, root: str, bases: tuple[str, ...]) -> Iterator[str]:
    """Yield every project file that the import can execute.

    These are the module, the packages around it, and all modules of a package imported by `*`.
    """
    package = importer.rpartition("/")[0]
    if item.level:
        above = package.split("/") if package else []
        if item.level - 1 > len(above):
            return
        folders: tuple[str, ...] = ("/".join(above[: len(above) - item.level + 1]),)
    else:
        # The importer's own directory is added: a program may have put it on the path.
        folders = tuple(dict.fromkeys((*bases, package)))
    for base in folders:
        # A relative import executes the packages around it; an absolute one names them itself.
        yield from _packages(root, base) if item.level else ()
        parts = item.name.split(".") if item.name else []
        for end in range(1, len(parts) + 1):
            yield from module_files(root, base, ".".join(parts[:end]))
        if item.star:
            folder = Path(root, base, *parts)
            if (folder / "__init__.py").is_file():
                yield from (p.relative_to(root).as_posix() for p in sorted(folder.glob("*.py")))


def _outside(top: str, real_root: Path) -> tuple[str, ...]:
    """Return the files of a module or package outside of both project and environment.

    Names are relative to the project's root. The result is empty for all other modules.
    """
    if top in sys.stdlib_module_names or top in KEPT:
        return ()
    try:
        spec = importlib.util.find_spec(top)
    except (
        ImportError,
        ValueError,
        AttributeError,
    ):  # a loaded module may have no spec, or a malformed one
        return ()
    if spec is None:
        return ()
    paths = [
        *((spec.origin,) if spec.origin and spec.has_location else ()),
        *(spec.submodule_search_locations or ()),
    ]
    # Filter the directories before listing them: an installed package may be large.
    outside = [
        path
        for name in paths
        if not is_environment(str(path := Path(os.path.realpath(name))))
        and not path.is_relative_to(real_root)
    ]
    files = [
        file
        for path in outside
        for file in (sorted(path.rglob("*.py")) if path.is_dir() else (path,))
        if file.is_file()
    ]
    return tuple(dict.fromkeys(Path(os.path.relpath(file, real_root)).as_posix() for file in files))


def _packages(root: str, folder: str) -> Iterator[str]:
    parts = folder.split("/") if folder else []
    for end in range(1, len(parts) + 1):
        name = "/".join((*parts[:end], "__init__.py"))
        if Path(root, name).is_file():
            yield name
