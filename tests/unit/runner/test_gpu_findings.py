"""What compute-sanitizer leaves, read and told in the words of a case: records in the layout of version 2025.3."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sanitizer_samples import CLEAN, Y, log, precise, race, report, uninitialized, where, who
from tilec.runner.compute_sanitizer import Log, Record, Site, Tool, read_log, read_report, tool_command
from tilec.runner.device import APART
from tilec.runner.gpu_findings import Array, GpuFinding, findings_of, weaknesses, with_examples

GLOBAL, SHARED = "__global__ write of size 4 bytes", "__shared__ write of size 4 bytes"
ARRAYS = (Array(name="y", address=Y, nbytes=1200, bits=32), Array(name="x", address=Y + (1 << 20), nbytes=1200, bits=32))


def records(tmp_path: Path, *texts: str) -> tuple[Record, ...]:
    path = tmp_path / "report.xml"
    path.write_text(report(*texts))
    found, whole = read_report(path)
    assert whole
    return found


def findings(tmp_path: Path, *texts: str, tool: Tool = Tool.MEMCHECK, said: str = "") -> tuple[GpuFinding, ...]:
    return findings_of(tool, records(tmp_path, *texts), read_log(said), ARRAYS)


def test_a_record_with_all_that_it_has(tmp_path: Path) -> None:
    (found,) = records(tmp_path, precise(Y + 1200))
    assert found == Record(
        kind="Precise",
        text="Invalid __global__ write of size 4 bytes is out of bounds",
        error="out of bounds",
        space="global",
        direction="write",
        address=Y + 1200,
        size=4,
        site=Site(function="scale", file="scale.cu", line=3, offset="0x140"),
        thread=(44, 0, 0),
        block=(2, 0, 0),
    )


@pytest.mark.parametrize(
    ("record", "kind", "what", "parameter", "index"),
    [
        (precise(Y + 1200), "out of bounds", "write of 4 bytes at y[300], 1 element behind the last (y has 300)", "y", 300),
        (precise(Y + 1216), "out of bounds", "write of 4 bytes at y[304], 5 elements behind the last (y has 300)", "y", 304),
        (precise(Y - 8), "out of bounds", "write of 4 bytes at y[-2], 2 elements in front of the first (y has 300)", "y", -2),
        (precise(Y + (1 << 20) - 4), "out of bounds", "write of 4 bytes at x[-1], 1 element in front of the first (x has 300)", "x", -1),
        (precise(Y + 1199 + APART), "out of bounds", f"at y[{300 + APART // 4 - 1}]", "y", 299 + APART // 4),
        (precise(Y + 1200 + APART), "out of bounds", f"Invalid {GLOBAL} is out of bounds at {Y + 1200 + APART:#x}", "", None),
        (precise(0x10), "null pointer", "write of 4 bytes at 0x10", "", None),
        (precise(Y + 2, error="misaligned"), "misaligned address", f"write of 4 bytes at y[0], at address {Y + 2:#x}", "y", 0),
        (precise(0x61E80, space="__shared__"), "out of bounds", f"Invalid {SHARED} is out of bounds at 0x61e80", "", None),
        (uninitialized(Y + 8, 2), "uninitialized read", "reads y[2], which nothing has written", "y", 2),
        ("<record><kind>New</kind><what><text>Something  else</text></what></record>", "new", "Something else", "", None),
        ("<record/>", "defect", "", "", None),
    ],
)  # fmt: skip
def test_sentences(tmp_path: Path, record: str, kind: str, what: str, parameter: str, index: int | None) -> None:
    (found,) = findings(tmp_path, record)
    assert (found.kind, found.parameter, found.index) == (kind, parameter, index)
    assert what in found.what


def test_elements_of_half_a_byte() -> None:
    packed = Array(name="q", address=64, nbytes=10, bits=4)
    assert (packed.element(64), packed.element(73), packed.element(74), packed.element(63)) == (0, 18, 20, -2)
    assert (packed.distance(64), packed.distance(73), packed.distance(74), packed.distance(63)) == (0, 0, 1, 1)


def test_what_differs_in_threads_and_elements_is_one_finding(tmp_path: Path) -> None:
    same = [precise(Y + 1200 + 4 * i, thread=i) for i in range(9)]
    elsewhere = precise(Y + (2 << 20), thread=3)
    found = findings(tmp_path, *same, elsewhere, precise(Y + (3 << 20)), precise(Y + 1200, function="other"))
    assert [(one.count, one.thread, one.parameter, one.site.function) for one in found] == [
        (9, (0, 0, 0), "y", "scale"),
        (2, (3, 0, 0), "", "scale"),
        (1, (44, 0, 0), "y", "other"),
    ]


def test_races_and_their_examples(tmp_path: Path) -> None:
    found = findings(tmp_path, race(("Read", 3, 1024), ("Write", 2, 7)), race(("Read", 4, 1), level="Warning"), tool=Tool.RACECHECK)
    assert [(one.kind, one.other and one.other.line, one.count, one.warning) for one in found] == [
        ("read-write race", 3, 1024, False),
        ("write-write race", 2, 7, False),
        ("read-write race", 4, 1, True),
    ]
    sides = [
        f"<thread{i}><access>{does}</access>{who(30 + i)[5:-6]}{where(line)}</thread{i}>"
        for i, does, line in ((0, "Read", 3), (1, "Write", 2))
    ]
    common = "<common><address>0x580</address><blockIdx><x>6</x><y>0</y><z>0</z></blockIdx></common>"
    hazards = records(
        tmp_path, f"<record><kind>Hazard</kind><what><text>Potential WAR hazard</text>{common}{''.join(sides)}</what></record>"
    )
    one, two, three = with_examples(found, hazards)
    # The hazard names the read first, the race the write: each thread stays with what it does.
    assert (one.thread, one.other_thread, one.block, one.address) == ((31, 0, 0), (30, 0, 0), (6, 0, 0), 0x580)
    assert (two.thread, three.thread) == (None, None)


def test_the_log_says_more_of_barriers(tmp_path: Path) -> None:
    record = f"<record><kind>Sync</kind>{who(97)}<what><text>Barrier error</text></what>{where(46)}</record>"
    said = log(
        "Barrier error detected. Divergent thread(s) in warp.",
        "    at scale+0x140 in scale.cu:46",
        "    by thread (97,0,0) in block (0,0,0)",
    )
    (found,) = findings(tmp_path, record, tool=Tool.SYNCCHECK, said=said)
    assert (found.kind, found.what) == ("barrier", "Divergent thread(s) in warp.")
    (found,) = findings(tmp_path, record, tool=Tool.SYNCCHECK)
    assert found.what == "Barrier error"


def test_what_a_log_says() -> None:
    said = log(
        "Error: Race reported between Write access at turned+0xe0 in planted.cu:23",
        "    and Read access at turned+0xf0 in planted.cu:24 [1024 hazards]",
        "",
        "Invalid __global__ write of size 4 bytes",
        "    at beyond+0x140 in planted.cu:12",
        "    Address 0x7f4b is not supported here",  # of a record: no trouble of the tool
        "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)",
    )
    assert read_log(said) == Log(ended=True, errors=1, heads={("beyond", "0x140"): "Invalid __global__ write of size 4 bytes"})
    said = log("ERROR SUMMARY: 1,205 errors", "ERROR SUMMARY: 1,105 errors were not printed. Use --print-limit option to adjust the number")
    assert read_log(said) == Log(ended=True, errors=1205, unprinted=1105)
    assert read_log("") == Log(ended=False)
    assert read_log(log("Device not supported. Please refer to the documentation")).troubles == (
        "Device not supported. Please refer to the documentation",
    )


@pytest.mark.parametrize(
    ("said", "count", "whole", "gap", "reasons"),
    [
        (log(CLEAN), 0, True, APART, []),
        (log("ERROR SUMMARY: 2 errors"), 2, True, APART, []),
        (log("ERROR SUMMARY: 2 errors"), 0, True, APART, ["2 of what it counts is not in its report"]),
        (log(CLEAN), 0, False, APART, ["its report breaks off"]),
        (log(CLEAN), 0, True, 512, ["arrays lie 512 bytes apart"]),
        (log("Warning: too many allocations", CLEAN), 0, True, APART, ["in its words: Warning: too many allocations"]),
    ],
)
def test_what_weakens_a_check(said: str, count: int, whole: bool, gap: int, reasons: list[str]) -> None:
    found = weaknesses([Record(kind="Precise")] * count, read_log(said), whole=whole, gap=gap)
    assert len(found) == len(reasons)
    assert all(text.startswith(reason) for text, reason in zip(found, reasons, strict=True))


@pytest.mark.parametrize("text", ["", "<a>", "nothing", report(precise(Y + 1200)).removesuffix("</ComputeSanitizerOutput>\n")])
def test_a_report_that_is_cut_off(tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.xml"
    path.write_text(text)
    found, whole = read_report(path)
    assert (len(found), whole) == (1 if "record" in text else 0, False)
    assert read_report(tmp_path / "none.xml") == ((), False)


def test_the_command_line(tmp_path: Path) -> None:
    command = tool_command("cs", Tool.RACECHECK, report=tmp_path / "r", log=tmp_path / "l", launch=["python", "-m", "x"])
    assert (command[:5], command[-3:]) == (["cs", "--tool", "racecheck", "--racecheck-report", "analysis"], ["python", "-m", "x"])
    command = tool_command("cs", Tool.RACECHECK, report=tmp_path / "r", log=tmp_path / "l", launch=[], hazards=True)
    assert command[3:5] == ["--racecheck-report", "hazard"]
