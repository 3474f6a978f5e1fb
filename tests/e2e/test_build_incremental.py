"""Exactly what depends on a change is compiled again: headers, imported modules, files that a
module reads, options, and nothing else; and what the lock pins.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.harness import HEAD, TWICE, Cli, edit, environment, write
from tilec.compile.lockfile import read_lock

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]


MANIFEST = (
    HEAD
    + """
[frontend.cuda]
include = ["include"]

[kernel.near]
source = "k/near.cu"
launch = { grid = ["cdiv(x.size, 64)"], block = [64] }

[kernel.far]
source = "k/far.cu"
launch = { grid = ["cdiv(x.size, 64)"], block = [64] }

[kernel.alone]
source = "k/alone.cu"
link = ["k/part.cu"]
launch = { grid = ["cdiv(x.size, 64)"], block = [64] }

[kernel.scaled]
source = "t/scaled.py"
matrix = { TILE = [128] }
launch = { grid = ["cdiv(z.shape[0], TILE)"] }
params = { z = { dtype = "f32", rank = 1, out = true }, x = { dtype = "f32", rank = 1 } }

[kernel.plain]
source = "t/plain.py"
matrix = { TILE = [128] }
launch = { grid = ["cdiv(z.shape[0], TILE)"] }
params = { z = { dtype = "f32", rank = 1, out = true }, x = { dtype = "f32", rank = 1 } }
"""
)


CU = """{include}
extern "C" __global__ void {name}(float* y, const float* x) {{ y[threadIdx.x] = x[threadIdx.x] * {factor}; }}
"""


PY = """import cuda.tile as ct
{imports}

