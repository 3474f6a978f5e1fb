"""`tilec profile`: one case under Nsight Compute, with a summary in words of what holds it up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App, SecondsRange, examples, json_option, named_or_empty
from tilec.cli.one_case import Asked, Watched, bare_launch, case_option, environment, watched_case
from tilec.cli.style import style
from tilec_runtime.errors import MissingError, OutputError, TilecError, UsageError

if TYPE_CHECKING:
    from tilec.cli.bare import Bare
    from tilec.cli.profile_lines import Hot
    from tilec.frontends.tools.run import Completed
    from tilec.runner.ncu import Summary

SUFFIX = ".ncu-rep"
# Counters for words about bounds, occupancy and stalls; the sets bring what the graphical reports show beside.
SECTIONS = ("SpeedOfLight", "ComputeWorkloadAnalysis", "Occupancy", "LaunchStats", "WarpStateStats", "SourceCounters")
IMPORT_TIMEOUT = 300.0
LINES_SHOWN = 5
TAIL = 12


@click.command(
    short_help="Profile one case with Nsight Compute, and say what holds it up.",
    epilog=examples(
        "tilec profile gemm/4k[f16]",
        "tilec profile softmax/odd --set full -o softmax.ncu-rep",
        "tilec profile gemm/4k --bundle dist/acme_kernels-0.3.0.tilec --json",
        "tilec profile gemm/4k -o gemm.ncu-rep && ncu-ui gemm.ncu-rep   # all of it, as a picture",
    )
    + "\n\nExit codes: 0 done, 1 the launch or ncu failed, 2 usage or manifest, 3 no ncu, no GPU, or no permission to read its counters.",
)
@case_option
@click.option(
    "--set",
    "wanted",
    type=click.Choice(["basic", "detailed", "full"]),
    default="detailed",
    show_default=True,
    help="How much ncu measures.",
)
@click.option("-o", "--out", metavar="PATH", callback=named_or_empty, help="Where the report goes.  [default: .tilec/profile/CASE.ncu-rep]")
@click.option("--timeout", type=SecondsRange(min=1), default=600.0, show_default=True, metavar="SECONDS", help="Give up after so long.")
@json_option
@click.pass_obj
def command(app: App, case: str, device: str, bundle: str | None, targets: tuple[str, ...], wanted: str, out: str, timeout: float) -> None:
    """Launch CASE (such as gemm/4k[f16]) under ncu, keep its report, and summarize it.

    What bounds the launch, what share of the GPU's memory and compute it reaches, its occupancy, and what its warps wait for, by source
    line. Clocks are left as they are (--clock-control none). Without --bundle the kernel is built aside, with source lines in its code.
    """
    from tilec.cli.cases import How
    from tilec.cli.profile_lines import hot_lines
    from tilec.runner import ncu
    from tilec.runner.tools import find_outside_tool

    search = app.settings.search
    asked = Asked(case=case, device=device, bundle=bundle, targets=targets)
    watched, program = watched_case(app, asked, lambda: find_outside_tool("ncu", search), How(lineinfo=True))
    report = _place(app, out, watched)
    with bare_launch(app, watched) as (bare, told):
        app.pass_by(f"profiling {watched.case.name}")
        done = _run(_command(program, watched, bare, report, wanted), timeout)
        app.wipe()
        taken = told()
        _check(app, done, watched, report)
    launches = ncu.read_raw(_export(program, report, "--page", "raw", "--print-units", "base"))
    if not launches:
        raise TilecError(
            f"ncu printed no counters of {app.show(report)}",
            cause="this version prints another layout",
            fix=f"look at it with `ncu-ui {app.show(report)}`",
        )
    found = ncu.summarize(launches[0])
    samples = ncu.read_source(_export(program, report, "--page", "source", "--print-source", "sass", optional=True))
    hot, note = hot_lines(watched, taken, samples, search)
    if app.json:
        app.document("profile", _document(watched, taken, report, found, hot, note))
    else:
        _show(app, watched, taken, report, found, hot, note)


def _place(app: App, out: str, watched: Watched) -> Path:
    """Where the report goes.

    Raises:
        UsageError, OutputError: it cannot.
    """
    if out:
        path = app.path(out)
        if path.suffix != SUFFIX:
            raise UsageError(f"--out {out}: no name of a report of ncu", fix=f"end it in {SUFFIX}")
        if not path.parent.is_dir():
            raise UsageError(f"--out {out}: there is no directory {app.show(path.parent)}", fix="create it, or choose another place")
        return path
    from tilec.compiler.state import WorkDir

    folder = WorkDir(app.manifest_path().parent).file("profile")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise OutputError(f"cannot create {app.show(folder)}: {exc.strerror}", fix="choose another place with --out") from exc
    name = "".join(letter if letter.isalnum() or letter in "-_" else "." for letter in watched.case.name).strip(".")
    return folder / f"{name}{SUFFIX}"


def _command(program: str, watched: Watched, bare: Bare, report: Path, wanted: str) -> list[str]:
    import re

    names = "|".join(re.escape(symbol) for symbol in watched.symbols)
    sections = [word for section in SECTIONS for word in ("--section", section)]
    # Inputs are filled by kernels of tilec's own, which are not what is asked for: only the entry points of the case count.
    only = ["--kernel-name-base", "mangled", "--kernel-name", f"regex:^({names})$", "--launch-count", "1"]
    return [
        program,
        "--clock-control",
        "none",
        "--set",
        wanted,
        *sections,
        *only,
        "--import-source",
        "yes",
        "--force-overwrite",
        "--export",
        str(report),
        *bare.command(),
    ]


def _run(command: Sequence[str], timeout: float) -> Completed:
    from tilec.frontends.tools.run import run_tool

    return run_tool(command, timeout=timeout, env=environment(), own_session=True)


def _check(app: App, done: Completed, watched: Watched, report: Path) -> None:
    """What went wrong under ncu.

    Raises:
        MissingError: the user may not read the GPU's counters, or nobody can here.
        TilecError: anything else.
    """
    text = f"{done.stdout}\n{done.stderr}"
    app.detail(text.strip())
    if done.timed_out:
        raise TilecError(f"ncu did not finish {watched.case.name} in time", fix="take a smaller case, --set basic, or a longer --timeout")
    if "ERR_NVGPUCTRPERM" in text:
        raise MissingError(
            "this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM)",
            cause="drivers keep them for administrators unless they are told otherwise",
            fix="run it as root (`sudo -E env PATH=$PATH tilec profile …`); start a container with --cap-add=SYS_ADMIN; or have an "
            "administrator put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into /etc/modprobe.d, and load the driver anew",
        )
    if "Failed to initialize the profiler" in text or "LibraryNotLoaded" in text:
        raise MissingError(
            "ncu cannot read the GPU's performance counters on this machine (LibraryNotLoaded)",
            cause="the sandbox or virtual machine that this runs in lacks what the driver has for profilers",
            fix="profile on the machine itself, or in a container that is given the whole driver (NVIDIA_DRIVER_CAPABILITIES=all)",
        )
    if "No kernels were profiled" in text:
        raise TilecError(
            f"ncu saw no launch of {watched.case.name}",
            cause="the grid is empty, or the entry point has another name than the bundle says",
            fix=f"see what runs: `ncu tilec run {watched.case.kernel} --case {watched.case.case}`",
        )
    if done.rc != 0 or not report.is_file():
        said = "\n".join(line for line in text.strip().splitlines() if line.startswith("==") or "rror" in line) or text.strip()
        tail = "\n".join(f"    {line}" for line in said.splitlines()[-TAIL:])
        raise TilecError(f"ncu failed with status {done.rc}, in its words:\n{tail}", fix="see all of it with --verbose")


def _export(program: str, report: Path, *options: str, optional: bool = False) -> str:
    """What ncu prints of a report as CSV; empty where that is optional and this version cannot.

    Raises:
        TilecError: it cannot.
    """
    from tilec.frontends.tools.run import run_tool

    done = run_tool([program, "--import", str(report), "--csv", *options], timeout=IMPORT_TIMEOUT, env=environment())
    if done.rc == 0 and not done.timed_out:
        return done.stdout
    if optional:
        return ""
    words = (done.stderr or done.stdout).strip().splitlines()
    raise TilecError(f"ncu cannot read its own report {report}: {words[-1] if words else f'status {done.rc}'}", fix="profile it again")


def _show(app: App, watched: Watched, taken: dict[str, Any], report: Path, found: Summary, hot: tuple[Hot, ...], note: str) -> None:
    from tilec.cli.tables import columns, table, terminal_width
    from tilec.runner.ncu_words import stall_text, words

    head = [style(watched.case.name, bold=True), *([taken["variant"]] if "variant" in taken else []), watched.device.name]
    app.say("  ".join(head))
    facts = [time_text(found.seconds)] if found.seconds is not None else []
    facts += [f"{found.blocks:.0f} blocks"] if found.blocks is not None else []
    facts += [f"{found.waves:.2f} waves"] if found.waves is not None else []
    facts += [f"{found.registers:.0f} registers a thread"] if found.registers is not None else []
    facts += [f"{found.hertz / 1e9:.2f} GHz"] if found.hertz else []
    if facts:
        app.tell(f"  {', '.join(facts)}")
    width = terminal_width()
    for sentence in words(found):
        app.say(f"  {sentence}" if width is None else click.wrap_text(sentence, width, initial_indent="  ", subsequent_indent="    "))
    if hot:
        app.say()
        rows = [
            [f"{one.share:.0f}%", one.place, stall_text(one.stall) if one.stall else "", one.text]
            for one in hot[:LINES_SHOWN]
            if one.share >= 0.5
        ]
        for line in table(columns(">samples", "line", "~waits for", "~source"), rows, width=width, indent="  "):
            app.say(line)
    if note:
        app.tell(f"  note: {note}")
    app.say()
    app.tell(f"report: {app.show(report)} (`ncu-ui` shows all of it)")


def time_text(seconds: float) -> str:
    """`4.10 us`."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def _document(watched: Watched, taken: dict[str, Any], report: Path, found: Summary, hot: tuple[Hot, ...], note: str) -> dict[str, Any]:
    import dataclasses

    from tilec.runner.ncu import to_json
    from tilec.runner.ncu_words import words

    return {
        "case": watched.case.name,
        "kernel": watched.case.kernel,
        "variant": taken.get("variant"),
        "device": {"name": watched.device.name, "ordinal": watched.device.ordinal, "compute_capability": list(watched.device.cc)},
        "report": str(report),
        "summary": {**to_json(found), "words": list(words(found))},
        "lines": [dataclasses.asdict(one) for one in hot],
        "note": note,
    }
