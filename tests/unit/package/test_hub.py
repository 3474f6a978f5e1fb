"""The package for Hugging Face's `kernels`: its files, metadata, module, and the copied runtime."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.bundle_samples import Sample
from tilec.package.hub import hub_files, runtime_files
from tilec.package.write import write_bundle
from tilec_runtime.bundle.format import index_digest

SAMPLE = Sample()
INFO = SAMPLE.info()
INDEX = index_digest(INFO)
# What a copied module may import beside the standard library, inside functions: torch for its
# operators.
ALLOWED = {("torch_ops.py", "torch")}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("bundle") / "x.tilec"
    write_bundle(path, INFO, SAMPLE.images.__getitem__)
    return hub_files(INFO, path.read_bytes(), INDEX)


@pytest.fixture
def variant(files: dict[str, bytes], tmp_path: Path) -> Path:
    folder = tmp_path / "hub" / INFO.package.name / "build" / "torch-cuda"
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


# --- The copied modules


def test_copied_modules_need_the_standard_library_alone() -> None:
    found = set()
    for file, data in runtime_files().items():
        for node in ast.walk(ast.parse(data)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            tops = {name.partition(".")[0] for name in names if name}
            found |= {(file, top) for top in tops - set(sys.stdlib_module_names)}
    assert found == ALLOWED


def test_every_relative_import_leads_to_a_copied_module_or_to_one_that_is_left_out() -> None:
    """Those that are left out are of the cpu device, ops, tilec's own tensors and compilers."""
    copied = runtime_files()
    missing = set()
    for file, data in copied.items():
        inside = set()
        tree = ast.parse(data)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                inside |= {id(child) for child in ast.walk(node)}
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                inside |= {id(child) for child in ast.walk(node)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            parts = [*Path(file).parts[: len(Path(file).parts) - node.level]]
            target = "/".join([*parts, *(node.module or "").split(".")]).strip("/")
            if target and f"{target}.py" not in copied and f"{target}/__init__.py" not in copied:
                missing.add((target, id(node) in inside))
    assert {target for target, inside in missing if not inside} == set()
    rooms = {target.partition("/")[0] for target, _ in missing}
    assert rooms <= {"_core", "cpu", "device", "kernels", "launch", "ops", "running", "tensors"}
