"""`tilec sanitize --device cuda`: each case under the tools of compute-sanitizer, and what came of it as text and JSON."""

from __future__ import annotations

import dataclasses
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilec.cli.app import App
from tilec.cli.bare import APART, UNSET
from tilec.cli.findings import FOUND
from tilec.cli.one_case import Watched, bare_of, environment, gpu_of, own_targets, read_told, told_error
from tilec.cli.style import style
from tilec.runner.compute_sanitizer import Log, Record, Tool, read_log, read_report, tool_command
from tilec.runner.gpu_findings import (
    CHECKED,
    NOT_CHECKED,
    CheckedCase,
    ToolRun,
    arrays_of,
    checked_by,
    findings_of,
    to_json,
    weaknesses,
    with_examples,
)
from tilec_runtime.errors import MissingError, TilecError

if TYPE_CHECKING:
    from tilec.cli.cases import Opened, Wish
    from tilec.cli.findings import Sources
    from tilec.cli.unchecked import Unchecked
    from tilec.frontends.tools.run import Completed
    from tilec.manifest.types import Manifest
    from tilec.project import Project
    from tilec.runner.cases import BoundCase
    from tilec_runtime.seam import DeviceInfo

NOTHING_TO_CHECK = 3
TAIL = 6  # lines of a tool's own words in a message
TINTS = {
    "clean": ("clean", "green"),
    "findings": ("FOUND", "red"),
    "weak": ("WEAK", "yellow"),
    "error": ("ERROR", "red"),
    "skipped": ("skip", "yellow"),
}
NAMES = {
    "clean": "clean",
    "findings": "with findings",
    "weak": "not checked in full",
    "error": "could not be checked",
    "skipped": "not built for this GPU",
}
# What the tool says where it cannot work on a machine at all: no other case will fare better.
WORDS = ", in its words:\n"
_UNFIT = ("Device not supported", "GPU debugging features are disabled", "unsupported driver version", "Confidential compute mode")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class GpuWish:
    """What the command line says of the check.

    Attributes:
        device: the GPU's name. tools: of compute-sanitizer. timeout: seconds for each tool on a case.
        profile: to build with. bundle, targets: what to launch instead, and what to build for.
    """

    device: str
    tools: tuple[str, ...]
    profile: str
    timeout: float
    bundle: str | None
    targets: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Check:
    """One run of the command: the tool's program, the tools, and how long each may take."""

    app: App
    program: str
    tools: tuple[Tool, ...]
    timeout: float


def sanitize_on_gpu(app: App, project: Project, wish: Wish, asked: GpuWish) -> int:
    """Check cases on a GPU, show what is found, and give the exit code; nothing is built where the tool or the GPU is missing."""
    from tilec.cli.cases import How, chosen_cases, open_bundle
    from tilec.cli.findings import Sources
    from tilec.cli.unchecked import left_out, unchecked_json
    from tilec.runner.tools import find_outside_tool

    program = find_outside_tool("compute-sanitizer", app.settings.search)
    device = gpu_of(asked.device, "checking with compute-sanitizer")
    targets = asked.targets or own_targets(project.manifest, device)
    how = How(profile=asked.profile, lineinfo=True)
    opened = open_bundle(app, project, wish, bundle=asked.bundle, targets=targets, cpu=False, how=how)
    cases = chosen_cases(opened, project.manifest, wish)
    left = left_out(project.manifest, opened, wish, cases)
    check = _Check(app=app, program=program, tools=tuple(map(Tool, asked.tools)), timeout=asked.timeout)
    width = max(len(case.name) for case in cases)
    lines = Sources(Path(project.manifest.root), dict(opened.bundle.info.sources) if opened.bundle else {})
    results = []
    for number, case in enumerate(cases, 1):
        progress = f"({number} of {len(cases)})"
        results.append(_checked(check, opened, project.manifest, device, case, progress))
        _show(app, results[-1], width, lines)
        _unless_unfit(results[-1])
    if app.json:
        unchecked = unchecked_json(left, ((result.case.name, result.skipped) for result in results))
        app.document("sanitize", {**_document(opened, project.manifest, device, check, results), "unchecked": unchecked})
    else:
        app.tell(_summary(results, check, device, left))
    return _ending(results)


