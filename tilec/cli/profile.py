"""`tilec profile`: one case under Nsight Compute."""

from __future__ import annotations

import re

import click

from tilec.cli.app import App, examples, json_option, named
from tilec.cli.devices import device_json
from tilec.cli.files import require_suffix
from tilec.cli.outside_tool import case_option, report_path, run_tool, watched_case
from tilec_runtime.errors import TilecError

SUFFIX = ".ncu-rep"


@click.command(
    epilog=examples(
        "tilec profile gemm/4k[f16]",
        "tilec profile softmax/odd --set full -o softmax.ncu-rep",
        "tilec profile gemm/4k --bundle dist/acme_kernels-0.3.0.tilec --json",
    )
    + "\n\nExit codes: 0 done, 1 the launch or ncu failed, 2 error in the command line or manifest, 3 ncu or "
    "a GPU is missing.",
)
@case_option
@click.option(
    "--set",
    "wanted",
    type=click.Choice(["basic", "detailed", "full"]),
    default="detailed",
    show_default=True,
    help="Amount of data that ncu collects.",
)
@click.option(
    "-o",
    "--out",
    metavar="PATH",
    callback=named,
    help="Path of the report.  [default: .tilec/profile/CASE.ncu-rep]",
)
@json_option
@click.pass_obj
def command(
    app: App,
    case: str,
    device: str,
    bundle: str | None,
    targets: tuple[str, ...],
    wanted: str,
    out: str | None,
) -> None:
    """Launch CASE (such as gemm/4k[f16]) under ncu, print its summary, and keep its report.

    ncu does not control the clocks (--clock-control none). Without --bundle the kernel is built
    for this GPU into .tilec/run/, with source lines.
    """
    path = require_suffix(app.path(out), "--out", SUFFIX) if out else None
    watched, program = watched_case(app, "ncu", case, device, bundle, targets)
    report = path or report_path(app, "profile", watched.case.name, SUFFIX)
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    # Do not profile tilec's own kernels, which fill the inputs.
    names = "|".join(re.escape(symbol) for symbol in watched.symbols())
    only = (
        "--kernel-name-base",
        "mangled",
        "--kernel-name",
        f"regex:^({names})$",
        "--launch-count",
        "1",
    )
    how = (
        "--clock-control",
        "none",
        "--set",
        wanted,
        "--import-source",
        "yes",
        "--export",
        str(report),
    )
    code = run_tool(app, [program, *how, *only, *watched.command(app)])
    if code or not report.is_file():
        raise TilecError(
            f"ncu wrote no report of {watched.case.name} (exit code {code})",
            cause="see its output above; ERR_NVGPUCTRPERM means that you may not read the GPU's counters",
            fix="see docs/how-to/debug.md, or try `tilec run` on the case",
        )
    if app.json:
        body = {
            "case": watched.case.name,
            "kernel": watched.case.kernel,
            "device": device_json(watched.device),
            "report": str(report),
        }
        app.document("profile", body)
        return
    run_tool(app, [program, "--import", str(report), "--page", "details"])
    app.say(f"report: {app.show(report)} (open it with `ncu-ui`)")
