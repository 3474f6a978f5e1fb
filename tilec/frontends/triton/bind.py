"""Bind a Triton kernel's parameters to the arguments of a launch."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from tilec.frontends.tools.kernels import MismatchError, Mismatches, ParameterBinder
from tilec.frontends.triton import api
from tilec.frontends.triton.declare import HOW, NO_DESCRIPTOR, TritonKernel
from tilec.frontends.triton.facts import ArgumentFacts
from tilec.model.argument import DESCRIPTOR, parse_box
from tilec.model.job import Job
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import DType
from tilec_runtime.model.signature import AbiSlot, ParamKind

_ADDRESS = re.compile(r"\s*(\w+)\.ptr\s*")
_INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
_ALIGNED = 16
# The first compute capability with the tensor memory accelerator (TMA), which reads tensor maps.
OLDEST_MAPS = (9, 0)


def bind(job: Job, kernel: TritonKernel) -> Binder:
    """Bind every parameter of a kernel's function for one variant.

    Raises:
        CompileError: kernel and manifest contradict each other; it names every such parameter.
    """
    binder = Binder(job, kernel)
    mismatches = Mismatches(job)
    locations = {decl.name: decl.location for decl in kernel.decl.params}
    for index, param in enumerate(kernel.params):
        with mismatches.at(locations.get(param.name) or kernel.decl.location):
            binder.parameter(index, param)
    mismatches.check()
    # Null addresses of scratch and profiler memory; the compiler replaces that of scratch memory if
    # the kernel needs some.
    binder.abi += (AbiSlot(type="u64", expr="0", size=8, align=8),) * api.HIDDEN
    return binder


def read_by(slot: AbiSlot) -> frozenset[str]:
    """Return the names that an argument's expression reads."""
    return (
        frozenset((parse_box(slot.expr)[0],))
        if slot.type == DESCRIPTOR
        else expr.parse(slot.expr).names
    )


