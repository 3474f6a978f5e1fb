"""The scripts for GPU machines, where there is no GPU: they say what they need and fail with the
right code.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "gpu_tests.sh"
BUILDS = SCRIPT.with_name("gpu_builds.sh")


def run(
    *arguments: str, python: str = sys.executable, script: Path = SCRIPT
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHON": python}
    return subprocess.run(
        ["bash", str(script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=env,
    )


def test_help_says_how_bundles_get_there() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "scripts/gpu_builds.sh" in done.stdout
    assert "--wheels" in done.stdout


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    """A Python whose `-m tilec build` writes a bundle; command lines that hold $BROKEN fail."""
    python = tmp_path / "python"
    python.write_text("""#!/bin/sh
case "$*" in *"$BROKEN"*) echo "error: it does not compile" >&2; exit 1 ;; esac
case "$3 $5" in "-C build") mkdir -p "$4/dist" "$4/.tilec" && echo "$PYTHONPATH" > "$4/dist/made.tilec" ;; esac
case "$3" in build) mkdir -p dist .tilec && echo "$PYTHONPATH" > dist/made.tilec ;; esac
case "$2" in tests.gpu.*) mkdir -p "$3" ;; esac
echo "did $*"
""")
    python.chmod(0o755)
    return python


def test_all_bundles_are_built_in_a_copy(
    tmp_path: Path, compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN", "nothing of this")
    made, wheels = tmp_path / "made", tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "a.whl").touch()
    done = run(str(made), "--wheels", str(wheels), python=str(compiler), script=BUILDS)
    assert done.returncode == 0, done.stderr
    bundles = {str(path.parent.relative_to(made)) for path in made.rglob("made.tilec")}
    examples = ("triton", "simt", "inter_kernel", "linking", "tile_cpp", "kernels", "pipelines")
    corpora = {
        f"tests/samples/{path.name}/dist"
        for path in (BUILDS.parents[1] / "tests" / "samples").glob("corpus_*")
    }
    others = {
        "dist",
        "dist/debug",
        "dist/dispatch/dist",
        "build/simt-debug",
        "benchmarks/programs/dist",
        "build/endless/dist",
        "build/planted/dist",
        "build/prebuilt/dist",
    }
    assert bundles == {f"examples/{name}/dist" for name in examples} | corpora | others
    assert (
        (made / "dist" / "made.tilec").read_text().startswith(str(made))
    )  # its own tilec built it
    assert (made / "scripts" / "gpu_tests.sh").exists()
    assert (made / "dist" / "wheels" / "a.whl").exists()
    assert not list(made.rglob(".tilec"))


def test_a_build_that_fails_ends_it_with_its_message(
    tmp_path: Path, compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN", "-C examples/triton")
    done = run(str(tmp_path / "made"), python=str(compiler), script=BUILDS)
    assert done.returncode == 1
    assert "error: it does not compile" in done.stderr
    assert "examples/kernels" not in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [((), "no DIR"), (("--nope",), "unknown option: --nope"), ((".",), "does not exist")],
)
def test_bundles_are_built_in_a_new_directory_alone(words: tuple[str, ...], told: str) -> None:
    done = run(*words, script=BUILDS)
    assert done.returncode == 2
    assert told in done.stderr


def test_unknown_options_are_refused() -> None:
    done = run("--nope")
    assert done.returncode == 2
    assert "unknown option: --nope" in done.stderr


def test_without_a_gpu_nothing_is_run(tmp_path: Path) -> None:
    (tmp_path / "python").write_text(
        "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n"
    )
    (tmp_path / "python").chmod(0o755)
    done = run("--out", str(tmp_path / "out"), python=str(tmp_path / "python"))
    assert done.returncode == 3
    assert "No module named 'torch'" in done.stderr
    assert "nothing was run" in done.stderr


# A compute-sanitizer that runs nothing: it says what pytest would say of its tests, and what it
# would have found itself.
FAKE = """#!/bin/bash
echo "$@" > {asked}
while [[ $1 != --log-file ]]; do shift; done
log=$2
for test in "$@"; do [[ $test == tests/* ]] && echo "$test {outcome} [ 50%]"{first}; done
trap 'echo "========= {summary}" > "$log"; exit 2' INT
if [[ -n "{hangs}" ]]; then while true; do sleep 0.05; done; fi
[[ -n "{summary}" ]] && echo "========= {summary}" > "$log"
exit {code}
"""


def sanitizer(
    folder: Path,
    summary: str,
    *,
    outcome: str = "PASSED",
    code: int = 0,
    hangs: str = "",
    first: str = "",
) -> str:
    path = folder / "compute-sanitizer"
    path.write_text(
        FAKE.format(
            asked=folder / "asked",
            summary=summary,
            outcome=outcome,
            code=code,
            hangs=hangs,
            first=first,
        )
    )
    path.chmod(0o755)
    return str(path)


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("gpu_sanitize", SCRIPT.parent / "gpu_sanitize.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NOTHING = "ERROR SUMMARY: 0 errors"
HAZARDS = "RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)"


@pytest.mark.parametrize(
    ("summary", "outcome", "code", "clean"),
    [
        (NOTHING, "PASSED", 0, True),
        ("RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)", "PASSED", 0, True),
        ("ERROR SUMMARY: 1 error", "PASSED", 0, False),
        ("ERROR SUMMARY: 10 errors", "PASSED", 0, False),
        (HAZARDS, "PASSED", 0, False),
        (NOTHING, "FAILED", 1, False),
        (NOTHING, "SKIPPED (no GPU)", 0, True),
        ("", "SKIPPED (no kernels)", 255, True),
        ("ERROR SUMMARY: 1 error", "SKIPPED (no kernels)", 0, False),
        (NOTHING, "came to nothing", 0, False),
        ("the target did not start", "PASSED", 0, False),
        ("", "PASSED", 0, False),
    ],
)
def test_findings_of_compute_sanitizer_and_failing_tests_are_no_success(
    script: Any, tmp_path: Path, summary: str, outcome: str, code: int, clean: bool
) -> None:
    path = sanitizer(tmp_path, summary, outcome=outcome, code=code)
    result = script.followed(
        path, "racecheck", ["tests/gpu/test_x.py::one", "tests/gpu/test_x.py::two"], 60.0, tmp_path
    )
    assert script.clean(result) is clean
    assert (result["cut"], result["tests"], result["exit"]) == (False, 2, code)
    assert script.told(result).startswith(
        f"racecheck: {0 if 'nothing' in outcome else 2} of 2 tests ran, "
    )
    assert (
        (tmp_path / "asked")
        .read_text()
        .startswith("--tool racecheck --report-api-errors no --log-file ")
    )


@pytest.mark.parametrize(("summary", "clean"), [(NOTHING, True), (HAZARDS, False)])
def test_a_run_that_takes_too_long_is_cut_and_says_how_far_it_came(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, summary: str, clean: bool
) -> None:
    monkeypatch.setattr(script, "GRACE", 0.5)
    path = sanitizer(tmp_path, summary, hangs="yes", first=" && break")
    result = script.followed(
        path, "memcheck", ["tests/gpu/test_x.py::one", "tests/gpu/test_x.py::two"], 2.0, tmp_path
    )
    assert (result["cut"], result["passed"], script.clean(result)) == (True, 1, clean)
    words = script.told(result)
    assert words.startswith("memcheck: 1 of 2 tests ran, 0 failed, 0 skipped, in ")
    assert words.endswith(f" s (cut at its limit of 2 s); compute-sanitizer: {summary}")


def test_all_is_followed_but_what_says_why_not(script: Any) -> None:
    kept = [
        "tests/gpu/test_x.py::many[0]",
        "tests/gpu/test_x.py::many[1]",
        "tests/gpu/test_y.py::one",
    ]
    out = [f"tests/gpu/test_x.py::{name}" for name in script.LEFT_OUT]
    assert script.chosen([*out, *kept, f"{out[0]}[a case]"], "memcheck") == kept
    large = [f"tests/gpu/test_kernels.py::{name}" for name in script.LEFT_OUT_OF["racecheck"]]
    assert script.chosen([*large, *kept], "racecheck") == kept
    assert script.chosen([*large, *kept], "memcheck") == [*large, *kept]
    assert script.by_process(kept) == {"test_x": kept[:2], "test_y": kept[2:]}
    many = [f"tests/gpu/test_kernels.py::test_of[{number}]" for number in range(41)]
    parts = script.by_process([*kept, *many])
    assert list(parts) == [
        "test_kernels.1",
        "test_kernels.2",
        "test_kernels.3",
        "test_x",
        "test_y",
    ], "what takes long begins first"
    assert [test for name in list(parts)[:3] for test in parts[name]] == many
    assert max(len(part) for part in parts.values()) <= script.MOST
    folder = SCRIPT.parents[1] / script.TESTS
    assert all((folder / f"{name}.py").is_file() for name in script.LONG)
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("test_*.py"))
    assert all((folder / f"{name}.py").is_file() for name in script.NOT_FOLLOWED)
    assert all(
        f"def {name.partition('[')[0]}(" in text
        for tool in script.TOOLS
        for name in script.left_out(tool)
        if name not in script.NOT_FOLLOWED
    )


def test_outcomes_are_counted_where_a_test_prints_too(script: Any) -> None:
    text = "tests/gpu/x.py::one 4 of 4 programs\nPASSED   [ 50%]\ntests/gpu/x.py::two SKIPPED (no kernels) [100%]\nPASSED by\n"
    assert [
        script._counted(outcome, text) for outcome in ("PASSED", "SKIPPED", "FAILED|ERROR")
    ] == [1, 1, 0]


def test_no_test_begins_once_the_time_is_up(tmp_path: Path) -> None:
    (tmp_path / "test_three.py").write_text(
        "def test_a(): pass\ndef test_b(): pass\ndef test_c(): pass\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "stop_after",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    found = []
    for stop in ("0", "inf"):
        env = {**os.environ, "PYTHONPATH": str(SCRIPT.parent), "TILEC_STOP_AT": stop}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=60, env=env, cwd=tmp_path
        )
        found.append(
            (
                done.returncode,
                "1 passed" in done.stdout,
                "the time is up" in done.stdout,
                "3 passed" in done.stdout,
            )
        )
    assert found == [(2, True, True, False), (0, False, False, True)]


def test_both_tools_come_to_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"  # with a torch that finds a GPU
    python.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit 0\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("COMPUTE_SANITIZER", sanitizer(tmp_path, HAZARDS))
    out = tmp_path / "out"
    done = run("--sanitize", "all", "--sanitize-limit", "60", "--out", str(out), python=str(python))
    assert done.returncode == 1, done.stdout + done.stderr
    document = json.loads((out / "sanitizer.json").read_text())
    assert [(row["tool"], row["limit"]) for row in document] == [
        (tool, 60.0) for tool in ("memcheck", "racecheck", "initcheck", "synccheck")
    ]
    assert {row["summary"] for row in document} == {f"{len(document[0]['files'])} x {HAZARDS}"}
    assert document[0]["tests"] == sum(row["tests"] for row in document[0]["files"])
    assert document[0]["tests"] > 300
    assert {row["file"] for row in document[0]["files"]} >= {"test_programs", "test_device_ops"}
    assert done.stdout.count(f"compute-sanitizer: {HAZARDS}") == 4 * len(document[0]["files"])


def test_tools_of_compute_sanitizer_are_known() -> None:
    done = run("--sanitize", "leakcheck")
    assert done.returncode == 2
    assert "unknown tool: leakcheck" in done.stderr


@pytest.mark.parametrize(
    ("name", "word"), [("gpu_cases.py", "torch"), ("gpu_sanitize.py", "compute-sanitizer")]
)
def test_help_of_the_python_scripts(name: str, word: str) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT.parent / name), "--help"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert word in done.stdout
