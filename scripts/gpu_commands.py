"""Tries every command of tilec on a GPU, with the examples, as a user would call it; writes what
each did as JSON.

Needs a driver, and bundles that were built elsewhere (`--help`). A command that finds no tool (ncu,
cuda-gdb, compute-sanitizer, a compiler) counts as missing, never as passed. Exit codes: 0 all did
as they should, 1 one did not, 3 there is no bundle.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tilec

ROOT = Path(__file__).resolve().parents[1]
MISSING = re.compile(
    r"error: (\S+ not found|no GPU|the CUDA driver|.*cannot be imported|.* is not installed)[^\n]*"
)
KEPT = 1500  # characters of what a command printed


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """A command line, and what it should do.

    Attributes:
        words: with {bundle}, {debug}, {simt}, {triton} for bundles and {scratch} for a directory of
            the run.
        codes: exit codes that are right.
        shows: what has to be in its output: patterns.
        where: directory of the project, from the repository's.
        stop: it is ended by Ctrl-C, once it shows all of that.
    """

    words: str
    codes: tuple[int, ...] = (0,)
    shows: tuple[str, ...] = ()
    where: str = "."
    stop: bool = False


def debug(
    case: str, bundle: str, place: str, *orders: str, shows: tuple[str, ...], where: str = "."
) -> Step:
    """cuda-gdb up to a line of a case."""
    told = ("set cuda break_on_launch none", f"break {place}", "run", *orders)
    words = " ".join(f"--ex '{order}'" for order in told)
    return Step(
        words=f"debug '{case}' --bundle {{{bundle}}} --batch {words}", shows=shows, where=where
    )


STEPS = (
    Step(words="--version", shows=(tilec.__version__.replace(".", r"\."),)),
    Step(words="--help", shows=("Commands:",)),
    Step(
        words="doctor",
        codes=(0, 3),
        shows=(r"GPU 0", r"driver +of CUDA", r"profile  ", r"debug    ", r"sanitize "),
    ),
    Step(words="doctor --json", codes=(0, 3), shows=('"GPU 0"',)),
    Step(words="-C {scratch} new acme-kernels", shows=("acme",)),
    Step(words="schema", shows=(r'"\$schema"',)),
    Step(words="cache info", shows=("entries",)),
    Step(words="completion bash", shows=("complete",)),
    Step(words="completion zsh", shows=("#compdef",)),
    Step(words="completion fish", shows=("complete",)),
    Step(words="-C {scratch}/linking check", shows=("no problems",)),
    Step(words="-C {scratch}/linking build --targets sm_90", shows=("built", "bundle")),
    Step(words="-C {scratch}/linking run", shows=("passed",)),
    Step(words="-C {scratch}/linking clean", shows=("",)),
    Step(words="-C {scratch}/linking watch check", codes=(130,), shows=("no problems",), stop=True),
    Step(words="run --bundle {bundle} --device cuda", shows=("cases on", "passed")),
    Step(words="run reduce_sum --bundle {bundle} --case odd --repeat 20", shows=("20",)),
    Step(words="run --bundle {bundle} --trace 'vector_add/one[f32]'", shows=("get_tile_block_id",)),
    Step(
        words="bench vector_add softmax --bundle {bundle} --case odd --seconds 0.3 --save {scratch}/base.json",
        shows=("GB/s",),
    ),
    Step(
        words="bench vector_add softmax --bundle {bundle} --case odd --seconds 0.3 --against-saved {scratch}/base.json --fail-slower 25%",
        shows=("odd",),
    ),
    Step(
        words="bench saxpy --bundle {bundle} --case 1m --sweep n=4096..65536*4 --set x=[n] --seconds 0.2 --html {scratch}/b.html",
        shows=("n=",),
    ),
    Step(words="inspect {bundle}", shows=("softmax",)),
    Step(words="inspect {bundle} --verify", shows=("",)),
    Step(
        words="inspect {bundle} --html {scratch}/report.html --select softmax",
        shows=("report.html",),
    ),
    Step(words="inspect {bundle} --diff {bundle}", shows=("",)),
    Step(
        words="inspect {bundle} --why vector_add x=f32[1024] y=f32[1024] z=f32[1024]",
        shows=("sm_90",),
    ),
    Step(
        words="sanitize reduce_sum --bundle {bundle} --case odd --device cuda",
        shows=("reduce_sum/odd", "clean"),
    ),
    Step(words="sanitize softmax --bundle {bundle} --case odd", shows=("softmax/odd", "clean")),
    Step(
        words="profile reduce_sum/16m --bundle {bundle} --out {scratch}/p.ncu-rep",
        shows=("Throughput", "report: "),
    ),
    Step(words="debug reduce_sum/odd --bundle {debug} --ex quit", codes=(0,), shows=("stops in",)),
    debug(
        "reduce_sum/odd",
        "debug",
        "reduce_sum.cu:42",
        "backtrace",
        "info args",
        "info locals",
        shows=(r"n = 1", r"first = ", "sum = "),
    ),
    debug(
        "saxpy/odd[f32]",
        "simt",
        "elementwise.py:17",
        "info locals",
        "print x.shape",
        "up",
        "info args",
        shows=(r"i = \d",),
        where="examples/simt",
    ),
    debug(
        "add/odd[f32]",
        "triton",
        "add.py:12",
        "info locals",
        "info args",
        shows=(r"n = ",),
        where="examples/triton",
    ),
    Step(
        words="debug softmax/odd --bundle {debug} --batch --ex run --ex 'info line' --ex next --ex next",
        shows=(r"softmax\.py",),
    ),
)


def main() -> int:
    """Try all, and say how it went."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--dist",
        type=Path,
        default=ROOT / "dist",
        help="where the bundles are: *.tilec, and debug/NAME.tilec of the profile debug",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "benchmarks" / "results" / "gpu_commands.json",
        help="where the JSON goes",
    )
    parser.add_argument("-k", dest="word", default="", help="only command lines that hold this")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each")
    arguments = parser.parse_args()
    bundles = {
        "bundle": first(arguments.dist, "tilec-examples-*.tilec"),
        "debug": first(arguments.dist / "debug", "tilec-examples-*.tilec"),
        "simt": first(arguments.dist / "debug", "tilec-simt-examples-*.tilec"),
        "triton": first(arguments.dist / "debug", "tilec-triton-examples-*.tilec"),
    }
    if bundles["bundle"] is None:
        print(f"no bundle in {arguments.dist}: build the examples, `tilec build`", file=sys.stderr)
        return 3
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(["cp", "-r", str(ROOT / "examples" / "linking"), scratch], check=True)
        for step in STEPS:
            if arguments.word in step.words:
                results.append(tried(step, {**bundles, "scratch": scratch}, arguments.limit))
                print(
                    f"{results[-1]['result']:<8} {results[-1]['seconds']:6.1f} s  tilec {results[-1]['words']}",
                    flush=True,
                )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(
        json.dumps({"tilec": tilec.__version__, "steps": results}, indent=1) + "\n",
        encoding="utf-8",
    )
    counts = {
        word: sum(row["result"] == word for row in results)
        for word in ("passed", "missing", "FAILED")
    }
    print(", ".join(f"{count} {word}" for word, count in counts.items() if count))
    return 1 if counts["FAILED"] else 0


