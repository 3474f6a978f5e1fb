"""`tilec inspect`: what is inside a bundle, as text, JSON or disassembly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilec.cli.app import App, examples, json_option, named_or_empty
from tilec.cli.complete import architectures, completes, kernels_inside
from tilec.cli.inspect_code import difference, print_instructions, share_text
from tilec.cli.inspect_html import check_html, write_html
from tilec.cli.style import echo, style
from tilec.cli.tables import Cell, bytes_text, columns, count_text, hanging, table, terminal_width
from tilec_runtime.errors import UsageError
from tilec_runtime.model.arch import TargetKind

if TYPE_CHECKING:
    from tilec.inspection.container import Code
    from tilec.inspection.report import Report
    from tilec_runtime.model.image import ImageInfo
    from tilec_runtime.model.kernel import BundleInfo, KernelInfo, VariantInfo

IMAGE_HEADS = columns(
    "target", ">regs", ">spills", ">shared", ">stack", ">occ", ">size", "driver", "-sha256"
)


@click.command(
    short_help="Show what is inside a bundle, package or wheel.",
    epilog=examples(
        "tilec inspect dist/acme_kernels-0.3.0.tilec",
        "tilec inspect dist/acme_kernels                    # a generated package",
        "tilec inspect acme_kernels                         # one that is installed",
        "tilec inspect dist/*.whl --select 'gemm-*'",
        "tilec inspect dist/acme_kernels --json | jq '.kernels[].name'",
        "tilec inspect libfoo.fatbin                        # compiled code that somebody else made",
        "tilec inspect build/libfoo.so                      # and what is inside of a host's library",
        "tilec inspect dist/acme_kernels --sass --select gemm-f16-BM128-sm_90",
        "tilec inspect dist/acme_kernels --tileir --select softmax-f32-tileir",
        "tilec inspect dist/acme_kernels --safety           # what is guaranteed of each kernel, and how",
        "tilec inspect dist/acme_kernels --instructions --select '*-sm_90'   # what the machine code consists of",
        "tilec inspect dist/acme_kernels --html report.html  # as a page to click through",
        "tilec inspect --diff acme-0.2.0.tilec dist/acme_kernels --deny-breaking",
        "tilec inspect dist/acme_kernels --verify           # read and check every byte",
        "tilec inspect dist/acme_kernels --why gemm --device sm_90",
        "tilec inspect dist/acme_kernels --why add x=f32[1000]@16 z=f32[1000]@16 n=4",
    )
    + "\n\nExit codes: 0 done, 1 the bundle is damaged or no bundle, --deny-breaking found a breaking change, or --why no image, 2 usage,"
    " 3 a disassembler is missing.",
)
@click.argument("file", type=click.Path())
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--select",
    default="",
    metavar="ID",
    shell_complete=completes(kernels_inside),
    help="Only images (or kernels) whose id matches; the image to dump.",
)
@click.option("--ptx", "form", flag_value="ptx", default=None, help="Print the PTX of one image.")
@click.option(
    "--sass",
    "form",
    flag_value="sass",
    help="Print the machine code of one image (nvdisasm or cuobjdump).",
)
@click.option(
    "--tileir",
    "form",
    flag_value="tileir",
    help="Print the Tile IR of one image, with its source lines.",
)
@click.option(
    "--safety",
    is_flag=True,
    help="Show what is guaranteed of each kernel, what is checked and where, and what is not.",
)
@click.option(
    "--instructions",
    is_flag=True,
    help="Count the instructions of every cubin by class, and say what to look at.",
)
@click.option(
    "--html",
    callback=named_or_empty,
    metavar="PATH",
    help="Write one HTML file: tables, and code beside its source lines.",
)
@click.option(
    "--diff",
    "old",
    callback=named_or_empty,
    metavar="OLD",
    help="Show what FILE changes against OLD; with --sass, in one image's code.",
)
@click.option(
    "--deny-breaking",
    is_flag=True,
    help="With --diff: exit 1 if callers of the old launchers may break.",
)
@click.option("--raw", is_flag=True, help="Print Tile IR as NVIDIA's tileirdisasm does.")
@click.option(
    "--why",
    callback=named_or_empty,
    metavar="KERNEL",
    shell_complete=completes(kernels_inside),
    help="Say what a launch with these arguments would take, and why not the rest.",
)
@click.option(
    "--device",
    default="",
    metavar="NAME",
    shell_complete=completes(architectures),
    help="With --why: sm_90 (need not be here), cuda:N (default) or cpu.",
)
@click.option(
    "--driver",
    default="",
    metavar="RELEASE",
    help="With --why: what the driver is: CUDA 13.0, or its branch, 580.",
)
@click.option("--verify", is_flag=True, help="Read every image and check its digest.")
@json_option
@click.pass_obj
def command(
    app: App,
    file: str,
    arguments: tuple[str, ...],
    select: str,
    form: str | None,
    safety: bool,
    instructions: bool,
    html: str,
    old: str,
    deny_breaking: bool,
    raw: bool,
    why: str,
    device: str,
    driver: str,
    verify: bool,
) -> int:
    """Show what is inside FILE: a .tilec bundle, a generated package (its directory, or its name
    where it is installed), or a wheel.

    A cubin, a fatbin, PTX or Tile IR bytecode will do too, whoever made it, and so will an object
    file, an archive, a library or a program with fatbins inside: each entry point is shown as a
    kernel.

    Kernels, signatures, variants, targets, resources, occupancy, sizes, digests and the toolchain
    that made them. Needs no GPU.

    With --why, arguments are described: x=f32[64,64]@16 (dtype, extents, alignment),
    x=f32[64,64]/128,1 (strides), n=4096, BM=64.
    """
    from tilec.inspection import container, report

    asked = (
        (f"--{form}", form),
        ("--safety", safety),
        ("--instructions", instructions),
        ("--html", html),
    )
    shown = [name for name, given in asked if given]
    if why:
        _refuse_beside_why(
            [
                *shown,
                *(
                    option
                    for option, given in (
                        ("--diff", old),
                        ("--select", select),
                        ("--verify", verify),
                    )
                    if given
                ),
            ]
        )
        from tilec.cli.inspect_why import print_why

        return print_why(app, file, why, arguments, device=device, driver=driver)
    _refuse_without_why(arguments, device, driver)
    _refuse(app, shown, form=form, old=old, deny_breaking=deny_breaking, raw=raw)
    page = check_html(app, html) if html else None
    opened = _opened(app, file)
    if verify:
        opened.bundle.verify()
    if old:
        before = _opened(app, old)
        difference(app, before, opened, select, code=form == "sass", deny_breaking=deny_breaking)
        return 0
    if form:
        _dump(app, opened, form, select, raw=raw)
        return 0
    found = container.describe(opened)
    if select:
        found = report.narrow(found, select)
    if page:
        write_html(app, opened, found, page, _sources(app))
    elif safety:
        _safety(app, found)
    elif instructions:
        print_instructions(app, opened.bundle, found)
    elif app.json:
        app.document("inspect", report.to_json(found) | ({"verified": True} if verify else {}))
    else:
        _print(app, found, verified=verify)
    return 0


def _refuse_beside_why(shown: Sequence[str]) -> None:
    """Options that --why does not go with.

    Raises:
        click.UsageError: there is one.
    """
    if shown:
        raise click.UsageError(
            f"--why and {shown[0]} cannot be combined", click.get_current_context()
        )


def _refuse_without_why(arguments: Sequence[str], device: str, driver: str) -> None:
    """What only goes with --why.

    Raises:
        click.UsageError: there is some of it.
    """
    if arguments or device or driver:
        wrong = repr(arguments[0]) if arguments else "--device" if device else "--driver"
        raise click.UsageError(f"{wrong} goes with --why KERNEL", click.get_current_context())


def _refuse(
    app: App, shown: Sequence[str], *, form: str | None, old: str, deny_breaking: bool, raw: bool
) -> None:
    """Options that do not go together.

    Raises:
        click.UsageError: two are such.
    """
    wrong = ""
    if form and app.json and not old:
        wrong = f"--json and --{form} cannot be combined"
    elif "--html" in shown and app.json:
        wrong = "--json and --html cannot be combined"
    elif len(shown) > 1:
        wrong = f"{shown[1]} and {shown[0]} cannot be combined"
    elif raw and form != "tileir":
        wrong = "--raw goes with --tileir"
    elif old and shown not in ([], ["--sass"]):
        wrong = f"--diff and {shown[0]} cannot be combined"
    elif deny_breaking and (not old or shown):
        wrong = "--deny-breaking goes with --diff, without --sass"
    if wrong:
        raise click.UsageError(wrong, click.get_current_context())


def _safety(app: App, found: Report) -> None:
    """What is known of each kernel's safety, by how it is made sure of."""
    from tilec.inspection.safety import safety_report, to_json
    from tilec_runtime.model.safety import Checks, Guarantee

    if app.json:
        app.document("safety", to_json(found))
        return
    for number, kernel in enumerate(found.info.kernels):
        known = safety_report(kernel)
        off = {Checks.OFF: ', checks = "off"', Checks.DENY: ', checks = "deny"'}.get(
            known.checks or Checks.ON, ""
        )
        if number:
            app.say()
        app.say(
            f"{style(kernel.name, bold=True)}  {kernel.language}, {kernel.location}{off if known.checked else ', unchecked'}"
        )
        for guarantee in Guarantee:
            facts = known.of(guarantee)
            if facts:
                weak = guarantee is Guarantee.NONE
                app.say(f"  {style(guarantee.value, fg='yellow' if weak else 'cyan')}")
            for fact in facts:
                _say(app, "    ", fact.what, indent=6)


