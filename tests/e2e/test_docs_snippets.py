"""The documentation does what it says: every block of every page is run, loaded, compiled or
compared with its source.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import tilec
import tilec_runtime as runtime
from tests.docs_pages import (
    ROOT,
    Reader,
    Step,
    environment,
    rows,
    steps,
    text_of,
    with_nvcc,
)
from tilec.case.compare import tolerance_for
from tilec.cli import settings
from tilec.cli.main import COMMANDS, cli
from tilec.cli.new import render
from tilec.cli.sanitize import FOUND
from tilec.compile.remote import environment as environment_of_remotes
from tilec.manifest import keys
from tilec.manifest.load import load_text
from tilec.manifest.shapes import Either, ListOf, Shape
from tilec.manifest.tables import Names, Table
from tilec.model.toml import tomllib
from tilec_runtime import errors
from tilec_runtime.bundle import place
from tilec_runtime.model.arch import ARCHS
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.expr_build import FUNCTIONS

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

PAGES = (
    "README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
)
CORE = "runtime/tilec_runtime/_core/README.md"
FOLLOWED = {"project", "file", "append", "edit", "output", "plugin", "run"}
LANGUAGES = {"tile": (".py",), "cuda": (".cu", ".cuh"), "triton": (), "simt": ()}


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    home = tmp_path / "work"
    home.mkdir()
    return Reader(home, with_nvcc(environment(tmp_path / "cache")))


# --- what a reader does
# ------------------------------------------------------------------------------------------------------------


# Each page is followed from its first line to its last. The first three share one project.
START = [f"docs/start/{name}.md" for name in ("first-kernel", "test-it", "ship-it")]
SITTINGS = [START, *([page] for page in PAGES[1:] if page not in START)]
NEEDS = {"docs/how-to/triton-kernels.md": "triton", "docs/how-to/simt-kernels.md": "numba_cuda"}


@pytest.mark.long
@pytest.mark.parametrize("pages", SITTINGS, ids=lambda pages: pages[0])
def test_pages_do_what_they_say(reader: Reader, pages: list[str]) -> None:
    for page in pages:
        if page in NEEDS:
            pytest.importorskip(NEEDS[page])
        for step in steps(page):
            reader.follow(step)


def test_the_readmes_quick_start(reader: Reader) -> None:
    """Follow it; then build the kernel and the manifest that it shows in a project of their own."""
    found = steps("README.md")
    for step in found:
        reader.follow(step)
    assert reader.cwd.name == "demo"
    assert (reader.cwd / "dist" / "demo" / "__init__.py").is_file()
    kernel = next(step for step in found if step.language == "python" and "@tl.kernel" in step.text)
    table = next(step for step in found if step.language == "toml")
    alone = reader.home / "alone"
    alone.mkdir()
    (alone / "kernels.py").write_text(kernel.text)
    (alone / "tilec.toml").write_text(table.text)
    subprocess.run(
        ["tilec", "build"], cwd=alone, env=reader.env, check=True, capture_output=True, timeout=120
    )


# --- every block is checked somehow
# ------------------------------------------------------------------------------------------------

ALL = [step for page in PAGES for step in steps(page)]


def completed(fragment: str) -> str:
    """A fragment of a manifest with what it lacks to be one."""
    given = tomllib.loads(fragment)
    lacking = {
        "package": '[package]\nname = "p"\nversion = "1"\n',
        "targets": '[targets]\ndefault = ["sm_90"]\n',
        "kernel": '[kernel.k]\nsource = "k.cu"\n',
    }
    head = "" if "edition" in given else "edition = 1\n"
    return head + "\n".join(
        [fragment, *(text for key, text in lacking.items() if key not in given)]
    )


@pytest.mark.parametrize("step", ALL, ids=lambda step: step.place)
def test_no_block_goes_unchecked(step: Step) -> None:
    match step.directive, step.language:
        case "install", "bash":
            subprocess.run(["bash", "-n"], input=step.text, text=True, check=True, timeout=120)
            extras = tomllib.loads(text_of("pyproject.toml"))["project"]["optional-dependencies"]
            assert set(re.findall(r"\[(\w+)\]\"", step.text)) <= set(extras)
        case "template", "yaml" | "toml" | "python":
            values = {"name": "demo", "module": "demo", "tilec_version": tilec.__version__}
            assert step.text.encode() in render("tile", values).values()
        case "fragment", "toml":
            load_text(completed(step.text), Path("tilec.toml"), languages=LANGUAGES)
        case "", "toml":
            assert step.page == "README.md", f"{step.place}: fragments are marked as such"
        case "", "python":
            compile(step.text, step.place, "exec")
        case "", "bash" | "console":
            check_commands(step)
        case "", "yaml":
            check_action(step)
        case "", language if language.startswith("{"):
            pass  # the build of the site carries it out
        case "", "" | "text":
            assert step.page.startswith("docs/background/"), f"{step.place}: name its language"
        case directive, _:
            assert directive in FOLLOWED, (
                f"{step.place}: nothing checks a block of {step.language!r}"
            )


def check_action(step: Step) -> None:
    """What steps of a workflow give to action.yml and take of it is there."""
    action = YAML(typ="safe").load(ROOT / "action.yml")
    for one in YAML(typ="safe").load(step.text):
        if "tilec" in one.get("uses", ""):
            assert one["with"].keys() <= action["inputs"].keys(), step.place
    assert set(re.findall(r"outputs\.(\w+)", step.text)) <= action["outputs"].keys(), step.place


def check_commands(step: Step) -> None:
    """Flags first, so that a block that fails says which of them does not exist."""
    lines = re.findall(
        r"^(?:\$ )?(?:\w+=\S+ )?tilec (.+?)(?: +#.*)?$", step.text, flags=re.MULTILINE
    )
    for line in lines:
        check_command(step.place, line)


def check_command(place: str, line: str) -> None:
    words = re.split(r";|\s+(?:&&|\||>)", line)[0].split()
    name = next((word for word in words if word in COMMANDS), "")
    assert name or words[0].startswith("-"), f"{place}: no command in `tilec {line}`"
    command: Any = (
        cli.get_command(
            cli.make_context("tilec", ["--debug", "schema"], resilient_parsing=True), name
        )
        if name
        else cli
    )
    known = {
        flag
        for param in (*cli.params, *command.params)
        for flag in (*param.opts, *param.secondary_opts)
    } | {"--help", "-h"}
    for sub in getattr(command, "commands", {}).values():
        known |= {flag for param in sub.params for flag in param.opts}
    flags = [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
    assert set(flags) <= known, (
        f"{place}: `tilec {line}`: no such flag {sorted(set(flags) - known)}"
    )


def inline(page: str) -> Iterator[str]:
    prose = re.sub(r"^```.*?^```", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`([^`\n]+)`", prose)


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_text_exist(page: str) -> None:
    for code in inline(page):
        words = code.replace("\\|", "|").split()
        if words[:1] == ["tilec"] and len(words) > 1 and not words[1].startswith("--debug"):
            check_command(page, " ".join(words[1:]).replace("info|gc|clear", "info"))


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", CORE])
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"(?:\]\(|^\[[^\]]+\]: )([^)\s]+)", text_of(page), flags=re.MULTILINE)
    for target, _, anchor in (link.partition("#") for link in links if "://" not in link):
        other = (ROOT / page).parent / target if target else ROOT / page
        assert other.exists(), f"{page}: {target}"
        if not anchor:
            continue
        headings = re.findall(r"^#+ (.+)$", other.read_text(encoding="utf-8"), flags=re.MULTILINE)
        slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in slugs, f"{page}: no heading for {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_error_classes_exist(page: str) -> None:
    for name in set(re.findall(r"(?<![.\w])([A-Z]\w+Error)\b", text_of(page))):
        assert hasattr(errors, name) or hasattr(builtins, name), f"{page}: {name}"


# --- tables against what they tell of
# ----------------------------------------------------------------------------------------------


def paths(text: str) -> Iterator[str]:
    """Yield the files and folders that a page's text names in backticks."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for quoted in re.findall(r"`([^`]+)`", text):
        for word in quoted.split():
            if re.fullmatch(r"\w[\w./-]*(?:\.(?:py|pyi|c|h|sh|md)|/)", word):
                yield word


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", CORE])
def test_paths_in_the_pages_of_contributors_exist(page: str) -> None:
    homes = (ROOT, ROOT / "tilec", ROOT / "runtime")
    core = (ROOT / "runtime/tilec_runtime/_core",) if page == CORE else ()
    named = list(paths((ROOT / page).read_text(encoding="utf-8")))
    assert named
    missing = [path for path in named if not any((home / path).exists() for home in homes + core)]
    assert not missing


