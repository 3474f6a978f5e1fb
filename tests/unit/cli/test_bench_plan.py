"""`tilec bench --dry-run` names what launches of the cases take: by rules, by what is None, by
facts, by what a step says.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bench_samples import app
from tests.runtime_samples import TENSOR, bundle_of, image, kernel
from tilec.case.cases import BoundCase, expand_cases
from tilec.case.chains import chain_cases
from tilec.case.inputs import planned_inputs
from tilec.cli.bench_plan import show_plan
from tilec.cli.cases import Opened
from tilec.manifest.load import load_text
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Assumption, Param
from tilec_runtime.model.table import DispatchRule

NONE = Assumption(param="b", absent=True)
SCALE = kernel(
    "scale",
    (
        Param(name="y", kind=TENSOR, dtype="f32", rank=2, out=True),
        Param(name="x", kind=TENSOR, dtype="f32", rank=2),
        Param(name="b", kind=TENSOR, dtype="f32", rank=1, optional=True),
    ),
    tuple(
        VariantInfo(
            id=f"scale-N{n}{fact}{none}",
            axes=(("N", n),),
            assume=assume + absent,
            images=(image("s"),),
        )
        for n in (64, 128)
        for none, absent in (("", ()), ("-no_b", (NONE,)))
        for fact, assume in (("-div16", (Assumption(param="x", shape=(1, 16)),)), ("", ()))
    ),
    axes=(("N", (64, 128)),),
    default=(("N", 128),),
    rules=(DispatchRule(when="x.shape[1] <= 64", take=(("N", 64),)),),
    launch=LaunchInfo(grid=("x.shape[0]",), requires=("x.shape == y.shape",)),
)
TEXT = """edition = 1
[package]
name = "sample"
version = "1.0"
[targets]
default = ["sm_90"]
[kernel.scale]
source = "scale.cu"
matrix = { N = [64, 128] }
launch = { grid = ["1"], block = ["256"] }
[kernel.scale.case.it]
inputs.x = { shape = [8, COLUMNS], dtype = "f32" }
inputs.y = { shape = [8, COLUMNS], dtype = "f32" }
MORE
[chain.pair]
steps = ["scale(y, x)", "scale(x, y, N=128)"]
[chain.pair.case.it]
inputs.x = { shape = [8, COLUMNS], dtype = "f32" }
inputs.y = { shape = [8, COLUMNS], dtype = "f32" }
"""


def planned(
    root: Path, capsys: pytest.CaptureFixture[str], columns: int, more: str = ""
) -> list[dict[str, Any]]:
    found = load_text(
        TEXT.replace("COLUMNS", str(columns)).replace("MORE", more),
        root / "tilec.toml",
        languages={"cuda": (".cu",)},
    )
    cases = (
        *expand_cases(found.kernels[0], SCALE),
        *chain_cases(found.chains[0], {"scale": SCALE}),
    )
    show_plan(app(root, json=True), Opened(bundle=bundle_of(SCALE)), found, cases, None)
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["cases"]
    return rows


@pytest.mark.parametrize(
    ("columns", "more", "variant"),
    [
        (64, "", "scale-N64-div16-no_b"),
        (63, "", "scale-N64-no_b"),
        (128, "", "scale-N128-div16-no_b"),
        (64, 'inputs.b = { shape = [64], dtype = "f32" }', "scale-N64-div16"),
        (64, "axes = { N = 128 }", "scale-N128-div16-no_b"),
        (
            64,
            'inputs.b = { shape = [6, 4], dtype = "f32" }',
            "scale-N128-div16",
        ),  # a launch is refused: what the default tries first
    ],
)
def test_a_case_is_shown_with_the_variant_of_its_launch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], columns: int, more: str, variant: str
) -> None:
    row, _ = planned(tmp_path, capsys, columns, more)
    assert row["variant"] == variant


def test_each_step_of_a_chain_has_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, chain = planned(tmp_path, capsys, 64)
    assert [step["variant"] for step in chain["steps"]] == [
        "scale-N64-div16-no_b",
        "scale-N128-div16-no_b",
    ]


def test_inputs_of_a_case_are_planned_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def noted(case: BoundCase) -> dict[str, Any]:
        asked.append(case.name)
        return planned_inputs(case)

    monkeypatch.setattr("tilec.cli.bench_plan.planned_inputs", noted)
    rows = planned(tmp_path, capsys, 64)
    assert asked == [row["name"] for row in rows]


def test_work_that_cannot_be_told_leaves_the_variant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row, _ = planned(tmp_path, capsys, 64, 'bench = { flops = "x.size // (x.size - 512)" }')
    assert row["variant"] == "scale-N64-div16-no_b"
    assert row["work"]["flops"] is None
    assert "bench.flops" in row["problem"]
