"""A project in the safe tile language, from `tilec check` to launches on the cpu device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.e2e.harness import Cli, copied
from tilec_runtime import Module, load, use_device
from tilec_runtime.errors import AliasError, RequirementError

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "safe_project"


@pytest.fixture(scope="module")
def project(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copied(SAMPLE, tmp_path_factory.mktemp("safe") / "project")
    done = cli(root, "build")
    assert done.code == 0, done.err
    return root


@pytest.fixture(scope="module")
def module(project: Path) -> Module:
    return load(project / "dist" / "safe-1.0.tilec", "cpu")


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.ones(shape, dtype)


def test_every_case_passes_on_the_cpu_device(cli: Cli, project: Path) -> None:
    done = cli(project, "run", "--device", "cpu", "--json")
    assert done.code == 0, done.out
    assert {case["name"]: case["status"] for case in done.json()["cases"]} == {
        "add/odd[f32]": "passed",
        "gemm/odd[f16]": "passed",
        "persistent/odd[f16]": "passed",
        "shifted/odd": "passed",
        "scale_in_place/odd": "passed",
    }


def test_nothing_races_and_nothing_is_outside(cli: Cli, project: Path) -> None:
    done = cli(project, "sanitize", "--json")
    assert done.code == 0, done.out
    assert {case["status"] for case in done.json()["cases"]} == {"clean"}


def test_the_launcher_demands_what_was_proven_under(module: Module) -> None:
    z, x, y = ones(33, 70), ones(33, 70), ones(33, 70)
    with use_device("cpu"):
        module.ops.add(z, x, y).sync()
    assert (z == 2).all()
    with pytest.raises(
        RequirementError, match=r"add: requires y\.shape == z\.shape: left-hand side is \(16, 70\)"
    ):
        module.add(z, x, ones(16, 70))
    with pytest.raises(RequirementError, match=r"add: .*x\.shape\[1\] == z\.shape\[1\]"):
        module.add(z, ones(33, 71), y)
    with pytest.raises(
        RequirementError,
        match=r"gemm: requires b\.shape\[0\] == a\.shape\[1\]: left-hand side is 16",
    ):
        module.gemm(
            ones(8, 8, dtype=np.float16),
            ones(8, 40, dtype=np.float16),
            ones(16, 8, dtype=np.float16),
        )
    with pytest.raises(AliasError, match=r"add: .*'z'.* overlaps"):
        module.add(z, z, y)


SAFETY = """\
shifted  tile, kernels.py:54:5
  by construction
    z: a block reads and writes its own tile of 128, and no other
    x is only read
    elements of tiles beyond the end of an array are padding when loaded, and left out when stored
  checked at launch
    number, dtypes, ranks, devices and layouts of the arguments
    z: overlaps no other argument, nor itself
    z: the grid is that of its tiles of 128
  checked in the kernel
    x.load_tile at kernels.py:57: each tile begins in x
