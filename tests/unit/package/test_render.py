"""Generated packages: the whole text against a golden file, hostile names and documentation,
formatting, determinism.
"""

from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tests.runtime_samples import ADD, GEMM, PTR, SCALAR, STRUCT, TENSOR, image, kernel, slot
from tilec.package.render import render_package
from tilec_runtime.model.image import Resources
from tilec_runtime.model.kernel import BundleInfo, LaunchInfo, PackageInfo, VariantInfo
from tilec_runtime.model.operator import BackwardInfo, OperatorInfo, OutputInfo
from tilec_runtime.model.safety import Region, Safety
from tilec_runtime.model.signature import Param

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "sample"

EVERYTHING = kernel(
    "everything",
    (
        Param(
            name="x",
            kind=TENSOR,
            dtype="T",
            rank=-1,
            shape_divisible=(8,),
            align=16,
            doc="any shape.",
        ),
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
                image(
                    f"e_{t}_{order}",
                    resources=Resources(registers=40, spill_stores=0, spill_loads=0, shared=1024),
                ),
                image(
                    f"e_{t}_{order}",
                    "sm_80",
                    resources=Resources(registers=40, spill_stores=8, spill_loads=12, stack=16),
                ),
                image(f"e_{t}_{order}", "compute_80"),
            ),
            hints=(
                ("sm_90", (("num_ctas", 2), ("occupancy", occupancy))),
                ("sm_80", (("occupancy", occupancy),)),
            ),
        )
        for t in ("f32", "f16")
        for order, occupancy in (("row", 4), ("column", 2))
    ),
    axes=(
        ("T", ("f32", "f16")),
        ("ORDER", ("row", "column")),
        ("FAST", (True, False)),
        ("W", (0.5, 1.5)),
    ),
    dtype_axes=("T",),
    default=(("FAST", True), ("W", 0.5)),
    doc="""Shows everything that a signature can hold.

    A second paragraph, which is so long that it has to be wrapped somewhere, for lines of a docstring end at the hundredth column at most.

        an indented "example" with a \\ backslash and triple quotes \"\"\"
    """,
    launch=LaunchInfo(grid=("1",), requires=("x.size > 0",)),
)
# Two axes of other values that may both be left open: the one follows from a partition, the other
# has a default.
TILED = kernel(
    "tiled",
    (Param(name="z", kind=TENSOR, dtype="f32", rank=2, out=True),),
    tuple(
        VariantInfo(
            id=f"tiled-BM{size}-{order}",
            axes=(("BM", size), ("ORDER", order)),
            abi=(slot("ptr", "z.ptr"),),
            images=(image(f"t_{size}"),),
        )
        for size in (32, 64)
        for order in ("row", "column")
    ),
    axes=(("BM", (32, 64)), ("ORDER", ("row", "column"))),
    default=(("ORDER", "row"),),
    safety=Safety(regions=(Region(param="z", tile=("BM", "16")),)),
)
# An operator: calls may leave its outputs out.
SCALE = kernel(
    "scale",
    (
        Param(name="y", kind=TENSOR, dtype="T", rank=1, out=True),
        Param(name="x", kind=TENSOR, dtype="T", rank=1),
        Param(name="factor", kind=SCALAR, dtype="f32", default=2.0),
    ),
    tuple(
        VariantInfo(
            id=f"scale-{t}",
            axes=(("T", t),),
            abi=(slot("ptr", "y.ptr"), slot("ptr", "x.ptr"), slot("f32", "factor")),
            images=(image(f"s_{t}"),),
        )
        for t in ("f32", "f16")
    ),
    axes=(("T", ("f32", "f16")),),
    dtype_axes=("T",),
    op=OperatorInfo(
        outputs=(OutputInfo(param="y", like="x", dtype="x.dtype"),),
        backward=BackwardInfo(
            kernel="scale_backward", args=(("y", "grad_x"), ("x", "grad_y"), ("factor", "factor"))
        ),
    ),
)
SCALE_BACKWARD = dataclasses.replace(
    SCALE,
    name="scale_backward",
    op=OperatorInfo(outputs=(OutputInfo(param="y", like="x", dtype="x.dtype"),)),
)
PACKAGE = PackageInfo(
    name="sample", version="1.0", module="sample", description='Kernels for "tests"'
)
SAMPLE = BundleInfo(
    package=PACKAGE,
    kernels=(ADD, GEMM, EVERYTHING, TILED, SCALE, SCALE_BACKWARD),
    builder="tilec 0.1.0",
)

