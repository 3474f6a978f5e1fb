"""Report how large and how plain each room of the project is; with --gate, fail where it became
worse.

    python scripts/house.py            a table: statements and budgets, sizes, complexity, imports, escape hatches
    python scripts/house.py --gate     exit code 1 for a new import cycle, or more escape hatches than scripts/house.json allows
    python scripts/house.py --commit   write today's cycles and escape hatches to scripts/house.json

Statements are those of Python's `ast`, docstrings apart: no formatting changes them. A cycle counts
every import: at module level, inside functions and for type checkers. People judge the rest of the
report.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMITS = ROOT / "scripts/house.json"
HOMES = {"tilec": ROOT, "tilec_runtime": ROOT / "runtime"}
# Rooms by folder, and how many statements each should have at most; a file belongs to its longest
# match.
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
# What a reader should meet seldom, as it stands in source text.
HATCHES = {
    "SLF001": re.compile(r"#\s*(?:ruff:\s*)?noqa:[^#\n]*\bSLF001\b"),
    "Any": re.compile(r"\bAny\b"),
    "BaseException": re.compile(r"except\s+BaseException"),
    "type: ignore": re.compile(r"#\s*type:\s*ignore"),
}
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


@dataclasses.dataclass
class File:
    """What is counted of one file."""

    path: Path
    tree: ast.Module
    text: str

    @property
    def name(self) -> str:
        """Its path in the repository."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def room(self) -> str:
        """The room that it belongs to."""
        return max((room for room in BUDGETS if self.name.startswith(f"{room}/")), key=len)

    @property
    def statements(self) -> int:
        """How many there are, docstrings apart."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.stmt)]
        return sum(
            not (isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str))
            for node in nodes
        )

    @property
    def lines(self) -> int:
        """How many there are."""
        return self.text.count("\n")

    @property
    def comments(self) -> int:
        """Lines with a comment that says something to a reader."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return sum(
            token.type == tokenize.COMMENT and "noqa" not in token.string for token in tokens
        )

    @property
    def functions(self) -> Iterator[tuple[str, int, int]]:
        """(place and name, lines, complexity) of every function."""
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                branches = sum(isinstance(inner, BRANCHES) for inner in ast.walk(node))
                yield (
                    f"{self.name}:{node.lineno} {node.name}",
                    (node.end_lineno or 0) - node.lineno + 1,
                    branches + 1,
                )

    @property
    def hatches(self) -> collections.Counter[str]:
        """How often each escape hatch is used."""
        return collections.Counter(
            {name: len(pattern.findall(self.text)) for name, pattern in HATCHES.items()}
        )


def files() -> list[File]:
    """Every Python file of the project, but samples and templates."""
    skipped = {"_templates", "samples", "golden", "build", "dist"}
    folders = (ROOT / "runtime/tilec_runtime", ROOT / "tilec", ROOT / "tests")
    paths = sorted(
        path
        for folder in folders
        for path in folder.rglob("*.py")
        if not skipped & set(path.relative_to(ROOT).parts)
    )
    return [File(path, ast.parse(text := path.read_text(encoding="utf-8")), text) for path in paths]


def module_of(path: Path) -> str:
    """The dotted name of a file."""
    home = HOMES["tilec_runtime" if path.is_relative_to(HOMES["tilec_runtime"]) else "tilec"]
    parts = path.relative_to(home).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(found: list[File]) -> dict[str, set[str]]:
    """By module, the modules of the project that it imports anywhere."""
    modules = {module_of(file.path): file for file in found if not file.name.startswith("tests/")}
    edges: dict[str, set[str]] = {}
    for name, file in modules.items():
        asked: set[str] = set()
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Import):
                asked.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                asked.update(
                    child
                    if (child := f"{node.module}.{alias.name}") in modules
                    else str(node.module)
                    for alias in node.names
                )
        edges[name] = (asked & modules.keys()) - {name}
    return edges


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other in a circle, the largest first."""

    def reached(start: str, graph: dict[str, set[str]]) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            fresh = graph[waiting.pop()] - seen
            seen |= fresh
            waiting += fresh
        return seen

    backwards: dict[str, set[str]] = {name: set() for name in edges}
    for name, targets in edges.items():
        for target in targets:
            backwards[target].add(name)
    groups: list[list[str]] = []
    left = set(edges)
    for name in sorted(edges):
        if name in left:
            group = reached(name, edges) & reached(name, backwards)
            left -= group
            if group:
                groups.append(sorted(group))
    return sorted(groups, key=len, reverse=True)


def limits(found: list[File]) -> dict[str, dict[str, int]]:
    """What may not grow: modules in import cycles, and escape hatches of each room."""
    groups = cycles(imports(found))
    made: dict[str, dict[str, int]] = {
        "import cycles": {"groups": len(groups), "modules": sum(map(len, groups))}
    }
    for file in found:
        if file.room != "tests":
            room = made.setdefault(file.room, dict.fromkeys(HATCHES, 0))
            for name, count in file.hatches.items():
                room[name] += count
    return made


def report(found: list[File]) -> None:
    """Print the whole table."""
    print(
        f"{'room':<26}{'statements':>11}{'budget':>8}{'files':>7}{'comments %':>12}   "
        + "  ".join(HATCHES)
    )
    for room in sorted({file.room for file in found}):
        ours = [file for file in found if file.room == room]
        lines, comments = sum(file.lines for file in ours), sum(file.comments for file in ours)
        hatches = sum((file.hatches for file in ours), collections.Counter())
        counts = "  ".join(f"{hatches[name]:>{len(name)}}" for name in HATCHES)
        statements = sum(file.statements for file in ours)
        print(
            f"{room:<26}{statements:>11,}{BUDGETS[room] or '':>8}{len(ours):>7}{100 * comments / lines:>12.1f}   {counts}"
        )
    product = [file for file in found if file.room != "tests"]
    print(f"\nstatements without tests: {sum(file.statements for file in product):,}")
    functions = [function for file in product for function in file.functions]
    show(
        f"files over {LONG_FILE} lines",
        [(file.lines, file.name) for file in found if file.lines > LONG_FILE],
    )
    show(
        f"functions over {LONG_FUNCTION} lines",
        [(lines, name) for name, lines, _ in functions if lines > LONG_FUNCTION],
    )
    show(
        f"functions of a complexity over {COMPLEX}",
        [(branches, name) for name, _, branches in functions if branches > COMPLEX],
    )
    groups = cycles(imports(found))
    show("import cycles (modules)", [(len(group), " ".join(group)[:200]) for group in groups])


def show(title: str, rows: list[tuple[int, str]], most: int = 8) -> None:
    """Print the largest rows of a finding."""
    print(f"\n{title}: {len(rows)}")
    for size, name in sorted(rows, reverse=True)[:most]:
        print(f"  {size:>5}  {name}")


def main(arguments: list[str]) -> int:
    """Do what the command line says; the exit code."""
    found = files()
    if arguments == ["--commit"]:
        LIMITS.write_text(json.dumps(limits(found), indent=2) + "\n", encoding="utf-8")
    elif arguments == ["--gate"]:
        allowed = json.loads(LIMITS.read_text(encoding="utf-8"))
        grown = [
            f"{room}: {name} {count}, where {allowed.get(room, {}).get(name, 0)} are allowed"
            for room, counts in limits(found).items()
            for name, count in counts.items()
            if count > allowed.get(room, {}).get(name, 0)
        ]
        print("\n".join(grown) or "no new import cycles and escape hatches")
        return bool(grown)
    elif arguments:
        print(__doc__)
        return 2
    else:
        report(found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