def _opened(app: App, file: str) -> Code:
    """What a name on the command line is; what of it is left out is told."""
    from tilec.inspection.container import open_code

    found = open_code(app.built_path(file), app.settings.search)
    for note in found.notes:
        app.note(f"note: {note}")
    return found


def _dump(app: App, opened: Code, form: str, select: str, *, raw: bool) -> None:
    from tilec.inspection.dump import Form, dump

    found = dump(opened.bundle, Form(form), select, app.settings.search, _sources(app), raw=raw)
    app.detail(f"{found.id}: {found.image.digest}{f', {found.tool}' if found.tool else ''}")
    echo(found.text, nl=not found.text.endswith("\n"))


def _sources(app: App) -> Path:
    """Where source files are, if they are here at all: the project's directory."""
    try:
        return app.manifest_path().parent
    except UsageError:
        return app.base


def _policies(info: BundleInfo) -> dict[str, None]:
    """What is said of compiling at load; and what holds where nothing is said, if there is anything
    that a GPU would have to compile.
    """
    said = {kernel.jit.value: None for kernel in info.kernels if kernel.jit}
    images = (
        image
        for kernel in info.kernels
        if kernel.jit is None
        for variant in kernel.variants
        for image in variant.images
    )
    if info.package.module and any(image.target.kind is not TargetKind.CUBIN for image in images):
        said["deny (by default)"] = None
    return said


