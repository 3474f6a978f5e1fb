"""However a build ends - killed, interrupted, failed, beside another one - outputs and cache are
whole, and nobody is left behind.
"""

from __future__ import annotations

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

from tests.e2e.harness import (
    ADD,
    ADD_PY,
    HEAD,
    TILEC,
    TWICE,
    TWICE_CU,
    UNFOLDED,
    Cli,
    await_true,
    commands,
    descendants,
    edit,
    environment,
    processes_of,
    tree,
    write,
)

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

TARGETS = ("--targets", "sm_80,sm_86,sm_89,sm_90,compute_80")
COMPILER = "nvvm/bin/cicc"  # the part of nvcc that unfolds templates of device code
SLEEPER = (
    "import pathlib, time\npathlib.Path(__file__).with_name('begun').touch()\ntime.sleep(600)\n"
)


@pytest.fixture(scope="module")
def reference(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a build that nobody disturbs writes."""
    root = write(
        tmp_path_factory.mktemp("reference"),
        HEAD + TWICE,
        {"k/twice.cu": TWICE_CU.replace("2.0f", "7.0f")},
    )
    cli.good(root, "build", *TARGETS)
    return tree(root / "dist")


BUNDLE_IN_PLACE = "/dist/acme-1.0.0.tilec"


@pytest.mark.parametrize("moment", ["[1/5]", BUNDLE_IN_PLACE])
def test_a_killed_build_leaves_what_was_there(
    reference: dict[str, bytes], tmp_path: Path, moment: str
) -> None:
    """SIGKILL among the jobs, and with one of the outputs in its place; attacks kill anywhere."""
    cache = tmp_path / "cache"
    cli = Cli(environment(cache))
    root = write(tmp_path / "project", HEAD + TWICE)
    cli.good(root, "build")
    before = tree(root / "dist")
    edit(root / "k" / "twice.cu", "2.0f", "7.0f")

    killed = cli.until(
        root, moment, "os.kill(os.getpid(), signal.SIGKILL)", "build", "-j", "2", *TARGETS
    )
    assert killed.code == -signal.SIGKILL
    await_true("the workers end", lambda: not list(processes_of(str(cache))))

    now = _in_place(root)
    if moment == BUNDLE_IN_PLACE:
        assert sum(data != before.get(name) for name, data in now.items()) == 1
        assert all(data in (before.get(name), reference.get(name)) for name, data in now.items())
    else:
        assert now == before
    assert cli.good(root, "inspect", "dist/acme", "--verify").code == 0
    after = cli.good(root, "build", *TARGETS)
    assert "damaged" not in after.err
    assert len(after.jobs) <= (4 if moment == "[1/5]" else 0)
    assert _in_place(root) == reference
    assert not list((root / ".tilec").glob("spool-*"))


def _in_place(root: Path) -> dict[str, bytes]:
    """The outputs; what a killed build was still writing beside them goes an hour later, in case
    somebody else writes it.
    """
    return {
        name: data for name, data in tree(root / "dist").items() if not name.endswith(".tilec-new")
    }


@pytest.mark.parametrize(
    ("name", "code"),
    [
        pytest.param(signal.SIGINT, 130, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, -signal.SIGTERM, id="SIGTERM"),
        pytest.param(signal.SIGHUP, -signal.SIGHUP, id="a terminal that is closed"),
    ],
)
def test_a_signal_ends_the_build_and_all_its_processes(
    tmp_path: Path, name: signal.Signals, code: int
) -> None:
    """Also while a worker is in the middle of something that takes ten minutes."""
    cache = tmp_path / "cache"
    cli = Cli(environment(cache))
    root = write(tmp_path / "project", HEAD + ADD, {"k/add.py": SLEEPER + ADD_PY})
    with cli.start(root, "build") as process:
        await_true("the module is imported", (root / "k" / "begun").exists)
        process.send_signal(name)
        _, words = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in words
    if name is signal.SIGINT:
        assert words.endswith("interrupted: nothing was written, earlier output is as it was\n")
    await_true("the workers end", lambda: not list(processes_of(str(cache))))
    assert not (root / "dist").exists()
    write(root, HEAD + ADD)
    cli.good(root, "build")
    assert not list((root / ".tilec").glob("spool-*"))


def test_an_interrupt_ends_a_build_on_a_terminal(tmp_path: Path) -> None:
    """Ctrl-C while jobs run: exit 130, a word about it, the cursor back, no output, and the next
    build is sound.
    """
    endless = f"{UNFOLDED}static_assert(S<21, 1>::v > 0);\n{TWICE_CU}"  # takes minutes
    root = write(tmp_path, HEAD + TWICE, {"k/twice.cu": endless})
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*TILEC, "build"],
        cwd=root,
        env=environment("off"),
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
    assert not (root / "dist").exists()


@pytest.mark.long
def test_ctrl_c_ends_a_compiler_of_its_own_process(tmp_path: Path) -> None:
    """nvcc runs its parts as processes of their own; none outlives the build."""
    cli = Cli(environment(tmp_path / "cache"))
    source = UNFOLDED + TWICE_CU.replace("2.0f", "float(S<21, 1>::v)")
    root = write(
        tmp_path / "project",
        HEAD + TWICE.replace("launch", 'compiler = "nvcc"\nlaunch'),
        {"k/twice.cu": source},
    )

    with cli.start(root, "build") as process:
        await_true(
            "the compiler runs",
            lambda: any(COMPILER in command for command in descendants(process.pid).values()),
        )
        running = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert len(running) >= 3
    await_true("the compilers end", lambda: not set(running) & set(commands()))


def at_once(cli: Cli, first: Path, second: Path) -> list[tuple[str, str]]:
    """Two builds that start together and both end well; gives what each said on standard output and
    standard error.
    """
    with cli.start(first, "build", *TARGETS) as one, cli.start(second, "build", *TARGETS) as two:
        ended = [process.communicate(timeout=120) for process in (one, two)]
    assert [one.returncode, two.returncode] == [0, 0], ended
    return ended


@pytest.mark.long
def test_two_builds_of_one_project_at_once(reference: dict[str, bytes], tmp_path: Path) -> None:
    cli = Cli(environment(tmp_path / "cache"))
    root = write(
        tmp_path / "project", HEAD + TWICE, {"k/twice.cu": TWICE_CU.replace("2.0f", "7.0f")}
    )
    ended = at_once(cli, root, root)
    words = "".join(err for _, err in ended)
    assert words.count("[5/5]") == 1
    assert "Traceback" not in words
    assert any(out.startswith("up to date (5 jobs") for out, _ in ended)
    assert tree(root / "dist") == reference


def test_a_failing_job_stops_no_other(cli: Cli, tmp_path: Path) -> None:
    """Two broken kernels and a good one: both errors are told, the good one is cached, the old
    outputs stay.
    """
    other = TWICE.replace("twice", "thrice")
    root = write(
        tmp_path,
        HEAD + TWICE + other + ADD,
        {"k/thrice.cu": TWICE_CU.replace("twice", "thrice").replace("2.0f", "3.0f")},
    )
    cli.good(root, "build")
    before = tree(root / "dist")

    edit(root / "k" / "twice.cu", "2.0f * x[i];", "2.0f * x[i]")
    edit(root / "k" / "thrice.cu", "3.0f", "4.0f")
    edit(root / "k" / "add.py", "+ 1.0", "+ one")
    failed = cli(root, "build")
    assert (failed.code, failed.out) == (1, "")
    assert failed.jobs == {"twice-sm_90", "thrice-sm_90"}
    assert 'k/twice.cu:5:1: error: expected a ";"\n    }\n    ^\n' in failed.err
    assert "k/add.py:7:51: error: one is not defined\n" in failed.err
    assert failed.err.endswith(
        "error: 1 of 3 sources have errors, 1 of 2 jobs failed; nothing was written, earlier output is as it was\n"
    )
    assert (root / ".tilec" / "failed" / "twice-sm_90" / "log.txt").is_file()
    assert tree(root / "dist") == before

    again = cli(root, "build", "--json").json()
    assert (again["ok"], again["exit_code"], len(again["error"]["failures"])) == (False, 1, 2)
    edit(root / "k" / "twice.cu", "2.0f * x[i]", "5.0f * x[i];")
    edit(root / "k" / "add.py", "+ one", "+ 1.0")
    assert cli.good(root, "build").jobs == {"twice-sm_90"}
    assert not (root / ".tilec" / "failed" / "twice-sm_90").exists()


def test_a_source_that_cannot_be_read_stops_no_other(tmp_path: Path) -> None:
    """A module that does not import has no jobs; those of the others run, and what is wrong with
    them is told as well.
    """
    cli = Cli(environment(tmp_path / "cache"))
    other = TWICE.replace("twice", "thrice")
    broken = {
        "k/thrice.cu": TWICE_CU.replace("twice", "thrice").replace("2.0f", "three"),
        "k/add.py": "import nothing_such\n" + ADD_PY,
    }
    root = write(tmp_path / "project", HEAD + ADD + TWICE + other, broken)
    done = cli(root, "build")
    assert done.code == 1
    assert done.jobs == {"twice-sm_90", "thrice-sm_90"}
    assert "k/add.py:1:1: error: ModuleNotFoundError: No module named 'nothing_such'\n" in done.err
    assert 'k/thrice.cu:4:23: error: identifier "three" is undefined\n' in done.err
    last = "error: 1 of 3 sources have errors, 1 of 2 jobs failed; nothing was written, earlier output is as it was\n"
    assert done.err.endswith(last)
    edit(root / "k" / "thrice.cu", "three", "3.0f")
    done = cli(root, "build")
    assert (done.code, done.jobs) == (1, {"thrice-sm_90"})
    assert done.err.endswith(
        "error: 1 of 3 sources have errors; nothing was written, earlier output is as it was\n"
    )
    edit(root / "k" / "add.py", "import nothing_such\n", "")
    assert cli.good(root, "build").jobs == {"add-TILE128-sm_90"}


def test_budgets_are_checked_beside_failures(cli: Cli, tmp_path: Path) -> None:
    manifest = (
        HEAD
        + TWICE
        + "budget = { registers = 3, constant = 8 }\n"
        + TWICE.replace("twice", "thrice")
    )
    root = write(
        tmp_path,
        manifest,
        {"k/thrice.cu": TWICE_CU.replace("twice", "thrice").replace("2.0f", "three")},
    )
    done = cli(root, "build")
    assert done.code == 1
    assert "tilec.toml:16:12: error: twice-sm_90: registers 10, over the budget of 3\n" in done.err
    assert "tilec.toml:16:27: error: twice-sm_90: constant " in done.err
    assert (
        "  fix: raise kernel.twice.budget.registers, exclude the variant, or give it smaller tiles or other hints\n"
        in done.err
    )
    assert 'k/thrice.cu:4:23: error: identifier "three" is undefined\n' in done.err
    assert done.err.endswith(
        "error: 2 of 2 jobs failed; nothing was written, earlier output is as it was\n"
    )
    assert not (root / "dist").exists()
    assert not (root / "tilec.lock").exists(), "it records the tools of what was built"


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-"])
def test_streams_that_the_caller_closed(cli: Cli, tmp_path: Path, closed: str) -> None:
    """A job scheduler may start a build without any of the three."""
    root = write(tmp_path, HEAD + TWICE)
    command = [
        "sh",
        "-c",
        f'exec "$@" {closed}',
        "sh",
        sys.executable,
        "-m",
        "tilec",
        "build",
        "--force",
    ]
    done = subprocess.run(
        command, cwd=root, env=cli.env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert (root / "dist" / "acme-1.0.0.tilec").is_file()
    assert not list((root / ".tilec").glob("crash-*"))
