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
from tilec.model.job import Job
from tilec.model.lists import item_name
from tilec_runtime.errors import Location
from tilec_runtime.model.dtype import DTYPES, DType
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import AbiSlot, Assumption, Param, ParamKind


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class FunctionParam:
    """One parameter of the kernel function: name, annotation as an object, default and place."""

    name: str
    annotation: api.Annotation
    default: AxisValue | None
    location: Location


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """A kernel's signature for one job: one binding per parameter of the function, and the slots of
    the compiled entry point.
    """

    bindings: tuple[api.Binding, ...]
    abi: tuple[AbiSlot, ...]


def bind(job: Job, params: Sequence[FunctionParam]) -> Bound:
    """Bind each parameter of the function.

    Raises:
        CompileError: function, manifest and axes contradict each other; all errors, each at its
            parameter.
    """
    binder = _Binder(job)
    mismatches = Mismatches(job)
    bindings: list[api.Binding] = []
    slots: list[AbiSlot] = []
    for item in params:
        with mismatches.at(item.location):
            binding, abi = binder.parameter(item)
            bindings.append(binding)
            slots.extend(abi)
    mismatches.check()
    return Bound(bindings=tuple(bindings), abi=tuple(slots))


def symbol_of(name: str) -> str:
    """Return the entry point's name: a C identifier from the kernel's name, unlike any library
    function's.
    """
    text = re.sub(r"[^A-Za-z0-9_]", lambda m: "_" if ord(m[0]) < 128 else f"_u{ord(m[0]):x}", name)
    return f"{'_' if text[:1].isdigit() else ''}{text}_tile"


