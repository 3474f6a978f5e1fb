"""What is wrong with a source is shown at the user's line; a compiler that hangs or dies costs its
job alone; exit code 1.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.harness import ADD, ADD_PY, HEAD, TWICE, TWICE_CU, Cli, tree, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

ODD = "mein Projekt ü"
UNHARMED = "; nothing was written, earlier outputs are unchanged\n"
LATER = "a kernel module is executed when it is built: what only a launch needs (torch, say) is imported inside functions"

# By name: manifest, source text, and the start of what is said.
SOURCES = {
    "Python syntax": (
        ADD,
        ADD_PY.replace("[int]):", "[int]:"),
        "k/add.py:5: error: SyntaxError: invalid syntax\n    def add(z, x, TILE: ct.Constant[int]:\n",
    ),
    "a module that is not installed": (
        ADD,
        "import nothing_such\n" + ADD_PY,
        (
            "k/add.py:1: error: ModuleNotFoundError: No module named 'nothing_such'\n    import nothing_such\n"
            f"  hint: install nothing_such where you build, or: {LATER}\n"
        ),
    ),
    "an exception at import": (
        ADD,
        ADD_PY + "\nLIMIT = 1 // 0\n",
        f"k/add.py:9: error: ZeroDivisionError: integer division or modulo by zero\n    LIMIT = 1 // 0\n  hint: {LATER}\n",
    ),
    "exit at import": (
        ADD,
        "import sys\nsys.exit(7)\n" + ADD_PY,
        f"k/add.py:2: error: the module calls exit (7) when it is imported\n    sys.exit(7)\n  hint: {LATER}\n",
    ),
    "a process that ends at import": (
        ADD,
        "import os\nos._exit(7)\n" + ADD_PY,
        (
            "error: k/add.py: the process that reads it exited with status 7\n"
            "  cause: code of the source ends or crashes its process when it is imported\n"
            "  fix: it said nothing: look for os._exit and extension modules in what the source imports\n"
        ),
    ),
    "a module that waits": (
        "[toolchain]\ntimeout = 1\n" + ADD,
        "import time\ntime.sleep(600)\n" + ADD_PY,
        (
            "error: k/add.py: reading it did not end within 1 s\n"
            "  cause: code at the top level of the source is run when it is read, and it waits or does much\n"
            "  fix: raise `timeout` in [toolchain], in seconds\n"
        ),
    ),
}
JOBS = {
    "a tile that cannot be": (
        ADD.replace("128", "100"),
        ADD_PY,
        'k/add.py:7:23: error: Invalid argument "shape" of load(): Dimension #0 of shape (100,) is not a power of two\n',
    ),
    "C++ syntax": (
        TWICE,
        TWICE_CU.replace("x[i];", "x[i]"),
        'k/twice.cu:5:1: error: expected a ";"\n    }\n    ^\n  hint: look at the end of the line before, too\n',
    ),
    "a header that is not there": (
        TWICE,
        '#include "nothing.cuh"\n' + TWICE_CU,
        (
            'k/twice.cu:1:23: error: cannot open source file "nothing.cuh"\n    #include "nothing.cuh"\n                          ^\n'
            "  hint: add its directory to `include` in [frontend.cuda] (relative to tilec.toml)\n"
        ),
    ),
    "a header of the host": (
        TWICE.replace("params", 'compiler = "nvrtc"\nparams'),
        "#include <vector>\n" + TWICE_CU,
        (
            'k/twice.cu:1:18: error: cannot open source file "vector"\n    #include <vector>\n                     ^\n'
            '  hint: NVRTC has no host headers: leave it out of device code, or set compiler = "nvcc" in [frontend.cuda] or the kernel\n'
        ),
    ),
    "an instance that cannot be": (
        TWICE.replace("params", 'symbol = "twice<float, 3, 4>"\nparams'),
        TWICE_CU.replace('extern "C" ', "template <typename T, int N, int M, int Q> "),
        "k/twice.cu:2:60: error: the source has no instance twice<float, 3, 4>: cannot determine which instance",
    ),
    "an option of no compiler": (
        TWICE.replace("params", 'unchecked-flags = true\nflags = ["--nonsense"]\nparams'),
        TWICE_CU,
        (
            "k/twice.cu:2:28: error: unrecognized option --nonsense found\n"
            '    extern "C" __global__ void twice(float* y, const float* x, long long n) {\n'
            f"{' ' * 31}^\n  hint: see `flags` of [frontend.cuda] and of the kernel\n"
        ),
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_that_cannot_be_read(cli: Cli, tmp_path: Path, name: str) -> None:
    manifest, text, words = SOURCES[name]
    root = write(tmp_path, HEAD + manifest, {"k/add.py": text})
    done = cli(root, "build")
    assert (done.code, done.out) == (1, "")
    # Columns, and carets with them, are as good as the version of Python is.
    said = re.sub(r"(?m)^ +\^\n", "", re.sub(r"^(k/add\.py:\d+):\d+:", r"\1:", done.err))
    assert said == f"{words}\nerror: 1 of 1 sources have errors{UNHARMED}"
    assert not (root / "dist").exists()


@pytest.mark.parametrize("name", JOBS)
def test_a_source_that_does_not_compile(cli: Cli, tmp_path: Path, name: str) -> None:
    """In a directory with a space and letters beyond ASCII; the failing input, its log and its
    command line are kept.
    """
    manifest, text, words = JOBS[name]
    source = "k/add.py" if "k/add.py" in manifest else "k/twice.cu"
    root = write(tmp_path / ODD, HEAD + manifest, {source: text})
    done = cli(root, "build")
    assert (done.code, done.out) == (1, "")
    (job,) = done.jobs
    assert f"\n[1/1] failed {job}\n{words}" in done.err
    assert done.err.endswith(
        f"\n  in job {job}\n  input, command and full log kept in .tilec/failed/{job}\n\nerror: 1 of 1 jobs failed{UNHARMED}"
    )
    kept = tree(root / ".tilec" / "failed" / job)
    assert kept[Path(source).name].decode() == text
    assert kept["log.txt"]
    assert str(tmp_path) not in done.err


@pytest.mark.long
def test_a_broken_source_is_in_the_way_of_its_own_kernels_only(cli: Cli, tmp_path: Path) -> None:
    rule = '[[override]]\nselect = "add-*"\nhints = { occupancy = 2 }\n'
    root = write(
        tmp_path, f"{HEAD}{TWICE}{ADD}\n{rule}", {"k/add.py": "import cuda.tile as ct\ndef (\n"}
    )
    for words in (
        ("build",),
        ("build", "--select", "*-sm_90"),
        ("build", "--select", "add-TILE128"),
        ("build", "--select", "nothing*-x"),
    ):
        done = cli(root, *words)
        assert done.code in (1, 2), words
        assert not (root / "dist").exists()
    done = cli.good(root, "build", "--select", "twice*")
    assert "note: k/add.py cannot be read: SyntaxError" in done.err
    assert "passed over, since --select takes none of its kernels" in done.err
    assert "override" not in done.err
    assert cli.good(root, "build", "--select", "twice*").up_to_date
    assert "twice-sm_90" in cli.good(root, "build", "--list", "--select", "twice*").out
    assert cli(root, "build", "--select", "twice*", "--select", "add").code == 1
