"""A round of `tilec watch`, from a save to its end, less what compiling took; beside it the same
command started afresh.

The project is what `tilec new` writes, down to one variant for one target: a save is one job. It
gives the kernel a comment that it never had, so that nothing of it is cached. What compiling takes
is told by the rounds that are started afresh; a terminal shows a bar in its place. Processor
seconds, those of all processes from the save on, tell on a machine that does other things too.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from common import cores, environment, median, options, save, spent, tilec, timed

COMMANDS = {
    "check": ("check",),
    "build": ("build", "-j", "1"),
    "run": ("run", "--device", "cpu", "--case", "odd"),
}
COMPILED = re.compile(r"\[ *\d+/\d+\][^\n]*\((\d+\.\d+) s\)")
REST = 1.5  # seconds between rounds: who edits takes longer
LIMIT = 120.0


def main() -> None:
    """Measure and save."""
    arguments = options(__doc__ or "", repeats=11).parse_args()
    results: dict[str, dict[str, list[float]]] = {}
    table = []
    with tempfile.TemporaryDirectory() as scratch:
        timed([tilec(), "new", "acme"], cwd=Path(scratch))
        project = Path(scratch) / "acme"
        manifest = project / "tilec.toml"
        text = re.sub(r"(?m)^default = .*$", 'default = ["tileir"]', manifest.read_text(), count=1)
        manifest.write_text(
            re.sub(r"(?m)^sets = .*$", "sets = [{}]", text, count=1).replace(
                'T = ["f32", "f16"]', 'T = ["f32"]'
            )
        )
        source = project / "kernels.py"
        for name, words in COMMANDS.items():
            results[name] = rounds(words, project, source, arguments.repeats)
            compiling = median(results[name]["compiling"])
            watched, afresh = (
                (median(results[name][kind]) - compiling) * 1e3 for kind in ("watch", "afresh")
            )
            beside = (
                f"started afresh {afresh:.0f} ms, and {compiling * 1e3:.0f} ms of compiling in both"
            )
            table.append((f"tilec watch {name}", f"{watched:.0f} ms (wanted: under 500); {beside}"))
            used, fresh = (
                median(results[name][f"{kind} cpu"]) * 1e3 for kind in ("watch", "afresh")
            )
            table.append(
                (
                    f"processor time of {name}",
                    f"{used:.0f} ms, compiling included; started afresh {fresh:.0f} ms",
                )
            )
    busy = f"{os.getloadavg()[0]:.1f} processes on {cores()} cores"  # wall times are those of a machine that does other things too
    save(
        "watch_rounds",
        arguments.out,
        {**results, "load": busy},
        [*table, ("load of the machine", busy)],
    )


def rounds(
    words: tuple[str, ...], project: Path, source: Path, repeats: int
) -> dict[str, list[float]]:
    """Seconds of watched rounds and of processes started afresh, and what compiling took of the
    latter.
    """
    found: dict[str, list[float]] = {
        name: [] for name in ("watch", "watch cpu", "afresh", "afresh cpu", "compiling")
    }
    text = source.read_text()
    with watching(words, project) as (terminal, process):
        read_round(terminal)
        for _ in range(repeats):
            time.sleep(REST)
            before, start = tree_seconds(process), time.perf_counter()
            source.write_text(f"{text}\n# {time.time_ns()}\n")
            found["watch"].append(read_round(terminal) - start)
            found["watch cpu"].append(
                tree_seconds(process, ended=True) - before
            )  # the next one, which starts now, is no part of it
    for _ in range(repeats):
        source.write_text(f"{text}\n# {time.time_ns()}\n")
        told: list[str] = []
        took = spent(lambda told=told: told.append(errors_of([tilec(), *words], project)))  # type: ignore[misc]
        found["afresh"].append(took.wall)
        found["afresh cpu"].append(took.cpu)
        found["compiling"].append(sum(map(float, COMPILED.findall(told[0]))))
    source.write_text(text)
    return found


@contextlib.contextmanager
def watching(words: tuple[str, ...], project: Path) -> Iterator[tuple[int, int]]:
    """A `tilec watch`: the terminal that its messages come from, and its process."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [tilec(), "watch", *words],
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=environment({"TERM": "xterm"}),
    )
    os.close(theirs)
    try:
        yield ours, process.pid
    finally:
        process.terminate()
        process.wait(timeout=LIMIT)
        os.close(ours)


def errors_of(command: list[str], folder: Path) -> str:
    """What a command writes to standard error."""
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=environment({})
    ).stderr


def tree_seconds(root: int, *, ended: bool = False) -> float:
    """Processor seconds of a process and of what it started; with `ended`, of the latter only what
    has come to its end.
    """
    rows = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = path.read_text().rpartition(")")[2].split()
            rows[int(path.parent.name)] = (int(words[1]), sum(map(int, words[11:15])))
    family = {root}
    while not ended and (
        more := {pid for pid, (parent, _) in rows.items() if parent in family} - family
    ):
        family |= more
    return sum(rows[pid][1] for pid in family if pid in rows) / os.sysconf("SC_CLK_TCK")


def read_round(terminal: int) -> float:
    """The time at which a round ended.

    Raises:
        SystemExit: it does not end.
    """
    text = ""
    while "Ctrl-C ends it" not in text:
        if not select.select([terminal], [], [], LIMIT)[0]:
            sys.exit(f"no round within {LIMIT:g} s:\n{text}")
        text += os.read(terminal, 1 << 16).decode("utf-8", "replace")
    return time.perf_counter()


if __name__ == "__main__":
    main()
