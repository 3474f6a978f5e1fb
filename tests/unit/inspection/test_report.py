"""What `inspect` reports of a bundle: sizes, resources, and what is guaranteed of its kernels."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.bundle_samples import Sample, write_sample
from tilec.inspection import report
from tilec.inspection.container import describe, open_container
from tilec.inspection.safety import safety_facts
from tilec_runtime.errors import Location
from tilec_runtime.model.safety import Checks, Fact, Guarantee, Region, Safety
from tilec_runtime.model.signature import Param, ParamKind


@pytest.fixture
def found(tmp_path: Path) -> report.Report:
    path = tmp_path / "acme.tilec"
    write_sample(path)
    return describe(open_container(path))


@pytest.mark.parametrize(
    ("param", "text"),
    [
        (Param(name="x", kind=ParamKind.TENSOR, dtype="T", rank=2), "x: T[2]"),
        (Param(name="x", kind=ParamKind.TENSOR, dtype="f32", rank=-1, out=True), "out x: f32[*]"),
        (Param(name="x", kind=ParamKind.TENSOR), "x: any[0]"),
        (Param(name="n", kind=ParamKind.SCALAR, dtype="i32"), "n: i32"),
        (Param(name="eps", kind=ParamKind.SCALAR, dtype="f32", default=1e-6), "eps: f32 = 1e-06"),
        (
            Param(name="flag", kind=ParamKind.SCALAR, dtype="bool", default=False),
            "flag: bool = False",
        ),
        (Param(name="p", kind=ParamKind.PTR), "p: pointer"),
        (Param(name="s", kind=ParamKind.STRUCT, size=24), "s: struct of 24 bytes"),
    ],
)
def test_parameters_as_text(param: Param, text: str) -> None:
    assert report.param_text(param) == text


def test_json_says_everything_of_an_image(found: report.Report) -> None:
    body = report.to_json(found)
    assert (body["container"], body["min_driver"], body["profile"]) == ("bundle", 580, "release")
    kernel = body["kernels"][0]
    assert kernel["signature"] == "add(out y: T[2], x: T[2], eps: f32 = 1e-06)"
    assert kernel["usage"]["registers"] == 40
    assert kernel["params"][0]["kind"] == "tensor"
    image = kernel["variants"][0]["images"][2]
    assert (image["id"], image["target"], image["kind"]) == (
        "add-f16-B64-compute_80",
        "compute_80",
        "ptx",
    )
    assert (image["ptx_isa"], image["cuda"], image["driver"]) == ([8, 0], [12, 0], 525)
    assert image["resources"]["spill_stores"] == 0
    assert len(image["sha256"]) == 64


def test_hints_as_text() -> None:
    variant = Sample().info().kernels[0].variants[0]

    def text(*hints: tuple[str, tuple[tuple[str, int], ...]]) -> str:
        return report.hints_text(dataclasses.replace(variant, hints=hints))

    two = (("num_ctas", 2), ("occupancy", 4))
    assert text() == ""
    assert text(("sm_80", two), ("sm_90", two), ("compute_80", two)) == "num_ctas=2, occupancy=4"
    assert (
        text(("sm_80", two), ("sm_90", two[:1]))
        == "sm_80: num_ctas=2, occupancy=4; sm_90: num_ctas=2"
    )


AT = Location(file="kernels/add.py", line=9, column=5)


FACTS = (
    Fact(
        guarantee=Guarantee.KERNEL,
        what="x.load_tile at kernels/add.py:9: each tile begins in x",
        location=AT,
    ),
    Fact(guarantee=Guarantee.CONSTRUCTION, what="x is only read"),
)


SAFE = dataclasses.replace(
    Sample().kernel("add", tile=True),
    safety=Safety(facts=FACTS, regions=(Region(param="y", tile=("B", "16")),), checks=Checks.DENY),
)


def told(kernel, guarantee):
    return [fact.what for fact in safety_facts(kernel) if fact.guarantee is guarantee]


def test_facts_of_the_source_and_of_the_launch() -> None:
    assert told(SAFE, Guarantee.CONSTRUCTION) == ["x is only read"]
    assert told(SAFE, Guarantee.KERNEL) == [
        "x.load_tile at kernels/add.py:9: each tile begins in x"
    ]
    assert told(SAFE, Guarantee.NONE) == []
    assert told(SAFE, Guarantee.LAUNCH) == [
        "number, dtypes, ranks, devices and layouts of the arguments",
        "y: overlaps no other argument, nor itself",
        "y: the grid is that of its tiles of B x 16",
        "x.shape[0] == y.shape[0]",
        *(
            f"add-{dtype}-B{size} is chosen only where x: shape divisible by 16, stride by 16, base by 16"
            for dtype in ("f16", "f32")
            for size in (64, 128)
        ),
    ]


def test_guarantees_nothing_that_the_language_does_not_state() -> None:
    plain = Sample().kernel("rmsnorm")
    with_address = dataclasses.replace(
        plain, params=(*plain.params, Param(name="p", kind=ParamKind.PTR))
    )
    assert told(with_address, Guarantee.NONE) == [
        "what the kernel reads and writes, and in which order: cuda sources do not declare it (unchecked)",
        "p: an address of unknown memory",
    ]
    assert told(with_address, Guarantee.CONSTRUCTION) == []


def test_shares_are_told_by_their_own_grid() -> None:
    shared = dataclasses.replace(
        SAFE, safety=Safety(regions=(Region(param="y", tile=("B", "16"), mapped=True),))
    )
    assert "y: the blocks that share its tiles are numbered along one dimension" in told(
        shared, Guarantee.LAUNCH
    )
