"""Which variant a case's launch takes, of its inputs' sizes alone: none of them is made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilec.case.cases import small_case
from tilec.case.inputs import planned_inputs
from tilec_runtime.errors import TilecError
from tilec_runtime.model.signature import ParamKind

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.case.run import CaseResult
    from tilec_runtime.bundle.read import Bundle
    from tilec_runtime.model.kernel import KernelInfo, VariantInfo
    from tilec_runtime.seam_types import DeviceInfo


def taken(bundle: Bundle, info: KernelInfo, inputs: Mapping[str, Any], chosen: Mapping[str, Any], device: DeviceInfo) -> VariantInfo | None:
    """What a launch takes by rules, table and facts on a device; None where it is refused."""
    from tilec.inspection.why import described, taken_variant

    given: dict[str, Any] = {p.name: bytes(p.size) for p in info.params if p.kind is ParamKind.STRUCT}
    for place, (name, value) in enumerate(inputs.items(), 1):
        given[name] = described(value.shape, value.dtype, device, place=place) if hasattr(value, "shape") else value
    try:
        return taken_variant(bundle, info.name, {**given, **chosen}, device)
    except TilecError:
        return None


def with_small_told(result: CaseResult, case: BoundCase, bundle: Bundle, device: DeviceInfo) -> CaseResult:
    """A result that says so where the case's `small`, which was compared, takes another variant than its `shape`, which is measured."""
    if not result.outputs or case.steps or not any(item.small for item in case.inputs):
        return result
    try:
        sizes = [planned_inputs(one) for one in (small_case(case), case)]
    except TilecError:  # of what was not run
        return result
    info, names = bundle.kernel(case.kernel), [param.name for param in case.params]
    compared, measured = (
        taken(bundle, info, {name: env[name] for name in names if name in env}, dict(case.choose), device) for env in sizes
    )
    if compared is None or measured is None or compared.id == measured.id:
        return result
    note = f"small takes {compared.id}, and shape {measured.id}, which was not compared"
    return dataclasses.replace(result, outputs=tuple(dataclasses.replace(one, notes=(*one.notes, note)) for one in result.outputs))
