"""The package for Hugging Face's `kernels`: its files, metadata, module, and the copied runtime."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.bundle_samples import Sample
from tilec.package.hub import hub_files, hub_view, runtime_files
from tilec.package.hub_metadata import metadata, read_digests
from tilec.package.write import write_bundle
from tilec_runtime.bundle.format import index_digest
from tilec_runtime.errors import OutputError, UsageError
from tilec_runtime.model.kernel import BundleInfo, KernelInfo
from tilec_runtime.model.operator import OperatorInfo, OutputInfo
from tilec_runtime.model.signature import Param, ParamKind

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


# --- Metadata


def test_metadata_has_what_kernels_reads(files: dict[str, bytes]) -> None:
    document = json.loads(files["metadata.json"])
    assert document["name"] == "acme-kernels"
    assert document["python-depends"] == []
    # The sample's second kernel has exact machine code, which other minor versions do not run.
    assert document["backend"] == {"type": "cuda", "archs": []}
    assert document["digest"]["algorithm"] == "sha256"
    assert set(document["digest"]["files"]) == set(files) - {"metadata.json"}
    assert document["id"].startswith("_acme_kernels_cuda_")


def test_architectures_are_those_of_every_kernel() -> None:
    plain = dataclasses.replace(
        INFO, kernels=tuple(k for k in INFO.kernels if k.language != "tile")
    )
    assert json.loads(metadata(plain, {}))["backend"]["archs"] == ["8.0", "9.0"]
    tile = dataclasses.replace(INFO, kernels=tuple(k for k in INFO.kernels if k.language == "tile"))
    assert json.loads(metadata(tile, {}))["backend"]["archs"] == ["8.0a", "9.0a"]


def test_equal_builds_give_equal_files_and_other_files_another_id(
    files: dict[str, bytes],
) -> None:
    (bundle,) = (data for name, data in files.items() if name.endswith(".tilec"))
    assert hub_files(INFO, bundle, INDEX) == files
    rest = {name: data for name, data in files.items() if name != "metadata.json"}
    assert metadata(INFO, rest) == files["metadata.json"]
    other = json.loads(metadata(INFO, {**rest, "__init__.py": b""}))
    assert other["id"] != json.loads(files["metadata.json"])["id"]


@pytest.mark.parametrize("name", ["9lives", "k"])
def test_refuses_names_that_the_hub_does_not_take(name: str) -> None:
    package = dataclasses.replace(INFO.package, name=name)
    with pytest.raises(OutputError, match="no name for the Hugging Face hub"):
        metadata(dataclasses.replace(INFO, package=package), {})


# --- The module


def kernel(**changes: object) -> KernelInfo:
    return dataclasses.replace(INFO.kernels[0], **changes)  # type: ignore[arg-type]


def view_of(one: KernelInfo):
    info: BundleInfo = dataclasses.replace(INFO, kernels=(one,))
    return hub_view(info, "x.tilec", INDEX).kernels[0]


TENSORS = (
    Param(name="y", kind=ParamKind.TENSOR, dtype="T", out=True),
    Param(name="z", kind=ParamKind.TENSOR, dtype="T", out=True),
    Param(name="x", kind=ParamKind.TENSOR, dtype="T", optional=True),
)
NUMBERS = (
    Param(name="n", kind=ParamKind.SCALAR, dtype="i32"),
    Param(name="eps", kind=ParamKind.SCALAR, dtype="T", default=1e-6),
    Param(name="on", kind=ParamKind.SCALAR, dtype="bool", default=True),
)


def test_an_operator_gets_axes_by_name() -> None:
    found = view_of(kernel(params=(*TENSORS, *NUMBERS)))
    assert (found.operator, found.allocates) == (True, False)
    assert found.arguments == "y, z, x, n, eps, on, B=B"
    assert found.signature.startswith("y, z, x, n, eps=1e-06, on=True, *, B")
    assert found.view.values.startswith("(y, z, x, n, eps, on), ")


@pytest.mark.parametrize(
    "param",
    [
        Param(name="s", kind=ParamKind.STRUCT, dtype="", size=8),
        Param(name="p", kind=ParamKind.PTR, dtype=""),
    ],
)
def test_kernels_that_no_operator_can_take_are_launched_by_functions(param: Param) -> None:
    assert not view_of(kernel(params=(*TENSORS, param))).operator
    inputs = tuple(dataclasses.replace(one, out=False) for one in TENSORS)
    assert not view_of(kernel(params=inputs)).operator


def test_an_operator_of_the_manifest_allocates_and_has_a_function_that_does_not() -> None:
    op = OperatorInfo(outputs=(OutputInfo(param="y", like="x", dtype="x.dtype"),))
    one = dataclasses.replace(INFO.kernels[0], op=op)
    info = dataclasses.replace(INFO, kernels=(one,))
    files = hub_files(info, b"", INDEX)
    module, operators = files["__init__.py"].decode(), files["_operators.py"].decode()
    assert f"from ._operators import {one.name}  #" in module
    # The import of a submodule sets its name in the package: what had it before would be gone.
    names = {
        target.id
        for node in ast.parse(module).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert not names & {"_operators", "_runtime"}
    assert f"    def {one.name}(y, x, " in module.partition("class out:")[2]
    assert "from ._runtime.torch_ops import Operators as _Operators" in operators
    assert f'_Operators(_tilec_package_, "acme_kernels_{INDEX[:16]}", shared=True)' in operators
    compile(module, "__init__.py", "exec")
    compile(operators, "_operators.py", "exec")


def test_refuses_kernels_that_need_a_configuration_at_each_launch() -> None:
    launch = dataclasses.replace(INFO.kernels[0].launch, open=("grid",))
    with pytest.raises(UsageError, match="takes a configuration at each launch"):
        view_of(kernel(launch=launch))
    preset = dataclasses.replace(launch, preset=True)
    assert "config" not in view_of(kernel(launch=preset)).signature


def test_refuses_a_kernel_of_the_name_that_holds_the_others() -> None:
    op = OperatorInfo(outputs=(OutputInfo(param="y", like="x", dtype="x.dtype"),))
    assert view_of(kernel(name="out")).view.name == "out"
    with pytest.raises(UsageError, match="a kernel named 'out' cannot be in a hub package"):
        view_of(kernel(name="out", op=op))


def test_a_name_that_namespaces_of_torch_have_is_no_operators() -> None:
    assert view_of(kernel(params=TENSORS)).operator
    assert not view_of(kernel(name="name", params=TENSORS)).operator


# --- Damage


def loaded(variant: Path, name: str = "") -> ModuleType:
    name = name or json.loads((variant / "metadata.json").read_text())["id"]
    spec = importlib.util.spec_from_file_location(name, variant / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def no_modules_left() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith("_acme_kernels_cuda_")]:
        del sys.modules[name]


@pytest.mark.parametrize("file", ["_runtime/hub.py", "_runtime/launch/launcher.py", "__init__.py"])
def test_refuses_a_damaged_file(variant: Path, file: str) -> None:
    with (variant / file).open("a") as out:
        out.write("\n# another\n")
    with pytest.raises(ImportError, match=rf"{file} is damaged: it has other bytes"):
        loaded(variant)


@pytest.mark.parametrize("text", ["", "[1, 2]", '{"digest": {"files": []}}', "{", None])
def test_refuses_a_damaged_list_of_files(variant: Path, text: str | None) -> None:
    path = variant / "metadata.json"
    name = json.loads(path.read_text())["id"]
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(ImportError, match=r"metadata\.json cannot be read: .*; fetch the package"):
        loaded(variant, name)


def test_refuses_the_bundle_of_another_build(variant: Path, tmp_path: Path) -> None:
    other = dataclasses.replace(INFO, profile="debug")
    (bundle,) = variant.glob("*.tilec")
    write_bundle(tmp_path / "other.tilec", other, SAMPLE.images.__getitem__)
    shutil.copy(tmp_path / "other.tilec", bundle)
    with pytest.raises(Exception, match="is not the one that its package was built with"):
        loaded(variant)


# --- Metadata


def test_metadata_that_was_changed_says_nothing(variant: Path) -> None:
    path = variant / "metadata.json"
    assert set(read_digests(path)) == {
        file.relative_to(variant).as_posix() for file in variant.rglob("*.*") if file != path
    }
    path.write_text(path.read_text().replace("acme", "mine"))
    assert read_digests(path) == {}


@pytest.mark.parametrize("name", ["../../../../k.cu", "/k.cu", ""])
def test_metadata_that_names_files_elsewhere_says_nothing(
    files: dict[str, bytes], variant: Path, name: str
) -> None:
    path = variant / "metadata.json"
    path.write_bytes(metadata(INFO, {**files, name: b"precious"}))
    assert read_digests(path) == {}