"""


def test_inspect_says_what_is_guaranteed(cli: Cli, project: Path) -> None:
    done = cli(project, "inspect", "dist/safe-1.0.tilec", "--safety", "--select", "shifted")
    assert (done.code, done.out) == (0, SAFETY)
    kernels = {
        k["name"]: k
        for k in cli(project, "inspect", "dist/safe-1.0.tilec", "--safety", "--json").json()[
            "kernels"
        ]
    }
    assert {name for name, kernel in kernels.items() if kernel["checked"]} == set(kernels) - {
        "plain"
    }
    left = {
        name
        for name, kernel in kernels.items()
        if any(f["guarantee"] == "checked in the kernel" for f in kernel["facts"])
    }
    assert left == {"shifted"}
    loose = {
        name
        for name, kernel in kernels.items()
        if any(f["guarantee"] == "not guaranteed" for f in kernel["facts"])
    }
    assert loose == {"plain"}


def edited(project: Path, folder: Path, old: str, new: str) -> Path:
    root = copied(project, folder / "project")
    text = (root / "tilec.toml").read_text()
    assert text.count(old) == 1
    (root / "tilec.toml").write_text(text.replace(old, new))
    return root


SHIFTED = '[kernel.shifted]\nsource = "kernels.py"\n'


def test_checks_inside_can_be_denied(cli: Cli, project: Path, tmp_path: Path) -> None:
    root = edited(project, tmp_path, SHIFTED, SHIFTED + 'checks = "deny"\n')
    for command in ("check", "build"):
        done = cli(root, command)
        assert done.code == 2
        assert done.err.startswith(
            "kernels.py:57:13: error: kernel 'shifted' has checks = \"deny\": x.load_tile is checked inside of the kernel: "
            "index 0 is not known to be among the tiles of x\n    "
        )
        assert (
            "\n  hint: iterate over range(x.num_tiles(0, 128)), or over an output's own index\n"
            in done.err
        )


PLAIN = '[kernel.plain]\nsource = "kernels.py"\n'
MANIFESTS = {
    "an axis without values": (
        "matrix = { T = ['f32'], BM = [16], BN = [64] }",
        "matrix = { T = ['f32'], BM = [16] }",
        "kernel.add.matrix: axis BN of the source has no values (z: tl.Mut[T, (BM, BN)], kernels.py:15:5): give it some, such as BN = [64]",
    ),
    "a size that is no power of two": (
        "BM = [16], BN = [64]",
        "BM = [24], BN = [64]",
        "kernel.add.matrix.BM: 24 is no power of two, as extents of tiles are (z: tl.Mut[T, (BM, BN)])",
    ),
    "a size that is none": (
        "BM = [16], BN = [64]",
        "BM = ['f16'], BN = [64]",
        "kernel.add.matrix.BM: 'f16' is no size, and BM is one in the source (z: tl.Mut[T, (BM, BN)])",
    ),
    "a grid of its own": (
        "[kernel.add]\n",
        "[kernel.add]\nlaunch = { grid = [4] }\n",
        "kernel.add.launch.grid: the grid follows from the outputs, cdiv(z.shape[0], BM) x cdiv(z.shape[1], BN): leave launch.grid out",
    ),
    "a share on two dimensions": (
        "launch = { grid = [2] }",
        "launch = { grid = [2, 2] }",
        "kernel.persistent.launch.grid: the blocks of a kernel with a tl.MappedMut are numbered along one dimension: give a grid of one",
    ),
    "another rank": (
        "[kernel.add]\n",
        "[kernel.add]\nparams = { x = { rank = 1 } }\n",
        "kernel.add.params.x.rank: rank 1, but the source says tl.Ref[T, 2] (rank 2)",
    ),
    "writing what is read": (
        "[kernel.add]\n",
        "[kernel.add]\nparams = { x = { out = true } }\n",
        "kernel.add.params.x.out: out = true, but the source only reads it (tl.Ref[T, 2] x)",
    ),
    "checks of what says nothing": (
        PLAIN,
        PLAIN + 'checks = "deny"\n',
        "kernel.plain.checks: checks concern kernels of the safe tile language (@tl.kernel): nothing is known of what plain does",
    ),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_a_manifest_that_does_not_fit_the_source(
    cli: Cli, project: Path, tmp_path: Path, case: str
) -> None:
    old, new, message = MANIFESTS[case]
    done = cli(edited(project, tmp_path, old, new), "check", "--json")
    assert done.code == 2
    assert message in [problem["message"] for problem in done.json()["problems"]]


def random_cases() -> str:
    """Cases of extents that fit the kernels' tiles nowhere; inputs may be larger than what is
    written, as far as launches take them.

    Requirements that name the sizes of all arrays take the place of those that the extents are
    equal.
    """
    rng = np.random.default_rng(20)

    def table(
        kernel: str, number: int, dtype: str, shapes: dict[str, list[int]], **scalars: int
    ) -> str:
        inputs = [
            f'inputs.{name} = {{ shape = {shape}, dtype = "{dtype}" }}'
            for name, shape in shapes.items()
        ]
        inputs += [f"inputs.{name} = {value}" for name, value in scalars.items()]
        return "\n".join([f"[kernel.{kernel}.case.random{number}]", *inputs, ""])

    of = {"add": "x.size, y.size, z.size", "gemm": "a.size, b.size, c.size"}
    rows = [
        f'[kernel.{name}.launch]\nrequires = ["min({sizes}) > 0"]\n' for name, sizes in of.items()
    ]
    for number in range(12):
        m, n, k = (int(extent) for extent in rng.integers(1, 200, 3))
        more = int(rng.integers(0, 40))
        rows.append(
            table("add", number, "f32", {"z": [m, n], "x": [m + more, n], "y": [m, n + more]})
        )
        rows.append(table("gemm", number, "f16", {"c": [m, n], "a": [m + more, k], "b": [k, n]}))
        rows.append(table("persistent", number, "f16", {"c": [m, n], "a": [m, k], "b": [k, n]}))
        rows.append(
            table(
                "shifted", number, "f32", {"z": [m * 7], "x": [n * 5]}, by=int(rng.integers(-4, 5))
            )
        )
        rows.append(
            table("scale_in_place", number, "f32", {"z": [m % 20 + 1, n % 9 + 1, k % 5 + 1]})
        )
    return "\n".join(rows)


@pytest.mark.long
def test_no_tile_lies_outside_and_nothing_races_at_random_extents(
    cli: Cli, project: Path, tmp_path: Path
) -> None:
    root = edited(project, tmp_path, PLAIN, PLAIN)
    with (root / "tilec.toml").open("a") as file:
        file.write("\n" + random_cases())
    done = cli(root, "sanitize", "--json")
    assert done.code == 0, done.out
    cases = done.json()["cases"]
    assert len(cases) == 65
    assert {case["name"]: case["findings"] for case in cases if case["status"] != "clean"} == {}


def test_a_promise_that_does_not_hold_is_found_at_its_line(
    cli: Cli, project: Path, tmp_path: Path
) -> None:
    root = edited(project, tmp_path, PLAIN, PLAIN)
    source = root / "kernels.py"
    source.write_text(source.read_text().replace("padding=tl.Padding.NEG_INF)", "unchecked=True)"))
    done = cli(root, "sanitize", "shifted", "--json")
    assert done.code == 86
    (found,) = [finding for case in done.json()["cases"] for finding in case["findings"]]
    assert (found["kind"], found["location"]) == (
        "out of bounds",
        {"file": "kernels.py", "line": 57, "column": 13},
    )
    assert "which lies entirely outside of x" in found["what"]