def _print(app: App, found: Report, *, verified: bool) -> None:
    from tilec.cli.summary import HEADS, kernel_rows

    info = found.info
    package = info.package
    title = style(f"{package.name} {package.version}".strip(), bold=True)
    where = f"{found.kind} {app.show(found.path)}" if package.module else found.kind
    _say(app, f"{title}  ", f"{where}, {bytes_text(found.size)}", indent=2)
    if package.description:
        _say(app, "", package.description)
    facts = [f"import {package.module}", f"profile {info.profile}"] if package.module else []
    facts += [f"licence {package.license}"] if package.license else []
    facts += [f"drivers from {info.min_driver}"] if info.min_driver else []
    facts += [f"jit-fallback {said}" for said in _policies(info)]
    facts += [f"by {info.builder}"] if info.builder else []
    if facts:
        _say(app, "", ", ".join(facts))
    app.tell(f"sha256 {found.digest}{', every image verified' if verified else ''}")
    app.say()
    for line in table(HEADS, kernel_rows(found.kernels), width=terminal_width()):
        app.say(line)
    for kernel in info.kernels:
        app.say()
        _kernel(app, kernel)
    if info.toolchain:
        app.say()
        app.say(style("toolchain", bold=True))
        for tool in info.toolchain:
            app.say(f"  {tool.name} {tool.version}  {tool.digest[:12]}")


