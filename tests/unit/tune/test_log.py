"""The log of a tuning, and the folder of its candidates."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tilec.bench.measure import Measurement
from tilec.model.tuning import Status
from tilec.tune.log import Header, TrialLog
from tilec.tune.trial import Trial
from tilec_runtime.errors import UsageError

HEADER = Header(
    kernel="gemm",
    kernel_digest="a" * 64,
    space_digest="b" * 64,
    cases_digest="c" * 64,
    target="sm_90",
    device="NVIDIA H200",
    toolchain="nvcc 13.4",
)


POINT = (("T", "f16"), ("BM", 64), ("FAST", True))


MEASURED = Trial(
    case="gemm/4k[f16]",
    point=POINT,
    status=Status.MEASURED,
    effort=1 / 3,
    measurement=Measurement(
        samples=(1e-3, 1.1e-3),
        launches=2,
        steady=False,
        sm=(1755, 1980),
        memory=(3201, 3201),
        held_back=("power",),
    ),
    variant="gemm-f16-BM64",
    cache="rotated",
)


WRONG = Trial(
    case="gemm/4k[f16]",
    point=(("T", "f16"), ("BM", 128), ("FAST", False)),
    status=Status.WRONG,
    reason="c[0] is 1, expected 2",
)


def write(path: Path, *trials: Trial) -> TrialLog:
    log = TrialLog(path)
    log.open(HEADER, keep=False)
    for trial in trials:
        log.add(trial)
    log.close()
    return log


@pytest.mark.parametrize("cut", range(1, 40, 13))
def test_a_torn_last_line_is_none_and_goes_when_the_log_goes_on(tmp_path: Path, cut: int) -> None:
    log = write(tmp_path / "a.jsonl", MEASURED, WRONG)
    log.path.write_bytes(log.path.read_bytes()[:-cut])
    assert log.read(HEADER) == (MEASURED,)
    log.open(HEADER, keep=True)
    log.add(WRONG)
    log.close()
    assert log.read(HEADER) == (MEASURED, WRONG)


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        (1, b"{", b""),
        (1, None, b"[1]"),
        (1, None, b"{}"),
        (1, b"0.0011", b'"x"'),
        (1, b'"measured"', b'"fine"'),
        (1, b'"effort"', b'"other"'),
        (0, None, b"[1]"),
    ],
)
def test_refuses_a_damaged_log(tmp_path: Path, line: int, old: bytes | None, new: bytes) -> None:
    log = write(tmp_path / "a.jsonl", MEASURED, WRONG)
    lines = log.path.read_bytes().split(b"\n")
    lines[line] = new if old is None else lines[line].replace(old, new, 1)
    log.path.write_bytes(b"\n".join(lines))
    with pytest.raises(UsageError, match=r"the log .*a\.jsonl is damaged: ") as caught:
        log.read(HEADER)
    assert "leave --resume out" in caught.value.fix


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kernel", "the kernel changed"),
        ("kernel_digest", "the kernel's source or options changed"),
        ("space_digest", "the search space (matrix, assumptions or hints) changed"),
        ("cases_digest", "the kernel's cases changed"),
        ("target", "the target changed"),
        ("device", "the device changed"),
        ("toolchain", "versions of the compilers changed"),
        ("log", "the version of logs changed"),
    ],
)
def test_a_log_of_something_else_is_refused(tmp_path: Path, name: str, said: str) -> None:
    log = write(tmp_path / "a.jsonl", MEASURED)
    with pytest.raises(UsageError) as caught:
        log.read(dataclasses.replace(HEADER, **{name: "other"}))
    assert f"is of another tuning: {said} since" in caught.value.what


def test_a_log_that_another_tuning_writes_is_left_to_it(tmp_path: Path) -> None:
    first, second = TrialLog(tmp_path / "a.jsonl"), TrialLog(tmp_path / "a.jsonl")
    first.open(HEADER, keep=False)
    first.add(MEASURED)
    with pytest.raises(UsageError, match="another tuning of this kernel is running"):
        second.open(HEADER, keep=False)
    second.close()
    assert first.read(HEADER) == (MEASURED,)
    first.close()
    second.open(HEADER, keep=True)
    second.close()
