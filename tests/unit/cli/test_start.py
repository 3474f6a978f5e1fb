"""Ctrl-C at the wrong moments: while the command is imported, and while it is leaving."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# A module that is imported on the way to the command, and presses Ctrl-C.
ENDED = (130, -signal.SIGINT)  # a shell says 130 of both
PRESS = "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(0.01)\nraise SystemExit('went on')\n"


def tilec(*args: str, path: Path, ignore: bool = False) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tilec", *args],
        env={"PYTHONPATH": f"{path}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_IGN if ignore else signal.default_int_handler
        ),
    )


def test_while_it_is_imported_the_command_ends_quietly(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(PRESS)
    done = tilec("--version", path=tmp_path)
    assert done.returncode in ENDED
    assert (done.stdout, done.stderr) == ("", "")


def test_a_caller_that_ignores_it_is_respected(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(PRESS)
    done = tilec("--version", path=tmp_path, ignore=True)
    assert (done.returncode, done.stderr) == (1, "went on\n")


@pytest.mark.parametrize("moment", ["run", "flush"])
def test_around_a_run_the_command_ends_quietly(tmp_path: Path, moment: str) -> None:
    """Between the guards of `run` and the end of the process."""
    press = "import os, signal\n\n\ndef press(*_):\n    os.kill(os.getpid(), signal.SIGINT)\n    return 0\n\n\n"
    patch = {
        "run": "import tilec.cli.main as m\nm.run = press\n",
        "flush": "import sys\nimport tilec.cli.main as m\nm.run = lambda *_: 0\nsys.stdout.flush = press\n",
    }[moment]
    end = "import sys\nsys.argv = ['tilec']\nfrom tilec.__main__ import main\nmain()\n"
    (tmp_path / "start.py").write_text(press + patch + end)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "start.py")],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode in ENDED
    assert (done.stdout, done.stderr) == ("", "")


def test_the_console_script_starts_where_interrupts_are_heard() -> None:
    assert 'tilec = "tilec.__main__:main"' in (ROOT / "pyproject.toml").read_text()
