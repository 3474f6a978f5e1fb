"""Generated packages: the whole text against a golden file, hostile names and documentation, formatting, determinism."""

from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime_samples import ADD, GEMM, PTR, SCALAR, STRUCT, TENSOR, image, kernel, slot
from tilec.package.render import render_package
from tilec_runtime.errors import UsageError
from tilec_runtime.model.image import Resources
from tilec_runtime.model.kernel import BundleInfo, LaunchInfo, PackageInfo, VariantInfo
from tilec_runtime.model.safety import Region, Safety
from tilec_runtime.model.signature import Param

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "sample" / "__init__.py"

EVERYTHING = kernel(
    "everything",
    (
        Param(name="x", kind=TENSOR, dtype="T", rank=-1, shape_divisible=(8,), align=16, doc="any shape."),
        Param(name="lambda", kind=SCALAR, dtype="i64", default=3),
        Param(name="stream", kind=SCALAR, dtype="bool"),
        Param(name="raw", kind=PTR),
        Param(name="config", kind=STRUCT, size=24, doc="packed settings"),
        Param(name="scale", kind=SCALAR, dtype="f32", default=float("inf")),
    ),
    tuple(
        VariantInfo(
            id=f"everything-{t}-{order}",
            axes=(("T", t), ("ORDER", order), ("FAST", True), ("W", 0.5)),
            abi=(slot("ptr", "x.ptr"),),
            images=(
                image(f"e_{t}_{order}", resources=Resources(registers=40, spill_stores=0, spill_loads=0, shared=1024)),
                image(f"e_{t}_{order}", "sm_80", resources=Resources(registers=40, spill_stores=8, spill_loads=12, stack=16)),
                image(f"e_{t}_{order}", "compute_80"),
            ),
            hints=(("sm_90", (("num_ctas", 2), ("occupancy", occupancy))), ("sm_80", (("occupancy", occupancy),))),
        )
        for t in ("f32", "f16")
        for order, occupancy in (("row", 4), ("column", 2))
    ),
    axes=(("T", ("f32", "f16")), ("ORDER", ("row", "column")), ("FAST", (True, False)), ("W", (0.5, 1.5))),
    dtype_axes=("T",),
    default=(("FAST", True), ("W", 0.5)),
    doc="""Shows everything that a signature can hold.

    A second paragraph, which is so long that it has to be wrapped somewhere, for lines of a docstring end at the hundredth column at most.

        an indented "example" with a \\ backslash and triple quotes \"\"\"
    """,
    launch=LaunchInfo(grid=("1",), requires=("x.size > 0",)),
)
# Two axes of other values that may both be left open: the one follows from a partition, the other has a default.
TILED = kernel(
    "tiled",
    (Param(name="z", kind=TENSOR, dtype="f32", rank=2, out=True),),
    tuple(
        VariantInfo(
            id=f"tiled-BM{size}-{order}", axes=(("BM", size), ("ORDER", order)), abi=(slot("ptr", "z.ptr"),), images=(image(f"t_{size}"),)
        )
        for size in (32, 64)
        for order in ("row", "column")
    ),
    axes=(("BM", (32, 64)), ("ORDER", ("row", "column"))),
    default=(("ORDER", "row"),),
    safety=Safety(regions=(Region(param="z", tile=("BM", "16")),)),
)
PACKAGE = PackageInfo(name="sample", version="1.0", module="sample", description='Kernels for "tests"')
SAMPLE = BundleInfo(package=PACKAGE, kernels=(ADD, GEMM, EVERYTHING, TILED), builder="tilec 0.1.0")

PIN = "0123456789abcdef" * 4


def rendered(info=SAMPLE):
    return render_package(info, "sample-1.0.tilec", PIN)["__init__.py"].decode()


def renamed(kernel_name="add", **params):
    names = tuple(dataclasses.replace(p, name=params.get(p.name, p.name)) for p in ADD.params)
    return dataclasses.replace(SAMPLE, kernels=(dataclasses.replace(ADD, name=kernel_name, params=names),))


def test_the_whole_package(golden):
    files = render_package(SAMPLE, "sample-1.0.tilec", PIN)
    assert sorted(files) == ["__init__.py", "py.typed"]
    golden(GOLDEN, files["__init__.py"].decode())


def with_choices(kernel, name, axes):
    """A kernel with axes that all may be left open."""
    return dataclasses.replace(kernel, name=name, axes=tuple((axis, (1, 2)) for axis in axes), default=tuple((axis, 1) for axis in axes))


