"""`tilec sanitize` on chains, and what they leave out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness import HEAD, TWICE, TWICE_CU, Cli, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

FOUND = 86
OPEN, BLANK = "undetermined elements", "uninitialized read"

STEPS_PY = """import cuda.tile as ct


@ct.kernel
def half(h, x):
    ct.store(h, (ct.bid(0),), ct.load(x, (ct.bid(0),), (64,)) * 0.5)


@ct.kernel
def total(y, h):
    ct.store(y, (ct.bid(0),), ct.reshape(ct.sum(ct.load(h, (ct.bid(0),), (64,))), (1,)))
"""
STEPS = """
[kernel.half]
source = "k/steps.py:half"
launch = { grid = ["cdiv(h.size, 64)"] }
params = { h = { dtype = "f32", rank = 1, out = true }, x = { dtype = "f32", rank = 1 } }
[kernel.total]
source = "k/steps.py:total"
launch = { grid = ["y.size"] }
params = { y = { dtype = "f32", rank = 1, out = true }, h = { dtype = "f32", rank = 1 } }
[kernel.alone]
source = "k/steps.py:half"
launch = { grid = ["cdiv(h.size, 64)"] }
params = { h = { dtype = "f32", rank = 1, out = true }, x = { dtype = "f32", rank = 1 } }
[chain.caseless]
steps = ["half(mid, x)", "total(y, mid)"]
[chain.mixed]
steps = ["half(mid, x)", "twice(y, mid)"]
[chain.mixed.case.some]
inputs.x = { shape = [128] }
inputs.mid = { shape = [128], dist = "empty" }
inputs.y = { shape = [128], dtype = "f32", dist = "empty" }
"""
BOTH = """
[chain.{name}]
steps = ["half(mid, x)", "total(y, mid)"]
[chain.{name}.case.some]
inputs.x = {{ shape = [{size}] }}
inputs.mid = {{ shape = [{size}], dist = "empty" }}
inputs.y = {{ shape = [{blocks}], dist = "empty" }}
"""


@pytest.fixture
def chains(tmp_path: Path) -> Path:
    """Chains that are right, whose second kernel reads beyond the edge, and more than the first one
    wrote.
    """
    cases = [
        BOTH.format(name=name, size=size, blocks=blocks)
        for name, size, blocks in (("whole", 128, 2), ("tail", 100, 2))
    ]
    cases += [BOTH.format(name="part", size=128, blocks=2).replace("half(mid, x)", "first(mid, x)")]
    first = (
        STEPS.split("[kernel.total]")[0]
        .replace("kernel.half", "kernel.first")
        .replace("cdiv(h.size, 64)", "1")
    )
    head = HEAD.replace('["sm_90"]\ngroups', '["tileir", "sm_90"]\ngroups')
    return write(
        tmp_path,
        f"{head}{STEPS}{first}{TWICE}{''.join(cases)}",
        {"k/steps.py": STEPS_PY, "k/twice.cu": TWICE_CU},
    )


LEFT = [("alone", "no case"), ("caseless", "no case")]


def test_chains_are_checked_as_a_whole(cli: Cli, chains: Path) -> None:
    done = cli(chains, "sanitize", "--json")
    assert done.code == FOUND, done.err
    document = done.json()
    cases = {case["name"]: case for case in document["cases"]}
    assert {name: case["status"] for name, case in cases.items()} == {
        "mixed/some": "skipped",
        "whole/some": "clean",
        "tail/some": "findings",
        "part/some": "findings",
    }
    assert cases["whole/some"]["variants"] == ["half", "total"]
    assert cases["whole/some"]["blocks"] == 4
    (tail,), (part,) = cases["tail/some"]["findings"], cases["part/some"]["findings"]
    assert (
        tail["kind"],
        tail["kernel"],
        tail["parameter"],
        tail["block"],
        tail["location"]["line"],
    ) == (OPEN, "total", "h", [1, 0, 0], 11)
    assert (part["kind"], part["kernel"], part["parameter"], part["index"], part["count"]) == (
        BLANK,
        "total",
        "h",
        [64],
        64,
    )
    assert [tuple(row.values()) for row in document["unchecked"][:2]] == LEFT
    assert document["unchecked"][2]["name"] == "mixed/some"
    assert document["unchecked"][2]["reason"].startswith("twice: it is a CUDA C++ kernel")
    assert len(document["unchecked"]) == 3


def test_names_kernels_that_no_case_checks(cli: Cli, chains: Path) -> None:
    alone = cli(chains, "sanitize", "whole", "--json")
    assert (alone.code, alone.json()["unchecked"]) == (0, [])
    named = cli(chains, "sanitize", "whole", "alone", NO_COLOR="1")
    assert named.code == 0
    assert "\nnot checked: alone: no case\n" in named.out
    some = cli(chains, "sanitize", "-k", "whole/*", "--json")
    assert (some.code, some.json()["unchecked"]) == (0, [])
