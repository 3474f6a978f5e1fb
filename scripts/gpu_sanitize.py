"""Runs GPU tests under compute-sanitizer, for a bounded time, and says what it found and how much
of it was run.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TESTS = "tests/gpu"
# Files of tests that are not followed, and why.
NOT_FOLLOWED = {
    "test_bench": "looks at the time",
    "test_endless": "never ends on purpose",
    "test_errors": "breaks contexts on purpose",
    "test_pools": "fills the memory, which other processes need meanwhile",
    "test_tune": "looks at the time",
    "test_watched": "starts compute-sanitizer itself",
}
# Tests of the others, likewise; under the tools, drivers and torch make calls of their own while a
# stream is captured.
LEFT_OUT = {
    "test_an_index_out_of_bounds_stops_a_checked_kernel": "traps on purpose",
    "test_captures_that_fail_leave_all_streams_usable": "breaks captures on purpose",
    "test_launches_in_a_capture_of_torch": "captures with torch",
    "test_launches_of_tensors_of_tilec_in_a_capture_of_torch": "captures with torch",
    "test_readers_do_not_wait_for_each_other": "looks at what runs at once, and under the tools launches take turns",
    "test_the_collector_frees_in_a_capture_of_torch": "captures with torch",
    "test_the_contract[events_of_inside_cannot_be_asked_for]": "breaks captures on purpose",
    "test_the_contract[events_of_outside_are_refused]": "breaks captures on purpose",
    "test_completion_threads_break_no_capture_of_torch": "captures with torch",
    "test_threads_drop_the_last_references": "measures memory, and the tools keep the frames of Python that launched",
}
# Tests that one tool alone does not follow. racecheck watches every access to shared memory, which
# takes minutes for the largest launches; their kernels are followed in smaller sizes.
LEFT_OUT_OF = {
    "racecheck": {
        "test_attention[128-1-1024]": "torch's attention in f32, which gives the reference, is said to race",
        "test_attention[128-1-300]": "torch's attention in f32, which gives the reference, is said to race",
        "test_attention[128-1-4096]": "too large",
        "test_attention[128-4-4096]": "too large",
        "test_attention[64-1-4096]": "too large",
        "test_gemm[4096-4096-4096-bfloat16]": "too large",
        "test_gemm[4096-4096-4096-float16]": "too large",
        "test_gemm[4104-4088-4120-bfloat16]": "too large",
        "test_gemm[4104-4088-4120-float16]": "too large",
    }
}
# Tests of one process: a file of more is followed in several, since a tool makes each launch of a
# new kernel slow.
MOST = 20
# Files whose processes begin first, for one of their tests alone takes a minute.
LONG = (
    "test_kernels",
    "test_fatbin_program",
    "test_triton_frontend",
    "test_pipelines",
    "test_safe_kernels",
    "test_dispatch",
    "test_early_launches",
)
# Seconds for which a run that was interrupted may write its summary.
GRACE = 20.0


def main() -> int:
    """0 all ran and nothing was found, 1 something was found or failed, 4 nothing was found in what
    ran until the limit.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sanitizer", required=True, help="compute-sanitizer")
    parser.add_argument(
        "--tool", action="append", choices=TOOLS, required=True, help="may be given several times"
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=240.0,
        help="seconds after which no test of a tool begins any more",
    )
    parser.add_argument(
        "--jobs", type=int, default=max(1, (os.cpu_count() or 1) * 3 // 4), help="processes at once"
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="directory of sanitizer.json, and of each tool's output",
    )
    options = parser.parse_args()
    tests = collected()
    results = [
        tool_run(
            options.sanitizer,
            tool,
            by_process(chosen(tests, tool)),
            options.limit,
            options.jobs,
            options.out,
        )
        | {"left_out": left_out(tool)}
        for tool in options.tool
    ]
    (options.out / "sanitizer.json").write_text(
        json.dumps(results, indent=2) + "\n", encoding="utf-8"
    )
    for result in results:
        print("\n".join(told(row) for row in result["files"] if not clean(row) or row["cut"]))
        print(told(result))
        print(
            f"not followed: {', '.join(f'{name} ({why})' for name, why in result['left_out'].items())}"
        )
    if any(not clean(row) for result in results for row in result["files"]):
        return 1
    return 4 if any(result["cut"] for result in results) else 0


def by_process(tests: list[str]) -> dict[str, list[str]]:
    """Tests by the name of their process: that of their file, numbered where it has several; in the
    order in which they begin.
    """
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(Path(test.partition("::")[0]).stem, []).append(test)
    parts = {}
    for file in sorted(
        files, key=lambda name: (LONG.index(name) if name in LONG else len(LONG), -len(files[name]))
    ):
        ids = files[file]
        count = -(-len(ids) // MOST)
        for part in range(
            count
        ):  # neighbours share what is set up for a module, so they stay together
            parts[file if count == 1 else f"{file}.{part + 1}"] = ids[
                part * len(ids) // count : (part + 1) * len(ids) // count
            ]
    return parts


def tool_run(
    sanitizer: str, tool: str, processes: dict[str, list[str]], limit: float, jobs: int, out: Path
) -> dict[str, Any]:
    """Run tests under one tool, in several processes at once; what came of all of them."""
    began = time.monotonic()

    def one(name: str) -> dict[str, Any]:
        left = limit - (time.monotonic() - began)
        return {
            "file": name,
            **followed(
                sanitizer, tool, processes[name], max(left, 0.0), out, name=f"{tool}-{name}"
            ),
        }

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        rows = list(pool.map(one, processes))
    whole: dict[str, Any] = {
        "tool": tool,
        **{
            word: sum(row[word] for row in rows)
            for word in ("tests", "passed", "failed", "skipped")
        },
    }
    whole |= {
        "cut": any(row["cut"] for row in rows),
        "limit": limit,
        "seconds": round(time.monotonic() - began, 1),
    }
    whole["summary"] = "; ".join(
        f"{count} x {words}" for words, count in Counter(row["summary"] for row in rows).items()
    )
    return whole | {"files": rows}


def collected() -> list[str]:
    """The ids of all tests of the files that are followed."""
    files = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / TESTS).glob("test_*.py"))
        if path.stem not in NOT_FOLLOWED
    ]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "gpu",
        "-p",
        "no:cacheprovider",
        "--collect-only",
        *files,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    tests = [line for line in done.stdout.splitlines() if re.match(r"tests/\S+\.py::", line)]
    if not tests:
        sys.exit(f"no tests were found:\n{done.stdout}{done.stderr}")
    return tests


