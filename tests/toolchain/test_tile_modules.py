"""Executing project modules: imports, isolation, caching, declarations."""

from __future__ import annotations

import linecache
import sys

import pytest

from tests.toolchain.projects import write
from tests.toolchain.tile_jobs import HEADER, SAMPLE, job, tensor
from tilec.frontends.tools import modules
from tilec.model.job import Source
from tilec_runtime.errors import CompileError

pytestmark = pytest.mark.toolchain
KERNEL = "@ct.kernel\ndef k(x):\n    ct.store(x, (0,), ct.full((16,), VALUE, x.dtype))\n"


def value_of(tile, root, path="k.py"):
    """The constant VALUE of the module that declares the kernel."""
    tile.declare(Source(root=str(root), path=path))
    return modules.load(Source(root=str(root), path=path)).main.VALUE


def test_declarations(tile):
    add, saxpy, wide = tile.declare(Source(root=str(SAMPLE), path="kernels/vector.py"))
    assert (add.name, add.doc, str(add.location)) == (
        "add",
        "c = a + b, one tile per block.",
        "kernels/vector.py:10:5",
    )
    assert [(p.name, p.kind, p.out, p.type) for p in add.params] == [
        ("a", "tensor", None, ""),
        ("b", "tensor", None, ""),
        ("c", "tensor", True, ""),
        ("TILE", "constant", None, "ConstInt"),
    ]
    assert [str(p.location) for p in saxpy.params] == [
        f"kernels/vector.py:{n}:5" for n in range(20, 25)
    ]
    assert saxpy.params[-1].default == 256
    assert [(p.name, p.kind, p.dtype) for p in wide.params][:2] == [
        ("x", "tensor", ""),
        ("n", "scalar", "i64"),
    ]


def test_imported_kernels_are_declared_where_they_are(tile, tmp_path):
    write(
        tmp_path,
        {
            "k.py": "from ops.add import k as renamed, k\n",
            "ops/add.py": HEADER + "VALUE = 1\n" + KERNEL,
        },
    )
    first, second = tile.declare(Source(root=str(tmp_path), path="k.py"))
    assert (first.name, second.name, first.qualified) == ("renamed", "k", "k")
    assert str(first.location) == "ops/add.py:4:5"
    params = (tensor("x", out=True),)
    assert (
        tile.compile(job(tile, tmp_path, "k.py", "renamed", params, target="tileir")).info.symbol
        == "renamed_tile"
    )


@pytest.mark.parametrize(
    "files",
    [
        {"pkg/k.py": "from .helper import VALUE\n", "pkg/helper.py": "VALUE = 3\n"},
        {
            "pkg/k.py": "from . import helper\nVALUE = helper.VALUE\n",
            "pkg/helper.py": "VALUE = 3\n",
            "pkg/__init__.py": "",
        },
        {
            "pkg/k.py": "from ..pkg.helper import VALUE\n".replace("..", "."),
            "pkg/pkg/helper.py": "VALUE = 3\n",
        },
        {
            "pkg/k.py": "import helper\nVALUE = helper.VALUE\n",
            "pkg/helper.py": "VALUE = 3\n",
            "helper.py": "VALUE = 4\n",
        },
        {
            "pkg/k.py": "import top.deep.value as v\nVALUE = v.VALUE\n",
            "top/__init__.py": "",
            "top/deep/value.py": "VALUE = 3\n",
        },
        {
            "pkg/k.py": "from pkg import *\n",
            "pkg/__init__.py": "from pkg.helper import VALUE\n",
            "pkg/helper.py": "VALUE = 3\n",
        },
        {
            "pkg/k.py": "import importlib\nVALUE = importlib.import_module('pkg.helper').VALUE\n",
            "pkg/helper.py": "VALUE = 3\n",
        },
        {
            "pkg/k.py": "import copy\nVALUE = 3 if hasattr(copy, 'deepcopy') else 4\n",
            "pkg/copy.py": "",
        },
        {
            "pkg/k.py": "import yaml_like\nVALUE = yaml_like.VALUE\n",
            "yaml_like/__init__.py": "VALUE = 3\n",
        },
        {"pkg/k.py": "from cuda.helper import VALUE\n", "cuda/helper.py": "VALUE = 3\n"},
        {
            "pkg/k.py": "from __future__ import annotations\nfrom other.k import VALUE\n",
            "other/k.py": "VALUE = 3\n",
        },
    ],
)
def test_imports_of_the_project(tile, tmp_path, files):
    files["pkg/k.py"] = (
        HEADER + files["pkg/k.py"] + KERNEL
        if "__future__" not in files["pkg/k.py"]
        else files["pkg/k.py"] + HEADER + KERNEL
    )
    write(tmp_path, files)
    before = dict(sys.modules), list(sys.path), list(sys.meta_path), sys.dont_write_bytecode
    assert value_of(tile, tmp_path, "pkg/k.py") == 3
    image = tile.compile(
        job(tile, tmp_path, "pkg/k.py", "k", (tensor("x", out=True),), target="tileir")
    )
    assert image.data
    assert {n: m for n, m in sys.modules.items() if n in before[0]} == before[0]
    assert not {
        n
        for n in set(sys.modules) - set(before[0])
        if n.split(".")[0] in ("pkg", "helper", "top", "other", "yaml_like")
    }
    assert (list(sys.path), list(sys.meta_path), sys.dont_write_bytecode) == before[1:]
    assert not [n for n in linecache.cache if n.endswith("k.py") and not n.startswith("/")]
    assert not list(tmp_path.rglob("__pycache__"))


