"""The layer rules of the architecture: who may import whom, and no cycles."""

from __future__ import annotations

import ast
import functools
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
# By package, the folder that its distribution is built from.
HOMES = {"tilec": REPOSITORY, "tilec_runtime": REPOSITORY / "runtime"}
STDLIB_ONLY = ("values", "foreign", "errors", "model", "bundle")
SHIPPED = ("tileir", "runtime")
BUILD_HALF = (
    "lang",
    "simt",
    "manifest",
    "frontends",
    "plan",
    "compile",
    "package",
    "build",
    "unexecuted",
)
LEVEL = {
    "values": -1,
    "foreign": -1,
    "errors": 0,
    "model": 1,
    "bundle": 2,
    **dict.fromkeys((*BUILD_HALF, *SHIPPED, "testing"), 3),
    **dict.fromkeys(("inspection", "case"), 4),
    "bench": 5,
    "tune": 6,
    "cli": 7,
    "__main__": 7,
    "build_backend": 7,
    "pytest_plugin": 7,
}
# Inside the build half the pipeline has an order too.
BUILD_ORDER = {name: place for place, name in enumerate(BUILD_HALF)}
SHIPPED_BANNED = {"click", "rich", "jinja2", "tomli", "tomllib"}


def module_name(path: Path) -> str:
    home = HOMES["tilec_runtime" if path.is_relative_to(HOMES["tilec_runtime"]) else "tilec"]
    parts = path.relative_to(home).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module: str) -> str:
    """The layer of a module: of the runtime, what is in no layer of its own is `runtime`."""
    if module.startswith("tilec_runtime.cpu.tileir"):
        return "tileir"
    top, _, rest = module.partition(".")
    name = rest.partition(".")[0]
    return name if top == "tilec" or name in STDLIB_ONLY else "runtime"


@functools.cache
def imports_of(path: Path) -> list[tuple[str, int, bool]]:
    """(module, line, inside a function) of every import; imports for type checkers only do not
    count.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: list[tuple[str, int, bool]] = []

    def visit(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            if isinstance(child, ast.Import):
                found.extend((alias.name, child.lineno, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{path}:{child.lineno}: relative import"
                base = child.module or ""
                found.extend(
                    (f"{base}.{alias.name}", child.lineno, inside) for alias in child.names
                )
            visit(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(tree, inside=False)
    return found


FILES = sorted(
    p
    for name, home in HOMES.items()
    for p in (home / name).rglob("*.py")
    if "_templates" not in p.parts
)
MODULES = {module_name(p): p for p in FILES}


def resolve(name: str) -> str | None:
    """The tilec module that an imported dotted name lives in."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        candidate = ".".join(parts[:end])
        if candidate in MODULES:
            return candidate
    return None


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_follow_the_layers(path: Path) -> None:
    me = module_name(path)
    mine = room(me)
    for name, line, inside in imports_of(path):
        where = f"{path}:{line}"
        top = name.split(".")[0]
        if top in HOMES:
            target = resolve(name)
            assert target, f"{where}: {name} does not exist"
            other = room(target)
            if other in ("", mine):
                continue
            assert other in LEVEL, f"{where}: {other} is in no layer"
            if mine == "lang":
                assert other in ("values", "errors", "model"), (
                    f"{where}: kernels compile what lang imports, which must not be {other}"
                )
            if other == "lang":
                assert mine == "frontends", (
                    f"{where}: kernel modules and the tile frontend alone import lang"
                )
            assert top == "tilec_runtime" or me.startswith("tilec."), (
                f"{where}: the runtime imports the build half"
            )
            if mine == "":
                pytest.fail(f"{where}: the package root imports nothing of tilec")
            assert LEVEL[other] <= LEVEL[mine], f"{where}: {mine} may not import {other}"
            if LEVEL[other] == LEVEL[mine] == 3:
                assert mine not in SHIPPED or other in SHIPPED, (
                    f"{where}: the shipped half imports the build half"
                )
                assert (mine, other) != ("tileir", "runtime"), f"{where}: tileir knows no device"
                if (mine, other) == ("frontends", "tileir"):
                    # Bytecode that comes compiled is read as the cpu device reads it: the format
                    # has one reader. Nobody else pays for it.
                    assert inside, f"{where}: tileir is imported inside functions"
                elif mine in BUILD_ORDER:
                    assert other in BUILD_ORDER, f"{where}: the build half imports {other}"
                    assert BUILD_ORDER[other] < BUILD_ORDER[mine], (
                        f"{where}: {mine} imports {other} against the pipeline's order"
                    )
            if LEVEL[mine] == LEVEL[other] == 4:
                pytest.fail(f"{where}: verbs do not import each other")
        elif mine in STDLIB_ONLY:
            assert top in sys.stdlib_module_names, (
                f"{where}: {mine} uses the standard library only, not {top}"
            )
        elif mine in SHIPPED:
            assert top not in SHIPPED_BANNED, f"{where}: the shipped half imports {top}"
        elif mine == "frontends" and top in {"cuda", "triton", "numba"}:
            assert inside, f"{where}: heavy compilers are imported inside functions"
        if mine == "frontends" and top == "tilec" and room(name) == "frontends":
            part, own = name.split(".")[2], me.split(".")[2]
            assert part in (own, "tools", "base"), f"{where}: frontends never import each other"


def test_only_the_driver_module_touches_the_driver_bindings() -> None:
    for path in FILES:
        for name, line, _ in imports_of(path):
            if name.startswith("cuda.bindings.driver"):
                assert module_name(path) == "tilec_runtime.device.libcuda", f"{path}:{line}"


def test_only_the_cli_prints() -> None:
    for path in FILES:
        if room(module_name(path)) == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", f"{path}:{node.lineno}: print outside the cli"


def test_no_import_cycles() -> None:
    edges = {}
    for name, path in MODULES.items():
        targets = {
            resolve(n) for n, _, inside in imports_of(path) if n.startswith("tilec") and not inside
        }
        edges[name] = {t for t in targets if t and t != name}
    graphlib.TopologicalSorter(edges).prepare()  # raises CycleError


def named_in(path: Path) -> set[str]:
    """The modules that any import of a file names, in functions and for type checkers too."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return {
        module for name in names if name != "tilec_runtime._core" and (module := resolve(name))
    }  # `_core` is in C


@pytest.mark.xfail(strict=True, reason="ops name chains, graphs and tensors, which name ops")
def test_no_import_cycles_of_any_kind_in_the_runtime() -> None:
    edges = {
        name: named_in(path) - {name}
        for name, path in MODULES.items()
        if name.startswith("tilec_runtime")
    }
    graphlib.TopologicalSorter(edges).prepare()  # raises CycleError


def statements(node: ast.AST) -> int:
    """Statements in a node, itself and docstrings apart: a size that no formatter changes."""
    return sum(
        isinstance(each, ast.stmt)
        and not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in ast.walk(node)
        if each is not node
    )


def test_sizes() -> None:
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert statements(tree) <= 320, f"{path} has over 320 statements: split it by idea"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert statements(node) <= 55, f"{path}:{node.lineno}: {node.name} is too long"


def test_the_shipped_half_imports_no_build_half() -> None:
    code = (
        "import sys, tilec_runtime\n"
        "banned = ('click', 'rich', 'jinja2', 'tomli', 'tomllib', 'cuda.core', 'cuda.tile', 'tilec')\n"
        "print(sorted(m for m in sys.modules if m in banned or m.startswith(tuple(b + '.' for b in banned))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