class Binder(ParameterBinder):
    """Binds a kernel's parameters for one variant.

    Attributes:
        types: Triton's type of each parameter, `constexpr` for constants.
        constants: values of constants, by index of the parameter.
        divisible: indices of parameters that are divisible by 16.
        abi: arguments that a launch packs.
    """

    def __init__(self, job: Job, kernel: TritonKernel) -> None:
        """Read the job, and start without parameters."""
        super().__init__(job)
        self._target, self._described = job.target, kernel.described
        self._stated_args = bool(job.spec.abi)
        self._facts = ArgumentFacts(job.spec.params, job.variant)
        self._absent = frozenset(fact.param for fact in job.variant.assume if fact.absent)
        self.types: dict[str, str] = {}
        self.constants: dict[int, Any] = {}
        self.divisible: list[int] = []
        self.abi: list[AbiSlot] = []

    def parameter(self, index: int, param: api.Parameter) -> None:
        """Bind one parameter of the function.

        Raises:
            MismatchError: it contradicts the manifest.
        """
        slot = None if param.constant else self._slot(param)
        if slot is None:
            self._constant(index, param)
            return
        if self._absent & read_by(slot):
            if slot.type in ("ptr", DESCRIPTOR):
                # Triton takes None as a constant, and leaves out code that uses the tensor.
                self.types[param.name], self.constants[index] = "constexpr", None
                return
            # An extent or stride of a tensor that is None.
            slot = dataclasses.replace(slot, expr="0")
        if slot.type == DESCRIPTOR:
            self._descriptor(param, slot)
            return
        if param.name in self._described:
            raise MismatchError(NO_DESCRIPTOR.format(param.name), HOW)
        if self._is_one(param, slot):
            # Triton drops an argument that is 1 from the entry point, as it does with constants.
            self.types[param.name], self.constants[index] = "constexpr", 1
            return
        self.types[param.name] = self._type(param, slot)
        if self._is_aligned(param, slot):
            self.divisible.append(index)
        self.abi.append(slot)

    def _slot(self, param: api.Parameter) -> AbiSlot | None:
        """Return the argument that a launch packs for a parameter, or None for an axis."""
        if self._stated_args:
            if not self._args:
                raise MismatchError(
                    f"args give nothing for parameter {param.name!r}",
                    "args list every parameter that is no tl.constexpr",
                )
            return self._args.pop(0)
        if param.name not in self._params and param.name in self._axes:
            return None
        stated = self._stated(param.name, "annotate it with tl.constexpr")
        if stated.kind is ParamKind.TENSOR:
            return AbiSlot(type="ptr", expr=f"{param.name}.ptr", size=8, align=8)
        if stated.kind is ParamKind.PTR:
            return AbiSlot(type="ptr", expr=param.name, size=8, align=8)
        if stated.kind is ParamKind.STRUCT:
            raise MismatchError(
                f"parameter {param.name!r} is a struct in the manifest: Triton kernels take tensors and scalars"
            )
        dtype = self._dtype(param, stated.dtype)
        return AbiSlot(type=dtype.name, expr=param.name, size=dtype.bytes, align=dtype.bytes)

    def _descriptor(self, param: api.Parameter, slot: AbiSlot) -> None:
        """Bind a tensor descriptor as Triton's launcher passes it: map, extents and strides.

        The plan has checked its tensor and its box.
        """
        name, box = parse_box(slot.expr)
        stated = self._params[name]
        if self._target.cc < OLDEST_MAPS:
            message = f"{param.name!r} is a tensor descriptor made on the host, which {self._target} has no copy engine for"
            raise MismatchError(
                message, "limit the kernel to sm_90 and newer: [[override]] with targets"
            )
        sizes: list[Any] = [part.evaluate(self._axes) for part in box]
        dtype = self._dtype(param, stated.dtype)
        self.types[param.name] = api.descriptor_type(dtype.name, sizes)
        self.abi.append(
            AbiSlot(type=DESCRIPTOR, expr=f"{name}.ptr", size=slot.size, align=slot.align)
        )
        self.abi += [
            AbiSlot(type="i32", expr=f"{name}.shape[{k}]", size=4, align=4)
            for k in range(stated.rank)
        ]
        self.abi += [
            AbiSlot(type="i64", expr=f"{name}.stride[{k}]", size=8, align=8)
            for k in range(stated.rank)
        ]

    def _constant(self, index: int, param: api.Parameter) -> None:
        self._refuse_stated(param.name)
        value: Any = self._axes.get(param.name, param.default)
        if value == api.NONE:
            value = None
        elif isinstance(value, str) and value in api.NAMES:
            value = api.dtype(value)
        self.types[param.name], self.constants[index] = "constexpr", value

    def _type(self, param: api.Parameter, slot: AbiSlot) -> str:
        """Return Triton's name of a parameter's type, checked against the annotation."""
        pointer, given = slot.type == "ptr", slot.type
        if pointer:
            address = _ADDRESS.fullmatch(slot.expr)
            stated = self._params.get(address[1] if address else slot.expr.strip())
            given = (stated.dtype or param.dtype) if stated else ""
            if not given:
                raise MismatchError(
                    f"nothing says the dtype of what {param.name!r} points to",
                    f"write it as params.{param.name}.dtype",
                )
        dtype = self._dtype(param, given)
        if param.dtype and (param.dtype != dtype.name or param.pointer != pointer):
            kind = f"a pointer to {param.dtype}" if param.pointer else param.dtype
            packed = f"a pointer to {dtype.name}" if pointer else dtype.name
            raise MismatchError(
                f"parameter {param.name!r} is annotated as {kind}, and the manifest passes {packed}"
            )
        if not pointer and dtype.kind == "float" and dtype.bits == 8:
            raise MismatchError(
                f"parameter {param.name!r}: a Triton kernel takes no {dtype.name} by value"
            )
        name = api.NAMES[dtype.name]
        return f"*{name}" if pointer else {"i1": "u1"}.get(name, name)

    def _dtype(self, param: api.Parameter, given: str) -> DType:
        return self._dtype_named(param.name, given, api.NAMES, "Triton")

    def _is_one(self, param: api.Parameter, slot: AbiSlot) -> bool:
        return param.value and slot.type in _INTEGERS and self._facts.constant(slot.expr) == 1

    def _is_aligned(self, param: api.Parameter, slot: AbiSlot) -> bool:
        known = slot.type == "ptr" or slot.type in _INTEGERS
        return param.align and known and self._facts.divisor(slot.expr) % _ALIGNED == 0
