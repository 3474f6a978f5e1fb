"""The layer rules of the architecture: who may import whom, and no cycles."""

from __future__ import annotations

import ast
import sys

import pytest

from scripts.imports import HOMES, edges, imports_of, modules, resolve

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
    "planning",
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


def room(module: str) -> str:
    """The layer of a module: of the runtime, what is in no layer of its own is `runtime`."""
    if module.startswith("tilec_runtime.cpu.tileir"):
        return "tileir"
    top, _, rest = module.partition(".")
    name = rest.partition(".")[0]
    return name if top == "tilec" or name in STDLIB_ONLY else "runtime"


MODULES = modules()
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
EDGES = edges(TREES, MODULES)


def test_imports_follow_the_layers() -> None:
    for me in MODULES:
        require_layers(me)


def require_layers(me: str) -> None:
    mine = room(me)
    for name, line, inside in imports_of(TREES[me]):
        where = f"{MODULES[me]}:{line}"
        top = name.split(".")[0]
        if top in HOMES:
            target = resolve(name, MODULES)
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
        elif me.startswith("tilec_runtime") and mine in STDLIB_ONLY:
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


def test_one_module_opens_libcuda_and_none_needs_its_bindings() -> None:
    names = {name for tree in TREES.values() for name, _, _ in imports_of(tree)}
    assert not any(name.startswith("cuda.bindings.driver") for name in names)
    opens = [module for module, file in MODULES.items() if '"libcuda.so' in file.read_text()]
    assert opens == ["tilec_runtime.device.libcuda"]


def test_only_the_cli_prints() -> None:
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                printed = node.func.id == "print" and room(module) != "cli"
                assert not printed, f"{MODULES[module]}:{node.lineno}: print outside the cli"


# Of the runtime: a room may import those on its left, and itself.
ORDER = ("", "errors", "model", "bundle", "device", "tensors", "cpu", "launch", "ops", "api")
# What has no folder: names of files in the root, by the room that they are part of.
ROOT_FILES = {
    **dict.fromkeys(("values", "foreign", "forks", "protocols"), ""),
    **dict.fromkeys(("kept", "running", "sites"), "errors"),
    "hub": "ops",
    "kernels": "ops",
    "package": "ops",
    "torch_ops": "ops",
}
# Imports against the order of the rooms; modules have an order all the same.
EXCEPTIONS = {
    ("device.devices", "cpu.driver"),  # the name of a device says which driver is imported
    ("launch.load", "ops.lazy"),  # `Module.ops`
    # `tensor.dup()` is an op, and ops of results that are tensors have it too.
    ("tensors.interop", "ops.copies"),
    ("tensors.interop", "ops.op"),
    ("tensors.partition", "ops.op"),
    ("tensors.tensor", "ops.copies"),
    ("tensors.tensor", "ops.op"),
    ("tensors.tensor", "ops.steps"),
}


def test_rooms_of_the_runtime_import_in_order() -> None:
    def place(module: str) -> int:
        room = module.partition(".")[0]
        return ORDER.index(ROOT_FILES.get(room, room))

    against = set()
    for me in MODULES:
        for other in EDGES[me] if me.startswith("tilec_runtime.") else ():
            mine, theirs = (name.removeprefix("tilec_runtime.") for name in (me, other))
            if theirs != "tilec_runtime" and place(mine) < place(theirs):
                against.add((mine, theirs))
    assert against == EXCEPTIONS


def statements(node: ast.AST) -> int:
    """Statements in a node, itself and docstrings apart: a size that no formatter changes."""
    return sum(
        isinstance(each, ast.stmt)
        and not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in ast.walk(node)
        if each is not node
    )


def test_sizes() -> None:
    for module, tree in TREES.items():
        path = MODULES[module]
        assert statements(tree) <= 320, f"{path} has over 320 statements: split it by idea"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert statements(node) <= 55, f"{path}:{node.lineno}: {node.name} is too long"
