"""Which project files a Python source depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.frontends.base import ToolSearch
from tilec.frontends.tile.frontend import TileFrontend
from tilec.frontends.tools import inputs
from tilec.frontends.tools.inputs import closure
from tilec.model.job import Source
from tilec_runtime.errors import CompileError


def names(root, files: dict[str, str], path: str = "kernels/k.py") -> list[str]:
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return [i.name for i in closure(Source(root=str(root), path=path)) if i.name != path]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import os, numpy, cuda.tile as ct\n", []),
        ("import helper\n", ["kernels/helper.py"]),
        ("import lib.a\n", ["lib/__init__.py", "lib/a.py"]),
        ("from lib import a, nothing\n", ["lib/__init__.py", "lib/a.py"]),
        ("from lib.a import f\n", ["lib/__init__.py", "lib/a.py"]),
        ("from lib import *\n", ["lib/__init__.py", "lib/a.py", "lib/b.py"]),
        ("from . import helper\n", ["kernels/helper.py"]),
        ("from .helper import f\n", ["kernels/helper.py"]),
        ("from ..lib.a import f\n", ["lib/__init__.py", "lib/a.py"]),
        ("from .... import f\n", []),
        ("def f():\n    if 1:\n        import helper\n", ["kernels/helper.py"]),
        (
            "try:\n    import helper\nexcept ImportError:\n    import lib.b\n",
            ["kernels/helper.py", "lib/__init__.py", "lib/b.py"],
        ),
        ("import importlib\nimportlib.import_module('lib.b')\n", ["lib/__init__.py", "lib/b.py"]),
        ("__import__('helper')\n", ["kernels/helper.py"]),
        ("import chain\n", ["kernels/chain.py", "kernels/helper.py"]),
        ("import loop\n", ["kernels/loop.py"]),
        ("import shadow\n", ["kernels/shadow.py", "shadow.py"]),
        ("import numpy_like\n", ["numpy_like/__init__.py"]),
        ("this is no Python (\n", []),
        ("import data.set\n", ["data/set.py"]),
    ],
)
def test_imports_are_followed(tmp_path, text, expected):
    files = {
        "kernels/k.py": text,
        "kernels/helper.py": "import numpy\n",
        "kernels/chain.py": "from kernels import helper\n",
        "kernels/loop.py": "import loop, kernels.k\n",
        "kernels/shadow.py": "",
        "shadow.py": "",
        "lib/__init__.py": "",
        "lib/a.py": "",
        "lib/b.py": "",
        "numpy_like/__init__.py": "",
        "data/set.py": "",
    }
    assert names(tmp_path, files) == expected


def test_relative_imports_run_the_packages_around(tmp_path):
    files = {
        "p/__init__.py": "",
        "p/q/__init__.py": "from p import base\n",
        "p/base.py": "",
        "p/q/k.py": "from . import x\n",
        "p/q/x.py": "",
    }
    assert names(tmp_path, files, "p/q/k.py") == [
        "p/__init__.py",
        "p/base.py",
        "p/q/__init__.py",
        "p/q/x.py",
    ]


def test_a_changed_or_new_file_changes_the_inputs(tmp_path):
    source = Source(root=str(tmp_path), path="k.py")
    names(tmp_path, {"k.py": "import a\n", "a.py": "x = 1\n"}, "k.py")
    first = closure(source)
    assert closure(source) == first
    (tmp_path / "a.py").write_text("x = 22\n")
    assert closure(source) != first
    assert names(tmp_path, {"a/__init__.py": ""}, "k.py") == ["a/__init__.py"]


def test_links_must_stay_in_the_project(tmp_path):
    root = tmp_path / "project"
    (tmp_path / "far.py").write_text("")
    assert names(root, {"k.py": "", "inner.py": ""}, "k.py") == []
    (root / "helper.py").symlink_to(root / "inner.py")
    assert names(root, {"k.py": "import helper\n"}, "k.py") == ["helper.py"]
    (root / "helper.py").unlink()
    (root / "helper.py").symlink_to("../far.py")
    with pytest.raises(
        CompileError, match=r"^helper\.py: the file lies outside of the project"
    ) as caught:
        closure(Source(root=str(root), path="k.py"))
    assert "is a link that leaves the project" in caught.value.cause
    assert "copy the file into the project" in caught.value.fix


def test_missing_source(tmp_path):
    with pytest.raises(CompileError, match=r"k\.py: cannot be read: No such file"):
        closure(Source(root=str(tmp_path), path="k.py"))


@pytest.mark.parametrize(
    "line",
    [
        "import tilec.lang as tl",
        "from tilec.lang import kernel",
        "from tilec import lang",
        "if x:\n    import tilec.lang",
    ],
)
def test_the_safe_language_is_an_input_of_what_imports_it(tmp_path: Path, line: str) -> None:
    (tmp_path / "k.py").write_text("import shared\n")
    (tmp_path / "shared.py").write_text(f"{line}\n")
    source = Source(root=str(tmp_path), path="k.py")
    own, *files = TileFrontend(ToolSearch()).inputs(source)
    assert (own.name, len(own.digest)) == ("<tilec>/lang", 64)
    assert tuple(files) == closure(source)
    (tmp_path / "shared.py").write_text("import cuda.tile\n")
    assert tuple(TileFrontend(ToolSearch()).inputs(source)) == closure(source)


@pytest.mark.parametrize("name", ["proof.py", "calls.py", "arrays.py"])
def test_what_proves_kernels_is_an_input_of_theirs(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What was kept before a mistake in it was mended must not be taken for what is right."""
    before, read = inputs._language_digest.__wrapped__(), Path.read_bytes
    monkeypatch.setattr(
        Path, "read_bytes", lambda self: read(self) + (b"#" if self.name == name else b"")
    )
    assert inputs._language_digest.__wrapped__() != before
