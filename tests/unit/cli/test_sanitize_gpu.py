"""`tilec sanitize --device cuda` with a compute-sanitizer that is a shell script and a GPU that is pretended."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.sanitizer_samples import CLEAN, SHOWN, TOLD, Y, log, options, precise, race, report, uninitialized, write_sanitizer
from tests.watched_project import driver, write_project
from tilec_runtime import _driver
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import NoDeviceError

WATCHED = Path(__file__).parents[2] / "samples" / "watched"
ONE = log("ERROR SUMMARY: 1 error")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    write_project(tmp_path)
    write_sanitizer(tmp_path, {}, {})
    fake = driver()
    monkeypatch.setattr(_driver, "driver", lambda: fake)
    monkeypatch.setattr("tilec.frontends.tools.search._wheel_roots", list)
    return tmp_path


@pytest.fixture
def sanitize(cli, folder: Path):
    def call(*args: str, bundle: str = "acme.tilec", device: str = "cuda:0"):
        env = {"PATH": f"{folder}/bin:/usr/bin:/bin", "CUDA_HOME": "", "TILEC_CACHE_DIR": "off"}
        return cli("sanitize", *args, "--device", device, *(("--bundle", bundle) if bundle else ()), env=env)

    return call


def calls(folder: Path) -> list[dict[str, str]]:
    return [options(text.split("\n")) for text in (folder / "calls").read_text().removesuffix("\n--\n").split("\n--\n")]


CLEAN_SHOWN = """\
scale/some  clean   3 blocks, …
  note: the code has no source lines: build with lineinfo = true in the profile, or leave --bundle out

1 case on Fake H200: 1 clean
checked:
  memcheck: accesses outside of all memory that is allocated, and misaligned ones
  racecheck: threads of a block that meet in shared memory with no barrier in between
  initcheck: reads of global memory that nothing wrote (inputs of a case with dist = "empty")
  synccheck: barriers at which threads of a warp are not together, or that are used otherwise than they may be
not checked:
  races in global memory, and between blocks
  barriers that threads skip because they end: the hardware counts those as arrived
  accesses that miss their array by more than 64 KiB and land in another
  inputs other than those of the cases, and other variants than those that they take
"""


def test_all_tools_find_nothing(sanitize, folder: Path) -> None:
    done = sanitize("--case", "some")
    assert (done.code, done.err) == (0, "")
    shown = done.out.splitlines()
    shown[0] = re.sub(r"\d+\.\d s$", "…", shown[0])
    assert "\n".join(shown) + "\n" == CLEAN_SHOWN
    found = calls(folder)
    assert [call["--tool"] for call in found] == ["memcheck", "racecheck", "initcheck", "synccheck"]
    assert all(call["--destroy-on-device-error"] == "kernel" for call in found)
    assert found[0]["--report-api-errors"] == "no"


def test_what_the_launch_is_given(sanitize, folder: Path) -> None:
    """For initcheck alone what a case leaves empty is not written."""
    sanitize("--case", "some")
    lines = (folder / "calls").read_text().split("\n")
    at = [number for number, line in enumerate(lines) if line == "tilec.cli.bare"]
    expected = [str(folder / "tilec.toml"), str(folder / "acme.tilec"), "scale/some", "cuda:0"]
    assert [lines[number + 1 : number + 6] for number in at] == [[*expected, memory] for memory in ("apart", "apart", "unset", "apart")]


FOUND_SHOWN = """\

scale.cu:3: out of bounds: write of 4 bytes at y[300], 1 element behind the last (y has 300)
    {line}
  in scale/some, block (2, 0, 0), thread (44, 0, 0); 3 times in all
  memcheck found it
  fix: compare the index with the extent before the access, or launch fewer threads