@pytest.mark.parametrize("width", [100, 120, 140])
def test_a_formatter_changes_nothing(width, tmp_path):
    wide = tuple(Param(name=f"parameter_number_{index}", kind=SCALAR, dtype="f32") for index in range(12))
    tensors = tuple(Param(name=f"tensor_number_{index}", kind=TENSOR, dtype="f32") for index in range(30))
    hinted = tuple(dataclasses.replace(v, hints=(("sm_90", (("num_ctas", 2), ("occupancy", n))),)) for n, v in enumerate(ADD.variants, 1))
    opened = (("BM", "BN", "BK", "STAGES"), ("BM", "BN", "BK", "GROUP", "STAGES"), ("rows_of_the_tile_of_x", "rows_of_the_tile_of_y"))
    kernels = (
        *(with_choices(ADD, f"opened{number}", names) for number, names in enumerate(opened)),
        dataclasses.replace(ADD, name="wide", params=wide),
        dataclasses.replace(ADD, name="tensors", params=tensors, variants=hinted),
        dataclasses.replace(ADD, name="both", params=(*wide, *tensors)),
        dataclasses.replace(ADD, name="nothing", params=()),
    )
    info = dataclasses.replace(SAMPLE, kernels=(*SAMPLE.kernels, *kernels))
    assert_formatted(rendered(info), width, tmp_path)


def assert_formatted(text, width, folder):
    (folder / "__init__.py").write_text(text)
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--no-cache", "--diff", "--line-length", str(width), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_axes_that_are_left_open_stand_on_lines_that_fit(tmp_path):
    """However many there are, and however long their names."""
    kernels = tuple(
        with_choices(ADD, f"k{count}_{length}", [f"A{number}".ljust(length, "X") for number in range(count)])
        for count in range(1, 8)
        for length in range(2, 45, 3)
    )
    text = rendered(dataclasses.replace(SAMPLE, kernels=kernels))
    assert max(len(line) for line in text.splitlines() if " is None" in line) <= 100
    assert_formatted(text, 100, tmp_path)


def test_equal_bundles_give_equal_bytes():
    assert render_package(SAMPLE, "a.tilec", PIN) == render_package(SAMPLE, "a.tilec", PIN)
    assert rendered() != rendered(renamed())


def test_no_kernels_at_all():
    tree = ast.parse(rendered(dataclasses.replace(SAMPLE, kernels=())))
    assert [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)] == ["Module", "Functions", "load"]


def method(info, name):
    tree = ast.parse(rendered(info))
    module = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    return next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == name)


@pytest.mark.parametrize("name", ["class", "two words", "x\n    import os", "größe", "__init__", "__x", "float", "Literal", "Mapping", ""])
def test_kernels_that_cannot_be_methods(name):
    with pytest.raises(UsageError, match="cannot be a method of a Python class"):
        rendered(renamed(name))


# Kernels of these names keep them as methods; as functions of the module they get an underscore.
RESERVED = ("load", "Package", "TYPE_CHECKING", "OnDevice", "Loaded", "DeviceLike", "LazyLaunch", "annotations", "_T1")
# And these are nobody's: what the functions are made with stands back.
FREE = (
    "_add",
    "_loaded",
    "compiled",
    "_launch",
    "kernels",
    "tilec",
    "stream",
    "lazy",
    "Functions",
    "AddLaunch",
    "_AddLaunch",
    "self",
    "loaded",
    "on_device",
)