def _say(app: App, lead: str, text: str, *, indent: int | None = None, **how: Any) -> None:
    for line in hanging(lead, text, width=terminal_width(), indent=indent, **how):
        app.say(line)


def _kernel(app: App, kernel: KernelInfo) -> None:
    from tilec.inspection.report import assumption_text, hints_text, signature

    _say(app, "", signature(kernel), indent=4, bold=True)
    _say(
        app,
        "  ",
        f"{kernel.language}, {kernel.location}"
        + (f": {_first_line(kernel.doc)}" if kernel.doc.strip() else ""),
    )
    default = dict(kernel.default)
    for name, values in kernel.axes:
        chosen = f" (default {default[name]})" if name in default and len(values) > 1 else ""
        _say(app, f"  {name} = ", f"{', '.join(map(str, values))}{chosen}")
    for label, text in _launch(kernel):
        _say(app, f"  {label} ", text)
    images = [(variant, image) for variant in kernel.variants for image in variant.images]
    rows = [_image_row(kernel, variant, image) for variant, image in images]
    head, *lines = table(IMAGE_HEADS, rows, width=terminal_width(), indent="    ")
    app.say(head)
    before = ""
    for (variant, image), line in zip(images, lines, strict=True):
        if variant.id != before:
            facts = "; ".join(
                text for text in (assumption_text(variant.assume), hints_text(variant)) if text
            )
            _say(
                app, f"  {style(variant.id, fg='cyan')}  ", f"({facts})" if facts else "", indent=6
            )
            before = variant.id
        app.say(line)
        if not image.reproducible:
            _say(app, "      ", "not reproducible: another build may give other bytes", fg="yellow")


def _launch(kernel: KernelInfo) -> Sequence[tuple[str, str]]:
    from tilec.inspection.report import rule_text, table_text

    launch = kernel.launch
    rows = [
        ("grid", " x ".join(launch.grid)),
        ("block", "" if launch.block == ("1",) else " x ".join(launch.block)),
    ]
    rows += [
        ("shared", "" if launch.shared == "0" else launch.shared),
        ("cluster", " x ".join(map(str, launch.cluster))),
    ]
    rows += [("config", f"says {', '.join(launch.open)}")] if launch.open else []
    rows += [("cooperative", "launch")] if launch.cooperative else []
    rows += [("programmatic", "launch")] if launch.programmatic else []
    rows += [("requires", text) for text in launch.requires]
    rows += [("tuned by", table_text(kernel.table))] if kernel.table is not None else []
    rows += [("rule", rule_text(rule)) for rule in kernel.rules]
    return [(label, text) for label, text in rows if text]


def _image_row(kernel: KernelInfo, variant: VariantInfo, image: ImageInfo) -> list[Cell]:
    from tilec.inspection.occupancy import residency
    from tilec.inspection.report import spills

    used = image.resources
    spilled = spills(used)
    held = residency(kernel, variant, image)
    return [
        str(image.target),
        count_text(used.registers),
        (bytes_text(spilled), "yellow") if spilled else bytes_text(spilled),
        bytes_text(used.shared),
        bytes_text(used.stack),
        share_text(held.fraction if held else None),
        bytes_text(image.size),
        _driver(image),
        image.digest[:12],
    ]


def _driver(image: ImageInfo) -> str:
    from tilec_runtime.model.driver import branch_of_cuda

    branch = branch_of_cuda(image.cuda)
    return f"{branch}+" if branch else f"CUDA {image.cuda[0]}.{image.cuda[1]}"


def _first_line(doc: str) -> str:
    return doc.strip().split("\n", 1)[0].strip()
