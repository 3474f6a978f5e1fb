"""Modules of the project and what they import; `scripts/house.py` and `tests/test_layers.py` ask."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# By package, the folder that its distribution is built from.
HOMES = {"tilec": ROOT, "tilec_runtime": ROOT / "runtime"}


def module_name(path: Path) -> str:
    """Return the dotted name of a file."""
    home = HOMES["tilec_runtime" if path.is_relative_to(HOMES["tilec_runtime"]) else "tilec"]
    parts = path.relative_to(home).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> dict[str, Path]:
    """Return every module of both distributions by name, templates apart."""
    paths = (path for name, home in HOMES.items() for path in (home / name).rglob("*.py"))
    return {module_name(path): path for path in sorted(paths) if "_templates" not in path.parts}


@functools.cache
def imports_of(tree: ast.Module) -> list[tuple[str, int, bool]]:
    """Return (dotted name, line, inside a function) of every import of a file.

    Imports under TYPE_CHECKING count as those inside functions do: they are not carried out when
    the module is imported.
    """
    found: list[tuple[str, int, bool]] = []

    def visit(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                found.extend((alias.name, child.lineno, inside) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"line {child.lineno}: relative import"
                names = (f"{child.module}.{alias.name}" for alias in child.names)
                found.extend((name, child.lineno, inside) for name in names)
            deferred = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            )
            visit(child, inside or deferred)

    visit(tree, inside=False)
    return found


def resolve(name: str, known: dict[str, Path]) -> str | None:
    """Return the module of the project that an imported dotted name lives in."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def edges(trees: dict[str, ast.Module], known: dict[str, Path]) -> dict[str, set[str]]:
    """Return for each module those of the project that it imports anywhere.

    The C core is no module here.
    """
    found: dict[str, set[str]] = {}
    for name, tree in trees.items():
        targets = {
            resolve(each, known)
            for each, _, _ in imports_of(tree)
            if not each.startswith("tilec_runtime._core")
        }
        found[name] = {target for target in targets if target and target != name}
    return found