"""


def test_what_the_documentation_shows(cli, folder: Path) -> None:
    """A case of the sample that GPU tests use, with what an H200 told of it."""
    shutil.copytree(WATCHED, folder, dirs_exist_ok=True)
    variant = next(kernel for kernel in Bundle.open(WATCHED / "watched.tilec").info.kernels if kernel.name == "beyond").variants[0]
    image = next(image for image in variant.images if str(image.target) == "sm_90")
    told = {**TOLD, "variant": variant.id, "image": image.digest, "symbol": image.symbol}
    records = [precise(Y + 1200 + 4 * i, thread=44 + i, line=12, file="planted.cu", function="beyond") for i in range(4)]
    write_sanitizer(folder, {"memcheck": report(*records)}, {"memcheck": log("ERROR SUMMARY: 4 errors")}, told=told)
    words = ("beyond", "--case", "tail", "--device", "cuda", "--bundle", "watched.tilec")
    done = cli("sanitize", *words, env={"PATH": f"{folder}/bin:/usr/bin:/bin", "CUDA_HOME": "", "TILEC_CACHE_DIR": "off"})
    assert (done.code, done.err) == (86, "")
    assert done.out.startswith(f"{SHOWN}\n1 case on Fake H200: 1 with findings\n")  # and no note: it has source lines


def test_a_finding_is_told_in_the_words_of_the_case(sanitize, folder: Path) -> None:
    write_sanitizer(
        folder,
        {"memcheck": report(*(precise(Y + 1200 + 4 * i, thread=44 + i) for i in range(3)))},
        {"memcheck": log("ERROR SUMMARY: 3 errors")},
    )
    done = sanitize("--case", "some")
    assert done.code == 86
    assert done.out.startswith("scale/some  FOUND   1 finding, 3 blocks\n")
    assert FOUND_SHOWN.format(line=(folder / "scale.cu").read_text().splitlines()[2]) in done.out
    assert "1 case on Fake H200: 1 with findings\n" in done.out


def test_a_source_that_was_changed_since_is_not_quoted(sanitize, folder: Path) -> None:
    (folder / "scale.cu").write_text("something\nelse\nby now\n")
    write_sanitizer(folder, {"memcheck": report(precise(Y + 1200))}, {"memcheck": ONE})
    done = sanitize("--case", "some")
    assert "scale.cu:3: out of bounds: write of 4 bytes at y[300]" in done.out
    assert "by now" not in done.out


def test_findings_of_several_tools_as_json(sanitize, folder: Path) -> None:
    records = {"initcheck": report(*(uninitialized(Y + 4 * i, i) for i in range(5))), "racecheck": report(race(("Read", 3, 1024)))}
    logs = {"initcheck": log("ERROR SUMMARY: 5 errors"), "racecheck": log("RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)")}
    write_sanitizer(folder, records, logs)
    done = sanitize("--case", "some", "--json")
    document = json.loads(done.out)
    assert (done.code, document["kind"], document["schema_version"] >= 1) == (86, "sanitize", True)
    assert (document["device"]["name"], document["tools"]) == ("Fake H200", ["memcheck", "racecheck", "initcheck", "synccheck"])
    (case,) = document["cases"]
    assert (case["status"], case["variants"], case["blocks"]) == ("findings", ["scale"], 3)
    assert [(run["tool"], run["status"]) for run in case["tools"]] == [
        ("memcheck", "clean"),
        ("racecheck", "findings"),
        ("initcheck", "findings"),
        ("synccheck", "clean"),
    ]
    met, unset = case["findings"]
    assert (met["kind"], met["count"], met["location"]["line"], met["other"]["location"]["line"]) == ("read-write race", 1024, 2, 3)
    assert (unset["kind"], unset["parameter"], unset["index"], unset["count"]) == ("uninitialized read", "y", [0], 5)
    assert (unset["address"], unset["thread"], unset["block"]) == (f"{Y:#x}", [0, 0, 0], [0, 0, 0])
    assert document["counts"] == {"clean": 0, "findings": 1, "weak": 0, "error": 0, "skipped": 0}


def test_one_tool(sanitize, folder: Path) -> None:
    done = sanitize("--case", "some", "--tool", "synccheck,memcheck")
    assert done.code == 0
    assert [call["--tool"] for call in calls(folder)] == ["memcheck", "synccheck"]
    assert "  what racecheck, initcheck would find: name it with --tool, or leave the option out\n" in done.out


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (log("ERROR SUMMARY: 7 errors", "ERROR SUMMARY: 7 errors were not printed. Use --print-limit"), "it found 7 more than it prints"),
        (log("ERROR SUMMARY: 0 errors", "ERROR SUMMARY: 9 errors were skipped (error buffer overflow)."), "it lost 9 of what it found"),
        (log("Warning: CUDA Dynamic Parallelism is not supported by the selected tool", CLEAN), "in its words: Warning: CUDA Dynamic"),
        (log("Internal Sanitizer Error: out of registers", CLEAN), "in its words: Internal Sanitizer Error"),
        (log("ERROR SUMMARY: 2 errors"), "2 of what it counts is not in its report"),
    ],
)
def test_a_check_that_was_weakened_is_not_clean(sanitize, folder: Path, said: str, words: str) -> None:
    write_sanitizer(folder, {}, {"memcheck": said})
    done = sanitize("--case", "some")
    assert done.code == 1
    assert "scale/some  WEAK" in done.out
    assert f"  memcheck is weakened: {words}" in done.out
    assert "1 not checked in full" in done.out
    assert "1 clean" not in done.out


def test_a_report_that_breaks_off(sanitize, folder: Path) -> None:
    write_sanitizer(folder, {"memcheck": report(precise(Y + 1200)).partition("</Comp")[0]}, {"memcheck": ONE})
    done = sanitize("--case", "some")
    assert done.code == 86
    assert "memcheck is weakened: its report breaks off" in done.out


@pytest.mark.parametrize(
    ("said", "told", "end", "code", "words"),
    [
        (
            log("Error: Target application terminated before first instrumented API call"),
            {},
            "exit 255",
            1,
            "could not check scale/some, in its words:\n      Error: Target",
        ),
        ("", {}, "echo broken >&2; exit 127", 1, "broken"),
        ("", {}, "exit 9", 1, "nothing (status 9)"),
        (log(CLEAN), {"error": {"what": "no memory", "cause": "c", "fix": "f"}}, "exit 1", 1, "  no memory\n    cause: c\n    fix: f\n"),
        (log(CLEAN), {**TOLD, "ended": False}, "", 1, "the launch of scale/some did not come to its end under memcheck"),
        (log("COMPUTE-SANITIZER"), TOLD, "sleep 60", 1, "memcheck did not come to its end on scale/some within 1 s"),
        (
            log("Device not supported. Please refer to the documentation"),
            {},
            "exit 1",
            3,
            "compute-sanitizer cannot work on Fake H200 here",
        ),
    ],
)
def test_a_tool_that_could_not_run_is_never_clean(
    sanitize, folder: Path, said: str, told: dict[str, object], end: str, code: int, words: str
) -> None:
    write_sanitizer(folder, {}, {"memcheck": said}, told=told, end=end)
    done = sanitize("--case", "some", "--tool", "memcheck", "--timeout", "1" if "sleep" in end else "60")
    assert done.code == code
    assert words in done.out + done.err
    assert "clean" not in done.out
    assert "checked:" not in done.out


def test_an_empty_grid_is_noted(sanitize, folder: Path) -> None:
    write_sanitizer(folder, {}, {}, told={**TOLD, "grid": [0, 1, 1]})
    assert "  note: the grid has no blocks: there was nothing to check\n" in sanitize("--case", "some").out


def test_the_other_tools_go_on(sanitize, folder: Path) -> None:
    write_sanitizer(folder, {}, {"racecheck": ""})
    done = sanitize("--json")
    first, second = json.loads(done.out)["cases"]
    assert (done.code, first["name"], second["name"]) == (1, "scale/some", "scale/more")
    assert [run["status"] for run in first["tools"]] == ["clean", "error", "clean", "clean"]
    assert "error" in first["tools"][1]


def test_without_compute_sanitizer(sanitize, folder: Path) -> None:
    (folder / "bin" / "compute-sanitizer").unlink()
    done = sanitize(bundle="")  # nothing is built for nothing
    assert done.code == 3
    assert "error: compute-sanitizer not found; looked in PATH, " in done.err
    assert "pip install nvidia-cuda-sanitizer-api" in done.err


def test_a_case_that_is_not_there_is_told_before_a_tool_that_is_not(sanitize, folder: Path) -> None:
    (folder / "bin" / "compute-sanitizer").unlink()
    done = sanitize("--case", "sme", bundle="")
    assert (done.code, done.err) == (2, "error: no case 'sme'; did you mean 'some'\n  fix: cases are scale/some, scale/more\n")


def test_without_a_gpu(sanitize, monkeypatch) -> None:
    def none() -> None:
        raise NoDeviceError("the CUDA driver is not installed")

    monkeypatch.setattr(_driver, "driver", none)
    done = sanitize(bundle="")
    assert done.code == 3
    assert "checking with compute-sanitizer needs a GPU (cuda:0): the CUDA driver is not installed" in done.err


@pytest.mark.parametrize(
    ("args", "device", "words"),
    [
        ((), "gpu", "'gpu' is no device that can check: take cpu, cuda, or cuda:N"),
        ((), "", "'' is no device that can check"),
        (("--tool", "memchek"), "cuda", "no such tool: 'memchek'; did you mean 'memcheck'"),
        (("--tool", ""), "cuda", "no such tool: ''; there are memcheck,"),
        (("--nan",), "cuda", "--nan means nothing for --device cuda\n  fix: pass --device cpu, or leave --nan out"),
        (("--seed", "1"), "cuda", "--seed means nothing for --device cuda"),
        (("--steps", "5"), "cuda", "--steps means nothing for --device cuda"),
        (("--tool", "all"), "cpu", "--tool means nothing for --device cpu\n  fix: pass --device cuda, or leave --tool out"),
        (("--timeout", "5"), "cpu", "--timeout means nothing for --device cpu"),
        (("--profile", "debug"), "cpu", "--profile means nothing for --device cpu"),
        (("--timeout", "0"), "cuda", "--timeout"),
        (("--timeout", "inf"), "cuda", "'inf' is more than anybody waits: take 1,000,000 or less"),
        (("scael",), "cuda", "no kernel 'scael'; did you mean 'scale'"),
        (("--case", "sme"), "cuda", "no case 'sme'; did you mean 'some'\n  fix: cases are scale/some, scale/more"),
    ],
)
def test_command_lines_that_are_off(sanitize, folder: Path, args: tuple[str, ...], device: str, words: str) -> None:
    done = sanitize(*args, device=device)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert not (folder / "calls").exists()
