"""`tilec sanitize` on a project of planted bugs and near misses, on the
examples, and where it cannot check.
"""

from __future__ import annotations

import ast
import re
import runpy
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import Golden
from tests.e2e.harness import Cli

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

ROOT = Path(__file__).parents[2]
PLANTED = ROOT / "tests" / "samples" / "planted"
GOLDEN = ROOT / "tests" / "golden" / "sanitize"
FOUND, NOTHING_TO_CHECK = 86, 3


class Bug(NamedTuple):
    """A finding: what the source has where the caret stands, the element, the block, and for races
    the other side.
    """

    kind: str
    source: str
    element: str
    block: tuple[int, ...] = ()
    other_source: str = ""
    other_block: tuple[int, ...] = ()


WRITES, READS, ORDER = "write-write race", "read-write race", "order dependence"
OPEN = "undetermined elements"
BOUNDS, BLANK, PROMISE = "out of bounds", "uninitialized read", "broken promise"
ASSERT, NAN, FAULT = "failed assert", "NaN or Inf", "fault"
EXPECTED = {
    "all_write_first_tile": [
        Bug(
            WRITES,
            "ct.store(y, (0,), ct.load(",
            "y[0]",
            (0, 0, 0),
            "ct.store(y, (0,), ct.load(",
            (3, 0, 0),
        ),
        Bug(ORDER, "", "y[0]"),
    ],
    "each_writes_its_tile": [],
    "reads_neighbour_in_place": [
        Bug(
            READS,
            "ct.store(y, (block,), besi",
            "y[0]",
            (0, 0, 0),
            "ct.load(y, ((block + 1) %",
            (3, 0, 0),
        )
    ],
    "reads_neighbour_of_input": [],
    "counts_without_atomics": [
        Bug(
            READS,
            "ct.store(count, (0,), seen",
            "count[0]",
            (0, 0, 0),
            "ct.load(count, (0,), (1,))",
            (3, 0, 0),
        ),
        Bug(
            WRITES,
            "ct.store(count, (0,), seen",
            "count[0]",
            (0, 0, 0),
            "ct.store(count, (0,), seen",
            (3, 0, 0),
        ),
    ],
    "counts_with_atomics": [],
    "resets_what_others_count": [
        Bug(
            WRITES,
            "ct.atomic_add(count, 0, 1)",
            "count[0]",
            (1, 0, 0),
            "ct.store(count, (0,), ct.z",
            (0, 0, 0),
        )
    ],
    "last_block_sums_relaxed": [
        Bug(
            READS,
            "ct.load(partial, (0,), (4,",
            "partial[0]",
            (3, 0, 0),
            "ct.store(partial, (block,)",
            (0, 0, 0),
        )
    ],
    "last_block_sums": [],
    "ignores_second_axis": [
        Bug(
            WRITES,
            "ct.store(y, (ct.bid(0),),",
            "y[0]",
            (0, 0, 0),
            "ct.store(y, (ct.bid(0),),",
            (0, 2, 0),
        ),
        Bug(ORDER, "", "y[0]"),
    ],
    "uses_second_axis": [],
    "split_k_adds": [],
    "scatters_to_one_place": [
        Bug(
            WRITES,
            "ct.scatter(y, at, ct.load(",
            "y[0]",
            (0, 0, 0),
            "ct.scatter(y, at, ct.load(",
            (3, 0, 0),
        ),
        Bug(ORDER, "", "y[0]"),
    ],
    "scatters_to_all_places": [],
    "last_exchange_wins": [Bug(ORDER, "", "y[0]")],
    "largest_wins": [],
    "waits_for_a_flag": [],
    "waits_for_a_relaxed_flag": [
        Bug(
            READS,
            "ct.load(y, (0,), (TILE,)))",
            "y[0]",
            (1, 0, 0),
            "ct.store(y, (0,), ct.load(",
            (0, 0, 0),
        )
    ],
    "gathers_beyond_the_end": [Bug(BOUNDS, "ct.gather(x, at + 1, check", "x[64]", (3, 0, 0))],
    "gathers_with_bounds": [],
    "gathers_before_the_start": [Bug(BOUNDS, "ct.gather(x, at - 1, check", "x[-1]", (0, 0, 0))],
    "gathers_masked": [],
    "scatters_beyond_the_end": [Bug(BOUNDS, "ct.scatter(y, at + 3, ct.l", "y[64]", (3, 0, 0))],
    "loads_unchecked_tail": [Bug(BOUNDS, "ct.load(x, (ct.bid(0),), (", "x[60]", (3, 0, 0))],
    "loads_unchecked_whole": [],
    "loads_checked_tail": [],
    "loads_tile_outside": [Bug(BOUNDS, "ct.load(x, (ct.bid(0),), (", "x[48]", (3, 0, 0))],
    "stores_tile_outside": [Bug(BOUNDS, "ct.store(y, (ct.bid(0),),", "y[48]", (3, 0, 0))],
    "rounds_the_grid_up": [],
    "stores_unchecked_tail": [Bug(BOUNDS, "ct.store(y, (ct.bid(0),),", "y[60]", (3, 0, 0))],
    "leaves_the_row": [Bug(BOUNDS, "ct.load(x, (ct.bid(0), 0),", "x[0, 12]", (0, 0, 0))],
    "adds_to_unwritten": [Bug(BLANK, "ct.load(y, (ct.bid(0),), (", "y[0]", (0, 0, 0))],
    "adds_to_what_it_wrote": [],
    "adds_to_given": [],
    "counts_into_unwritten": [Bug(BLANK, "ct.atomic_add(count, 0, 1)", "count[0]", (0, 0, 0))],
    "reads_more_than_it_wrote": [Bug(BLANK, "ct.load(y, (ct.bid(0),), (", "y[8]", (0, 0, 0))],
    "promises_divisible_by_8_of_60": [Bug(PROMISE, "ct.assume_divisible_by(n,", "n", (0, 0, 0))],
    "promises_divisible_by_8_of_56": [],
    "asserts_positive_of_normal": [Bug(ASSERT, 'ct.assert_(tile > 0.0, "x', "", (0, 0, 0))],
    "asserts_positive_of_ones": [],
    "takes_log_of_normal": [Bug(NAN, "ct.log(ct.load(x, (ct.bid(", "", (0, 0, 0))],
    "takes_log_of_ones": [],
    "divides_by_zero_sum": [Bug(NAN, "tile / ct.sum(tile))", "", (0, 0, 0))],
    "divides_by_a_sum": [],
    "never_ends": [Bug(FAULT, "while k >= 0:", "", (0, 0, 0))],
    "waits_for_nobody": [Bug(FAULT, "while ct.atomic_or(flag, 0", "", (0, 0, 0))],
    "ends_after_a_while": [],
    "grid_stride": [],
    "work_queue": [],
    "spin_lock": [],
    "ticket_lock": [],
    "stream_k": [],
    "chain_scan": [],
    "in_place": [],
    "padded_in_place": [],
    "transpose_in_place": [],
    "two_pass": [],
    "max_by_cas": [],
    "masked_diagonal": [],
    "grid_barrier": [],
    "barrier_in_place": [],
    "stride_off_by_one": [
        Bug(
            WRITES,
            "ct.store(y, (i,), ct.load(",
            "y[32]",
            (0, 0, 0),
            "ct.store(y, (i,), ct.load(",
            (2, 0, 0),
        )
    ],
    "lock_without_release": [
        Bug(
            READS,
            "ct.load(total, (0,), (1,))",
            "total[0]",
            (1, 0, 0),
            "ct.store(total, (0,), ct.l",
            (0, 0, 0),
        ),
        Bug(
            WRITES,
            "ct.store(total, (0,), ct.l",
            "total[0]",
            (1, 0, 0),
            "ct.store(total, (0,), ct.l",
            (0, 0, 0),
        ),
    ],
    "lock_released_early": [
        Bug(
            READS,
            "ct.load(total, (0,), (1,))",
            "total[0]",
            (1, 0, 0),
            "ct.store(total, (0,), seen",
            (0, 0, 0),
        ),
        Bug(
            WRITES,
            "ct.store(total, (0,), seen",
            "total[0]",
            (1, 0, 0),
            "ct.store(total, (0,), seen",
            (0, 0, 0),
        ),
    ],
    "stream_k_flag_first": [
        Bug(
            READS,
            "ct.load(partial, (t, 0), (",
            "partial[0, 0]",
            (1, 0, 0),
            "ct.store(partial, (t, 0),",
            (0, 0, 0),
        )
    ],
    "chain_wrong_flag": [
        Bug(
            READS,
            "ct.load(carry, (block - 1,",
            "carry[0]",
            (1, 0, 0),
            "ct.store(carry, (block,),",
            (0, 0, 0),
        ),
        Bug(BLANK, "ct.load(carry, (block - 1,", "carry[0]", (1, 0, 0)),
        Bug(ORDER, "", "y[16]"),
    ],
    "reads_again_after_release": [
        Bug(
            READS,
            "ct.store(y, (0,), ct.load(",
            "y[0]",
            (0, 0, 0),
            "ct.load(y, (0,), (TILE,))",
            (1, 0, 0),
        )
    ],
    "middle_reader_is_not_ordered": [
        Bug(
            READS,
            "ct.store(y, (0,), ct.load(",
            "y[0]",
            (0, 0, 0),
            "ct.load(y, (0,), (TILE,)))",
            (2, 0, 0),
        )
    ],
    "transpose_twice": [
        Bug(
            READS,
            "ct.store(a, (i, j), ct.tra",
            "a[0, 4]",
            (0, 1, 0),
            "ct.load(a, (j, i), (4, 4))",
            (1, 0, 0),
        ),
        Bug(
            WRITES,
            "ct.store(a, (j, i), ct.tra",
            "a[0, 4]",
            (1, 0, 0),
            "ct.store(a, (i, j), ct.tra",
            (0, 1, 0),
        ),
        Bug(
            READS,
            "ct.store(a, (j, i), ct.tra",
            "a[0, 4]",
            (1, 0, 0),
            "ct.load(a, (i, j), (4, 4))",
            (0, 1, 0),
        ),
    ],
    "last_block_misses_one": [
        Bug(
            READS,
            "ct.load(partial, (0,), (4,",
            "partial[0]",
            (3, 0, 0),
            "ct.store(partial, (block,)",
            (0, 0, 0),
        )
    ],
    "broadcast_equal": [
        Bug(
            WRITES,
            "ct.store(y, (0,), ct.full(",
            "y[0]",
            (0, 0, 0),
            "ct.store(y, (0,), ct.full(",
            (3, 0, 0),
        )
    ],
    "barrier_missing": [
        Bug(
            READS,
            "ct.load(tmp, ((block + 1)",
            "tmp[16]",
            (0, 0, 0),
            "ct.store(tmp, (block,), ct",
            (1, 0, 0),
        )
    ],
    "polls_without_atomics": [
        Bug(
            READS,
            "ct.gather(flag, 0) == 1:",
            "flag[0]",
            (1, 0, 0),
            "ct.store(flag, (0,), ct.fu",
            (0, 0, 0),
        ),
        Bug(
            READS,
            "ct.load(y, (0,), (TILE,)))",
            "y[0]",
            (1, 0, 0),
            "ct.store(y, (0,), ct.load(",
            (0, 0, 0),
        ),
    ],
    "ticket_order_matters": [Bug(ORDER, "", "y[0]")],
    "lands_in_another": [Bug(BOUNDS, "ct.scatter(y, at + 64 * 10", "y[65536]", (0, 0, 0))],
    "writes_the_input": [
        Bug(
            READS,
            "ct.store(x, (0,), ct.zeros",
            "x[0]",
            (1, 0, 0),
            "ct.load(x, (ct.bid(0),), (",
            (0, 0, 0),
        ),
        Bug(
            WRITES,
            "ct.store(x, (0,), ct.zeros",
            "x[0]",
            (0, 0, 0),
            "ct.store(x, (0,), ct.zeros",
            (3, 0, 0),
        ),
    ],
    "in_helper": [Bug(BOUNDS, "ct.gather(y, at, check_bou", "x[64]", (3, 0, 0))],
    "unicode": [Bug(BOUNDS, "ct.scatter(y, größe + ct.a", "y[64]", (3, 0, 0))],
    "sums_beyond_the_edge": [Bug(OPEN, "ct.load(x, (ct.bid(0), 0),", "x", (0, 0, 0))],
    "sums_padded_rows": [],
    "sums_masked_rows": [],
    "sums_the_last_tile": [Bug(OPEN, "ct.load(x, (ct.bid(0),), (", "x", (3, 0, 0))],
    "attends_beyond_the_edge": [Bug(OPEN, "ct.load(v, (0, 0), (32, 16", "v", (0, 0, 0))],
    "attends_with_padding": [],
    "largest_beyond_the_edge": [Bug(OPEN, "ct.load(x, (ct.bid(0), 0),", "x", (0, 0, 0))],
    "least_of_masked": [],
    "scales_by_deviation": [Bug(OPEN, "ct.load(x, (ct.bid(0), 0),", "x", (0, 0, 0))],
    "adds_up_integers_beyond": [Bug(OPEN, "ct.load(x, (ct.bid(0), 0),", "x", (0, 0, 0))],
    "all_are_positive": [Bug(OPEN, "ct.load(x, (ct.bid(0),), (", "x", (2, 0, 0))],
    "counts_flags": [Bug(OPEN, "ct.load(x, (ct.bid(0),), (", "x", (3, 0, 0))],
    "counts_flags_inside": [],
    "stores_the_tail": [],
    "uses_what_no_atomic_gave": [Bug(OPEN, "ct.atomic_add(x, ct.arange", "x", (0, 0, 0))],
    "asserts_of_the_tail": [Bug(OPEN, "ct.load(x, (ct.bid(0),), (", "x", (3, 0, 0))],
    "gathers_by_the_tail": [Bug(OPEN, "ct.load(index, (ct.bid(0),", "index", (3, 0, 0))],
    "loops_by_the_tail": [Bug(OPEN, "ct.load(x, (0,), (TILE,)))", "x", (0, 0, 0))],
    "needs_two_loads": [Bug(OPEN, "ct.load(a, (0,), (TILE,))", "a", (0, 0, 0))],
    "gathers_beyond_a_row": [Bug(BOUNDS, "ct.gather(x, (ct.bid(0), c", "x[0, 12]", (0, 0, 0))],
    "scatters_beyond_a_row": [Bug(BOUNDS, "ct.scatter(y, (2 * ct.bid(", "y[0, 12]", (0, 0, 0))],
    "gathers_up_to_the_row": [],
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the planted bugs."""
    return Path(shutil.copytree(PLANTED, tmp_path_factory.mktemp("planted") / "planted"))


class Sources:
    """The kernels of a project, by the places that findings name."""

    def __init__(self, root: Path) -> None:
        self._lines = {
            path.name: path.read_text(encoding="utf-8").splitlines() for path in root.glob("*.py")
        }
        self._ends: dict[tuple[str, str], tuple[int, int]] = {}
        for name, lines in self._lines.items():
            for node in ast.parse("\n".join(lines)).body:
                if isinstance(node, ast.FunctionDef):
                    self._ends[name, node.name] = (node.lineno, node.end_lineno or 0)

    def at(self, place: dict[str, Any] | None, length: int) -> str:
        """The source from a place on, on its line."""
        return (
            self._lines[place["file"]][place["line"] - 1][place["column"] - 1 :][:length]
            if place
            else ""
        )

    def holds(self, file: str, function: str, place: dict[str, Any]) -> bool:
        """Whether a place is in a function."""
        first, last = self._ends[file, function]
        return bool(place["file"] == file and first <= place["line"] <= last)


def as_bug(finding: dict[str, Any], expected: Bug, sources: Sources) -> Bug:
    """A finding as the table has it."""
    index = str(finding["index"]) if finding["index"] else ""
    other = finding.get("other", {"location": None, "block": ()})
    return Bug(
        finding["kind"],
        sources.at(finding["location"], len(expected.source)),
        f"{finding['parameter']}{index}",
        tuple(finding["block"]),
        sources.at(other["location"], len(expected.other_source)),
        tuple(other["block"]),
    )


def test_the_manifest_is_what_its_script_makes() -> None:
    made = runpy.run_path(str(PLANTED / "make_manifest.py"))["manifest"]()
    assert made == (PLANTED / "tilec.toml").read_text(encoding="utf-8")


def test_every_planted_bug_is_found_and_nothing_else(cli: Cli, planted: Path) -> None:
    done = cli(planted, "sanitize", "--json", "--nan", "--steps", "20000")
    assert done.code == FOUND, done.err
    document = done.json()
    cases = {case["kernel"]: case for case in document["cases"]}
    assert list(cases) == list(EXPECTED)
    sources = Sources(planted)
    manifest = (planted / "tilec.toml").read_text(encoding="utf-8")
    for kernel, bugs in EXPECTED.items():
        findings = cases[kernel]["findings"]
        assert [as_bug(*pair, sources) for pair in zip(findings, bugs, strict=False)] == bugs, (
            kernel
        )
        assert len(findings) == len(bugs), kernel
        assert cases[kernel]["status"] == ("findings" if bugs else "clean")
        match = re.search(rf'^\[kernel\.{kernel}\]\nsource = "(.+):(.+)"$', manifest, re.MULTILINE)
        assert match
        for finding in findings:
            places = [finding["location"], finding.get("other", {}).get("location")]
            if finding["callers"]:  # the kernel is what called the helper that called the helper
                places = finding["callers"][-1:]
            assert all(sources.holds(match[1], match[2], place) for place in places if place), (
                kernel
            )
    wrong = sum(bool(bugs) for bugs in EXPECTED.values())
    assert document["counts"] == {
        "clean": len(EXPECTED) - wrong,
        "findings": wrong,
        "error": 0,
        "skipped": 0,
    }
    assert (document["ok"], document["orders"]) == (False, ["forward", "reverse", 0])
    assert wrong >= 25


def test_sums_that_differ_by_rounding_are_noted(cli: Cli, planted: Path) -> None:
    done = cli.good(planted, "sanitize", "split_k_adds", "spin_lock", "--json")
    notes = [case["notes"] for case in done.json()["cases"]]
    assert notes == [
        [f"{name} differs in its rounding with the order of the blocks, as sums of floats do"]
        for name in ("c", "total")
    ]


@pytest.mark.parametrize(
    "kernel", ["reads_neighbour_in_place", "scatters_beyond_the_end", "in_helper"]
)
def test_findings_as_the_terminal_shows_them(
    cli: Cli, planted: Path, golden: Golden, kernel: str
) -> None:
    done = cli(planted, "sanitize", kernel, NO_COLOR="1")
    assert done.code == FOUND
    golden(GOLDEN / f"{kernel}.txt", done.out)


@pytest.mark.long
def test_the_examples_are_clean(cli: Cli, tmp_path: Path) -> None:
    """Their small cases; those of the CUDA C++ kernels are skipped with the reason."""
    for name in ("tilec.toml", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(
        ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__")
    )
    small = [word for case in ("odd", "one", "line", "small_tiles") for word in ("--case", case)]
    done = cli(tmp_path, "sanitize", *small, "--targets", "tileir,compute_80", "--nan", "--json")
    assert done.code == 0, done.out
    cases = {case["name"]: case for case in done.json()["cases"]}
    assert {name: case["findings"] for name, case in cases.items() if case["findings"]} == {}
    clean = {case["kernel"] for case in cases.values() if case["status"] == "clean"}
    assert clean == {
        "vector_add",
        "saxpy",
        "softmax",
        "softmax_backward",
        "rms_norm",
        "layer_norm",
        "gemm",
        "safe_add",
        "safe_softmax",
        "safe_gemm",
    }
    skipped = {
        case["kernel"]: case["skipped"] for case in cases.values() if case["status"] == "skipped"
    }
    assert set(skipped) == {"reduce_sum", "block_scan", "elementwise", "stencil", "square_add"}
    assert skipped.pop("square_add").startswith(
        "it is a kernel that came without Tile IR, compiled to code of a GPU"
    )
    assert all(
        reason.startswith("it is a CUDA C++ kernel, compiled to code of a GPU")
        for reason in skipped.values()
    )
