"""Checks of a launch against its source, its language and its targets."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

from tilec.manifest.types import Kernel
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job
from tilec.plan.report import Report
from tilec.plan.targets import LanguageFacts
from tilec_runtime.errors import ExpressionError
from tilec_runtime.model import expr
from tilec_runtime.model.arch import ARCHS, Target, TargetKind

_CLUSTERS = (9, 0)  # oldest compute capability with clusters


def check_launch(kernel: Kernel, decl: KernelDecl, language: LanguageFacts, report: Report) -> None:
    launch, report = kernel.launch, report.at("launch")
    _check_open(kernel, language, report)
    if not launch.grid and "grid" not in launch.open:
        example = 'grid = ["cdiv(x.shape[0], 256)"]'
        report(f"no grid: say how many blocks are launched, for example {example}")
    if not language.simt:
        for key, noun, given, hint in (
            ("block", "block", set(launch.block) - {"1"}, ""),
            ("shared", "shared memory", launch.shared != "0", ""),
            ("cluster", "cluster", math.prod(launch.cluster) > 1, _pair_hint(language)),
        ):
            if given:
                report(
                    f"the {noun} of a {kernel.language} kernel is chosen by its compiler: leave launch.{key} out{hint}",
                    key,
                )
    elif not launch.block and "block" not in launch.open:
        report("no block: say how many threads a block has, for example block = [256]")
    if fault := _misfit_of_block(launch.block, decl):
        report(fault, "block")
    if launch.cluster and decl.cluster and (*launch.cluster, 1, 1)[:3] != (*decl.cluster, 1, 1)[:3]:
        report(
            f"cluster {list(launch.cluster)}, but the source fixes {list(decl.cluster)} (__cluster_dims__)",
            "cluster",
        )


def _pair_hint(language: LanguageFacts) -> str:
    pairs = "num_ctas" in language.hints
    return "; hints = { num_ctas = 2 } lets two blocks work as one" if pairs else ""


def _misfit_of_block(block: Sequence[str], decl: KernelDecl) -> str:
    """Return why the source does not accept a block, or an empty string."""
    if not all(text.isdigit() for text in block):
        return ""
    given = (*map(int, block), 1, 1)[:3]
    threads = math.prod(given)
    if decl.block and given != decl.block:
        return (
            f"a block of {list(given)}, but {decl.name} was compiled for exactly {list(decl.block)}"
        )
    if decl.max_threads and threads > decl.max_threads:
        return f"a block of {threads} threads, but {decl.name} is bounded to {decl.max_threads} (__launch_bounds__)"
    return ""


def _check_open(kernel: Kernel, language: LanguageFacts, report: Report) -> None:
    """Report parts of the launch that a kernel cannot leave to its callers."""
    launch, given = kernel.launch, kernel.launch.given
    if not launch.open:
        return
    if not language.simt:
        report(
            f"callers configure kernels of threads alone, and {kernel.language} is none: leave launch.open out",
            "open",
        )
    if given and not launch.preset:
        missing = next(key for key in launch.open if key not in given)
        report(
            f"{given[0]} is given, and {missing} left to the caller: give all that is open, or none",
            given[0],
        )
    elif kernel.cases and not given:
        report("cases launch without a config: give what is open too, which they then take", "open")
    if "config" in (*(param.name for param in kernel.params), *dict(kernel.matrix.axes)):
        report(
            "config is how callers configure the launch: give the parameter or axis another name",
            "open",
        )


def check_clusters(
    kernel: Kernel, decl: KernelDecl, targets: Sequence[Target], report: Report
) -> None:
    """Report targets without clusters if launches use clusters."""
    size = math.prod(kernel.launch.cluster or decl.cluster)
    older = dict.fromkeys(
        str(t) for t in targets if t.kind is not TargetKind.TILEIR and t.cc < _CLUSTERS
    )
    if size > 1 and older:
        message = f"clusters of {size} blocks need compute capability 9.0, and {', '.join(older)} {'is' if len(older) == 1 else 'are'} older"
        at = report.at("launch", "cluster") if kernel.launch.cluster else report
        at(f"{message}: limit the kernel to newer targets in [[override]]")


def check_shared(kernel: Kernel, jobs: Sequence[Job], report: Report) -> None:
    """Report machine code that needs more shared memory than its architecture has."""
    beyond: dict[str, str] = {}
    for job in jobs:
        arch = ARCHS.get(job.target.cc)
        with contextlib.suppress(
            ExpressionError
        ):  # an expression over arguments is checked at the launch
            wanted = expr.parse(kernel.launch.shared).evaluate(dict(job.variant.constants))
            if (
                job.target.kind is TargetKind.CUBIN
                and arch is not None
                and isinstance(wanted, int)
                and wanted > arch.shared_block
            ):
                beyond.setdefault(
                    str(job.target),
                    f"{wanted} bytes for {job.id}, and a block has {arch.shared_block} at most",
                )
    if beyond:
        names = f"{', '.join(beyond)} {'has' if len(beyond) == 1 else 'have'}"
        hint = "limit what needs it to other targets in [[override]], or take less"
        report(
            f"{names} less shared memory than launches take: {next(iter(beyond.values()))}: {hint}",
            "launch",
            "shared",
        )
