"""`tilec inspect`: show a bundle as text, JSON, disassembly or a page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilec.cli.app import App, examples, json_option, named, refuse, split_words
from tilec.cli.build import print_kernels
from tilec.cli.complete import completes, kernels_of
from tilec.cli.files import HTML, require_suffix, write_file
from tilec.cli.style import echo, style
from tilec.cli.tables import (
    Cell,
    bytes_text,
    count_text,
    plural,
    share_text,
    table,
    terminal_width,
)
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.driver import branch_of_cuda
from tilec_runtime.model.table import axis_shown

if TYPE_CHECKING:
    from tilec.inspection.container import Container
    from tilec.inspection.report import Report
    from tilec_runtime.model.image import ImageInfo
    from tilec_runtime.model.kernel import BundleInfo, KernelInfo, VariantInfo

IMAGE_HEADS = (
    "target",
    ">regs",
    ">spills",
    ">shared",
    ">stack",
    ">occ",
    ">size",
    "driver",
    "-sha256",
)


@click.command(
    epilog=examples(
        "tilec inspect dist/acme_kernels-0.3.0.tilec",
        "tilec inspect dist/acme_kernels         # a generated package",
        "tilec inspect acme_kernels              # an installed package",
        "tilec inspect dist/*.whl --select 'gemm-*'",
        "tilec inspect dist/acme_kernels --json | jq '.kernels[].name'",
        "tilec inspect dist/acme_kernels --sass --select gemm-f16-BM128-sm_90",
        "tilec inspect dist/acme_kernels --tileir --select softmax-f32-tileir",
        "tilec inspect dist/acme_kernels --safety",
        "tilec inspect dist/acme_kernels --html report.html",
        "tilec inspect --diff acme-0.2.0.tilec dist/acme_kernels --deny-breaking",
        "tilec inspect dist/acme_kernels --verify",
        "tilec inspect dist/acme_kernels --sizes --deny dead",
        "tilec inspect dist/acme_kernels --coverage sm_90,sm_120",
        "tilec inspect dist/acme_kernels --why gemm --device sm_90",
        "tilec inspect dist/acme_kernels --why add x=f32[1000]@16 z=f32[1000] n=4",
    )
    + "\n\nExit codes: 0 done, 1 no bundle or a damaged one, a breaking change (--deny-breaking), a dead "
    "image (--deny dead), a variant without machine code (--coverage) or without an image (--why), 2 "
    "error in the command line, 3 a disassembler is missing.",
)
@click.argument("file", type=click.Path())
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option(
    "--select",
    default="",
    metavar="ID",
    help="Only images, variants or kernels whose id matches; the image to print.",
)
@click.option("--ptx", "form", flag_value="ptx", default=None, help="Print the PTX of one image.")
@click.option(
    "--sass",
    "form",
    flag_value="sass",
    help="Print the machine code of one image (needs nvdisasm or cuobjdump).",
)
@click.option(
    "--tileir",
    "form",
    flag_value="tileir",
    help="Print the Tile IR of one image, under its source lines.",
)
@click.option(
    "--safety",
    is_flag=True,
    help="Show what is guaranteed for each kernel, what a launch checks, and what is not checked.",
)
@click.option(
    "--html",
    callback=named,
    metavar="PATH",
    help="Write one HTML file: tables, and code beside its source lines.",
)
@click.option(
    "--diff", "old", callback=named, metavar="OLD", help="Show the changes from OLD to FILE."
)
@click.option(
    "--deny-breaking",
    is_flag=True,
    help="With --diff: exit with 1 if a change may break callers.",
)
@click.option(
    "--why",
    callback=named,
    metavar="KERNEL",
    shell_complete=completes(kernels_of),
    help="Explain which variant and image a launch of KERNEL with these arguments takes.",
)
@click.option(
    "--device",
    default="",
    metavar="NAME",
    help="With --why: an architecture such as sm_90, cuda:N (default) or cpu.",
)
@click.option(
    "--sizes",
    is_flag=True,
    help="Show the sizes by target, and dead images, which no device takes.",
)
@click.option(
    "--deny",
    type=click.Choice(["dead"]),
    help="With --sizes: exit with 1 if there is a dead image.",
)
@click.option(
    "--coverage",
    multiple=True,
    callback=split_words,
    metavar="LIST",
    help="Show whether each variant has machine code for architectures, such as sm_90,sm_120.",
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
    html: str | None,
    old: str | None,
    deny_breaking: bool,
    why: str | None,
    device: str,
    sizes: bool,
    deny: str | None,
    coverage: tuple[str, ...],
    verify: bool,
) -> int:
    """Show the contents of FILE: a .tilec bundle, a wheel, or a generated package (its directory, or
    its name if it is installed).

    Without options: kernels, signatures, variants, targets, resources, occupancy, sizes, digests
    and the toolchain. No GPU is needed.

    --why takes descriptions of arguments: x=f32[64,64]@16 (dtype, extents, alignment),
    x=f32[64,64]/128,1 (strides), n=4096, BM=64.
    """
    from tilec.inspection import container, report

    views = ((f"--{form}", form), ("--safety", safety), ("--html", html), ("--diff", old))
    questions = (("--why", why), ("--sizes", sizes), ("--coverage", coverage))
    given = [name for name, value in (*views, *questions) if value]
    first = given[0] if given else ""
    refuse(
        (len(given) > 1, f"{' and '.join(given[1::-1])} cannot be combined"),
        (
            app.json and first in ("--ptx", "--sass", "--tileir", "--html"),
            f"--json and {first} cannot be combined",
        ),
        (deny_breaking and not old, "--deny-breaking needs --diff"),
        (arguments and not why, f"{''.join(map(repr, arguments[:1]))} needs --why KERNEL"),
        (device and not why, "--device needs --why KERNEL"),
        (deny and not sizes, "--deny needs --sizes"),
    )
    page = require_suffix(app.path(html), "--html", *HTML) if html else None
    opened = container.open_container(app.built_path(file))
    if verify:
        opened.bundle.verify()
    if why:
        from tilec.cli.inspect_why import print_why

        return print_why(app, opened.bundle, why, arguments, device)
    if sizes or coverage:
        from tilec.cli.inspect_sizes import print_coverage, print_sizes

        if sizes:
            return print_sizes(app, opened.bundle, deny_dead=bool(deny))
        return print_coverage(app, opened.bundle, coverage)
    if form:
        _dump(app, opened, form, select)
        return 0
    described = _described(opened, select)
    if old:
        before = _described(container.open_container(app.built_path(old)), select)
        return _difference(app, before, described, deny_breaking=deny_breaking)
    if page:
        _write_page(app, opened, described, page, chosen=bool(select))
    elif safety:
        _safety(app, described)
    elif app.json:
        app.document("inspect", report.to_json(described) | ({"verified": True} if verify else {}))
    else:
        _print(app, described, verified=verify)
    return 0


def _described(opened: Container, select: str) -> Report:
    """Return the report of a container, limited to the images of `select`, if any."""
    from tilec.inspection import container, report

    described = container.describe(opened)
    return report.narrow(described, select) if select else described


def _dump(app: App, opened: Container, form: str, select: str) -> None:
    from tilec.inspection.dump import dump

    listing = dump(opened.bundle, form, select, app.settings.search, app.root or app.base)
    app.detail(f"{listing.id}: {listing.image.digest}{f', {listing.tool}' if listing.tool else ''}")
    echo(listing.text, nl=not listing.text.endswith("\n"))


def _write_page(app: App, opened: Container, report: Report, path: Path, *, chosen: bool) -> None:
    """Write the report as an HTML file, with the code of chosen images up to a limit.

    Raises:
        BundleError: an image is damaged.
        OutputError: the file cannot be written; an existing file is unchanged.
    """
    from tilec.inspection.html import render
    from tilec.inspection.page import MOST_DISASSEMBLED, MOST_IMAGES, make_page

    page = make_page(
        opened.bundle,
        dataclasses.replace(report, path=app.show(report.path)),
        app.settings.search,
        app.root or app.base,
        disassembled=MOST_IMAGES if chosen else MOST_DISASSEMBLED,
        workers=app.settings.cores,
        on_image=lambda name: app.status(f"reading the code of {name}"),
    )
    package = report.info.package
    data = render(page, amount=bytes_text, title=f"{package.name} {package.version}")
    if page.left_out:
        app.warn(page.left_out)
    kernels, images = plural(len(report.info.kernels), "kernel"), plural(len(page.images), "image")
    write_file(app, path, data, f"{kernels}, {images}")


def _safety(app: App, report: Report) -> None:
    from tilec.inspection.safety import safety_facts, to_json
    from tilec_runtime.model.safety import Checks, Guarantee

    if app.json:
        app.document("safety", to_json(report))
        return
    for number, kernel in enumerate(report.info.kernels):
        checks = ", unchecked"
        if kernel.safety is not None:
            off = kernel.safety.checks in (Checks.OFF, Checks.DENY)
            checks = f', checks = "{kernel.safety.checks.value}"' if off else ""
        if number:
            app.say()
        app.say(f"{style(kernel.name, bold=True)}  {kernel.language}, {kernel.location}{checks}")
        before = None
        for fact in safety_facts(kernel):
            if fact.guarantee is not before:
                before = fact.guarantee
                color = "yellow" if before is Guarantee.NONE else "cyan"
                app.say(f"  {style(before.value, fg=color)}")
            app.say(f"    {fact.what}", indent=6)


def _print(app: App, report: Report, *, verified: bool) -> None:
    info, package = report.info, report.info.package
    title = style(f"{package.name} {package.version}", bold=True)
    app.say(f"{title}  {report.kind} {app.show(report.path)}, {bytes_text(report.size)}")
    if package.description:
        app.say(package.description)
    facts = [f"import {package.module}", f"profile {info.profile}"]
    facts += [f"licence {package.license}"] if package.license else []
    facts += [f"drivers from {info.min_driver}"] if info.min_driver else []
    facts += [f"jit-fallback {policy}" for policy in _policies(info)]
    facts += [f"by {info.builder}"] if info.builder else []
    app.say(", ".join(facts))
    app.say(f"sha256 {report.digest}{', every image verified' if verified else ''}\n")
    print_kernels(app, report.kernels)
    for kernel in info.kernels:
        app.say()
        _kernel(app, kernel)
    if info.toolchain:
        app.say(f"\n{style('toolchain', bold=True)}")
    for tool in info.toolchain:
        app.say(f"  {tool.name} {tool.version}  {tool.digest[:12]}")


def _policies(info: BundleInfo) -> list[str]:
    """Return the policies for compilation at load, if any image needs it."""
    policies = dict.fromkeys(kernel.jit.value for kernel in info.kernels if kernel.jit)
    open_ = (variant for kernel in info.kernels if not kernel.jit for variant in kernel.variants)
    kinds = {image.target.kind for variant in open_ for image in variant.images}
    return [*policies, *(["deny (by default)"] if kinds - {TargetKind.CUBIN} else [])]


def _kernel(app: App, kernel: KernelInfo) -> None:
    from tilec.inspection.report import hints_text, signature
    from tilec.package.doc import assumption_text

    app.say(style(signature(kernel), bold=True), indent=4)
    doc = kernel.doc.strip().split("\n", 1)[0].strip()
    app.say(f"  {kernel.language}, {kernel.location}{f': {doc}' if doc else ''}")
    default = dict(kernel.default)
    for name, values in kernel.axes:
        chosen = (
            f" (default {axis_shown(default[name])})" if name in default and len(values) > 1 else ""
        )
        app.say(f"  {name} = {', '.join(map(axis_shown, values))}{chosen}", indent=len(name) + 5)
    for label, text in _launch(kernel):
        if text:
            app.say(f"  {label} {text}")
    images = [(variant, image) for variant in kernel.variants for image in variant.images]
    rows = [_image_row(kernel, variant, image) for variant, image in images]
    head, *lines = table(IMAGE_HEADS, rows, width=terminal_width(), indent="    ")
    app.say(head, wrap=False)
    before = ""
    for (variant, image), line in zip(images, lines, strict=True):
        if variant.id != before:
            before = variant.id
            texts = (assumption_text(variant.assume), hints_text(variant))
            facts = "; ".join(text for text in texts if text)
            app.say(f"  {style(before, fg='cyan')}{f'  ({facts})' if facts else ''}", indent=6)
        app.say(line, wrap=False)
        if not image.reproducible:
            app.say(
                style("      not reproducible: another build may give other bytes", fg="yellow")
            )


def _launch(kernel: KernelInfo) -> Iterator[tuple[str, str]]:
    from tilec.inspection.report import rule_text, table_text

    launch = kernel.launch
    yield "grid", " x ".join(launch.grid)
    yield "block", "" if launch.block == ("1",) else " x ".join(launch.block)
    yield "shared", "" if launch.shared == "0" else launch.shared
    yield "cluster", " x ".join(map(str, launch.cluster))
    yield "config", f"says {', '.join(launch.open)}" if launch.open else ""
    yield "cooperative", "launch" if launch.cooperative else ""
    yield "programmatic", "launch" if launch.programmatic else ""
    for text in launch.requires:
        yield "requires", text
    yield "tuned by", table_text(kernel.table) if kernel.table is not None else ""
    for rule in kernel.rules:
        yield "rule", rule_text(rule)


def _image_row(kernel: KernelInfo, variant: VariantInfo, image: ImageInfo) -> list[Cell]:
    from tilec.inspection.occupancy import residency
    from tilec.inspection.report import spills

    used, spilled = image.resources, spills(image.resources)
    held, branch = residency(kernel, variant, image), branch_of_cuda(image.cuda)
    return [
        str(image.target),
        count_text(used.registers),
        (bytes_text(spilled), "yellow" if spilled else ""),
        bytes_text(used.shared),
        bytes_text(used.stack),
        share_text(held.fraction if held else None),
        bytes_text(image.size),
        f"{branch}+" if branch else f"CUDA {image.cuda[0]}.{image.cuda[1]}",
        image.digest[:12],
    ]


def _difference(app: App, old: Report, new: Report, *, deny_breaking: bool) -> int:
    from tilec.cli.inspect_diff import print_difference
    from tilec.inspection import diff

    difference = diff.compare(old, new)
    if app.json:
        app.document("diff", diff.to_json(difference))
    else:
        print_difference(app, difference)
    return 1 if deny_breaking and difference.breaking else 0
