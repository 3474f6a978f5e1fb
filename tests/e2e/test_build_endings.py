"""However a build ends - killed, interrupted, failed, beside another one - outputs and cache are
whole, and nobody is left behind.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import (
    ADD,
    ADD_PY,
    HEAD,
    TWICE,
    TWICE_CU,
    Cli,
    edit,
    environment,
    processes_of,
    tree,
    write,
)
from tests.waiting import becomes

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]

TARGETS = ("--targets", "sm_80,sm_86,sm_89,sm_90,compute_80")
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
    assert becomes(lambda: not processes_of(cache), collect=False)

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
        assert becomes((root / "k" / "begun").exists, collect=False)
        process.send_signal(name)
        _, words = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in words
    if name is signal.SIGINT:
        assert words.endswith("interrupted: a build writes every output, or none\n")
    assert becomes(lambda: not processes_of(cache), collect=False)
    assert not (root / "dist").exists()
    write(root, HEAD + ADD)
    cli.good(root, "build")
    assert not list((root / ".tilec").glob("spool-*"))


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
    edit(root / "k" / "add.py", "+ 1.0", "+ 1.0]")
    failed = cli(root, "build")
    assert (failed.code, failed.out) == (1, "")
    assert failed.jobs == {"twice-sm_90", "thrice-sm_90"}
    assert 'k/twice.cu:5:1: error: expected a ";"\n    }\n    ^\n' in failed.err
    assert "k/add.py:7:54: error: SyntaxError: " in failed.err
    assert failed.err.endswith(
        "error: 1 of 3 sources have errors, 1 of 2 jobs failed; nothing was written, earlier outputs are unchanged\n"
    )
    assert (root / ".tilec" / "failed" / "twice-sm_90" / "log.txt").is_file()
    assert tree(root / "dist") == before

    again = cli(root, "build", "--json").json()
    assert (again["ok"], again["exit_code"], len(again["error"]["failures"])) == (False, 1, 2)
    edit(root / "k" / "twice.cu", "2.0f * x[i]", "5.0f * x[i];")
    edit(root / "k" / "add.py", "+ 1.0]", "+ 1.0")
    assert cli.good(root, "build").jobs == {"twice-sm_90"}
    assert not (root / ".tilec" / "failed" / "twice-sm_90").exists()


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
        "error: 2 of 2 jobs failed; nothing was written, earlier outputs are unchanged\n"
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
