"""Small real projects and the real `tilec` command: what every end-to-end test starts from."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilec.cli.main import run

TILEC = (sys.executable, "-c", "from tilec.cli.main import main; main()")
NOT_INHERITED = (
    "CI",
    "NO_COLOR",
    "FORCE_COLOR",
    "TILEC_CACHE_MAX",
    "TILEC_CACHE_DIR",
    "CUDA_HOME",
    "CUDA_PATH",
)
_MOMENT = """
import os, pathlib, signal, sys
from tilec.cli.app import App
from tilec.cli.main import main
note, replace = App.note, pathlib.Path.replace
def told(text):
    if {moment!r} in text:
        {then}
def noted(self, text):
    note(self, text)
    told(text)
def replaced(self, target):
    replace(self, target)
    told(f"in place: {{target}}")
App.note, pathlib.Path.replace = noted, replaced
main()
"""
_JOB = re.compile(r"^\[ *\d+/\d+\] (failed )?(\S+)", re.MULTILINE)

HEAD = """edition = 1

[package]
name = "acme"
version = "1.0.0"

[targets]
default = ["sm_90"]
groups.ci = ["sm_80", "sm_90"]
"""

TWICE = """
[kernel.twice]
source = "k/twice.cu"
params = { y = { out = true }, x = {} }
args = ["y.ptr", "x.ptr", "i64(x.size)"]
launch = { requires = ["y.size == x.size"], grid = ["cdiv(x.size, 256)"], block = [256] }
"""

TWICE_CU = """/// y = 2 x.
extern "C" __global__ void twice(float* y, const float* x, long long n) {
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""

ADD = """
[kernel.add]
source = "k/add.py"
matrix = { TILE = [128] }
launch = { requires = ["x.shape == z.shape"], grid = ["cdiv(z.shape[0], TILE)"] }
[kernel.add.params]
z = { dtype = "f32", rank = 1, out = true }
x = { dtype = "f32", rank = 1 }
"""

ADD_PY = """import cuda.tile as ct


@ct.kernel
def add(z, x, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(z, (i,), ct.load(x, (i,), (TILE,)) + 1.0)
"""

FILES: Mapping[str, str] = {"k/twice.cu": TWICE_CU, "k/add.py": ADD_PY}


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """What a finished command left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def jobs(self) -> set[str]:
        """Ids of the jobs that were compiled, well or not, as the progress lines name them."""
        return {match[2] for match in _JOB.finditer(self.err)}

    @property
    def up_to_date(self) -> bool:
        """Whether the last build's outputs were still right."""
        return self.out.startswith("up to date (")

    def json(self) -> dict[str, Any]:
        """The document on standard output."""
        found: dict[str, Any] = json.loads(self.out)
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Cli:
    """The command in an environment of its own."""

    env: Mapping[str, str]

    def __call__(self, cwd: Path, *args: str, **env: str) -> Done:
        """Run one command line in a directory; `env` changes variables for it alone.

        The command runs in this process: starting one of its own would take longer than most
        command lines do. `process` is for tests of the process itself.
        """
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(args, {**self.env, **env}, cwd)
            sys.stdout.flush()
            sys.stderr.flush()
        return _sound(code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode())

    def process(self, cwd: Path, *args: str, **env: str) -> Done:
        """Run one command line as a process."""
        done = subprocess.run(
            [*TILEC, *args],
            cwd=cwd,
            env={**self.env, **env},
            capture_output=True,
            encoding="utf-8",
            timeout=240,
            check=False,
        )
        return _sound(done.returncode, done.stdout, done.stderr)

    def good(self, cwd: Path, *args: str, **env: str) -> Done:
        """Run a command that has to end well."""
        done = self(cwd, *args, **env)
        assert done.code == 0, done.err
        return done

    def until(self, cwd: Path, moment: str, then: str, *args: str) -> Done:
        """Run a command that does something of its own in the middle, however fast the machine is:
        statements of Python, as soon as it has said a line with `moment` in it, or put an output in
        its place ("in place: FILE"), and before it goes on.
        """
        done = subprocess.run(
            [sys.executable, "-c", _MOMENT.format(moment=moment, then=then), *args],
            cwd=cwd,
            env=self.env,
            capture_output=True,
            encoding="utf-8",
            timeout=240,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    @contextlib.contextmanager
    def start(self, cwd: Path, *args: str, **env: str) -> Iterator[subprocess.Popen[str]]:
        """Start a command in a session of its own, its words on pipes; what still runs at the end
        is killed.
        """
        with subprocess.Popen(
            [*TILEC, *args],
            cwd=cwd,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
            preexec_fn=_plain_signals,
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def _sound(code: int, out: str, err: str) -> Done:
    """A command that ended, and not by a bug of its own."""
    assert "Traceback" not in err, err
    assert "this is a bug in tilec" not in err, err
    return Done(code, out, err)


def _plain_signals() -> None:
    """What runs in the background of a shell, or under nohup, inherits deaf ears."""
    for name in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(name, signal.SIG_DFL)


def environment(cache: Path | str) -> dict[str, str]:
    """This process's environment, without what would change the command's words, and with a cache
    of the test's own.
    """
    kept = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    return {**kept, "TILEC_CACHE_DIR": str(cache), "TERM": "xterm"}


def write(root: Path, manifest: str, files: Mapping[str, str | None] | None = None) -> Path:
    """Write a project: a manifest, the sources of `FILES` that it names, and `files`."""
    named = {name: text for name, text in FILES.items() if name in manifest}
    for name, text in {"tilec.toml": manifest, **named, **(files or {})}.items():
        if text is not None:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return root


def copied(project: Path, root: Path) -> Path:
    """Copy a project, without what builds left in it."""
    left = shutil.ignore_patterns("dist", ".tilec", "__pycache__", "tilec.lock")
    return Path(shutil.copytree(project, root, ignore=left))


def edit(path: Path, old: str, new: str) -> None:
    """Replace a text that is in a file."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def tree(root: Path) -> dict[str, bytes]:
    """Every file below a directory with its bytes, without lists of outputs."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.suffix != ".tilec-outputs"
    }


def processes_of(folder: Path | str) -> list[int]:
    """Live processes, this one apart, whose environment, directory or command names a folder that a
    build has to itself.

    Compilers get an environment of their own, so that a mark in the build's would not tell of all
    of them.
    """
    mark, pids = os.fsencode(folder), []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            facts = [
                (process / "environ").read_bytes(),
                (process / "cmdline").read_bytes(),
                os.fsencode((process / "cwd").readlink()),
            ]
            if any(mark in fact for fact in facts) and int(process.name) != os.getpid():
                pids.append(int(process.name))
    return pids