@ct.kernel
def {name}(z, x, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(z, (i,), ct.load(x, (i,), (TILE,)) * {factor})
"""


FILES = {
    "k/near.cu": CU.format(include='#include "near.cuh"', name="near", factor="near_factor()"),
    "k/far.cu": CU.format(include="#include <deep/far.cuh>", name="far", factor="far_factor()"),
    "k/alone.cu": CU.format(
        include="__device__ float part();", name="alone", factor="3.0f * part()"
    ),
    "k/part.cu": "__device__ float part() { return 2.0f; }\n",
    "include/near.cuh": '#pragma once\n#include "deep/far.cuh"\n__device__ float near_factor() { return far_factor() + 1.0f; }\n',
    "include/deep/far.cuh": '#pragma once\n#include "floor.cuh"\n__device__ float far_factor() { return FLOOR; }\n',
    "include/deep/floor.cuh": "#pragma once\n#define FLOOR 5.0f\n",
    "include/unused.cuh": "#error nobody includes this\n",
    "t/scaled.py": PY.format(
        imports="from lib.factors import scale\n", name="scaled", factor="scale()"
    ),
    "t/plain.py": PY.format(imports="", name="plain", factor="2.0"),
    "lib/factors.py": "import cuda.tile as ct\n\nfrom lib.base import BASE\n\n\n@ct.function\ndef scale():\n    return BASE\n",
    "lib/base.py": "BASE = 4.0\n",
    "lib/unused.py": "raise RuntimeError('nobody imports this')\n",
}


ALL = {"near-sm_90", "far-sm_90", "alone-sm_90", "scaled-TILE128-sm_90", "plain-TILE128-sm_90"}


@pytest.fixture(scope="module")
def built(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, built once; what a test edits, the next one finds as it was, though `dist` may
    be of the edited one.
    """
    root = write(tmp_path_factory.mktemp("project"), MANIFEST, FILES)
    first = cli.good(root, "build")
    assert first.jobs == ALL
    assert "built 5 jobs: 5 compiled, " in first.out
    assert cli.good(root, "build").up_to_date
    return root


@pytest.fixture
def project(built: Path) -> Path:
    """The built project with every file as it was first."""
    write(built, MANIFEST, FILES)
    return built


# By name: what is replaced, in which file, by what; and the jobs that are compiled again.
EDITS = {
    "two headers down": (
        [("include/deep/floor.cuh", "5.0f", "6.0f")],
        {"near-sm_90", "far-sm_90"},
    ),
    "a linked source": ([("k/part.cu", "2.0f", "7.0f")], {"alone-sm_90"}),
    "module of a module": ([("lib/base.py", "4.0", "8.0")], {"scaled-TILE128-sm_90"}),
    "sources of two languages": (
        [("k/alone.cu", "3.0f", "4.0f"), ("t/plain.py", "2.0", "3.0")],
        {"alone-sm_90", "plain-TILE128-sm_90"},
    ),
    "what nothing depends on": (
        [
            ("include/unused.cuh", "nobody", "still nobody"),
            ("lib/unused.py", "nobody", "still nobody"),
            ("tilec.toml", "edition = 1", "# a comment\nedition = 1"),
            ("tilec.toml", "[targets]", "[toolchain]\ntimeout = 200\n[targets]"),
        ],
        set(),
    ),
    "a macro of the frontend": (
        [("tilec.toml", '["include"]', '["include"]\ndefine = { LIMIT = "3" }')],
        {"near-sm_90", "far-sm_90", "alone-sm_90"},
    ),
    "options of kernels": (
        [
            ("tilec.toml", '"k/far.cu"', '"k/far.cu"\nflags = ["--use_fast_math"]'),
            ("tilec.toml", '"t/plain.py"', '"t/plain.py"\nhints = { occupancy = 2 }'),
        ],
        {"far-sm_90", "plain-TILE128-sm_90"},
    ),
    "an axis and a target": (
        [
            (
                "tilec.toml",
                'plain.py"\nmatrix = { TILE = [128]',
                'plain.py"\nmatrix = { TILE = [128, 256]',
            ),
            ("tilec.toml", 'default = ["sm_90"]', 'default = ["sm_90", "sm_80"]'),
        ],
        {job.replace("90", "80") for job in ALL} | {"plain-TILE256-sm_90", "plain-TILE256-sm_80"},
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_compiles_what_depends_on_it(cli: Cli, project: Path, name: str) -> None:
    edits, again = EDITS[name]
    for file, old, new in edits:
        edit(project / file, old, new)
    assert cli.good(project, "build").jobs == again


def test_new_package_metadata_compiles_nothing(cli: Cli, project: Path) -> None:
    edit(
        project / "tilec.toml",
        'version = "1.0.0"',
        'version = "1.0.1"\ndescription = "better words"',
    )
    done = cli.good(project, "build", "--json").json()
    assert (done["compiled"], done["cached"], done["up_to_date"]) == (0, 5, False)
    assert (project / "dist" / "acme-1.0.1.tilec").is_file()
    (project / "dist" / "acme-1.0.1.tilec").unlink()


def test_explain_names_the_header(cli: Cli, project: Path) -> None:
    cli.good(project, "build")
    near = cli.good(project, "build", "--explain", "near-sm_90").out
    assert near.endswith("near-sm_90: nothing changed since the last build\n")
    edit(project / "include" / "deep" / "floor.cuh", "5.0f", "7.0f")
    near = cli.good(project, "build", "--explain", "near-sm_90").out
    (changed,) = [line for line in near.split("\n") if "was: " in line]
    assert changed.startswith("input include/deep/floor.cuh ")
    assert near.endswith(
        "near-sm_90: 1 input changed since the last build, so it is compiled again\n"
    )
    alone = cli.good(project, "build", "--explain", "alone-sm_90", "--json").json()
    assert alone["changes"] == []
    assert "input include/deep/floor.cuh" not in {row["label"] for row in alone["inputs"]}


@pytest.mark.parametrize(
    ("cache", "options"), [("", ["--no-cache"]), ("off", [])], ids=["option", "variable"]
)
def test_a_cache_that_is_off_is_neither_read_nor_written(
    tmp_path: Path, cache: str, options: list[str]
) -> None:
    root = write(tmp_path / "project", HEAD + TWICE)
    home = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": ""}
    cli = Cli({**environment(cache or tmp_path / "cache"), **home})
    for _ in range(2):
        assert cli.good(root, "build", "--force", *options).jobs == {"twice-sm_90"}
    assert [path for path in tmp_path.glob("*/**/images/*/*") if path.is_file()] == []
    edit(root / "k" / "twice.cu", "2.0f", "6.0f")
    assert cli.good(root, "build", *options).jobs == {"twice-sm_90"}


def test_the_lock_pins_what_each_build_gave(tmp_path: Path) -> None:
    """Pins of other targets and profiles stay; those of what the project has no more go; writing
    them costs no later build.
    """
    cli, project = Cli(environment(tmp_path / "cache")), write(tmp_path / "project", HEAD + TWICE)
    cli.good(project, "build")

    def pinned() -> dict[str, set[str]]:
        return {profile: set(rows) for profile, rows in read_lock(project).pins.items()}

    assert pinned() == {"release": {"twice-sm_90"}}
    cli.good(project, "build", "--targets", "ci")
    cli.good(project, "build", "--profile", "debug", "--select", "twice-sm_90")
    both = {"release": {"twice-sm_80", "twice-sm_90"}, "debug": {"twice-sm_90"}}
    assert pinned() == both
    again = cli.good(project, "build")
    assert (again.jobs, pinned()) == (set(), both)
    assert cli.good(project, "build").out == "up to date (1 job, untouched)\n"

    lock = project / "tilec.lock"
    text = lock.read_text()
    digest = read_lock(project).pins["release"]["twice-sm_90"].image
    lock.write_text(text.replace(digest, "0" * 64))
    done = cli(project, "build", "--locked")
    assert done.code == 3
    assert f"\n  twice-sm_90: pinned {'0' * 64}, built {digest}\n" in done.err
    done = cli.good(project, "build")
    assert (
        "note: tilec.lock now pins other bytes, made of the same sources by the same tools, for twice-sm_90\n"
        in done.err
    )
    assert lock.read_text() == text
    edit(project / "k" / "twice.cu", "2.0f", "6.0f")
    done = cli.good(project, "build", "--locked")
    assert (
        "note: tilec.lock pins no image of 1 job as the sources are now: `tilec build` without --locked pins what it builds\n"
        in done.err
    )
    assert lock.read_text() == text

    shutil.copy(project / "k" / "twice.cu", project / "k" / "thrice.cu")
    edit(project / "k" / "thrice.cu", "void twice", "void thrice")
    edit(project / "tilec.toml", "[kernel.twice]", "[kernel.thrice]")
    edit(project / "tilec.toml", "k/twice.cu", "k/thrice.cu")
    cli.good(project, "build")
    assert pinned() == {"release": {"thrice-sm_90"}}