def test_the_readme_lists_the_commands() -> None:
    listed = [re.match(r"`tilec (\w+)", row[0]) for row in rows("README.md", "Commands")]
    assert [match[1] for match in listed if match] == list(COMMANDS)
    assert len(listed) == len(COMMANDS)


def test_names_in_the_table_for_rust_exist() -> None:
    """Each name that the right column calls is one of the runtime's, but for packages and their
    kernels.
    """
    page = "docs/background/from-rust.md"
    headings = re.findall(r"^## (.+)$", text_of(page), flags=re.MULTILINE)
    cells = [row[1] for heading in headings for row in rows(page, heading)]
    assert cells
    kinds = (
        runtime,
        runtime.api,
        runtime.Tensor,
        runtime.DeviceOp,
        runtime.LazyLaunch,
        runtime.GraphScope,
        runtime.CudaGraph,
        runtime.ExecutionContext,
        runtime.KernelModule,
        runtime.Device,
        runtime.Launcher,
        runtime.AsyncKernelLaunch,
        runtime.SchedulingPolicy,
        runtime.LaunchConfig,
    )
    known = {name for kind in kinds for name in dir(kind)} | {"load", "ensure_future", "bytes"}
    for code in [code for cell in cells for code in re.findall(r"`([^`]+\))`", cell)]:
        for call in [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]:
            named = ast.unparse(call.func)
            if not named.startswith(("demo.", "kernels.")):
                assert named.rpartition(".")[2] in known, f"{code}: {named}"


