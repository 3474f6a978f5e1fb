"""The arguments of a prebuilt entry point: from the launcher's parameters, laid out as the code has
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilec.model.declaration import ParamDecl
from tilec.model.job import Job
from tilec_runtime.bundle.cubin import CubinParam
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind


def slots(job: Job, compiled: Sequence[CubinParam]) -> tuple[AbiSlot, ...]:
    """The manifest's `args`, or one slot for each parameter, by what the manifest and the file say
    of it.
    """
    if job.spec.abi:
        return job.spec.abi
    by_name = {param.name: param for param in job.spec.params}
    axes = dict(job.variant.axes)
    found: list[AbiSlot] = []
    end = 0
    for index, decl in enumerate(job.spec.decl.params):
        made = compiled[index] if index < len(compiled) else None
        slot = _slot(decl, by_name.get(decl.name), axes, made, end)
        found.append(slot)
        end = -(-end // slot.align) * slot.align + slot.size
    return tuple(found)


def _slot(
    decl: ParamDecl,
    param: Param | None,
    axes: Mapping[str, AxisValue],
    made: CubinParam | None,
    end: int,
) -> AbiSlot:
    kind = param.kind.value if param else decl.kind
    if kind == ParamKind.TENSOR.value:
        return AbiSlot(type="ptr", expr=f"{decl.name}.ptr", size=8, align=8)
    if kind == ParamKind.PTR.value:
        return AbiSlot(type="ptr", expr=decl.name, size=8, align=8)
    said = param.dtype if param else decl.dtype
    dtype = DTYPES.get(str(axes.get(said, said)))
    if kind == ParamKind.SCALAR.value and dtype is not None:
        return AbiSlot(type=dtype.name, expr=decl.name, size=dtype.bytes, align=dtype.bytes)
    size = (param.size if param else 0) or decl.size or (made.size if made else 0)
    return AbiSlot(type="struct", expr=decl.name, size=size, align=_align(size, made, end))


def _align(size: int, made: CubinParam | None, end: int) -> int:
    """The least alignment that puts a struct where the code has it: machine code keeps offsets
    alone.
    """
    align = 1
    while made is not None and align < 256 and -(-end // align) * align != made.offset:
        align *= 2
    return min(align, 256) if made is not None and align < 256 else min(8, size & -size) or 1


def laid_out(sizes: Sequence[tuple[int, int]]) -> tuple[CubinParam, ...]:
    """Where parameters of these (bytes, alignment) lie in the parameter block."""
    found = []
    end = 0
    for ordinal, (size, align) in enumerate(sizes):
        offset = -(-end // align) * align
        found.append(CubinParam(ordinal=ordinal, offset=offset, size=size))
        end = offset + size
    return tuple(found)
