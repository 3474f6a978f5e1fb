"""Type checkers on kernels in the safe tile language: mypy strict and pyright pass right ones, and
refuse wrong ones at their lines.
"""

from __future__ import annotations

import ast
import inspect
import shutil

import pytest

from tests.typing.test_types import CHECKERS, HERE, ROOT, mypy, pyright_errors, wrong_lines

FILES = ("right_kernels.py", "short_kernels.py", "wrong_kernels.py")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    for file in FILES:
        shutil.copy(HERE / file, folder / file)
    return folder


@pytest.mark.long
def test_mypy_accepts_short_annotations_and_the_examples_with_its_plugin(project):
    examples = [
        *(ROOT / "examples" / "safe").glob("*.py"),
        *(ROOT / "examples" / "kernels").glob("*.py"),
    ]
    for file in examples:
        if file.name != "reference.py":
            shutil.copy(file, project / f"safe_{file.parent.name}_{file.name}")
    files = sorted(path.name for path in project.glob("safe_*.py"))
    (project / "plugin.ini").write_text("[mypy]\nplugins = tilec.mypy\n")
    done = mypy(project, "--config-file", "plugin.ini", "short_kernels.py", *files)
    assert (done.stdout.strip(), done.returncode) == (
        "Success: no issues found in 9 source files",
        0,
    )
    assert "[valid-type]" in mypy(project, "short_kernels.py").stdout


@pytest.mark.parametrize("errors", CHECKERS)
def test_kernels_are_accepted_and_wrong_ones_refused_at_their_lines(project, errors):
    # Short annotations are types for pyright, and for mypy with the plugin alone.
    files = [
        "right_kernels.py",
        "wrong_kernels.py",
        *(["short_kernels.py"] if errors is pyright_errors else []),
    ]
    assert errors(project, *files) == {"wrong_kernels.py": wrong_lines("wrong_kernels.py")}


def test_operations_are_typed_as_they_are():
    """`ops.pyi` has every operation that kernels get from the language, with the parameters of
    cuda.tile, and no other.
    """
    import tilec.lang.ops as ops

    typed = {}
    for node in ast.parse((ROOT / "tilec" / "lang" / "ops.pyi").read_text()).body:
        match node:
            case ast.FunctionDef(name=name, args=args):
                typed[name] = [
                    a.arg
                    for a in (
                        *args.posonlyargs,
                        *args.args,
                        *filter(None, [args.vararg]),
                        *args.kwonlyargs,
                    )
                ]
            case (
                ast.ClassDef(name=name)
                | ast.AnnAssign(target=ast.Name(id=name))
                | ast.Assign(targets=[ast.Name(id=name)])
            ):
                typed[name] = None
    assert set(typed) - {"Index", "Operand", "_T"} == set(ops.__all__)
    for name, params in typed.items():
        if params is not None:
            assert params == list(inspect.signature(getattr(ops, name)).parameters), name


def test_operations_are_those_of_cuda_tile():
    """Every operation of cuda.tile is in the language, but for those that know memory, that nobody
    checks, and that are for hosts.
    """
    import cuda.tile as ct

    import tilec.lang as tl

    left_out = {name for name in ct.__all__ if getattr(tl, name, None) is not getattr(ct, name)}
    assert {name for name in left_out if not name.startswith(("atomic_", "Tile"))} == {
        *(
            "load",
            "store",
            "gather",
            "scatter",
            "load_advanced_indexing",
            "store_advanced_indexing",
            "num_tiles",
        ),
        *(
            "Array",
            "Slice",
            "foreign_pointer_dtype",
            "IndexedWithInt64",
            "ScalarInt64",
            "Scalar",
            "StaticException",
        ),
        *("ArrayAnnotation", "ConstantAnnotation", "ListAnnotation", "Constant"),
        *(
            "assume_divisible_by",
            "grid_dependency_control_wait",
            "grid_dependency_control_launch_dependents",
        ),
        *("launch", "kernel", "function", "compilation", "tune", "compiler_timeout", "ByTarget"),
    }