def _whole_bytes(dtype: DType, divisors: tuple[int, ...], where: Sequence[bool]) -> tuple[int, ...]:
    """Add the divisors of a sub-byte dtype: its tensors consist of whole bytes."""
    return tuple(
        math.lcm(divisor, dtype.per_byte) if here else divisor
        for divisor, here in zip(divisors, where, strict=True)
    )


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

    def parameter(self, item: FunctionParam) -> tuple[api.Binding, tuple[AbiSlot, ...]]:
        """Return binding and slots of one parameter of the function."""
        if item.annotation.unsupported:
            raise MismatchError(f"parameter {item.name!r}: {item.annotation.unsupported}")
        stated = item.name in self._params
        if item.annotation.constant or (not stated and item.name in self._axes):
            return self._constant(item), ()
        if not stated and (items := self._items(item.name)):
            return self._arrays(item, items)
        how = f"annotate it with ct.Constant and add an axis to [{self._table}.matrix]"
        param = self._stated(item.name, how)
        if param.kind is ParamKind.SCALAR:
            return self._scalar(item, param)
        if param.kind is ParamKind.TENSOR:
            return self._array(item, param)
        raise MismatchError(
            f"parameter {item.name!r} is a {param.kind.value} in the manifest: tile kernels take tensors and scalars"
        )

    def _constant(self, item: FunctionParam) -> api.Constant:
        self._refuse_stated(item.name)
        value = self._axes.get(item.name, item.default)
        assert value is not None  # the plan has checked it
        inner = item.annotation.inner
        if isinstance(value, str):
            hint = (
                "dtypes are taken from the tensors: use x.dtype in the kernel"
                if value in DTYPES
                else ""
            )
            raise MismatchError(
                f"constant {item.name!r} is {value!r}, a text: constants are integers, floats and booleans",
                hint,
            )
        if inner is float and type(value) is int:
            return api.Constant(float(value))
        if inner in (int, float, bool) and type(value) is not inner:
            raise MismatchError(
                f"constant {item.name!r} is declared as {inner.__name__}, and its value is {value!r}"
            )
        return api.Constant(value)

    def _scalar(self, item: FunctionParam, param: Param) -> tuple[api.Binding, tuple[AbiSlot, ...]]:
        dtype = self._dtype(param)
        wanted = item.annotation.scalar
        if wanted and wanted != dtype.name:
            raise MismatchError(
                f"scalar {item.name!r} is annotated as {wanted} in the kernel, and is {dtype.name} in the manifest"
            )
        if item.annotation.index != "i32":
            raise MismatchError(
                f"{item.name!r} is annotated as an array in the kernel, and is a scalar in the manifest"
            )
        return api.Scalar(dtype.tile), (
            AbiSlot(type=dtype.name, expr=item.name, size=dtype.bytes, align=dtype.bytes),
        )

    def _items(self, name: str) -> list[Param]:
        """Return the arrays of a list; each is a parameter."""
        names = map(item_name, itertools.repeat(name), itertools.count())
        items = map(self._params.get, names)
        return [
            param
            for param in itertools.takewhile(lambda param: param is not None, items)
            if param and param.name not in self._absent
        ]

    def _arrays(
        self, item: FunctionParam, params: Sequence[Param]
    ) -> tuple[api.Binding, tuple[AbiSlot, ...]]:
        parts = [self._array(item, param) for param in params]
        return api.Tuple(tuple(array for array, _ in parts)), tuple(
            slot for _, slots in parts for slot in slots
        )

    def _array(self, item: FunctionParam, param: Param) -> tuple[api.Array, tuple[AbiSlot, ...]]:
        if item.annotation.scalar:
            raise MismatchError(
                f"{item.name!r} is annotated as a scalar in the kernel, and is a tensor in the manifest"
            )
        rank = param.rank
        if rank < 0:  # the plan asks for none of an annotated parameter
            raise MismatchError(
                f"tensor {item.name!r} has no rank: a tile kernel is compiled for one",
                f"give {self._path(param)}.rank",
            )
        dtype = self._dtype(param)
        assume = self._assume.get(param.name, Assumption(param=param.name))
        if param.stride is None:
            assume = dataclasses.replace(assume, contiguous=True)
        strides = assume.strides(self._strides(param))
        extents = assume.extents(rank)
        inner = [k == rank - 1 for k in range(rank)]
        array = api.Array(
            dtype=dtype.tile,
            index=item.annotation.index,
            strides=strides,
            shape_divisible=_whole_bytes(
                dtype, self._divisors(param.shape_divisible, assume.shape, extents), inner
            ),
            stride_divisible=_whole_bytes(
                dtype,
                self._divisors(param.stride_divisible, assume.stride, strides),
                [s is None for s in strides],
            ),
            align=math.lcm(param.align, assume.align),
            shared=self._inputs_share and not param.out,
            overlaps_itself=0 in strides,
            extents=assume.extent,
        )
        index = DTYPES[item.annotation.index]
        slots = [AbiSlot(type="ptr", expr=f"{param.name}.ptr", size=8, align=8)]
        for what in ("shape", "stride"):
            slots += [
                AbiSlot(
                    type=index.name,
                    expr=f"{param.name}.{what}[{k}]",
                    size=index.bytes,
                    align=index.bytes,
                )
                for k in range(rank)
            ]
        return array, tuple(slots)

    def _dtype(self, param: Param) -> DType:
        name = str(self._axes.get(param.dtype, param.dtype))
        dtype = DTYPES.get(name)
        if dtype is None or not dtype.tile:
            known = ", ".join(dtype.name for dtype in DTYPES.values() if dtype.tile)
            raise MismatchError(
                f"parameter {param.name!r} has no dtype that cuda.tile knows ({name!r})",
                f"give {self._path(param)}.dtype: one of {known}, or an axis",
            )
        return dtype

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

    def _divisors(
        self, fixed: tuple[int, ...], assumed: tuple[int, ...], known: Sequence[int | None]
    ) -> tuple[int, ...]:
        """Return common multiples of the divisors, 1 where the number itself is known."""
        ones = (1,) * len(known)
        return tuple(
            math.lcm(one, other) if number is None else 1
            for one, other, number in zip(fixed or ones, assumed or ones, known, strict=True)
        )

    def _path(self, param: Param) -> str:
        return f"{self._table}.params.{param.name}"