def left_out(tool: str) -> dict[str, str]:
    """What a tool does not follow, by file or by test, and why."""
    return NOT_FOLLOWED | LEFT_OUT | LEFT_OUT_OF.get(tool, {})


def chosen(tests: list[str], tool: str) -> list[str]:
    """Those that are not left out."""
    without = left_out(tool)
    return [
        test
        for test in tests
        if without.keys().isdisjoint({name := test.rpartition("::")[2], name.partition("[")[0]})
    ]


def followed(
    sanitizer: str, tool: str, tests: list[str], limit: float, out: Path, name: str = ""
) -> dict[str, Any]:
    """Run tests under one tool, in one process, until the limit; what came of it."""
    log, output = out / f"sanitizer-{name or tool}.txt", out / f"sanitizer-{name or tool}-tests.txt"
    log.unlink(missing_ok=True)
    # tilec looks at the result of every call of the driver itself: what is looked for here is what
    # kernels do to memory.
    command = [sanitizer, "--tool", tool, "--report-api-errors", "no", "--log-file", str(log)]
    command += [
        sys.executable,
        "-u",
        "-m",
        "pytest",
        "-v",
        "-m",
        "gpu",
        "-p",
        "no:cacheprovider",
        "-p",
        "stop_after",
    ]
    command += [
        "-o",
        f"faulthandler_timeout={max(limit / 2, 1.0):g}",
        *tests,
    ]  # what takes half of the time says where it is
    path = os.pathsep.join(filter(None, (str(ROOT / "scripts"), os.environ.get("PYTHONPATH", ""))))
    own = {
        "PYTHONPATH": path,
        "TILEC_PROGRAMS": os.environ.get("TILEC_PROGRAMS", "8"),
        "TILEC_STOP_AT": str(time.time() + limit),
    }
    began = time.monotonic()
    with output.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **own},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        killed = not _ends(process, limit + GRACE)
        if killed:  # a test that does not end. As Ctrl-C: pytest ends, and the tool tells what it has found by then
            os.killpg(process.pid, signal.SIGINT)
            _ends(process, GRACE)
        _kill(process)
    text, found = (
        output.read_text(encoding="utf-8", errors="replace"),
        log.read_text(errors="replace") if log.exists() else "",
    )
    return {
        "tool": tool,
        "tests": len(tests),
        "passed": _counted("PASSED", text),
        "failed": _counted("FAILED|ERROR", text),
        "skipped": _counted("SKIPPED", text),
        "cut": killed or "the time is up" in text,
        "limit": round(limit, 1),
        "exit": process.returncode,
        "seconds": round(time.monotonic() - began, 1),
        "summary": (re.findall(r"(?:ERROR|RACECHECK) SUMMARY: .*", found) or [""])[-1].strip(),
    }


def _counted(outcome: str, text: str) -> int:
    """Lines of `pytest -v` with this outcome; of a test that prints, it stands on a line of its
    own.
    """
    return len(re.findall(rf"^(?:tests/\S+::.* )?(?:{outcome})\b.*\[ *\d+%\]$", text, re.MULTILINE))


def _ends(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def clean(result: dict[str, Any]) -> bool:
    """Whether the tool says that it found nothing, and nothing failed; of a run that was not cut,
    whether all of it ran.
    """
    if (
        result["skipped"] == result["tests"] and not result["summary"]
    ):  # no call of the driver, which is an error to compute-sanitizer
        return True
    nothing = (
        re.match(r"(ERROR|RACECHECK) SUMMARY: 0 (errors|hazards)\b", result["summary"]) is not None
    )
    if result["cut"]:  # 2 is what pytest ends with then
        return nothing and result["failed"] == 0 and result["exit"] in (0, 2)
    return (
        nothing
        and result["failed"] == 0
        and result["exit"] == 0
        and result["passed"] + result["skipped"] == result["tests"]
    )


def told(result: dict[str, Any]) -> str:
    """One line."""
    ran = result["passed"] + result["failed"] + result["skipped"]
    where = f" of {result['file']}" if "file" in result else ""
    words = f"{result['tool']}{where}: {ran} of {result['tests']} tests ran, {result['failed']} failed, {result['skipped']} skipped"
    words += f", in {result['seconds']:g} s"
    words += f" (cut at its limit of {result['limit']:g} s)" if result["cut"] else ""
    return f"{words}; compute-sanitizer: {result['summary'] or 'left no summary'}"


if __name__ == "__main__":
    sys.exit(main())