@pytest.mark.parametrize("name", [*FREE, *RESERVED])
def test_kernels_whose_names_meet_others(name):
    info = dataclasses.replace(renamed(), kernels=(*renamed().kernels, *renamed(name).kernels))
    tree = ast.parse(rendered(info))
    module, functions = (node for node in tree.body if isinstance(node, ast.ClassDef))
    methods = {node.name for node in module.body if isinstance(node, ast.FunctionDef)}
    stored = [node.attr for node in ast.walk(module) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    assert not methods & set(stored)
    assert len(stored) == len(set(stored)) == 4
    # The functions of a device have the kernels' names, and are made of the module's, which no variable hides.
    exported = f"{name}_" if name in RESERVED else name
    init = next(node for node in functions.body if isinstance(node, ast.FunctionDef))
    assigned = [node for node in init.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute)]
    kept = {node.targets[0].attr: node.value.args[0].id for node in assigned}
    assert kept == {"add": "add", name: exported}
    local = {argument.arg for argument in init.args.args} | {
        node.id for node in ast.walk(init) if isinstance(getattr(node, "ctx", None), ast.Store) and isinstance(node, ast.Name)
    }
    assert len(local) == 3
    assert not local & {"add", exported}
    # Every function is there under a name of its own, and none of the module's own names is hidden.
    assigned = [node.targets[0].id for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
    defined = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    imported = [alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    names = [*assigned, *defined, *imported]
    assert len(names) == len(set(names))
    assert {"add", exported} <= set(defined)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"z": "self", "x": "stream", "y": "in"}, ["self", "self_", "stream_", "in_", "alpha"]),
        ({"z": "__z", "x": "z", "y": "z_"}, ["self", "z", "z_", "z__", "alpha"]),
    ],
)
def test_parameters_whose_names_meet_others(names, expected):
    assert [argument.arg for argument in method(renamed(**names), "add").args.args] == expected


def test_no_parameter_hides_the_table_of_makers():
    info = renamed(z="_launch", x="_launch_")
    functions = [node for node in ast.parse(rendered(info)).body if isinstance(node, ast.FunctionDef) and node.name != "load"]
    for function in functions:
        tables = {
            node.value.id
            for node in ast.walk(function)
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.slice, ast.Constant)
        }
        assert tables == {"_launch__"}
        assert not tables & {argument.arg for argument in function.args.args}


def test_a_parameter_that_is_no_name():
    with pytest.raises(UsageError, match="cannot be a parameter in Python"):
        rendered(renamed(z="z: object = print()"))


def test_many_variants_are_not_all_listed():
    many = tuple(dataclasses.replace(ADD.variants[0], id=f"add-{index}") for index in range(40))
    text = rendered(dataclasses.replace(SAMPLE, kernels=(dataclasses.replace(ADD, variants=many),)))
    assert "add-11" in text
    assert "add-12" not in text
    assert "and 28 more: tilec inspect lists them" in text


NASTY = st.text(st.sampled_from(list('"\x27\\\n{}%\x00\u202e\r\t aNxé#')), max_size=40)


@settings(max_examples=80, deadline=None)
@given(doc=NASTY, description=NASTY, param=NASTY, requires=NASTY, variant=NASTY, bundle=NASTY)
def test_texts_cannot_become_code(doc, description, param, requires, variant, bundle):
    """Whatever a bundle says, the package's code is the same: only docstrings and one file name differ."""

    def code(text):
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                assert ast.get_docstring(node) is not None
                node.body = node.body[1:] or [ast.Pass()]
            if isinstance(node, ast.Constant) and node.value in (bundle, "plain.tilec"):
                node.value = "the bundle"
        return ast.dump(tree)

    nasty = dataclasses.replace(
        ADD,
        doc=doc,
        params=(dataclasses.replace(ADD.params[0], doc=param), *ADD.params[1:]),
        launch=dataclasses.replace(ADD.launch, requires=(requires,)),
        variants=(dataclasses.replace(ADD.variants[0], id=variant),),
    )
    package = dataclasses.replace(PACKAGE, description=description, name=f"s{description}", version=variant)
    info = dataclasses.replace(SAMPLE, package=package, kernels=(nasty,), builder=doc)
    one = dataclasses.replace(ADD, variants=ADD.variants[:1])
    plain = render_package(dataclasses.replace(SAMPLE, kernels=(one,)), "plain.tilec", PIN)["__init__.py"].decode()
    text = render_package(info, bundle, PIN)["__init__.py"].decode()
    assert all(character.isprintable() or character == "\n" for character in text)
    assert not any(line.endswith(" ") for line in text.split("\n"))
    assert code(text) == code(plain)


def test_tensors_that_may_be_none_can_be_left_out():
    params = tuple(dataclasses.replace(param, optional=param.name == "y") for param in ADD.params)
    text = rendered(dataclasses.replace(SAMPLE, kernels=(dataclasses.replace(ADD, params=params),)))
    assert "y: TensorLike | None = None,\n" in text
    assert "y: OrOp[TensorLike | None] = None,\n" in text
    assert "class _AddLaunch(LazyLaunch[tuple[_T1, _T2, TensorLike | None, float]]):" in text
    assert "y: f32 tensor, 1 dimension, C-contiguous, read, may be None" in text
