"""What is known of kernels' safety, by how it is made sure of: facts of the source, and what every
launch checks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from tilec.inspection.report import Report, assumption_text
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.safety import Checks, Fact, Guarantee
from tilec_runtime.model.signature import ParamKind


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class SafetyReport:
    """What is known of one kernel.

    Attributes:
        kernel: its name.
        checked: whether its language says what it may touch.
        checks: what became of the checks inside of the kernel; None where the language says
            nothing.
        facts: strongest guarantee first.
    """

    kernel: str
    checked: bool
    checks: Checks | None
    facts: tuple[Fact, ...]

    def of(self, guarantee: Guarantee) -> tuple[Fact, ...]:
        """The facts that are made sure of in one way."""
        return tuple(fact for fact in self.facts if fact.guarantee is guarantee)


def safety_report(kernel: KernelInfo) -> SafetyReport:
    """Everything that is known of a kernel's safety."""
    own = kernel.safety.facts if kernel.safety is not None else ()
    facts = [
        *own,
        *(Fact(guarantee=Guarantee.LAUNCH, what=what) for what in _launch_checks(kernel)),
        *_unknown(kernel),
    ]
    order = list(Guarantee)
    return SafetyReport(
        kernel=kernel.name,
        checked=kernel.safety is not None,
        checks=kernel.safety.checks if kernel.safety is not None else None,
        facts=tuple(sorted(facts, key=lambda fact: order.index(fact.guarantee))),
    )


def _launch_checks(kernel: KernelInfo) -> Iterator[str]:
    tensors = [param for param in kernel.params if param.kind is ParamKind.TENSOR]
    if tensors:
        yield "number, dtypes, ranks, devices and layouts of the arguments"
    outs = [param.name for param in tensors if param.out]
    if outs and len(tensors) > 1:
        yield f"{', '.join(outs)}: overlaps no other argument, nor itself"
    for region in kernel.safety.regions if kernel.safety is not None else ():
        tile = " x ".join(region.tile)
        share = (
            "the blocks that share its tiles are numbered along one dimension"
            if region.mapped
            else f"the grid is that of its tiles of {tile}"
        )
        yield f"{region.param}: {share}"
    yield from kernel.launch.requires
    for variant in kernel.variants:
        if variant.assume:
            yield f"{variant.id} is chosen only where {assumption_text(variant.assume)}"


def _unknown(kernel: KernelInfo) -> Iterator[Fact]:
    """What nobody makes sure of, by kinds of parameters and language."""
    none = Guarantee.NONE
    if kernel.safety is None:
        what = f"what the kernel reads and writes, and in which order: {kernel.language} sources do not say (unchecked)"
        yield Fact(guarantee=none, what=what, location=kernel.location)
    for param in kernel.params:
        if param.kind is ParamKind.PTR:
            yield Fact(
                guarantee=none, what=f"{param.name}: an address, whose memory nothing is known of"
            )


def to_json(report: Report) -> dict[str, Any]:
    """The safety of every kernel of a report as JSON values."""
    return {
        "path": report.path,
        "sha256": report.digest,
        "kernels": [_kernel_json(safety_report(kernel)) for kernel in report.info.kernels],
    }


def _kernel_json(found: SafetyReport) -> dict[str, Any]:
    return {
        "name": found.kernel,
        "checked": found.checked,
        "checks": found.checks.value if found.checks is not None else None,
        "facts": [
            {
                "guarantee": fact.guarantee.value,
                "what": fact.what,
                "location": str(fact.location) if fact.location is not None else None,
            }
            for fact in found.facts
        ],
    }
