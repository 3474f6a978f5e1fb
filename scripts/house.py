"""Report how large and how plain each room of the project is.

    python scripts/house.py            statements and budgets, sizes, complexity, escape hatches
    python scripts/house.py --gate     exit code 1 for more import cycles or escape hatches than
                                       scripts/house.json allows
    python scripts/house.py --commit   write today's counts to scripts/house.json

Statements are those of Python's `ast`, docstrings apart: no formatting changes them. A cycle counts
every import: at module level, inside functions and for type checkers. People judge what the report
shows; the gate judges cycles and hatches.
"""

from __future__ import annotations

import ast
import collections
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from imports import ROOT, edges, modules

LIMITS = ROOT / "scripts/house.json"
# Most statements of each room; a file belongs to the room with the longest name that fits.
BUDGETS = {
    "runtime/tilec_runtime": 5_500,
    "runtime/tilec_runtime/model": 1_200,
    "runtime/tilec_runtime/bundle": 1_200,
    "runtime/tilec_runtime/cpu": 5_400,
    "tilec": 700,
    "tilec/manifest": 1_400,
    "tilec/plan": 1_100,
    "tilec/lang": 300,
    "tilec/compile": 2_200,
    "tilec/package": 800,
    "tilec/frontends": 6_000,
    "tilec/case": 1_600,
    "tilec/bench": 900,
    "tilec/tune": 1_200,
    "tilec/inspection": 1_100,
    "tilec/cli": 3_000,
    "tilec/testing": 700,
    "tests": 34_000,
}
HATCHES = {
    "SLF001": re.compile(r"#\s*(?:ruff:\s*)?noqa:[^#\n]*\bSLF001\b"),
    "Any": re.compile(r"\bAny\b"),
    "BaseException": re.compile(r"except\s+BaseException"),
    "type: ignore": re.compile(r"#\s*type:\s*ignore"),
}
COMMENT = re.compile(r"(?m)(?:^|\s)# (?!noqa|type:)")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BRANCHES = (
    ast.If,
    ast.For,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.BoolOp,
    ast.comprehension,
    ast.match_case,
)
LONG_FILE, LONG_FUNCTION, COMPLEX = 400, 40, 10


class File:
    """A Python file with what is counted of it."""

    def __init__(self, path: Path) -> None:
        self.name = path.relative_to(ROOT).as_posix()
        self.room = max((room for room in BUDGETS if self.name.startswith(f"{room}/")), key=len)
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.lines = self.text.count("\n")
        self.hatches = {name: len(pattern.findall(self.text)) for name, pattern in HATCHES.items()}

    def statements(self) -> int:
        """Count statements, docstrings apart."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt)]
        return sum(
            not (isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str))
            for node in nodes
        )


def strong_components(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other in a circle, the largest first."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    ahead = {name: reached(name) for name in graph}
    groups = {
        tuple(sorted(other for other in ahead[name] if name in ahead[other])) for name in graph
    }
    return sorted((list(group) for group in groups if group), key=len, reverse=True)


def limits(files: dict[str, File], groups: list[list[str]]) -> dict[str, dict[str, int]]:
    """Return what may not grow: modules in import cycles, and escape hatches of each room."""
    found = {"import cycles": {"modules": sum(map(len, groups))}}
    for file in files.values():
        room = found.setdefault(file.room, dict.fromkeys(HATCHES, 0))
        for name, count in file.hatches.items():
            room[name] += count
    return found


def report(product: list[File], groups: list[list[str]]) -> None:
    """Print everything."""
    skipped = {"samples", "golden"}
    tests = [path for path in (ROOT / "tests").rglob("*.py") if not skipped & set(path.parts)]
    rooms: dict[str, list[File]] = collections.defaultdict(list)
    for file in (*product, *map(File, tests)):
        rooms[file.room].append(file)
    print(f"{'room':<26}{'statements':>11}{'budget':>8}{'files':>7}{'comments %':>12}   ", *HATCHES)
    for room, files in sorted(rooms.items()):
        comments = sum(len(COMMENT.findall(file.text)) for file in files)
        share = 100 * comments / sum(file.lines for file in files)
        hatches = (f"{sum(file.hatches[name] for file in files):>{len(name)}}" for name in HATCHES)
        statements = sum(file.statements() for file in files)
        row = f"{room:<26}{statements:>11,}{BUDGETS[room]:>8}{len(files):>7}{share:>12.1f}   "
        print(row, *hatches)
    print(f"\nstatements without tests: {sum(file.statements() for file in product):,}")
    functions = [
        (file, node)
        for file in product
        for node in ast.walk(file.tree)
        if isinstance(node, FUNCTIONS)
    ]
    long = [
        ((node.end_lineno or 0) - node.lineno + 1, f"{file.name}:{node.lineno} {node.name}")
        for file, node in functions
    ]
    branches = [
        (
            1 + sum(isinstance(each, BRANCHES) for each in ast.walk(node)),
            f"{file.name}:{node.lineno} {node.name}",
        )
        for file, node in functions
    ]
    show(f"files over {LONG_FILE} lines", [(f.lines, f.name) for f in product], LONG_FILE)
    show(f"functions over {LONG_FUNCTION} lines", long, LONG_FUNCTION)
    show(f"functions of a complexity over {COMPLEX}", branches, COMPLEX)
    show("import cycles (modules)", [(len(group), " ".join(group)[:200]) for group in groups], 0)


def show(title: str, rows: list[tuple[int, str]], bound: int) -> None:
    """Print how many rows are beyond a bound, and the largest of them."""
    beyond = sorted((row for row in rows if row[0] > bound), reverse=True)
    print(f"\n{title}: {len(beyond)}")
    for size, name in beyond[:8]:
        print(f"  {size:>5}  {name}")


def main(arguments: list[str]) -> int:
    """Do what the command line asks for, and return the exit code."""
    known = modules()
    files = {name: File(path) for name, path in known.items()}
    groups = strong_components(edges({name: file.tree for name, file in files.items()}, known))
    found = limits(files, groups)
    if arguments == ["--commit"]:
        LIMITS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    elif arguments == ["--gate"]:
        allowed = json.loads(LIMITS.read_text(encoding="utf-8"))
        grown = [
            f"{room}: {name} {count}, where {allowed.get(room, {}).get(name, 0)} are allowed"
            for room, counts in found.items()
            for name, count in counts.items()
            if count > allowed.get(room, {}).get(name, 0)
        ]
        print("\n".join(grown) or "no new import cycles and escape hatches")
        return bool(grown)
    elif arguments:
        print(__doc__)
        return 2
    else:
        report(list(files.values()), groups)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
