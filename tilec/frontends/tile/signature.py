"""Bind a job's parameters, axes and assumptions to a kernel function: cuda.tile's signature and the
entry point's ABI.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Mapping, Sequence

from tilec.frontends.tile import api
from tilec.frontends.tools.kernels import MismatchError, Mismatches, ParameterBinder
from tilec.model.declaration import ParamDecl
from tilec.model.job import Job
from tilec.model.lists import item_name
from tilec_runtime.model.dtype import DTYPES, DType
from tilec_runtime.model.signature import AbiSlot, Assumption, Param, ParamKind

_DTYPES = [dtype.name for dtype in DTYPES.values() if dtype.tile]


def bind(
    job: Job, params: Sequence[ParamDecl], annotations: Mapping[str, api.Annotation]
) -> tuple[tuple[object, ...], tuple[AbiSlot, ...]]:
    """Bind each parameter of the kernel's function.

    Returns:
        cuda.tile's constraint of each parameter (a tuple for a list of arrays), and the arguments
        that a launch packs.

    Raises:
        CompileError: function, manifest and axes contradict each other; all errors, each at its
            parameter.
    """
    binder = _Binder(job)
    mismatches = Mismatches(job)
    constraints: list[object] = []
    for param in params:
        with mismatches.at(param.location or job.spec.decl.location):
            annotation = annotations.get(param.name, api.Annotation())
            constraints.append(binder.parameter(param, annotation))
    mismatches.check()
    return tuple(constraints), tuple(binder.slots)


def divisors(names: Sequence[str], constraints: Sequence[object]) -> dict[str, tuple[int, ...]]:
    """Return divisors of the extents of each array; a known extent divides itself."""
    arrays = api.compilation().ArrayConstraint
    return {
        name: tuple(
            divisor if extent is None else extent
            for extent, divisor in zip(array.shape_constant, array.shape_divisible_by, strict=True)
        )
        for name, array in zip(names, constraints, strict=True)
        if isinstance(array, arrays)
    }


def symbol_of(name: str) -> str:
    """Return the entry point's name: a C identifier from the kernel's name, unlike any library
    function's.
    """
    text = re.sub(r"[^A-Za-z0-9_]", lambda m: "_" if ord(m[0]) < 128 else f"_u{ord(m[0]):x}", name)
    return f"{'_' if text[:1].isdigit() else ''}{text}_tile"


class _Binder(ParameterBinder):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._assume: Mapping[str, Assumption] = {a.param: a for a in job.variant.assume}
        # Arrays beyond the lengths of this variant's lists.
        self._absent = {fact.param for fact in job.variant.assume if fact.absent}
        tensors = [p for p in job.spec.params if p.kind is ParamKind.TENSOR]
        read = [p for p in tensors if not p.out and p.name not in self._absent]
        # cuda.tile rejects a group of one array.
        self._inputs_share = len(read) > 1
        self.slots: list[AbiSlot] = []

    def parameter(self, param: ParamDecl, annotation: api.Annotation) -> object:
        """Return the constraint of one parameter of the function, and add its slots."""
        name = param.name
        if annotation.unsupported:
            raise MismatchError(f"parameter {name!r}: {annotation.unsupported}")
        stated = name in self._params
        if annotation.constant or (not stated and name in self._axes):
            return self._constant(param, annotation)
        if not stated and (items := self._items(name)):
            return tuple(self._array(name, annotation, item) for item in items)
        how = f"annotate it with ct.Constant and add an axis to [{self._table}.matrix]"
        found = self._stated(name, how)
        if found.kind is ParamKind.SCALAR:
            return self._scalar(annotation, found)
        if found.kind is ParamKind.TENSOR:
            return self._array(name, annotation, found)
        raise MismatchError(
            f"parameter {name!r} is a {found.kind.value} in the manifest: tile kernels take tensors and scalars"
        )

    def _constant(self, param: ParamDecl, annotation: api.Annotation) -> object:
        name, inner = param.name, annotation.inner
        self._refuse_stated(name)
        value = self._axes.get(name, param.default)
        assert value is not None  # the plan has checked it
        if isinstance(value, str):
            hint = (
                "dtypes are taken from the tensors: use x.dtype in the kernel"
                if value in DTYPES
                else ""
            )
            raise MismatchError(
                f"constant {name!r} is {value!r}, a text: constants are integers, floats and booleans",
                hint,
            )
        if inner is float and type(value) is int:
            value = float(value)
        if inner in (int, float, bool) and type(value) is not inner:
            raise MismatchError(
                f"constant {name!r} is declared as {inner.__name__}, and its value is {value!r}"
            )
        return api.compilation().ConstantConstraint(value)

    def _scalar(self, annotation: api.Annotation, param: Param) -> object:
        dtype = self._dtype(param)
        wanted = annotation.scalar
        if wanted and wanted != dtype.name:
            raise MismatchError(
                f"scalar {param.name!r} is annotated as {wanted} in the kernel, and is {dtype.name} in the manifest"
            )
        if annotation.index != "i32":
            raise MismatchError(
                f"{param.name!r} is annotated as an array in the kernel, and is a scalar in the manifest"
            )
        self._add(dtype, param.name)
        return api.compilation().ScalarConstraint(api.dtype(dtype))

    def _items(self, name: str) -> list[Param]:
        """Return the arrays of a list; each is a parameter."""
        names = map(item_name, itertools.repeat(name), itertools.count())
        items = map(self._params.get, names)
        return [
            param
            for param in itertools.takewhile(lambda param: param is not None, items)
            if param and param.name not in self._absent
        ]

    def _array(self, name: str, annotation: api.Annotation, param: Param) -> object:
        if annotation.scalar:
            raise MismatchError(
                f"{name!r} is annotated as a scalar in the kernel, and is a tensor in the manifest"
            )
        rank = param.rank
        if rank < 0:  # the plan asks for none of an annotated parameter
            raise MismatchError(
                f"tensor {name!r} has no rank: a tile kernel is compiled for one",
                f"give {self._path(param)}.rank",
            )
        dtype, index = self._dtype(param), DTYPES[annotation.index]
        assume = self._assume.get(param.name, Assumption(param=param.name))
        if param.stride is None:
            assume = dataclasses.replace(assume, contiguous=True)
        strides = assume.strides(self._strides(param))
        extents = assume.extents(rank)
        # Rows fill whole bytes, also those of a dtype of less than a byte.
        row = [dtype.per_byte if dim == rank - 1 else 1 for dim in range(rank)]
        if rank and (extents[-1] or 0) % dtype.per_byte:
            raise MismatchError(
                f"tensor {name!r} has rows of {extents[-1]} elements, and {dtype.name} has {dtype.per_byte} in a byte"
            )
        self.slots.append(AbiSlot(type="ptr", expr=f"{param.name}.ptr", size=8, align=8))
        for what in ("shape", "stride"):
            for k in range(rank):
                self._add(index, f"{param.name}.{what}[{k}]")
        return api.compilation().ArrayConstraint(
            api.dtype(dtype),
            rank,
            index_dtype=api.dtype(index),
            stride_lower_bound_incl=0,
            alias_groups=("inputs",) if self._inputs_share and not param.out else (),
            may_alias_internally=0 in strides,
            shape_constant=extents,
            stride_constant=strides,
            stride_divisible_by=_divisors(
                strides, (dtype.per_byte,) * rank, param.stride_divisible, assume.stride
            ),
            shape_divisible_by=_divisors(extents, row, param.shape_divisible, assume.shape),
            base_addr_divisible_by=math.lcm(param.align, assume.align),
        )

    def _add(self, dtype: DType, expr: str) -> None:
        self.slots.append(AbiSlot(type=dtype.name, expr=expr, size=dtype.bytes, align=dtype.bytes))

    def _dtype(self, param: Param) -> DType:
        return self._dtype_named(param.name, param.dtype, _DTYPES, "cuda.tile")

    def _strides(self, param: Param) -> tuple[int | None, ...]:
        if param.stride is None:
            # C-contiguous: the launcher checks it, and only the last stride is the same for every
            # shape.
            return (*(None,) * (param.rank - 1), 1)[: param.rank]
        if any(s is not None and s < 0 for s in param.stride):
            raise MismatchError(
                f"tensor {param.name!r} has a negative stride: tile kernels take none"
            )
        return param.stride

    def _path(self, param: Param) -> str:
        return f"{self._table}.params.{param.name}"


def _divisors(
    known: Sequence[int | None], least: Sequence[int], *facts: Sequence[int]
) -> tuple[int, ...]:
    """Return common multiples of `least` and facts, which may be empty; 1 for known numbers."""
    rows = zip(known, least, *(fact or (1,) * len(known) for fact in facts), strict=True)
    return tuple(math.lcm(*divisors) if number is None else 1 for number, *divisors in rows)
