"""Chains: cases of several kernels that run one behind the other, on a driver whose device memory
is host memory, and on the cpu device.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from tests.cpu_samples import ADD, device
from tests.unit.case.test_run_command import MANIFEST, SCALE, write_project
from tests.unit.case.test_run_command import REFERENCE as OF_SCALE
from tests.unit.conftest import Cli
from tilec.case.cases import BoundCase, require_fitting
from tilec.case.chains import chain_cases
from tilec.case.device import calls_of
from tilec.case.functions import Functions
from tilec.case.inputs import make_inputs
from tilec.case.reference import expected_results
from tilec.manifest.cases import StepError, parse_step
from tilec.manifest.types import Case, Chain, Input, Operand, Step
from tilec_runtime.errors import CaseError
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.signature import Param, ParamKind
from tilec_runtime.tensors.buffer import DeviceBuffer

CHAIN = """
[chain.both]
steps = ["scale(mid, x, 3)", "scale(out, x=mid, alpha=factor)"]
[chain.both.case.good]
inputs.x = { shape = [300], seed = 1 }
inputs.mid = { shape = ["x.size"], dist = "empty" }
inputs.out = { shape = ["x.size"], dist = "empty" }
inputs.factor = 0.5
reference = "chain.py:both"
[chain.both.case.late]
inputs.x = { shape = [300], dist = "ones" }
inputs.mid = { shape = ["x.size"], dist = "empty" }
inputs.out = { shape = [299], dist = "empty" }
inputs.factor = 0.5
"""
REFERENCE = """
def both(x, factor):
    return x * 3, x * 3 * factor
