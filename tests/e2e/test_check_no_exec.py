"""`tilec check --no-exec`: what needs no execution is checked, and nothing of the project is
executed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import ADD, HEAD, TWICE, TWICE_CU, Cli, write

pytestmark = [pytest.mark.e2e]

MARK = "import pathlib\npathlib.Path(__file__).with_suffix('.executed').touch()\n"
CASE = """
[kernel.add.case.one]
inputs.x = { shape = [128] }
inputs.z = { shape = [128], dist = "empty" }
reference = "ref.py:add"
"""
PLUGIN = """
[kernel.foreign]
source = "k/foreign.evil"
language = "evil"
"""
ADD_PY = (
    "import cuda.tile as ct\n\n\n@ct.kernel\ndef add(z, x, TILE: ct.Constant[int]):\n    pass\n"
)
# Every process that is started, and every code object of the project that is executed, ends the
# command.
WATCHED = """
import os, sys
root = os.path.realpath(sys.argv[1])
def watch(event, arguments):
    started = event in ("subprocess.Popen", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.system")
    started = started or event == "ctypes.dlopen" and arguments[0] is not None
    if started or event == "exec" and arguments[0].co_filename.startswith(root):
        print("executed:", event, arguments, flush=True)
        os._exit(99)
sys.argv[1:] = ["-C", root, "check", *sys.argv[2:]]
from tilec.cli.main import main
sys.addaudithook(watch)
main()
"""


def hostile(root: Path) -> Path:
    """A project each of whose Python files leaves a mark when it is executed, with a frontend of
    its own.
    """
    write(root, HEAD + TWICE + ADD + CASE + PLUGIN, {"k/add.py": ADD_PY + MARK})
    files = {
        "conftest.py",
        "sitecustomize.py",
        "usercustomize.py",
        "evil.py",
        "k/__init__.py",
        "k/conftest.py",
    }
    for name in files:
        (root / name).write_text(MARK)
    (root / "ref.py").write_text(MARK + "def add(x):\n    return x\n")
    (root / "k/foreign.evil").write_text("anything")
    info = root / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tilec.frontends]\nevil = evil:Frontend\n")
    return root


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in the project's directory, from which modules and plug-ins can be imported
    (`python -c`).
    """
    command = [sys.executable, "-c", WATCHED, str(root), *arguments]
    return subprocess.run(
        command,
        cwd=root,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_executes_nothing(tmp_path: Path) -> None:
    root = hostile(tmp_path / "project")
    before = {path.relative_to(root) for path in root.rglob("*")}
    done = run(root, "--no-exec")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert re.sub(r"^.*?tilec\.toml", "tilec.toml", done.stdout) == (
        "tilec.toml: no problems found without execution; 3 kernels\n"
        "not checked: add: what the module does when it is imported, parameters, and the plan\n"
        "not checked: foreign: files of language evil, which a tool or a plug-in reads\n"
        "not checked: compilers and the toolkit's headers, tuning files, steps of chains, sizes of cases\n"
    )
    told = json.loads(run(root, "--no-exec", "--json").stdout)
    assert (told["ok"], told["executed"], told["jobs"], len(told["not_checked"])) == (
        True,
        False,
        0,
        3,
    )
    assert {path.relative_to(root) for path in root.rglob("*")} == before


def test_the_watch_sees_what_check_executes(tmp_path: Path) -> None:
    done = run(hostile(tmp_path / "project"))
    assert done.returncode == 99
    assert done.stdout.startswith("executed: ")


WRONG = {
    "a syntax error": (
        (),
        "k/add.py",
        "def add(:\n",
        "kernel.add.source: k/add.py is no Python: invalid syntax, line 1\n",
    ),
    "another name": (
        (),
        "k/add.py",
        ADD_PY.replace("def add", "def added"),
        (
            "tilec.toml:18:1: error: kernel.add.source: k/add.py has no kernel 'add'; did you mean 'added'\n"
            '    source = "k/add.py"\n    ^\n'
        ),
    ),
    "a kernel of CUDA C++": (
        (),
        "k/twice.cu",
        TWICE_CU.replace("void twice", "void thrice"),
        (
            "tilec.toml:12:1: error: kernel.twice.source: k/twice.cu has no kernel 'twice'; did you mean 'thrice'\n"
            '    source = "k/twice.cu"\n    ^\n'
        ),
    ),
    "arguments of CUDA C++": (
        ("i64(x.size)", "i32(x.size)"),
        "k/twice.cu",
        TWICE_CU,
        "kernel.twice.args",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_finds_what_texts_say(cli: Cli, tmp_path: Path, name: str) -> None:
    change, file, text, words = WRONG[name]
    manifest = HEAD + TWICE + ADD
    root = write(
        tmp_path,
        manifest.replace(*change) if change else manifest,
        {"k/add.py": ADD_PY, file: text},
    )
    done = cli(root, "check", "--no-exec")
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert done.err.count("error: ") == 2, "the problem and the count of problems"