def test_two_projects_of_the_same_names_do_not_mix(tile, tmp_path):
    roots = []
    for n in (1, 2):
        files = {
            "kernels/k.py": HEADER + "from lib import VALUE\n" + KERNEL,
            "lib/__init__.py": f"VALUE = {n}\n",
        }
        roots.append(write(tmp_path / str(n), files))
    jobs = [
        job(tile, root, "kernels/k.py", "k", (tensor("x", out=True),), target="tileir")
        for root in roots
    ]
    first, second = (tile.compile(j).data for j in jobs)
    assert first != second
    assert tile.compile(jobs[0]).data == first
    assert [value_of(tile, r, "kernels/k.py") for r in roots] == [1, 2]


def test_a_project_may_be_named_like_a_loaded_package(tile, tmp_path):
    import json

    write(
        tmp_path,
        {
            "pytest.py": "VALUE = 5\n",
            "json.py": HEADER + "import pytest\nVALUE = pytest.VALUE\n" + KERNEL,
        },
    )
    assert value_of(tile, tmp_path, "json.py") == 5
    assert sys.modules["pytest"] is pytest
    assert sys.modules["json"] is json


def test_odd_names_of_files(tile, tmp_path):
    text = HEADER + "from tools import VALUE\n" + KERNEL
    write(
        tmp_path,
        {
            "my kernels/gemm-v2.1.py": text,
            "my kernels/tools.py": "VALUE = 1\n",
            "ядро/__init__.py": text,
            "ядро/tools.py": "VALUE = 2\n",
        },
    )
    assert value_of(tile, tmp_path, "my kernels/gemm-v2.1.py") == 1
    assert value_of(tile, tmp_path, "ядро/__init__.py") == 2
    params = (tensor("x", out=True),)
    data = tile.compile(
        job(tile, tmp_path, "my kernels/gemm-v2.1.py", "k", params, target="sm_80", lineinfo=True)
    ).data
    assert b"gemm-v2.1.py" in data
    assert str(tmp_path).encode() not in data


def test_modules_with_dataclasses_string_annotations_and_form_feeds(tile, tmp_path):
    text = (
        "from __future__ import annotations\nimport dataclasses\n\x0c\nimport cuda.tile as ct\n\n"
        "@dataclasses.dataclass(frozen=True)\nclass Config:\n    size: int = 16\n\n\nCONFIG = Config()\n\n\n"
        "@ct.kernel\ndef k(x, T: ct.Constant[int]):\n    ct.store(x, (0,), ct.full((CONFIG.size,), 1, x.dtype) + CONFIG.wrong)\n"
    )
    write(tmp_path, {"k.py": text})
    (decl,) = tile.declare(Source(root=str(tmp_path), path="k.py"))
    assert str(decl.location) == "k.py:15:5"
    assert [p.kind for p in decl.params] == ["tensor", "constant"]
    made = job(
        tile, tmp_path, "k.py", "k", (tensor("x", out=True),), axes={"T": 1}, target="tileir"
    )
    with pytest.raises(CompileError) as caught:
        tile.compile(made)
    assert caught.value.diagnostics[0].location.line == 16
    assert "wrong" in caught.value.diagnostics[0].excerpt


def test_a_virtual_environment_inside_of_the_project_is_not_part_of_it(tile, tmp_path, monkeypatch):
    """A package of such an environment that imports its own modules while it is used is none of the
    project's business.
    """
    site = tmp_path / ".venv" / "lib" / "python3" / "site-packages"
    lazy = "def value():\n    from installed.late import VALUE\n    return VALUE\n"
    write(site, {"installed/__init__.py": lazy, "installed/late.py": "VALUE = 5\n"})
    write(tmp_path, {"k.py": HEADER + "import installed\nVALUE = installed.value()\n" + KERNEL})
    monkeypatch.syspath_prepend(str(site))
    assert value_of(tile, tmp_path) == 5
    source = Source(root=str(tmp_path), path="k.py")
    assert [file.name for file in tile.inputs(source)] == ["k.py"]
    assert [decl.name for decl in tile.declare(source)] == ["k"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "installed"]:
        del sys.modules[name]
