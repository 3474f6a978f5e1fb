"""Results to the record: what an entry says, what stays of an older record, and what it reads as."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.tune_samples import built, planned
from tilec.bench.measure import Measurement
from tilec.manifest.tuning_file import read_record, record_text
from tilec.model.tuning import Status, TuningRecord, size_expressions
from tilec.testing.fake_driver import H200
from tilec.tune import wire
from tilec.tune.candidates import KernelFacts
from tilec.tune.cases import spaces_of
from tilec.tune.record import code_of, confirmed, merged, new_record
from tilec.tune.session import CaseResult
from tilec.tune.trial import Trial
from tilec_runtime.errors import UsageError
from tilec_runtime.model.kernel import ToolInfo

FACTS = KernelFacts(
    info=planned(),
    kernel_digest="a" * 64,
    space_digest="b" * 64,
    toolchain=(ToolInfo(name="t", version="1", digest="d"),),
    target="sm_90",
    sizes=size_expressions(planned()),
)
READY = wire.Ready(device=H200, driver="580.95.05")
COUNT = len(size_expressions(planned()))


@pytest.fixture
def results(info, kernel) -> list[CaseResult]:
    """Of both dtypes: BM=64 wins, 128 was given up half-way, 32 is wrong."""
    found = []
    for space in spaces_of(kernel, info, ()):
        wrong, best, behind = (
            Trial(case=space.case.name, point=point, status=Status.MEASURED)
            for point in space.points
        )
        wrong = dataclasses.replace(wrong, status=Status.WRONG, reason="c[0] is 1, expected 2")
        times = Measurement(
            samples=(1e-3,) * 30, launches=1, steady=True, sm=(1500, 1980), memory=(3201, 3201)
        )
        best = dataclasses.replace(best, measurement=times, variant=f"gemm-{space.case.name}")
        behind = dataclasses.replace(
            behind,
            measurement=Measurement(samples=(2e-3,) * 6, launches=1, steady=True),
            effort=1 / 3,
        )
        found.append(
            CaseResult(
                space=space,
                at=(4096,) * COUNT,
                best=best,
                built=(built(best.point),),
                trials=(wrong, best, behind),
            )
        )
    return found


def coded(results) -> tuple[TuningRecord, dict[tuple[str, Any], str]]:
    """A record with the code of its entries, and that code by target and point."""
    record, _ = new_record(FACTS, READY, results)
    return record, {("sm_90", one.best.point): code_of(one.built) for one in results}


def test_files_that_changed_without_the_code_are_confirmed(results) -> None:
    record, codes = coded(results)
    assert {entry.code for entry in record.devices[0].entries} == set(codes.values())
    assert len(set(codes.values())) == 2
    assert read_record(record_text(record).encode(), "x.json") == record
    now = dataclasses.replace(FACTS, kernel_digest="c" * 64, toolchain=())
    assert confirmed(record, now, codes, "x.json") == dataclasses.replace(
        record, kernel_digest="c" * 64, toolchain=()
    )


def test_confirm_refuses_changed_code(results) -> None:
    record, codes = coded(results)
    for facts in (
        dataclasses.replace(FACTS, space_digest="c" * 64),
        dataclasses.replace(FACTS, sizes=("c.shape[0]",)),
    ):
        with pytest.raises(
            UsageError,
            match=r"x\.json: the matrix, assume.sets, hints or sizes have changed since it was tuned",
        ) as caught:
            confirmed(record, facts, codes, "x.json")
        assert caught.value.fix == "run `tilec tune gemm` again"
    other = code_of([built(results[1].best.point, symbol="other")])
    assert other not in codes.values()
    what = r"x\.json: the code of T=bf16 BM=64 BK=64 for sm_90 is not the measured code \(case 4k\)"
    with pytest.raises(UsageError, match=what):
        confirmed(record, FACTS, {**codes, ("sm_90", results[1].best.point): other}, "x.json")


def test_other_devices_and_sizes_stay_as_long_as_kernel_and_space_do(results) -> None:
    old, _ = new_record(FACTS, READY, results)
    other = dataclasses.replace(READY, device=dataclasses.replace(H200, name="Other"))
    small = [dataclasses.replace(one, at=(512,) * COUNT) for one in results]
    new, _ = new_record(FACTS, other, small)
    both, said = merged(old, new, FACTS.info)
    assert [device.name for device in both.devices] == ["Fake H200", "Other"]
    assert not said
    again, _ = new_record(FACTS, READY, small[:1])
    three, _ = merged(both, again, FACTS.info)
    assert [entry.at[0] for entry in three.devices[0].entries] == [512, 4096, 4096]
    renewed, _ = merged(three, new_record(FACTS, READY, small[:1])[0], FACTS.info)
    assert renewed == three


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kernel_digest": "c" * 64}, "the kernel changed"),
        ({"space_digest": "c" * 64}, "its space changed"),
        ({"kernel_digest": "c" * 64, "space_digest": "c" * 64}, "the kernel and its space changed"),
    ],
)
def test_a_record_of_what_has_changed_is_written_anew(results, change, said: str) -> None:
    old, _ = new_record(dataclasses.replace(FACTS, **change), READY, results)
    other = dataclasses.replace(READY, device=dataclasses.replace(H200, name="Other"))
    new, _ = new_record(FACTS, other, results)
    found, text = merged(old, new, FACTS.info)
    assert found == new
    assert text.startswith(said)