def test_the_page_of_cases_has_the_default_tolerances() -> None:
    *floats, exact = rows("docs/how-to/write-cases.md", "Default tolerances")
    shown = {row[0].strip("`"): (float(row[1]), float(row[2])) for row in floats}
    limits = {dtype: tolerance_for((), dtype) for dtype in DTYPES}
    inexact = {d: (t.rtol, t.atol) for d, t in limits.items() if t.rtol or t.atol}
    assert shown == inexact
    assert exact == ["integers, `bool`", "0", "0"]


def test_launch_errors_are_all_in_the_table_of_checks() -> None:
    told = " ".join(row[2] for row in rows("docs/reference/launches.md", "Order of checks"))
    raised = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.LaunchError)
    }
    assert raised - set(re.findall(r"`(\w+)`", told)) == {"LaunchError"}


PLACEHOLDERS = dict.fromkeys(("kernel", "chain", "profile"), "NAME")
PLACEHOLDERS["outputs"] = "P"
PLACEHOLDERS |= {"case": "CASE", "params": "PARAM", "inputs": "PARAM", "tolerance": "DTYPE"}


@dataclasses.dataclass(frozen=True)
class Documented:
    """A key as the loader has it: its shape and its row's default (None where the schema has none)."""

    shape: Shape
    required: bool
    default: object = None


def documented(table: Table, path: str = "") -> Iterator[tuple[str, Documented]]:
    """Every key of a table and of the tables in it, by path: `kernel.NAME.assume.sets[].name`."""
    properties: dict[str, Any] = table.schema().get("properties", {})
    for key in table.keys:
        where = f"{path}{key.name}"
        yield where, Documented(key.shape, key.required, properties[key.name].get("default"))
        yield from inside(key.shape, where)
    if table.names is not None:
        yield from names(table.names, path)


def inside(shape: Shape, where: str) -> Iterator[tuple[str, Documented]]:
    match shape:
        case Table():
            yield from documented(shape, f"{where}.")
        case ListOf():
            yield from inside(shape.item, f"{where}[]")
        case Either():
            for one in shape.shapes:
                yield from inside(one, where)


def names(free: Names, path: str) -> Iterator[tuple[str, Documented]]:
    parent = path.rstrip(".").rpartition(".")[2]
    if parent in PLACEHOLDERS:
        yield from inside(free.shape, f"{path}{PLACEHOLDERS[parent]}")


