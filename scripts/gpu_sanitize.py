"""Runs GPU tests under compute-sanitizer, for a bounded time, and says what it found and how much of it was run."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("memcheck", "racecheck")
# What it can follow: tests that look at the time, break contexts, or fill the memory on purpose are not among it, nor those with torch:
# its first kernel brings thousands of others, and the tool looks at them all before that kernel runs.
FOLLOWED = ("tests/gpu/test_device_ops.py", "tests/gpu/test_graphs.py", "tests/gpu/test_programs.py", "tests/gpu/test_creation.py")
LEFT_OUT = (
    "test_what_is_refused_leaves_the_device_usable",
    "test_a_gigabyte_of_random_numbers_ends_as_the_twin_does",
    "test_replays_are_ordered_on_all_streams",
    "test_captures_that_fail_leave_all_streams_usable",
    "test_launches_in_a_capture_of_torch",
)
# Most cases of one test: more of them are the same kernels again.
CASES = 4
# Seconds for which a run that was interrupted may write its summary.
GRACE = 20.0


def main() -> int:
    """0 all ran and nothing was found, 1 something was found or failed, 4 nothing was found in what ran until the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sanitizer", required=True, help="compute-sanitizer")
    parser.add_argument("--tool", action="append", choices=TOOLS, required=True, help="may be given twice")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for each tool")
    parser.add_argument("--out", type=Path, required=True, help="directory of sanitizer.json, and of each tool's output")
    options = parser.parse_args()
    tests = chosen(collected())
    results = [followed(options.sanitizer, tool, tests, options.limit, options.out) for tool in options.tool]
    (options.out / "sanitizer.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    for result in results:
        print(told(result))
    if any(not clean(result) for result in results):
        return 1
    return 4 if any(result["cut"] for result in results) else 0


def collected() -> list[str]:
    """The ids of all tests that can be followed."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "--collect-only", *FOLLOWED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    tests = [line for line in done.stdout.splitlines() if re.match(r"tests/\S+\.py::", line)]
    if not tests:
        sys.exit(f"no tests were found:\n{done.stdout}{done.stderr}")
    return tests


def chosen(tests: list[str], cases: int = CASES) -> list[str]:
    """Some cases of each test, as far apart as they can be."""
    groups: dict[str, list[str]] = {}
    for test in tests:
        name = test.partition("[")[0]
        if name.rpartition("::")[2] not in LEFT_OUT:
            groups.setdefault(name, []).append(test)
    return [test for group in groups.values() for test in _apart(group, cases)]


def _apart(group: list[str], cases: int) -> list[str]:
    if len(group) <= cases:
        return group
    return [group[place * (len(group) - 1) // (cases - 1)] for place in range(cases)]


def followed(sanitizer: str, tool: str, tests: list[str], limit: float, out: Path) -> dict[str, Any]:
    """Run the tests under one tool, in one process, until the limit; what came of it."""
    log, output = out / f"sanitizer-{tool}.txt", out / f"sanitizer-{tool}-tests.txt"
    log.unlink(missing_ok=True)
    # tilec looks at the result of every call of the driver itself: what is looked for here is what kernels do to memory.
    command = [sanitizer, "--tool", tool, "--report-api-errors", "no", "--log-file", str(log)]
    command += [sys.executable, "-u", "-m", "pytest", "-v", "-m", "gpu", "-p", "no:cacheprovider"]
    command += ["-o", f"faulthandler_timeout={limit / 2:g}", *tests]  # what takes half of the time says where it is
    env = {**os.environ, "TILEC_PROGRAMS": os.environ.get("TILEC_PROGRAMS", "8")}
    began = time.monotonic()
    with output.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        cut = not _ends(process, limit)
        if cut:  # as Ctrl-C: pytest ends, and the tool tells what it has found by then
            os.killpg(process.pid, signal.SIGINT)
            _ends(process, GRACE)
        _kill(process)
    text, found = output.read_text(encoding="utf-8", errors="replace"), log.read_text(errors="replace") if log.exists() else ""
    return {
        "tool": tool,
        "tests": len(tests),
        "passed": len(re.findall(r"^tests/\S+::.* PASSED", text, re.MULTILINE)),
        "failed": len(re.findall(r"^tests/\S+::.* (?:FAILED|ERROR)", text, re.MULTILINE)),
        "skipped": len(re.findall(r"^tests/\S+::.* SKIPPED", text, re.MULTILINE)),
        "cut": cut,
        "limit": limit,
        "exit": process.returncode,
        "seconds": round(time.monotonic() - began, 1),
        "summary": (re.findall(r"(?:ERROR|RACECHECK) SUMMARY: .*", found) or [""])[-1].strip(),
    }


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
    """Whether nothing was found and nothing failed. A run that was cut may have been killed before its summary."""
    nothing = re.match(r"(ERROR|RACECHECK) SUMMARY: 0 (errors|hazards)\b", result["summary"]) is not None
    if result["cut"]:
        return result["failed"] == 0 and result["passed"] > 0 and (nothing or not result["summary"])
    return nothing and result["failed"] == 0 and result["exit"] == 0 and result["passed"] > 0


def told(result: dict[str, Any]) -> str:
    """One line."""
    ran = result["passed"] + result["failed"] + result["skipped"]
    words = f"{result['tool']}: {ran} of {result['tests']} tests ran, {result['failed']} failed, {result['skipped']} skipped"
    words += f", in {result['seconds']:g} s"
    words += f" (cut at its limit of {result['limit']:g} s)" if result["cut"] else ""
    return f"{words}; compute-sanitizer: {result['summary'] or 'left no summary'}"


if __name__ == "__main__":
    sys.exit(main())
