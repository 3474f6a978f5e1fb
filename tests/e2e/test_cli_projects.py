"""Projects of `tilec new`, taken through the commands as a user would."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.harness import UNFOLDED

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

TILEC = (sys.executable, "-c", "from tilec.cli.main import main; main()")


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with a cache of its own, shared by the tests of this file."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CI", "NO_COLOR", "FORCE_COLOR", "TILEC_CACHE_MAX")
    }
    return {**kept, "TILEC_CACHE_DIR": str(tmp_path_factory.mktemp("cache")), "TERM": "xterm"}


def tilec(cwd: Path, env: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TILEC, *args], cwd=cwd, env=env, capture_output=True, text=True, timeout=240
    )


def document(cwd: Path, env: dict[str, str], *args: str) -> dict[str, object]:
    done = tilec(cwd, env, *args, "--json")
    assert done.returncode == 0, done.stderr
    body: dict[str, object] = json.loads(done.stdout)
    assert body["schema_version"] == 1
    return body


@pytest.fixture
def made(tmp_path: Path, env: dict[str, str], request: pytest.FixtureRequest) -> Path:
    """A new project of the kind that the test asks for, in a directory with a space and letters
    beyond ASCII.
    """
    home = tmp_path / "größer als"
    home.mkdir()
    done = tilec(home, env, "new", "demo", "--kind", getattr(request, "param", "mixed"))
    assert done.returncode == 0, done.stderr
    return home / "demo"


@pytest.mark.parametrize(
    ("made", "jobs"),
    [("tile", 1), ("cuda", 1), ("mixed", 2), ("cutile", 2), ("triton", 2), ("simt", 2)],
    indirect=["made"],
)
def test_a_new_project_builds_as_it_is(made: Path, env: dict[str, str], jobs: int) -> None:
    assert document(made, env, "check", "--targets", "sm_90")["jobs"] == jobs
    built = document(made, env, "build", "--targets", "sm_90")
    assert (built["jobs"], built["up_to_date"]) == (jobs, False)
    again = tilec(made, env, "build", "--targets", "sm_90")
    assert again.stdout.startswith(f"up to date ({jobs} job")
    shown = document(made, env, "inspect", "dist/demo", "--verify")
    assert sum(len(v["images"]) for kernel in shown["kernels"] for v in kernel["variants"]) == jobs  # type: ignore[attr-defined]
    assert str(made) not in json.dumps(shown["kernels"])
    assert tilec(made, env, "clean").returncode == 0
    assert not (made / "dist").exists()
    assert not (made / ".tilec").exists()


def test_a_file_is_looked_at_without_a_manifest(made: Path, env: dict[str, str]) -> None:
    (made / "tilec.toml").unlink()
    ran = tilec(made, env, "run", "kernels.py:scale", "--device", "cpu")
    assert ran.returncode == 0, ran.stderr
    assert "\ny: f32 4096: " in ran.stdout
    assert not (made / "tilec.toml").exists()
    built = tilec(made, env, "run", "kernels.cu:axpy", "--device", "cpu")
    assert built.returncode == 3
    assert built.stdout.startswith("kernel  variants  images  regs")
    assert "axpy is built for sm_90 and not run" in built.stderr
    wrong = tilec(made, env, "run", "kernels.py")
    assert wrong.returncode == 2
    assert "'kernels.py' does not name one kernel of a file" in wrong.stderr
    assert "error: no such file: gone.py\n" in tilec(made, env, "run", "gone.py:k").stderr


def test_the_plan_the_reasons_and_the_code(made: Path, env: dict[str, str]) -> None:
    (made / "index.cuh").write_text("")
    source = made / "kernels.cu"
    source.write_text('#include "index.cuh"\n' + source.read_text())
    plan = document(made, env, "build", "--list", "--targets", "sm_90,compute_80,tileir")
    ids = [job["id"] for job in plan["jobs"]]  # type: ignore[attr-defined]
    assert "axpy-compute_80" in ids
    assert tilec(made, env, "build", "--targets", "sm_90,compute_80,tileir").returncode == 0
    assert tilec(
        made, env, "build", "--targets", "sm_90,compute_80,tileir", "--explain", "axpy-sm_90"
    ).stdout.endswith("axpy-sm_90: nothing changed since the last build\n")
    header = made / "index.cuh"
    header.write_text("// edited\n")
    explained = tilec(
        made, env, "build", "--targets", "sm_90,compute_80,tileir", "--explain", "axpy-sm_90"
    ).stdout
    assert "input index.cuh" in explained
    assert explained.endswith("1 input changed since the last build, so it is compiled again\n")
    variant = tilec(
        made, env, "build", "--targets", "sm_90,compute_80,tileir", "--explain", "axpy"
    ).stderr
    assert variant.startswith(
        "error: no job 'axpy'; jobs end in their target: axpy-sm_90, axpy-compute_80\n"
    )
    typo = tilec(made, env, "build", "--targets", "sm_90", "--explain", "axyp-sm_90").stderr
    assert typo.startswith("error: no job 'axyp-sm_90'; did you mean 'axpy-sm_90'\n")
    dumps = {
        form: tilec(made, env, "inspect", "dist/demo", f"--{form}", "--select", name).stdout
        for form, name in DUMPS.items()
    }
    assert ".entry " in dumps["ptx"]
    assert "EXIT" in dumps["sass"]
    assert "scale" in dumps["tileir"]


DUMPS = {
    "ptx": "axpy-compute_80",
    "sass": "scale-sm_90",
    "tileir": "scale-tileir",
}


def test_a_check_looks_for_references(made: Path, env: dict[str, str]) -> None:
    """A build needs none; a run does, and is often on another machine."""
    reference = made / "reference.py"
    reference.write_text(reference.read_text().replace("def scale(", "def scaled("))
    done = tilec(made, env, "check")
    assert done.returncode == 2
    assert (
        done.stderr.count(
            "reference: reference.py has no function 'scale'; did you mean 'scaled'\n"
        )
        == 1
    )
    reference.unlink()
    done = tilec(made, env, "check")
    assert done.stderr.count("reference: no such file 'reference.py'\n") == 2
    assert tilec(made, env, "build", "--targets", "sm_90").returncode == 0


def test_errors_of_two_languages_are_told_and_the_last_good_output_stays(
    made: Path, env: dict[str, str]
) -> None:
    assert tilec(made, env, "build", "--targets", "sm_90").returncode == 0
    before = {path: path.read_bytes() for path in (made / "dist").rglob("*") if path.is_file()}
    for name, good, bad in (
        ("kernels.cu", "a * x[i]", "b * x[i]"),
        ("kernels.py", "* factor)", "* factr)"),
    ):
        path = made / name
        path.write_text(path.read_text().replace(good, bad))
    done = tilec(made, env, "build", "--targets", "sm_90")
    assert done.returncode == 1
    assert 'kernels.cu:4:23: error: identifier "b" is undefined\n' in done.stderr
    assert "kernels.py:9:35: error: " in done.stderr
    assert "input, command and full log kept in .tilec/failed/axpy-sm_90\n" in done.stderr
    assert (made / ".tilec" / "failed" / "axpy-sm_90" / "kernels.cu").is_file()
    assert done.stderr.endswith(
        "error: 2 of 2 jobs failed; nothing was written, earlier output is as it was\n"
    )
    assert {
        path: path.read_bytes() for path in (made / "dist").rglob("*") if path.is_file()
    } == before


@pytest.mark.parametrize("made", ["cuda"], indirect=True)
def test_a_budget_that_is_broken_is_shown_at_its_line(made: Path, env: dict[str, str]) -> None:
    manifest = made / "tilec.toml"
    manifest.write_text(manifest.read_text() + "budget = { registers = 2 }\n")
    done = tilec(made, env, "build", "--targets", "sm_90")
    assert done.returncode == 1
    line = len(manifest.read_text().splitlines())
    assert f"tilec.toml:{line}:12: error: axpy-sm_90: registers " in done.stderr


def test_an_interrupt_ends_a_build_on_a_terminal(made: Path, env: dict[str, str]) -> None:
    """Ctrl-C while jobs run: exit 130, a word about it, the cursor back, no output, and the next
    build is sound.
    """
    source = next(made.rglob("*.cu"))
    text = source.read_text()
    source.write_text(f"{UNFOLDED}static_assert(S<21, 1>::v > 0);\n{text}")  # takes minutes
    ours, theirs = pty.openpty()
    fresh = {**env, "TILEC_CACHE_DIR": "off"}
    process = subprocess.Popen(
        [*TILEC, "build"],
        cwd=made,
        env=fresh,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + 120
    sent = False
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                data = os.read(ours, 65536)
            except OSError:
                break
            if not data:
                break
            shown += data
        if not sent and re.search(rb"[0-9]/[0-9]", shown):  # jobs are counted: they are under way
            process.send_signal(signal.SIGINT)
            sent = True
    os.close(ours)
    try:
        assert (sent, process.wait(timeout=60)) == (True, 130), shown
    finally:
        process.kill()
    assert b"interrupted: nothing was written, earlier output is as it was" in shown
    assert b"Traceback" not in shown
    assert shown.count(b"\x1b[?25l") == shown.count(b"\x1b[?25h") > 0
    assert not (made / "dist").exists()
    source.write_text(text)
    assert tilec(made, env, "build", "--targets", "sm_90").returncode == 0