@cache
def described() -> dict[str, list[str]]:
    """The rows of the manifest's page by the whole path of their key."""
    found: dict[str, list[str]] = {}
    for heading in re.findall(
        r"^## (.+)$", text_of("docs/reference/manifest.md"), flags=re.MULTILINE
    ):
        match = re.fullmatch(r"`(\[\[?)([\w.]+)\]\]?`", heading)
        if not match:
            continue
        prefix = f"{match[2]}{'[]' if match[1] == '[[' else ''}."
        for row in rows("docs/reference/manifest.md", heading):
            if (key := re.fullmatch(r"`([\w.\[\]-]+)`", row[0])) and len(row) == 4:
                found[prefix + key[1]] = row
    return found


def test_the_manifests_page_has_every_key_and_no_other() -> None:
    paths = {path for path, _ in documented(keys.MANIFEST)}
    # Cases of chains are those of kernels; keys for all cases are those of one.
    of_cases = re.compile(
        r"chain\.NAME\.case\.|(kernel|chain)\.NAME\.(inputs|reference|tolerance|bench)\b"
    )
    expected = {path for path in paths if not of_cases.match(path)}
    expected = {path for path in expected if ".tolerance.DTYPE." not in path}
    # A language's options are described once, for all languages and for the kernel's own table.
    options = {path.rpartition(".")[2] for path in described() if path.startswith("frontend.")}
    repeated = {f"kernel.NAME.{option}" for option in options}
    repeated |= {
        path for path in expected if re.fullmatch(rf"frontend\.\w+\.({'|'.join(options)})", path)
    }
    # A table's keys stand for it. The first sentence has the edition.
    tables = {
        path for path in paths if any(key.startswith((f"{path}.", f"{path}[]")) for key in paths)
    }
    tables |= {"edition", "frontend.prebuilt", "kernel.NAME.hints"}
    assert sorted(expected - set(described()) - repeated - tables) == [], (
        "keys without a row in docs/reference/manifest.md"
    )
    assert sorted(set(described()) - expected) == [], (
        "rows in docs/reference/manifest.md without a key"
    )


def test_the_manifests_page_tells_types_and_defaults() -> None:
    wrong = {
        path: described()[path]
        for path, key in documented(keys.MANIFEST)
        if path in described() and not fits(path, key)
    }
    assert wrong == {}


def fits(path: str, key: Documented) -> bool:
    """Whether a row has the key's default and its choices."""
    _, kind, default, _ = described()[path]
    choices = getattr(key.shape, "choices", ())
    if kind == "see below":
        name = path.rpartition(".")[2]
        (kind,) = re.findall(
            rf"`{name}` is one of ([^.]+)\.", text_of("docs/reference/manifest.md")
        )
    if choices and kind != "as above" and re.findall(r"`([^`]+)`", kind) != list(choices):
        return False
    if key.required or key.default is None:
        return (default == "required") == bool(key.required) or path == "kernel.NAME.launch.grid"
    if key.default == 0 and default == "no bound":
        return True
    value = key.default if isinstance(key.default, str) else json.dumps(key.default)
    return default == f"`{value}`"


def test_the_reference_tells_targets_dtypes_functions_and_variables() -> None:
    targets = text_of("docs/reference/targets.md").split("**Architectures:** ")[1].split(".")[0]
    for major, minor in ARCHS:
        assert re.search(rf"\b{major}{minor}\b", targets)
    expressions = text_of("docs/reference/expressions.md")
    assert all(f"`{name}`" in expressions for name in DTYPES)
    assert all(f"{name}(" in expressions for name in FUNCTIONS)
    sources = [
        Path(module.__file__).read_text(encoding="utf-8")
        for module in (settings, place, environment_of_remotes)
    ]
    ours = "".join(
        path.read_text(encoding="utf-8")
        for half in ("tilec", "runtime")
        for path in (ROOT / half).rglob("*.py")
    )
    read = set(re.findall(r'env(?:iron)?\.get\("(\w+)"', "".join(sources))) | set(
        re.findall(r"\bTILEC_[A-Z_]+", ours)
    )
    assert read == set(
        re.findall(
            r"`([A-Z_]{2,})`",
            " ".join(row[0] for row in rows("docs/reference/environment.md", "Environment")),
        )
    )
    codes = {
        value.exit_code
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.TilecError)
    }
    assert [row[0] for row in rows("docs/reference/environment.md", "Exit codes")] == [
        str(code) for code in sorted({0, FOUND, 130, 141, *codes})
    ]