PIN = "0123456789abcdef" * 4


FILES = ("__init__.py", "__init__.pyi")
ALL = (*FILES, "torch.py")


def rendered(info=SAMPLE, file="__init__.py"):
    return render_package(info, "sample-1.0.tilec", PIN)[file].decode()


def renamed(kernel_name="add", **params):
    names = tuple(dataclasses.replace(p, name=params.get(p.name, p.name)) for p in ADD.params)
    return dataclasses.replace(
        SAMPLE, kernels=(dataclasses.replace(ADD, name=kernel_name, params=names),)
    )


def test_the_whole_package(golden):
    files = render_package(SAMPLE, "sample-1.0.tilec", PIN)
    assert sorted(files) == sorted([*ALL, "py.typed"])
    for file in ALL:
        golden(GOLDEN / file, files[file].decode())


def test_a_formatter_changes_nothing(tmp_path):
    for file in ALL:
        (tmp_path / file).write_text(rendered(file=file))
    for command in (["format", "--diff"], ["check"]):
        whole = [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", str(tmp_path)]
        done = subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"z": "self", "x": "stream", "y": "in"}, ["self", "self_", "stream_", "in_", "alpha"]),
        ({"z": "__z", "x": "z", "y": "z_"}, ["self", "z", "z_", "z__", "alpha"]),
    ],
)
def test_parameters_whose_names_meet_others(names, expected):
    for file in FILES:
        body = ast.parse(rendered(renamed(**names), file)).body
        module = next(
            node for node in body if isinstance(node, ast.ClassDef) and node.name == "Module"
        )
        method = next(
            node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "add"
        )
        assert [argument.arg for argument in method.args.args] == expected


NASTY = st.text(st.sampled_from(list('"\x27\\\n{}%\x00\u202e\r\t aNxé#')), max_size=40)


@examples(80)
@given(doc=NASTY, description=NASTY, param=NASTY, requires=NASTY, variant=NASTY, bundle=NASTY)
def test_texts_cannot_become_code(doc, description, param, requires, variant, bundle):
    """Whatever a bundle says, the package's code is the same: only docstrings and one file name
    differ.
    """

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
    package = dataclasses.replace(
        PACKAGE, description=description, name=f"s{description}", version=variant
    )
    info = dataclasses.replace(SAMPLE, package=package, kernels=(nasty,), builder=doc)
    one = dataclasses.replace(ADD, variants=ADD.variants[:1])
    plain = render_package(dataclasses.replace(SAMPLE, kernels=(one,)), "plain.tilec", PIN)
    texts = render_package(info, bundle, PIN)
    for file in FILES:
        text = texts[file].decode()
        assert all(character.isprintable() or character == "\n" for character in text)
        assert not any(line.endswith(" ") for line in text.split("\n"))
        assert code(text) == code(plain[file].decode())


def test_kernels_that_leave_their_launch_open_take_a_config():
    opened = dataclasses.replace(
        ADD, launch=dataclasses.replace(ADD.launch, grid=(), open=("grid", "block"))
    )
    info = dataclasses.replace(SAMPLE, kernels=(opened,))
    code, stub = rendered(info), rendered(info, "__init__.pyi")
    assert 'self._launchers["add"].configured(config).launch(stream, (z, x, y, alpha))' in code
    assert "def add(self, z, x, y, alpha=1.0, *, config):" in code
    assert 'self._launch["add"]((z, x, y, alpha), config=config)' in code
    assert stub.count("config: LaunchConfig,\n") == 2
    assert "config: grid, block of this launch" in stub
    assert "config" not in rendered(dataclasses.replace(SAMPLE, kernels=(ADD,)))
    preset = dataclasses.replace(opened, launch=dataclasses.replace(opened.launch, preset=True))
    info = dataclasses.replace(SAMPLE, kernels=(preset,))
    assert "def add(self, z, x, y, alpha=1.0, *, config=None):" in rendered(info)
    assert rendered(info, "__init__.pyi").count("config: LaunchConfig | None = None,\n") == 2


@pytest.mark.parametrize(
    ("name", "namespace"),
    [("acme", "acme"), ("acme-kernels.x", "acme_kernels_x"), ("3d", "_3d"), ("class", "class_")],
)
def test_operators_are_in_the_namespace_of_the_packages_name(name, namespace):
    package = dataclasses.replace(PACKAGE, name=name, module="acme._kernels")
    text = rendered(dataclasses.replace(SAMPLE, package=package), "torch.py")
    assert f'_Operators(_tilec_package_, "{namespace}")' in text
