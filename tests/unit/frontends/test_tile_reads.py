"""Files that a tile module opens when it is executed, and modules that it imports from outside of the project."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilec.frontends.tools.inputs import closure
from tilec.frontends.tools.modules import load
from tilec.frontends.tools.reads import GONE, digest_of, digests, is_environment, with_reads
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.job import InputFile, Source

OPEN = "from pathlib import Path\nHERE = Path(__file__).parent\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def reads(root: Path, text: str, **files: str) -> dict[str, str]:
    write(root, {"kernels/k.py": text, **files})
    return dict(load(Source(root=str(root), path="kernels/k.py")).reads)


@pytest.mark.parametrize(
    "code",
    [
        'with open(HERE / "table.json") as file:\n    file.read()',
        '(HERE / "table.json").read_text()',
        'import os\nos.close(os.open(HERE / "table.json", os.O_RDONLY))',
        'import json\nwith open(str(HERE) + "/../kernels/table.json") as file:\n    json.load(file)',
        'import numpy\nnumpy.fromfile(HERE / "table.json", "u1")',
        "exec(\"open(HERE / 'table.json').close()\")",
        'def read():\n    with open(bytes(HERE / "table.json")) as file:\n        return file.read()\nread()',
    ],
)
def test_files_that_the_module_opens(tmp_path: Path, code: str) -> None:
    write(tmp_path, {"kernels/table.json": "[1]"})
    assert reads(tmp_path, OPEN + code) == {"kernels/table.json": sha256(b"[1]")}


def test_what_is_opened_by_a_module_that_it_imports(tmp_path: Path) -> None:
    helper = OPEN + 'TABLE = (HERE / "table.json").read_text()\n'
    write(tmp_path, {"lib/__init__.py": "", "lib/helper.py": helper, "lib/table.json": "[2]"})
    assert reads(tmp_path, "from lib.helper import TABLE\n") == {"lib/table.json": sha256(b"[2]")}


def test_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    text = OPEN + 'try:\n    VALUE = (HERE / "more.json").read_text()\nexcept FileNotFoundError:\n    VALUE = ""\n'
    source = Source(root=str(tmp_path), path="kernels/k.py")
    assert reads(tmp_path, text) == {"kernels/more.json": GONE}
    first = load(source)
    assert load(source) is first
    write(tmp_path, {"kernels/more.json": "[3]"})
    again = load(source)
    assert (again.main.VALUE, dict(again.reads)) == ("[3]", {"kernels/more.json": sha256(b"[3]")})
    assert not first.is_current


def test_directories_that_are_listed(tmp_path: Path) -> None:
    write(tmp_path, {"kernels/tables/a.json": "", "kernels/tables/.hidden": ""})
    for code in ("sorted((HERE / 'tables').iterdir())", "import os\nos.listdir(HERE / 'tables')", "list((HERE / 'tables').glob('*'))"):
        found = reads(tmp_path, OPEN + code)
        assert found == {"kernels/tables/": sha256(b"a.json")}
    write(tmp_path, {"kernels/tables/b.json": ""})
    assert digest_of(str(tmp_path), "kernels/tables/") != found["kernels/tables/"]


@pytest.mark.parametrize(
    "code",
    [
        "open(__file__).close()",
        "import email.message, xml.dom.minidom",
        "open('/dev/null').close()\nopen('/proc/self/status').close()",
        "import os\nopen(os.__file__).close()",
        "(HERE / 'made.txt').write_text('x')\n(HERE / 'made.txt').read_text()",
        "import tempfile\ntempfile.TemporaryFile().close()",
        "open(HERE / '.state', 'a').close()\nopen(HERE / '.state').close()",
        "import os\nos.close(os.dup(0))\nimport io\nio.StringIO('x').read()",
    ],
)
def test_what_is_no_input(tmp_path: Path, code: str) -> None:
    assert reads(tmp_path, OPEN + code) == {}


def test_a_file_outside_of_the_project_is_an_input_too(tmp_path: Path) -> None:
    root = tmp_path / "project"
    write(tmp_path, {"shared/table.json": "[4]"})
    text = f"open({str(tmp_path / 'shared' / 'table.json')!r}).close()\n"
    assert reads(root, text) == {"../shared/table.json": sha256(b"[4]")}
    assert digests(str(root), ["../shared/table.json"]) == (("../shared/table.json", sha256(b"[4]")),)


def test_inputs_with_reads() -> None:
    known = (InputFile(name="b", digest="1"), InputFile(name="a", digest="2"))
    assert with_reads(known, {}) == known, "as the frontend has them"
    assert with_reads(known, {"b": "9"}) == known
    assert [(file.name, file.digest) for file in with_reads(known, {"c": "3", "0": ""})] == [("0", ""), ("a", "2"), ("b", "1"), ("c", "3")]


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
    for name in [name for name in sys.modules if name.partition(".")[0] in ("acme_shared", "acme_other", "acme_large")]:
        del sys.modules[name]


def test_modules_outside_of_the_project_are_inputs(tmp_path: Path, elsewhere: Path) -> None:
    root = tmp_path / "project"
    files = {"acme_shared/__init__.py": "import json, acme_other\nfrom . import part\n", "acme_shared/part.py": "VALUE = 1\n"}
    write(elsewhere, {**files, "acme_shared/lazy.py": "", "acme_other.py": "VALUE = 2\n"})
    write(root, {"k.py": "import acme_shared.part, numpy\n"})
    source = Source(root=str(root), path="k.py")
    names = [f"../elsewhere/{name}" for name in ("acme_other.py", "acme_shared/__init__.py", "acme_shared/lazy.py", "acme_shared/part.py")]
    before = closure(source)
    assert [file.name for file in before] == [*names, "k.py"]
    write(elsewhere, {"acme_shared/part.py": "VALUE = 11\n"})
    assert [a.name for a, b in zip(before, closure(source), strict=True) if a != b] == [names[-1]]
    # A module of the project comes first, as it does when it is executed.
    write(root, {"acme_shared.py": ""})
    assert [file.name for file in closure(source)] == ["acme_shared.py", "k.py"]


def test_of_a_large_package_outside_of_the_project_only_its_own_files_count(tmp_path: Path, elsewhere: Path) -> None:
    write(elsewhere, {"acme_large/__init__.py": "import acme_other\n", "acme_other.py": ""})
    write(elsewhere, {f"acme_large/m{number}.py": "" for number in range(100)})
    root = tmp_path / "project"
    write(root, {"k.py": "import acme_large\n"})
    names = [file.name for file in closure(Source(root=str(root), path="k.py"))]
    assert len(names) == 102
    assert "../elsewhere/acme_other.py" not in names


def test_installed_packages_are_not_looked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "rglob", lambda *_: pytest.fail("it may be large"))
    write(tmp_path, {"k.py": "import pytest, hypothesis.strategies, numpy, json, nothing_such\n"})
    assert [file.name for file in closure(Source(root=str(tmp_path), path="k.py"))] == ["k.py"]


def test_what_a_module_outside_of_the_project_opens(tmp_path: Path, elsewhere: Path) -> None:
    write(elsewhere, {"acme_shared/__init__.py": OPEN + "VALUE = (HERE / 'v.txt').read_text()\n", "acme_shared/v.txt": "5"})
    assert reads(tmp_path / "project", "import acme_shared\n") == {"../elsewhere/acme_shared/v.txt": sha256(b"5")}
