from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.ncu_samples import RAW
from tests.watched_project import IMAGE, INFO, driver, write_ncu, write_nvdisasm, write_project, write_tool
from tilec.cli.bare import APART, UNSET, Bare, main
from tilec.runner.device import APART as APART_BYTES
from tilec_runtime import _driver
from tilec_runtime.bundle.write import write_bundle
from tilec_runtime.errors import DriverError, NoDeviceError
from tilec_runtime.model.table import DispatchRule, TuningTable

SOURCE = """\
"#","Address","Source","Warp Stall Sampling (All Samples)","stall_long_sb","stall_wait","stall_selected"
"0","0","LDC R1, c[0x0][0x28]","2","0","2","0"
"1","10","LDG.E R0, desc[UR4][R2.64]","10","0","10","50"
"2","20","FADD R0, R0, R0","80","80","0","0"
"3","30","STL [R1], R0","0","0","0","0"
"4","40","STG.E desc[UR4][R2.64], R0","6","0","6","0"
"5","50","EXIT","2","0","2","0"
"""
SHOWN = """\
scale/some  scale  Fake H200
  4.10 us, 4096 blocks, 3.88 waves, 40 registers a thread
  memory bounds it, DRAM most (compute 12 %, memory 88 % of what the GPU can do): fewer bytes help: smaller dtypes, fusing with what \
comes before or after, keeping what is read twice
  occupancy 62 % of at most 75 %, which registers allow
  warps wait for data from global or local memory (60 %); other warps at a barrier of the block (20 %)

  samples  line        waits for                                           source
      90%  scale.cu:3  data from global or local memory                    y[threadIdx.x] *= 2.0f; // {text}
       6%  lib.cuh:7   a fixed number of cycles between dependent instructions
       2%  scale.cu:1  a fixed number of cycles between dependent instructions  __global__ void scale(float* y)
       2%  scale.cu:4  a fixed number of cycles between dependent instructions  }}

report: .tilec/profile/scale.some.ncu-rep (`ncu-ui` shows all of it)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    write_project(tmp_path)
    write_ncu(tmp_path, RAW, SOURCE)
    write_nvdisasm(tmp_path)
    fake = driver()
    monkeypatch.setattr(_driver, "driver", lambda: fake)
    monkeypatch.setattr("tilec.frontends.tools.search._wheel_roots", list)
    return tmp_path


@pytest.fixture
def profile(cli, folder: Path):
    def call(*args: str, bundle: str = "acme.tilec"):
        env = {"PATH": f"{folder}/bin:/usr/bin:/bin", "CUDA_HOME": str(folder), "TILEC_CACHE_DIR": "off"}
        return cli("profile", *args, *(("--bundle", bundle) if bundle else ()), env=env)

    return call


def calls(folder: Path) -> list[list[str]]:
    return [text.split("\n") for text in (folder / "calls").read_text().removesuffix("\n--\n").split("\n--\n")]


def plain(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_summary_in_words(profile, folder: Path) -> None:
    done = profile("scale/some")
    assert (done.code, done.err) == (0, "")
    hostile = (folder / "scale.cu").read_text().splitlines()[2].split("// ")[1]
    assert plain(done.out) == plain(SHOWN.format(text=hostile))
    assert (folder / ".tilec" / "profile" / "scale.some.ncu-rep").read_text() == "report\n"


def test_how_ncu_is_called(profile, folder: Path) -> None:
    assert profile("scale/some", "--set", "basic", "-o", "a.ncu-rep").code == 0
    run, raw, source = calls(folder)[:3]
    at = {word: run[number + 1] for number, word in enumerate(run[:-1])}
    assert (at["--clock-control"], at["--set"], at["--export"]) == ("none", "basic", str(folder / "a.ncu-rep"))
    assert (at["--kernel-name-base"], at["--kernel-name"], at["--launch-count"]) == ("mangled", "regex:^(scale)$", "1")
    assert {run[number + 1] for number, word in enumerate(run) if word == "--section"} >= {"WarpStateStats", "SourceCounters", "Occupancy"}
    launch = ["tilec.cli.bare", str(folder / "tilec.toml"), str(folder / "acme.tilec"), "scale/some", "cuda:0", "plain"]
    assert run[-7:-1] == launch
    assert raw[:2] == source[:2] == ["--import", str(folder / "a.ncu-rep")]
    assert ("raw" in raw, "source" in source) == (True, True)


@pytest.mark.parametrize("by", ["rules", "table"])
def test_ncu_looks_for_every_kernel_that_a_rule_or_a_table_may_choose(profile, folder: Path, by: str) -> None:
    (kernel,) = INFO.kernels
    (plain_variant,) = kernel.variants
    (image,) = plain_variant.images
    variants = tuple(
        dataclasses.replace(
            plain_variant, id=f"scale-B{size}", axes=(("B", size),), images=(dataclasses.replace(image, symbol=f"scale_{size}"),)
        )
        for size in (1, 2)
    )
    choosing: dict[str, Any] = {
        "rules": (DispatchRule(when="y.size > 100", take=(("B", 2),)),) if by == "rules" else (),
        "table": TuningTable(source="tuning/scale.json", sizes=(), devices=()) if by == "table" else None,
    }
    chosen = dataclasses.replace(kernel, axes=(("B", (1, 2)),), default=(("B", 1),), variants=variants, **choosing)
    write_bundle(folder / "acme.tilec", dataclasses.replace(INFO, kernels=(chosen,)), lambda _digest: IMAGE)
    profile("scale/some")
    run = calls(folder)[0]
    assert run[run.index("--kernel-name") + 1] == "regex:^(scale_1|scale_2)$"


def test_json(profile, folder: Path) -> None:
    document = json.loads(profile("scale/some", "--json").out)
    assert (document["kind"], document["case"], document["variant"]) == ("profile", "scale/some", "scale")
    assert (document["summary"]["bound"], document["summary"]["memory"]) == ("memory", 88.2)
    assert document["lines"][0]["place"] == "scale.cu:3"
    assert document["lines"][0]["stall"] == "long_scoreboard"
    assert document["report"] == str(folder / ".tilec" / "profile" / "scale.some.ncu-rep")


def test_a_report_without_a_name(profile, folder: Path) -> None:
    """As an unset variable of a shell leaves it."""
    done = profile("scale/some", "-o", "")
    assert done.code == 2
    assert "Invalid value for '-o' / '--out': it names nothing" in done.err
    assert not (folder / "calls").exists()


def test_without_source_lines_instructions_are_told(profile, folder: Path) -> None:
    lines = [line for line in (folder / "sass.txt").read_text().splitlines() if "//##" not in line]
    (folder / "sass.txt").write_text("\n".join(lines))
    done = profile("scale/some")
    assert "instruction 2" in done.out
    assert "FADD R0, R0, R0" in done.out
    assert "  note: no source lines: build with lineinfo = true in the profile\n" in done.out


def test_other_instructions_than_the_bundle_s_are_not_mixed_up(profile, folder: Path) -> None:
    (folder / "source.csv").write_text(SOURCE.replace("FADD", "FMUL"))
    assert "  note: no source lines: ncu shows other instructions than the bundle has\n" in profile("scale/some").out


def test_without_a_disassembler_instructions_are_told_too(profile, folder: Path) -> None:
    (folder / "bin" / "nvdisasm").unlink()
    assert "  note: no source lines: nvdisasm not found\n" in profile("scale/some").out


def test_an_ncu_without_a_source_page_has_the_rest(profile, folder: Path) -> None:
    (folder / "source.csv").unlink()
    done = profile("scale/some")
    assert done.code == 0
    assert "memory bounds it" in done.out
    assert "  note: no samples of where warps wait" in done.out


PERMISSION = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0"
)


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        (
            f"echo '{PERMISSION}'; exit 1",
            3,
            ("may not read the GPU's performance counters", "NVreg_RestrictProfilingToAdminUsers=0", "SYS_ADMIN"),
        ),
        (f"echo '{PERMISSION}'", 3, ("may not read the GPU's performance counters",)),
        (
            "echo '==ERROR== Failed to initialize the profiler: LibraryNotLoaded'; exit 1",
            3,
            ("ncu cannot read the GPU's performance counters on this machine", "fix: profile on the machine itself"),
        ),
        ("echo '==WARNING== No kernels were profiled.'", 1, ("ncu saw no launch of scale/some", "tilec run scale --case some")),
        (
            "echo '==ERROR== Profiling failed'; exit 9",
            1,
            ("ncu failed with status 9, in its words:\n    ==ERROR== Profiling failed", "--verbose"),
        ),
        ("true", 1, ("ncu failed with status 0",)),
        (
            'for last; do :; done; echo \'{"error": {"what": "no memory", "cause": "c", "fix": "f"}}\' > "$last"; exit 1',
            1,
            ("error: no memory\n  cause: c\n  fix: f",),
        ),
        ("sleep 60", 1, ("ncu did not finish scale/some in time", "--timeout")),
    ],
)
def test_what_can_go_wrong_under_ncu(profile, folder: Path, script: str, code: int, words: tuple[str, ...]) -> None:
    write_tool(folder, "ncu", script)
    done = profile("scale/some", *(("--timeout", "1") if "sleep" in script else ()))
    assert (done.code, done.out) == (code, "")
    for text in words:
        assert text in done.err


def test_a_report_that_cannot_be_read_again(profile, folder: Path) -> None:
    (folder / "raw.csv").write_text("nothing\n")
    done = profile("scale/some")
    assert done.code == 1
    assert "ncu printed no counters of .tilec/profile/scale.some.ncu-rep" in done.err
    (folder / "raw.csv").unlink()
    assert "ncu cannot read its own report" in profile("scale/some").err


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("scael/some",), 2, "no kernel 'scael'; did you mean 'scale'"),
        (("scale/sme",), 2, "no case 'sme' of scale; did you mean 'some'"),
        (("scale",), 2, "'scale' names no case\n  fix: cases are scale/some, scale/more"),
        (("scale/some[f16]",), 2, "'scale/some[f16]' is none of the cases: name one\n  fix: cases are scale/some"),
        (("scale/some", "--device", "cpu"), 2, "--device: 'cpu' is no GPU"),
        (("scale/some", "--device", "cuda:7"), 3, "needs a GPU (cuda:7)"),
        (("scale/some", "-o", "x.txt"), 2, "--out x.txt: no name of a report of ncu"),
        (("scale/some", "-o", "none/x.ncu-rep"), 2, "there is no directory none"),
        (("scale/some", "--timeout", "0"), 2, "--timeout"),
        ((), 2, "Missing argument 'CASE'"),
    ],
)
def test_command_lines_that_are_off(profile, folder: Path, args: tuple[str, ...], code: int, words: str) -> None:
    done = profile(*args)
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert not (folder / "calls").exists()


def test_without_ncu(profile, folder: Path) -> None:
    (folder / "bin" / "ncu").unlink()
    done = profile("scale/some", bundle="")  # nothing is built for nothing
    assert done.code == 3
    assert "error: ncu not found; looked in PATH, " in done.err
    assert "fix: install Nsight Compute" in done.err


def test_without_a_gpu(profile, monkeypatch) -> None:
    def none() -> None:
        raise NoDeviceError("the CUDA driver is not installed")

    monkeypatch.setattr(_driver, "driver", none)
    done = profile("scale/some", bundle="")
    assert done.code == 3
    assert "launching scale/some needs a GPU (cuda:0): the CUDA driver is not installed" in done.err


# --- what runs under the tools ----------------------------------------------------------------------------------------------------


def bare(folder: Path, case: str = "scale/some") -> Bare:
    names = {"manifest": str(folder / "tilec.toml"), "bundle": str(folder / "acme.tilec"), "told": str(folder / "told")}
    return Bare(**names, case=case, device="cuda:0")


def test_a_case_is_launched_once_and_told(folder: Path) -> None:
    assert main(bare(folder).command()[4:]) == 0
    told = json.loads((folder / "told").read_text())
    assert (told["variant"], told["symbol"], len(told["image"])) == ("scale", "scale", 64)
    assert (told["grid"], told["ended"], told["tensors"]["y"][1]) == ([2, 1, 1], True, 1200)
    assert "gap" not in told
    (launch,) = _driver.driver().launches  # type: ignore[attr-defined]
    assert told["tensors"]["y"][0] == launch.arguments[0]


def test_under_a_sanitizer_arrays_are_apart(folder: Path) -> None:
    assert main(dataclasses.replace(bare(folder), memory=APART).command()[4:]) == 0
    assert json.loads((folder / "told").read_text())["gap"] >= APART_BYTES


def test_what_a_case_leaves_empty_is_not_written_for_initcheck(folder: Path, monkeypatch) -> None:
    """Else the tool would take what tilec fills it with for something that the kernel may read."""
    copied: list[int] = []
    monkeypatch.setattr(type(_driver.driver()), "copy_in", lambda _self, _ordinal, address, *_rest: copied.append(address))
    text = (folder / "tilec.toml").read_text()
    (folder / "tilec.toml").write_text(text.replace('dist = "ones"', 'dist = "empty"'))
    counts = {}
    for memory in (APART, UNSET):
        assert main(dataclasses.replace(bare(folder), memory=memory).command()[4:]) == 0
        counts[memory] = len(copied)
        copied.clear()
    assert counts == {APART: 1, UNSET: 0}


def test_what_was_launched_stays_told_when_the_launch_fails(folder: Path, monkeypatch) -> None:
    def fails(*_: object) -> None:
        raise DriverError("the launch failed", result="CUDA_ERROR_LAUNCH_FAILED", code=719)

    monkeypatch.setattr(type(_driver.driver()), "synchronize", fails)
    assert main(bare(folder).command()[4:]) != 0
    told = json.loads((folder / "told").read_text())
    assert (told["symbol"], told["error"]["what"], "ended" in told) == ("scale", "the launch failed", False)


def test_a_launch_that_fails_says_why(folder: Path, monkeypatch, capsys) -> None:
    def none() -> None:
        raise NoDeviceError("no GPU", fix="get one")

    monkeypatch.setattr(_driver, "driver", none)
    assert main(bare(folder).command()[4:]) == 3
    assert json.loads((folder / "told").read_text())["error"] == {"what": "no GPU", "cause": "", "fix": "get one"}
    assert capsys.readouterr().err.startswith("error: no GPU")
