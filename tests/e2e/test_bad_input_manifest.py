"""What is wrong with tilec.toml is said with its place, all at once, in words that lead on; exit
code 2.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.harness import ADD, HEAD, TWICE, TWICE_CU, Cli, tree, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

CUDA, TILE = HEAD + TWICE, HEAD + ADD
TEMPLATE = {
    "k/twice.cu": TWICE_CU.replace('extern "C" ', "template <typename T, int B> ")
    .replace("float*", "T*")
    .replace("float* x", "T* x")
}
INSTANCE = CUDA.replace(
    "params", 'symbol = "twice<{T}, {B}>"\nmatrix = { T = ["f32"], B = [1, 2] }\nparams'
)

# By name: the manifest, what is replaced in it by what, where the message points, and how it
# begins.
MANIFESTS = {
    "syntax": (
        CUDA,
        "[kernel.twice]",
        "[kernel.twice",
        "",
        "the TOML cannot be read: expected ']' at the end of a table declaration",
    ),
    "a value without quotes": (
        CUDA,
        '"1.0.0"',
        "1.0.0",
        ".0",
        "the TOML cannot be read: expected newline or end of document after a statement",
    ),
    "edition": (
        CUDA,
        "edition = 1",
        "edition = 2",
        "2",
        "edition: edition 2 is newer than this tilec, which reads edition 1: update tilec",
    ),
    "unknown key": (
        CUDA,
        "launch",
        "lunch = 1\nlaunch",
        "lunch",
        "kernel.twice.lunch: unknown key; did you mean 'launch'",
    ),
    "unknown target": (
        CUDA,
        '["sm_90"]',
        '["sm_95"]',
        '"sm_95"',
        "targets.default[0]: unknown target 'sm_95'; did you mean 'sm_90'",
    ),
    "unknown dtype": (
        CUDA,
        "x = {}",
        'x = { dtype = "f33" }',
        '"f33"',
        "kernel.twice.params.x.dtype: unknown dtype or axis 'f33'; did you mean 'f32'",
    ),
    "unknown axis": (
        CUDA,
        "block = [256]",
        'block = ["BM"]',
        'BM"',
        "kernel.twice.launch.block[0]: unknown name 'BM'",
    ),
    "axis in exclude": (
        INSTANCE,
        "B = [1, 2]",
        "B = [1, 2], exclude = [{ BB = 1 }]",
        "BB",
        "kernel.twice.matrix.exclude[0].BB: unknown axis 'BB'; did you mean 'B'",
    ),
    "an axis of no dtypes": (
        TILE,
        'z = { dtype = "f32"',
        'z = { dtype = "TILE"',
        '"TILE"',
        "kernel.add.params.z.dtype: axis TILE holds no dtypes but 128",
    ),
    "everything excluded": (
        INSTANCE,
        "B = [1, 2]",
        'B = [1, 2], exclude = [{ when = "B > 0" }]',
        "matrix",
        "kernel.twice.matrix: the matrix excludes every point: no variant is left",
    ),
    "a matrix that explodes": (
        INSTANCE,
        "B = [1, 2]",
        f"B = {[*range(300)]}",
        "matrix",
        "kernel.twice.matrix.max-variants: the matrix gives 300 variants, more than max-variants = 256",
    ),
    "a kernel twice": (
        CUDA + TWICE,
        "",
        "",
        "twice]",
        "kernel.twice is given twice, first in line ",
    ),
    "no such source": (
        CUDA,
        '"k/twice.cu"',
        '"k/twise.cu"',
        "source",
        "kernel.twice.source: no such file 'k/twise.cu'; did you mean 'k/twice.cu'",
    ),
    "a source outside": (
        CUDA,
        '"k/twice.cu"',
        '"../twice.cu"',
        '"../twice.cu"',
        "kernel.twice.source: '../twice.cu' leads out of the project: sources and results lie below the manifest's directory",
    ),
    "an absolute source": (
        CUDA,
        '"k/twice.cu"',
        '"/etc/passwd"',
        '"/etc/passwd"',
        "kernel.twice.source: '/etc/passwd' is absolute: paths are relative to the directory of the manifest",
    ),
    "a suffix of no language": (
        CUDA,
        '"k/twice.cu"',
        '"k/twice.c"',
        '"k/twice.c"',
        "kernel.twice.source: no language has files that end in '.c': known are .cu (cuda), .cuh (cuda), .ptx (prebuilt), ",
    ),
    "unknown language": (
        CUDA,
        "params",
        'language = "cudda"\nparams',
        '"cudda"',
        "kernel.twice.language: unknown language 'cudda'; did you mean 'cuda'",
    ),
    "a source that is linked with itself": (
        CUDA,
        "params",
        'link = ["k/twice.cu"]\nparams',
        '"k/twice.cu"',
        "kernel.twice.link[0]: this is the source itself: link the files that define what it declares",
    ),
    "no such symbol": (
        CUDA,
        "params",
        'symbol = "twize"\nparams',
        "symbol",
        "kernel.twice.symbol: k/twice.cu has no kernel 'twize'; did you mean 'twice'",
    ),
    "no such function": (
        TILE,
        '"k/add.py"',
        '"k/add.py:ad"',
        "source",
        "kernel.add.source: k/add.py has no kernel 'ad'; did you mean 'add'",
    ),
    "args too short": (
        CUDA,
        ', "i64(x.size)"',
        "",
        "args",
        "kernel.twice.args: 2 args, but twice takes 3 parameters: float* y, const float* x, long long n",
    ),
    "args of another type": (
        CUDA,
        "i64(",
        "i32(",
        '"i32(x.size)"',
        "kernel.twice.args[2]: 'i32(x.size)' packs i32, but the source takes long long n (i64)",
    ),
    "a parameter there is not": (
        TILE,
        "\nx = {",
        '\nw = { dtype = "f32", rank = 1 }\nx = {',
        "w",
        "kernel.add.params.w: kernel 'add' has no parameter 'w'; it has z, x",
    ),
    "a dtype the source denies": (
        CUDA,
        "x = {}",
        'x = { dtype = "f16" }',
        "dtype",
        "kernel.twice.params.x.dtype: the manifest says dtype 'f16', the source says 'const float*' (f32)",
    ),
    "an output that is const": (
        CUDA,
        "x = {}",
        "x = { out = true }",
        "out",
        "kernel.twice.params.x.out: out = true, but the source only reads it (const float* x)",
    ),
    "expression: attribute": (
        CUDA,
        "cdiv(x.size",
        "cdiv(x.sise",
        "x.sise",
        "kernel.twice.launch.grid[0]: unknown attribute 'x.sise'; did you mean 'size'",
    ),
    "expression: function": (
        CUDA,
        "cdiv(",
        "ceil(",
        "ceil(x.size",
        "kernel.twice.launch.grid[0]: unknown function 'ceil'",
    ),
    "expression: Python": (
        CUDA,
        "cdiv(x.size, 256)",
        "__import__('os')",
        "__import__('os')\"",
        "kernel.twice.launch.grid[0]: unknown function '__import__'",
    ),
    "expression: bracket": (
        CUDA,
        "256)",
        "256",
        "(x.size",
        "kernel.twice.launch.grid[0]: '(' was never closed",
    ),
    "expression: condition": (
        CUDA,
        "y.size == x.size",
        "y.size",
        '"y.size"',
        "kernel.twice.launch.requires[0]: 'y.size' is not a condition: compare it, as in x.size == y.size",
    ),
    "expression: rank": (
        TILE,
        "z.shape[0], TILE",
        "z.shape[1], TILE",
        '"cdiv(z.shape[1',
        "kernel.add.launch.grid[0]: z has rank 1: there is no z.shape[1]",
    ),
    "no such include directory": (
        CUDA,
        "[kernel",
        '[frontend.cuda]\ninclude = ["inc"]\n[kernel',
        '"inc"',
        "frontend.cuda.include[0]: no such directory 'inc'",
    ),
    "unknown output": (
        CUDA,
        "[kernel",
        '[output]\nemit = ["weel"]\n[kernel',
        '"weel"',
        "output.emit[0]: unknown output 'weel'; did you mean 'wheel'",
    ),
    "no version range": (
        CUDA,
        "[kernel",
        '[toolchain]\ncuda = "new"\n[kernel',
        '"new"',
        "toolchain.cuda: 'new' is not a version range such as >=13.2,<13.5",
    ),
    "no driver version": (
        CUDA,
        "groups.ci",
        'min-driver = "12"\ngroups.ci',
        '"12"',
        "targets.min-driver: '12' is not a driver's version such as 580",
    ),
    "a hint that is none": (
        TILE,
        "launch",
        "hints = { ocupancy = 2 }\nlaunch",
        "ocupancy",
        "kernel.add.hints.ocupancy: unknown hint 'ocupancy'; did you mean 'occupancy'",
    ),
    "a tile kernel as PTX": (
        TILE,
        '["sm_90"]',
        '["compute_80"]',
        "add",
        "kernel.add: none of the targets compute_80 concerns tile kernels, which are made for sm_* or tileir",
    ),
    "a target too old for tiles": (
        TILE,
        '["sm_90"]',
        '["sm_75"]',
        "add",
        "kernel.add: target sm_75: tile kernels cannot be compiled for sm_75: the oldest architecture of Tile IR is sm_80",
    ),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_one_problem(cli: Cli, tmp_path: Path, name: str) -> None:
    """The message with its place, the source line, a caret, perhaps a hint, the count; nothing
    else, and nothing written.
    """
    manifest, old, new, at, words = MANIFESTS[name]
    text = manifest.replace(old, new, 1)
    root = write(tmp_path, text, TEMPLATE if manifest is INSTANCE else {"k/twice.cu": TWICE_CU})
    before = tree(root)
    done = cli(root, "build")
    assert (done.code, done.out) == (2, "")
    head, excerpt, caret, *rest = done.err.split("\n")
    match = re.fullmatch(r"tilec\.toml:(\d+):(\d+): error: (.*)", head)
    assert match is not None, head
    assert match[3].startswith(words)
    line, column = text.split("\n")[int(match[1]) - 1], int(match[2])
    assert line[column - 1 :].startswith(at)
    assert len(excerpt) > 200 or excerpt == f"    {line}"  # a very long line is cut
    assert f"    {line}".startswith(excerpt)
    assert caret == " " * (3 + column) + "^"
    told = [line for line in rest if not line.startswith("  hint: ")]
    assert told == ["error: 1 problem in the manifest and its files", ""]
    assert {
        name: data for name, data in tree(root).items() if not name.startswith(".tilec/")
    } == before | _lock(root)


def _lock(root: Path) -> dict[str, bytes]:
    """tilec.lock is written when the tools are known, which is before the plan is."""
    path = root / "tilec.lock"
    return {"tilec.lock": path.read_bytes()} if path.exists() else {}


def test_all_problems_in_one_run(cli: Cli, tmp_path: Path) -> None:
    manifest = (
        (CUDA + ADD)
        .replace('["sm_90"]', '["sm_95", "sm_90"]')
        .replace("launch =", "lunch =")
        .replace('"f32"', '"f33"')
    )
    done = cli(write(tmp_path, manifest), "check")
    assert done.code == 2
    heads = [line for line in done.err.split("\n") if line.startswith("tilec.toml:")]
    assert [head.partition(" error: ")[2].partition(":")[0] for head in heads] == [
        "targets.default[0]",
        "kernel.twice.lunch",
        "kernel.add.params.z.dtype",
    ]
    assert done.err.count("  1 more of this: line ") == 2
    assert done.err.endswith("error: 5 problems in the manifest and its files\n")
    shown = cli(tmp_path, "check", "--json").json()["problems"]
    assert [(one["location"]["line"], one["location"]["column"]) for one in shown] == [
        (8, 12),
        (15, 1),
        (20, 1),
        (22, 15),
        (23, 15),
    ]


def test_one_run_reports_problems_of_every_kind(cli: Cli, tmp_path: Path) -> None:
    """Files that are not there, names, expressions, tables, sources that cannot be read and headers
    that are nowhere, in one run.
    """
    kernels = """