def _checked(check: _Check, opened: Opened, manifest: Manifest, device: DeviceInfo, case: BoundCase, progress: str) -> CheckedCase:
    """A case under each tool, in a process of its own every time."""
    if opened.bundle is None or opened.path is None or case.kernel in opened.absent:
        return CheckedCase(case=case, skipped=opened.absent.get(case.kernel, "it is not in the bundle"))
    watched = Watched(case=case, bundle=opened.bundle, path=opened.path, manifest=manifest, device=device)
    runs: list[ToolRun] = []
    told: dict[str, Any] = {}
    for tool in check.tools:
        check.app.pass_by(f"{tool.value} of {case.name} {progress}")
        run, found = _run(check, watched, tool)
        runs.append(run)
        told = found or told
        if _unfit(run):
            break
    blocks = math.prod(told.get("grid", (0,)))
    return CheckedCase(case=case, variant=told.get("variant", ""), blocks=blocks, runs=tuple(runs), notes=_notes(watched, told))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """What one run of a tool left: its ending, its records (and whether those are whole), its log, what the launch told, and its time."""

    done: Completed
    records: tuple[Record, ...]
    whole: bool
    log: Log
    told: dict[str, Any]
    seconds: float


def _run(check: _Check, watched: Watched, tool: Tool) -> tuple[ToolRun, dict[str, Any]]:
    """One tool over a case, and what the launch told."""
    seen = _watch(check, watched, tool)
    findings = findings_of(tool, seen.records, seen.log, arrays_of(watched.case, seen.told))
    if any(finding.other for finding in findings):
        findings = with_examples(findings, _watch(check, watched, tool, hazards=True).records)
    error = None if findings else _failure(check, watched, tool, seen)
    weak = weaknesses(seen.records, seen.log, whole=seen.whole, gap=seen.told.get("gap", 0)) if error is None else ()
    if findings and (seen.done.timed_out or not seen.log.ended):
        weak = (*weak, "it did not come to its end: there may be more")
    return ToolRun(tool=tool, findings=findings, weak=weak, error=error, seconds=seen.seconds), seen.told


def _watch(check: _Check, watched: Watched, tool: Tool, *, hazards: bool = False) -> _Seen:
    """Run a tool over a case, in a process of its own."""
    from tilec.frontends.tools.run import run_tool

    with tempfile.TemporaryDirectory(prefix="tilec-") as name:
        folder = Path(name)
        # Reads of what nobody wrote can be seen only where tilec wrote nothing either.
        bare = bare_of(check.app, watched, folder, memory=UNSET if tool is Tool.INITCHECK else APART)
        report, log = folder / "report.xml", folder / "log.txt"
        command = tool_command(check.program, tool, report=report, log=log, launch=bare.command(), hazards=hazards)
        began = time.monotonic()
        done = run_tool(command, timeout=check.timeout, env=environment(), own_session=True)
        seconds = time.monotonic() - began
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        check.app.detail("\n".join(filter(None, (text.strip(), done.stdout.strip(), done.stderr.strip()))))
        records, whole = read_report(report)
        return _Seen(done=done, records=records, whole=whole, log=read_log(text), told=read_told(bare), seconds=seconds)


def _failure(check: _Check, watched: Watched, tool: Tool, seen: _Seen) -> TilecError | None:
    """Why a tool that found nothing is no witness that there is nothing; None where it is."""
    name, told, log, done = watched.case.name, told_error(seen.told), seen.log, seen.done
    if done.timed_out:
        return TilecError(
            f"{tool.value} did not come to its end on {name} within {check.timeout:g} s",
            cause="a watched launch takes 10 to 1000 times as long; or it hangs",
            fix="take a smaller case (--case), or give it longer with --timeout",
        )
    output = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    words = [*log.troubles, *output[-TAIL:]]
    shown = "\n".join(f"    {line.strip()}" for line in words) or f"    it said nothing (status {done.rc})"
    if not seen.told.get("ended") and any(word in text for word in _UNFIT for text in words):
        return MissingError(
            f"compute-sanitizer cannot work on {watched.device.name} here{WORDS}{shown}",
            cause="it needs a driver as new as itself, and the GPU's debugging features, which some virtual machines do not have",
            fix="install the nvidia-cuda-sanitizer-api of the driver's release, or go to another machine; tile kernels can be checked "
            "with --device cpu",
        )
    if told is not None and seen.told.get("symbol"):  # it was launched, and failed
        where = "memcheck finds out where" if tool is not Tool.MEMCHECK else "run it with `tilec debug`, which stops where it fails"
        return TilecError(f"the launch failed under {tool.value}, which found nothing: {told.what}", cause=told.cause, fix=where)
    if told is not None:
        return told
    if not log.ended:
        return TilecError(f"{tool.value} could not check {name}{WORDS}{shown}", fix="see all of it with --verbose")
    if not seen.told.get("ended"):
        return TilecError(f"the launch of {name} did not come to its end under {tool.value}", fix="see all of it with --verbose")
    return None