def first(folder: Path, pattern: str) -> Path | None:
    """The bundle in a directory."""
    return next(iter(sorted(folder.glob(pattern))), None)


def tried(step: Step, places: dict[str, Any], limit: float) -> dict[str, Any]:
    """What a command did, and whether that is right."""
    row: dict[str, Any] = {"words": step.words, "seconds": 0.0}
    lacking = [
        name for name, place in places.items() if place is None and f"{{{name}}}" in step.words
    ]
    if lacking:
        return {**row, "result": "missing", "told": f"no bundle for {lacking[0]}"}
    words = step.words
    for name, place in places.items():
        words = words.replace(f"{{{name}}}", str(place))
    start = time.monotonic()
    code, text = called(words, step, limit)
    # What is kept names no machine's directories.
    own = {
        str(places["scratch"]): "{scratch}",
        str(ROOT): "{checkout}",
        sys.prefix: "{python}",
        os.environ.get("TILEC_CACHE_DIR", ""): "{cache}",
        str(Path.home()): "~",
    }
    for directory, shown in own.items():
        text = text.replace(directory, shown) if directory else text
    row |= {"seconds": round(time.monotonic() - start, 2), "code": code, "told": text[-KEPT:]}
    if code == 3 and 3 not in step.codes and (found := MISSING.search(text)):
        return {**row, "result": "missing", "told": found[0]}
    unseen = [pattern for pattern in step.shows if not re.search(pattern, text)]
    if code in step.codes and not unseen and "Traceback (most recent call last)" not in text:
        return {**row, "result": "passed"}
    return {**row, "result": "FAILED", "unseen": unseen}


def called(words: str, step: Step, limit: float) -> tuple[int, str]:
    """(exit code, all that was printed) of a command line."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            (str(ROOT), str(ROOT / "runtime"), os.environ.get("PYTHONPATH", ""))
        ),
    }
    command = ["bash", "-c", f"exec {sys.executable} -m tilec {words}"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT / step.where,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

        def text() -> str:
            return os.pread(log.fileno(), 1 << 24, 0).decode("utf-8", "replace")

        end = time.monotonic() + limit
        while process.poll() is None and time.monotonic() < end:
            if step.stop and all(re.search(pattern, text()) for pattern in step.shows):
                os.killpg(process.pid, signal.SIGINT)
                break
            time.sleep(0.05)
        try:
            return process.wait(timeout=max(1.0, end - time.monotonic())), text()
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return -1, f"{text()}\nit took longer than {limit:g} s"


if __name__ == "__main__":
    sys.exit(main())