[kernel.gone]
source = "k/gone.cu"
launch = { grid = ["1"], block = [32] }
[kernel.table]
source = "k/twice.cu:twice"
launch = { grid = ["1"], block = [32] }
dispatch = { table = "no.json" }
[kernel.typo]
source = "k/add.py:ad"
[kernel.odd]
source = "k/odd.py"
"""
    files = {
        "k/odd.py": "import cuda.tile as ct\nx = (\n",
    }
    root = write(tmp_path, CUDA.replace("block = [256]", 'block = ["q"]') + kernels, files)
    done = cli(root, "check")
    assert done.code == 2
    said = [
        line.partition(" error: ")[::2]
        for line in done.err.split("\n")
        if re.match(r"(tilec\.toml|k/[a-z.]+):\d+:\d+: ", line)
    ]
    assert [(place.partition(":")[0], what.partition(": ")[0]) for place, what in said] == [
        ("tilec.toml", "kernel.twice.launch.block[0]"),
        ("tilec.toml", "kernel.gone.source"),
        ("tilec.toml", "kernel.table.dispatch.table"),
        ("tilec.toml", "kernel.typo.source"),
        ("k/odd.py", "SyntaxError"),
    ]
    assert cli(root, "build").code == 2
    assert not (root / "dist").exists()


@pytest.mark.parametrize(
    ("arguments", "words", "fix"),
    [
        (
            ["--emit", "weel"],
            "there is no 'weel'; did you mean 'wheel'",
            "see `tilec build --help`",
        ),
        (["--targets", "sm_9o"], "unknown target 'sm_9o'", ""),
        (["--targets", "cii"], "unknown target 'cii'", "did you mean the group 'ci'?"),
        (
            ["--select", "twise*"],
            "--select 'twise*' matches no job",
            "did you mean 'twice'? `tilec build --list` prints the ids",
        ),
        (
            ["--profile", "relese"],
            "unknown profile 'relese'; did you mean 'release'",
            "profiles of this project: release, debug",
        ),
        (
            ["--explain", "twise-sm_90"],
            "no job 'twise-sm_90'; did you mean 'twice-sm_90'",
            "`tilec build --list` prints the ids",
        ),
        (["--taregts", "x"], "No such option '--taregts'", "see `tilec build --help`"),
        (["-j", "0"], "Invalid value for '-j'", "see `tilec build --help`"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_slips_on_the_command_line(
    cli: Cli, tmp_path: Path, arguments: list[str], words: str, fix: str
) -> None:
    done = cli(write(tmp_path, CUDA), "build", *arguments)
    assert (done.code, done.out) == (2, "")
    first, *rest = done.err.split("\n")
    assert first.startswith("error: ")
    assert words in first
    assert f"  fix: {fix}" in "\n".join(rest)
    assert not (tmp_path / "dist").exists()