def _unfit(run: ToolRun) -> bool:
    return isinstance(run.error, MissingError)


def _unless_unfit(result: CheckedCase) -> None:
    """Raise what no other case will escape either."""
    for run in result.runs:
        if _unfit(run) and run.error is not None:
            raise run.error


def _notes(watched: Watched, told: dict[str, Any]) -> tuple[str, ...]:
    """What is worth knowing of a launch, whichever tool looked at it."""
    found = watched.image(told)
    if found is None:
        return ()
    _, image = found
    if not math.prod(told.get("grid", (1,))):
        return ("the grid has no blocks: there was nothing to check",)
    if image.target.kind.value != "cubin":
        return (f"the launch took {image.target}, which the driver compiles: findings have no source lines",)
    if b".debug_line" not in watched.bundle.image(image.digest):
        return ("the code has no source lines: build with lineinfo = true in the profile, or leave --bundle out",)
    return ()


def _ending(results: Sequence[CheckedCase]) -> int:
    statuses = {result.status for result in results}
    if "findings" in statuses:
        return FOUND
    if statuses & {"error", "weak"}:
        return 1
    return 0 if "clean" in statuses else NOTHING_TO_CHECK


def _document(opened: Opened, manifest: Manifest, device: DeviceInfo, check: _Check, results: Sequence[CheckedCase]) -> dict[str, Any]:
    from tilec.cli.cases import package_json

    return {
        **package_json(opened, manifest),
        "device": {"name": device.name, "ordinal": device.ordinal, "compute_capability": list(device.cc)},
        "tools": [tool.value for tool in check.tools],
        **to_json(results),
    }


def _show(app: App, result: CheckedCase, width: int, lines: Sources) -> None:
    from tilec.cli.failures import located_text
    from tilec.cli.findings import render_gpu_finding
    from tilec.cli.tables import plural

    word, tint = TINTS[result.status]
    found = result.findings
    seconds = sum(run.seconds for run in result.runs)
    words = [plural(len(found), "finding")] if found else []
    words += [plural(result.blocks, "block")] if result.blocks else []
    words += [f"{seconds:.1f} s"] if result.runs and not found else []
    what = ", ".join(words)
    app.say(f"{result.case.name:<{width}}  {style(word, fg=tint, bold=True)}{' ' * (6 - len(word))}  {what}".rstrip())
    for finding in found:
        app.tell("\n" + render_gpu_finding(finding, result, lines.line))
    if found:
        app.say("")
    for run in result.runs:
        for reason in run.weak:
            app.tell(f"  {run.tool.value} is weakened: {reason}")
        if run.error is not None and found:  # the finding is why
            what, _, told = run.error.what.partition(WORDS)
            app.tell(f"  {run.tool.value} could not check it: {(told or what).strip().splitlines()[0]}")
        elif run.error is not None:
            app.tell("\n".join(f"  {row}" for row in located_text(run.error, app.show).splitlines()))
    for note in result.notes:
        app.tell(f"  note: {note}")


def _summary(results: Sequence[CheckedCase], check: _Check, device: DeviceInfo, left: Sequence[Unchecked]) -> str:
    from tilec.cli.run_results import skipped_lines
    from tilec.cli.tables import plural
    from tilec.cli.unchecked import unchecked_lines

    counts: Callable[[str], int] = lambda status: sum(result.status == status for result in results)  # noqa: E731
    parts = [f"{count} {name}" for status, name in NAMES.items() if (count := counts(status))]
    last = results[-1]
    ends_with_space = last.findings and not last.notes and not any(run.weak or run.error for run in last.runs)
    rows = [] if ends_with_space else [""]
    rows.append(f"{plural(len(results), 'case')} on {device.name}: {', '.join(parts)}")
    rows += skipped_lines((result.case.kernel, result.skipped) for result in results if result.skipped)
    rows += unchecked_lines(left)
    if checked := checked_by(results):
        rows += ["checked:", *(f"  {CHECKED[tool]}" for tool in checked)]
        rows += ["not checked:", *(f"  {text}" for text in NOT_CHECKED)]
        unused = [tool.value for tool in Tool if tool not in check.tools]
        rows += [f"  what {', '.join(unused)} would find: name it with --tool, or leave the option out"] if unused else []
    return "\n".join(rows)
