"""Tuning files: canonical text, round trip, and refusals of everything that does not fit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tilec.manifest.tuning_file import read_record, record_text
from tilec.model.tuning import Candidate, Clocks, Status, TunedDevice, TunedEntry, TuningRecord
from tilec_runtime.errors import ManifestError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.kernel import ToolInfo

POINT = (("T", "bf16"), ("BM", 128), ("BN", 256))
ENTRY = TunedEntry(
    case="4k",
    ranges=((4096, 8191), (1024, 2047)),
    at=(4096, 1024),
    point=POINT,
    variant="gemm-bf16-BM128-BN256-div16",
    hints=(("num_ctas", 2),),
    median_us=181.25,
    interval_us=(180.5, 182.0),
    samples=40,
    candidates=(
        Candidate(
            point=POINT,
            status=Status.BEST,
            median_us=181.25,
            interval_us=(180.5, 182.0),
            samples=40,
        ),
        Candidate(
            point=(*POINT[:2], ("BN", 64)),
            status=Status.FAILED,
            reason="does not load: too many resources requested",
        ),
    ),
)
RECORD = TuningRecord(
    kernel="gemm",
    kernel_digest="a" * 64,
    space_digest="b" * 64,
    toolchain=(ToolInfo(name="tileiras", version="13.4.1", digest="c" * 64),),
    sizes=("a.shape[0]", "b.shape[1]"),
    devices=(
        TunedDevice(
            name="NVIDIA H200",
            cc=(9, 0),
            multiprocessors=132,
            driver="580.95.05",
            clocks=Clocks(sm=(1755, 1980), memory=(3201, 3201)),
            target=Target.parse("sm_90"),
            entries=(ENTRY,),
        ),
        TunedDevice(
            name="CPU", cc=(0, 0), multiprocessors=1, target=Target.parse("tileir"), entries=()
        ),
    ),
)
TEXT = record_text(RECORD)


def refusal(text: str | bytes) -> str:
    with pytest.raises(ManifestError) as caught:
        read_record(text.encode() if isinstance(text, str) else text, "tuning/gemm.json")
    assert "tilec tune" in caught.value.fix or "update tilec" in caught.value.fix
    return caught.value.problems[0].render()


def changed(path: str, value: Any) -> str:
    """The file with one value changed, in the same layout."""
    plain = json.loads(TEXT)
    here = plain
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in steps:
        here = here[step]
    if value is KeyError:
        del here[last]
    else:
        here[last] = value
    return json.dumps(plain, indent=1)


def test_round_trip() -> None:
    assert read_record(TEXT.encode(), "x") == RECORD
    assert record_text(read_record(TEXT.encode(), "x")) == TEXT


def test_layout_is_read_by_people() -> None:
    assert TEXT.startswith('{\n  "schema_version": 1,\n  "kernel": "gemm",\n')
    assert '          "ranges": [[4096, 8191], [1024, 2047]],\n' in TEXT
    assert '          "point": {"T": "bf16", "BM": 128, "BN": 256},\n' in TEXT
    assert TEXT.endswith("}\n")
    assert max(map(len, TEXT.splitlines())) <= 200


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        ("kernel_digest", "abc", "kernel_digest: must be a SHA-256 in hex, is 'abc'"),
        ("devices.0.cc", 9.0, "devices[0].cc: must be a compute capability such as '9.0', is 9.0"),
        ("devices.0.target", "sm_91", "devices[0].target: unknown architecture in target 'sm_91'"),
        ("devices.0.name", "CPU", "devices[1].name: device 'CPU' appears twice"),
        (
            "devices.0.entries.0.at",
            [4096],
            "devices[0].entries[0].ranges: there are 2 size expressions",
        ),
        (
            "devices.0.entries.0.ranges",
            [[1, 2], [1024, 2047]],
            "entries[0].ranges: 1 to 2 does not hold 4096",
        ),
        (
            "devices.0.entries.0.median_us",
            -1,
            "entries[0].median_us: must be a time in microseconds, is -1",
        ),
        (
            "devices.0.entries.0.point",
            {"T": [1]},
            "entries[0].point.T: must be a string, a number or a truth value",
        ),
        (
            "devices.0.entries.0.candidates.1.status",
            "lost",
            "candidates[1].status: must be one of best, measured",
        ),
        ("devices.0.entries.0.samples", KeyError, "entries[0]: key 'samples' is missing"),
        ("devices.0.entries.0.color", 1, "entries[0]: unknown key 'color'"),
        ("schema_version", 2, "schema version 2: this tilec reads version 1"),
        ("schema_version", True, "schema version True: this tilec reads version 1"),
        ("schema_version", KeyError, "schema version None"),
    ],
)
def test_names_values_that_do_not_fit(path: str, value: Any, what: str) -> None:
    shown = refusal(changed(path, value))
    assert shown.startswith("tuning/gemm.json: error: ")
    assert what in shown


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "tuning/gemm.json:1:1: error: the file is not JSON"),
        ("[]", "tuning/gemm.json: error: must be an object, is []"),
        (TEXT[: len(TEXT) // 2], "the file is not JSON"),
        (
            TEXT.replace('"kernel": "gemm"', '<<<<<<< HEAD\n  "kernel": "gemm"'),
            "tuning/gemm.json:3:3: error: the file is not JSON",
        ),
        (TEXT.replace("181.25", "NaN"), "must be a time in microseconds, is nan"),
        (b'{"kernel": "\xff"}', "the file is not JSON: 'utf-8' codec can't decode"),
        ("[" * 100_000, "the file is not JSON"),
    ],
)
def test_damaged_files_are_refused(text: str | bytes, what: str) -> None:
    assert what in refusal(text)
