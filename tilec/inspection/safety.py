"""Guarantees of each kernel: facts of its source, and checks of every launch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilec.inspection.report import Report
from tilec.package.doc import assumption_text
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.safety import Fact, Guarantee
from tilec_runtime.model.signature import ParamKind


def safety_facts(kernel: KernelInfo) -> list[Fact]:
    """Return the known facts about a kernel's safety, strongest guarantee first."""
    facts = list(kernel.safety.facts) if kernel.safety is not None else []
    facts += [Fact(guarantee=Guarantee.LAUNCH, what=message) for message in _launch_checks(kernel)]
    if kernel.safety is None:
        message = f"what the kernel reads and writes, and in which order: {kernel.language} sources do not declare it (unchecked)"
        facts.append(Fact(guarantee=Guarantee.NONE, what=message, location=kernel.location))
    for param in kernel.params:
        if param.kind is ParamKind.PTR:
            message = f"{param.name}: an address of unknown memory"
            facts.append(Fact(guarantee=Guarantee.NONE, what=message))
    order = list(Guarantee)
    return sorted(facts, key=lambda fact: order.index(fact.guarantee))


def _launch_checks(kernel: KernelInfo) -> Iterator[str]:
    tensors = [param for param in kernel.params if param.kind is ParamKind.TENSOR]
    if tensors:
        yield "number, dtypes, ranks, devices and layouts of the arguments"
    outs = [param.name for param in tensors if param.out]
    if outs and len(tensors) > 1:
        yield f"{', '.join(outs)}: overlaps no other argument, nor itself"
    for region in kernel.safety.regions if kernel.safety is not None else ():
        share = f"the grid is that of its tiles of {' x '.join(region.tile)}"
        if region.mapped:
            share = "the blocks that share its tiles are numbered along one dimension"
        yield f"{region.param}: {share}"
    yield from kernel.launch.requires
    for variant in kernel.variants:
        if variant.assume:
            yield f"{variant.id} is chosen only where {assumption_text(variant.assume)}"


def to_json(report: Report) -> dict[str, Any]:
    """Return the safety of every kernel of a report as JSON values."""
    return {
        "path": report.path,
        "sha256": report.digest,
        "kernels": [_kernel_json(kernel) for kernel in report.info.kernels],
    }


def _kernel_json(kernel: KernelInfo) -> dict[str, Any]:
    facts = [
        {
            "guarantee": fact.guarantee.value,
            "what": fact.what,
            "location": str(fact.location) if fact.location is not None else None,
        }
        for fact in safety_facts(kernel)
    ]
    return {
        "name": kernel.name,
        "checked": kernel.safety is not None,
        "checks": kernel.safety.checks.value if kernel.safety is not None else None,
        "facts": facts,
    }
