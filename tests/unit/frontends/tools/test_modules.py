"""Files that a Python source reads when it is executed, and modules that it imports from outside of
the project.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilec.frontends.tools.environment import is_environment
from tilec.frontends.tools.inputs import closure
from tilec.frontends.tools.modules import LoadedModule, load
from tilec.model.job import Source
from tilec_runtime.errors import CompileError

OPEN = "from pathlib import Path\nHERE = Path(__file__).parent\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def loaded(root: Path, text: str, *inputs: str) -> LoadedModule:
    write(root, {"kernels/k.py": text})
    return load(Source(root=str(root), path="kernels/k.py", options=(("reads", inputs),)))


@pytest.mark.parametrize(
    "code",
    [
        'with open(HERE / "table.json") as file:\n    file.read()',
        'import os\nos.close(os.open(HERE / "table.json", os.O_RDONLY))',
        'import numpy\nnumpy.fromfile(HERE / "table.json", "u1")',
        'with open(bytes(HERE / "table.json")) as file:\n    file.read()',
    ],
)
def test_a_file_that_the_module_reads_is_declared(tmp_path: Path, code: str) -> None:
    write(tmp_path, {"kernels/table.json": "[1]"})
    with pytest.raises(CompileError) as caught:
        loaded(tmp_path, OPEN + code)
    message = caught.value.diagnostics[0]
    assert (
        "the module reads kernels/table.json when it is executed, and the manifest does not say so"
        in message.message
    )
    assert message.location is not None
    assert (message.location.file, message.location.line) >= ("kernels/k.py", 3)
    assert [item.name for item in loaded(tmp_path, OPEN + code, "kernels/table.json").inputs] == [
        "kernels/k.py",
        "kernels/table.json",
    ]


def test_declared_files_are_inputs(tmp_path: Path) -> None:
    write(tmp_path, {"tables/a.json": "[1]", "tables/more/b.json": "[2]"})
    text = OPEN + "VALUE = (HERE.parent / 'tables/a.json').read_text()\n"
    first = loaded(tmp_path, text, "tables")
    assert [item.name for item in first.inputs] == [
        "kernels/k.py",
        "tables/a.json",
        "tables/more/b.json",
    ]
    assert loaded(tmp_path, text, "tables") is first
    write(tmp_path, {"tables/a.json": "[33]"})
    assert loaded(tmp_path, text, "tables").main.VALUE == "[33]"
    for name in ("tables/gone.json", "../outside.json"):
        with pytest.raises(CompileError, match=name):
            loaded(tmp_path, text, name)


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import importlib\nimportlib.import_module('help' + 'er')\n", "helper.py"),
        (
            "import sys\nsys.path.insert(0, str(HERE / 'more'))\nimport inner_module\n",
            "kernels/more/inner_module.py",
        ),
    ],
)
def test_a_module_that_no_import_statement_names_is_declared(
    tmp_path: Path, code: str, name: str
) -> None:
    write(tmp_path, {name: "VALUE = 1\n"})
    before = list(sys.path)
    with pytest.raises(CompileError, match=f"the module reads {name} when it is executed"):
        loaded(tmp_path, OPEN + code)
    assert sys.path == before
    assert not list(tmp_path.rglob("__pycache__"))
    assert name in [item.name for item in loaded(tmp_path, OPEN + code, name).inputs]


@pytest.mark.parametrize(
    "code",
    [
        "open(__file__).close()",
        "import email.message, xml.dom.minidom",
        "open('/dev/null').close()\nopen('/proc/self/status').close()",
        "import os\nopen(os.__file__).close()",
        "(HERE / 'made.txt').write_text('x')",
        "import tempfile\ntempfile.TemporaryFile().close()",
        "open(HERE / '.state', 'a').close()\nopen(HERE / '.state').close()",
        "import os\nos.close(os.dup(0))\nimport io\nio.StringIO('x').read()",
    ],
)
def test_what_needs_no_declaration(tmp_path: Path, code: str) -> None:
    loaded(tmp_path, OPEN + code)


def test_the_environment() -> None:
    assert is_environment(os.__file__)
    assert is_environment(pytest.__file__)
    assert not is_environment("/nowhere/x.py")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that PYTHONPATH leads to."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    for name in [
        name
        for name in sys.modules
        if name.partition(".")[0] in ("acme_shared", "acme_other", "acme_large")
    ]:
        del sys.modules[name]


def test_modules_outside_of_the_project_are_inputs(tmp_path: Path, elsewhere: Path) -> None:
    root = tmp_path / "project"
    files = {
        "acme_shared/__init__.py": "import json, acme_other\nfrom . import part\n",
        "acme_shared/part.py": "VALUE = 1\n",
    }
    write(elsewhere, {**files, "acme_shared/lazy.py": "", "acme_other.py": "VALUE = 2\n"})
    write(root, {"k.py": "import acme_shared.part, numpy\n"})
    source = Source(root=str(root), path="k.py")
    names = [
        f"../elsewhere/{name}"
        for name in (
            "acme_other.py",
            "acme_shared/__init__.py",
            "acme_shared/lazy.py",
            "acme_shared/part.py",
        )
    ]
    before = closure(source)
    assert [file.name for file in before] == [*names, "k.py"]
    write(elsewhere, {"acme_shared/part.py": "VALUE = 11\n"})
    assert [a.name for a, b in zip(before, closure(source), strict=True) if a != b] == [names[-1]]
    # A module of the project comes first, as it does when it is executed.
    write(root, {"acme_shared.py": ""})
    assert [file.name for file in closure(source)] == ["acme_shared.py", "k.py"]