"""
ONE_BY_ONE = (
    "'both' is a chain; this command takes single kernels\n  fix: name its kernels: scale\n"
)


@pytest.fixture
def tilec(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    write_project(tmp_path, monkeypatch, CHAIN)
    (tmp_path / "chain.py").write_text(REFERENCE)
    return lambda *args: cli(*args, "--bundle", "acme.tilec")


def test_a_chain_runs_by_its_name_and_says_that_it_passed(tilec: Cli) -> None:
    done = tilec("run", "both", "--case", "good")
    assert done.code == 0, done.out + done.err
    rows = [line.split()[:3] for line in done.out.splitlines()[1:3]]
    assert rows == [["both/good", "ok", "mid"], ["out", "0", "0"]]
    assert (
        done.out.splitlines()[3]
        == "  PASS: scale (cuda) -> scale (cuda): one stream, the same arrays, results as in the reference"
    )
    (row,) = json.loads(tilec("run", "both", "--case", "good", "--repeat", "2", "--json").out)[
        "cases"
    ]
    assert (row["kernel"], row["status"], row["runs"]) == ("both", "passed", 2)
    assert row["steps"] == [{"kernel": "scale", "language": "cuda"}] * 2


def test_without_names_kernels_are_run_and_then_chains(tilec: Cli) -> None:
    names = [row["name"] for row in json.loads(tilec("run", "--json").out)["cases"]]
    assert names == ["scale/good", "scale/bad", "scale/refused", "both/good", "both/late"]
    assert [
        row["name"]
        for row in json.loads(tilec("run", "-k", "both and late", "--json").out)["cases"]
    ] == ["both/late"]


def test_a_step_that_is_refused_is_the_cases_error(tilec: Cli) -> None:
    done = tilec("run", "both", "--case", "late")
    assert done.code == 1
    line = (MANIFEST + CHAIN).splitlines().index("[chain.both]") + 2
    error = "step 2 of both: scale: requires x.size == z.size: left-hand side is 300, right-hand side is 299"
    assert f"  tilec.toml:{line}:30: {error}\n" in done.out
    (row,) = json.loads(tilec("run", "both", "--case", "late", "--json").out)["cases"]
    assert row["error"]["message"].endswith(f"tilec.toml:{line}:30: {error}")
    assert "PASS" not in done.out
    assert "created at" not in done.out  # the command made the op, at no line of the user's


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "bth"], "no kernel 'bth'; did you mean 'both'"),
        (["run", "both/few[f32]"], "'both/few[f32]' is the name of a case; name a kernel here"),
        (["run", "both", "--arg", "x=f32[3]"], "no kernel 'both' in the bundle; it has scale"),
        (
            ["run", "both", "--set", "factor=2"],
            "factor=2: both is a chain, whose cases cannot be changed",
        ),
        (
            ["bench", "both", "--set", "factor=2"],
            "factor=2: both is a chain, whose cases cannot be changed",
        ),
        (["run", "both", "--trace", "both/good"], ONE_BY_ONE),
        (["sanitize", "both", "--device", "cuda"], ONE_BY_ONE),
        (["profile", "both/good"], ONE_BY_ONE),
        (["debug", "both/good"], ONE_BY_ONE),
    ],
)
def test_refuses_chains_where_kernels_are_meant(
    tilec: Cli, arguments: list[str], told: str
) -> None:
    done = tilec(*arguments)
    assert done.code == 2
    assert told in done.err


def test_a_case_that_does_not_fit_its_kernels_is_an_error_of_its_own(
    tilec: Cli, tmp_path: Path
) -> None:
    """Of a chain and of a kernel: the other cases are run all the same."""
    wrong = CHAIN.replace("scale(mid, x, 3)", "scale(mid, x, 3, 4)")
    alien = '[kernel.scale.case.alien]\ninputs.z = { shape = [4] }\ninputs.x = { shape = [4], dtype = "f16" }\n'
    (tmp_path / "tilec.toml").write_text(
        MANIFEST.replace("[kernel.scale.case.good]", f"{alien}[kernel.scale.case.good]") + wrong
    )
    (tmp_path / "reference.py").write_text(OF_SCALE)
    done = tilec("run", "--json")
    found = {row["name"]: row for row in json.loads(done.out)["cases"]}
    assert done.code == 1
    assert {
        name: row["status"] for name, row in found.items() if row["case"] in ("good", "alien")
    } == {
        "scale/alien": "error",
        "scale/good": "passed",
        "both/good": "error",
    }
    assert (
        "both/good: scale takes 3 arguments (z, x, alpha), got 4"
        in found["both/good"]["error"]["message"]
    )
    assert (
        "scale/alien: x has dtype f16, but the kernel takes f32"
        in found["scale/alien"]["error"]["message"]
    )


def test_a_step_is_read_and_never_run() -> None:
    x, named = Operand(name="x"), (("BM", Operand(value=64)), ("T", Operand(value="f16")))
    assert parse_step(" f(x, -1, 2.5, BM=64, T='f16')") == Step(
        kernel="f", args=(x, Operand(value=-1), Operand(value=2.5)), named=named
    )
    with pytest.raises(
        StepError, match=r"'__import__\(1\)' is neither a name nor a number"
    ) as caught:
        parse_step("f(x, __import__(1))")
    assert caught.value.column == 5


ANY = dataclasses.replace(
    SCALE,
    name="any",
    axes=(("T", ("f16", "f32")), ("BM", (64, 128))),
    params=tuple(
        dataclasses.replace(p, dtype="T") if p.kind is ParamKind.TENSOR else p for p in SCALE.params
    ),
)
BUILT: dict[str, KernelInfo] = {"scale": SCALE, "any": ANY}
INPUTS = (Input(name="z", shape=("4",)), Input(name="x", shape=("4",)), Input(name="a", value=2))


def bound(*steps: str, inputs: tuple[Input, ...] = INPUTS) -> BoundCase:
    chain = Chain(
        name="c", steps=tuple(map(parse_step, steps)), cases=(Case(name="one", inputs=inputs),)
    )
    return require_fitting(chain_cases(chain, BUILT))[0]


def test_steps_of_a_chain_agree_on_their_inputs() -> None:
    made = bound("scale(z, x, a)", "any(x, x=z, BM=128)")
    assert made.params == (
        Param(name="z", kind=ParamKind.TENSOR, dtype="f32", rank=1, out=True),
        Param(name="x", kind=ParamKind.TENSOR, dtype="f32", rank=1, out=True),
        Param(name="a", kind=ParamKind.SCALAR, dtype="f32"),
    )
    assert [item.dtype for item in made.inputs] == ["f32", "f32", "f32"]
    assert made.steps[1].axes == (("BM", 128),)
    assert made.outs == ("z", "x")


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        (["scale(z, x, a, 1)"], r"c/one: scale takes 3 arguments \(z, x, alpha\), got 4"),
        (["scale(z)"], "scale is given nothing for 'x'"),
        (["scale(z, x, z=x)"], "scale is given 'z' by place and by name"),
        (
            ["scale(z, x, alhpa=a)"],
            "'alhpa' of scale is no parameter and no axis; did you mean 'alpha'",
        ),
        (
            ["any(z, x, beta=1)"],
            "'beta' of any is no parameter and no axis; there are z, x, alpha, T, BM",
        ),
        (["any(z, x, BM=a)"], "'BM' of any takes a value, not an input; there are 64, 128$"),
        (["any(z, x, BM=32)"], "BM = 32 of any was not built; built are 64, 128"),
        (["scale(z, 1)"], "scale takes 1 for 'x', which is a tensor"),
        (["scale(z, x, 'f16')"], "scale takes 'f16' for 'alpha', which is a scalar"),
        (["scale(z, a)"], "a is a number, and 'x' of scale is a tensor"),
        (["scale(z, x, x)"], "x is a tensor, and 'alpha' of scale is a scalar"),
        (["any(z, x)"], "z has no dtype of its own, and any was built for several"),
    ],
)
def test_a_step_that_does_not_fit_its_kernel(steps: list[str], what: str) -> None:
    with pytest.raises(CaseError, match=what):
        bound(*steps)


def test_a_reference_names_the_arrays_that_it_gives(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text("def last(x):\n    return {'z': x - 3 * x}\n")
    inputs = tuple(Input(name=n, shape=("7",)) for n in "xyz")
    steps = (parse_step("add(y, x, x, 2)"), parse_step("add(z, y, x, -1)"))
    case = Case(name="one", inputs=inputs, reference="sums.py:last")
    (made,) = chain_cases(Chain(name="sums", steps=steps, cases=(case,)), {"add": ADD})
    assert list(expected_results(made, make_inputs(made), Functions(str(tmp_path)))) == ["z"]


def test_each_step_gets_its_own_arguments() -> None:
    """By position or by name, as the step names them."""
    module, driver = device()
    inputs = tuple(Input(name=n, shape=("64",)) for n in "xyz")
    steps = (parse_step("add(y, x, x)"), parse_step("add(z=z, x=y, y=x, alpha=-1)"))
    chain = Chain(name="c", steps=steps, cases=(Case(name="one", inputs=inputs),))
    (made,) = chain_cases(chain, {"add": ADD})
    given = {
        name: DeviceBuffer.from_host(np.full(64, value, np.float32), "cpu", driver=driver)
        for name, value in (("y", 9), ("x", 3), ("z", 9))
    }
    assert [param.name for param in made.params] == ["y", "x", "z"]
    for call in calls_of(made, module, given):
        call.prepared(0)()
    assert (given["y"].to_host()[0], given["z"].to_host()[0]) == (6, 3 - 6)
