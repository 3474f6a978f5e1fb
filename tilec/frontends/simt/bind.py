"""Bind a SIMT kernel's parameters to the arguments of a launch."""

from __future__ import annotations

import re
from typing import Any

from tilec.frontends.simt.api import layout_of
from tilec.frontends.simt.declare import HELP, SimtKernel, alignment_of
from tilec.frontends.simt.entry import NAMES, Argument, Scalar, Struct, View
from tilec.frontends.tools.kernels import MismatchError, Mismatches, ParameterBinder
from tilec.model.declaration import ParamDecl
from tilec.model.job import Job
from tilec.simt import Array, ByValue, Constant
from tilec_runtime.model.dtype import DType
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind

_ADDRESS = re.compile(r"\s*(\w+)\.ptr\s*")
_MOST_RANK = 3


def bind(job: Job, kernel: SimtKernel) -> Binder:
    """Bind every parameter of a kernel's function for one variant.

    Raises:
        CompileError: kernel and manifest contradict each other; it names every such parameter.
    """
    binder = Binder(job, kernel)
    mismatches = Mismatches(job)
    for decl in job.spec.decl.params:  # includes captured numbers that the manifest names
        with mismatches.at(decl.location or kernel.decl.location):
            binder.parameter(decl)
    mismatches.check()
    return binder


class Binder(ParameterBinder):
    """Binds a kernel's parameters for one variant.

    Attributes:
        arguments: arguments of its function, without constants.
        constants: values of the constants, by name.
        captured: names of the last arguments: variables that the function captures.
        abi: arguments that a launch packs; an array gives its address, its extents, and the strides
            that the manifest does not fix.
    """

    def __init__(self, job: Job, kernel: SimtKernel) -> None:
        """Read the job, and start without parameters."""
        super().__init__(job)
        self._annotations = kernel.annotations
        self.arguments: list[Argument] = []
        self.constants: dict[str, AxisValue] = {}
        self.captured = [p.name for p in job.spec.decl.params if p.name not in kernel.annotations]
        self.abi: list[AbiSlot] = []

    def parameter(self, decl: ParamDecl) -> None:
        """Bind one parameter.

        Raises:
            MismatchError: it contradicts the manifest.
        """
        annotation = self._annotations.get(decl.name)
        if isinstance(annotation, Constant) or (
            annotation is None and decl.name in self._axes and decl.name not in self._params
        ):
            self.constants[decl.name] = self._constant(decl, annotation)
            return
        name = decl.name
        if self._args:
            given = self._args.pop(0)
            if given.type not in ("ptr", "struct"):
                self._scalar(decl, given.expr, given.type)
                return
            address = _ADDRESS.fullmatch(given.expr) if given.type == "ptr" else None
            name = address[1] if address else given.expr.strip()
        stated = self._stated(name, f"annotate it ({HELP})", decl.name)
        match stated.kind:
            case ParamKind.TENSOR:
                self._array(decl, stated, annotation)
            case ParamKind.STRUCT:
                self._struct(decl, stated, annotation)
            case ParamKind.SCALAR:
                self._scalar(decl, stated.name, stated.dtype)
            case ParamKind.PTR:
                message = f"parameter {decl.name!r} is a bare address in the manifest, and SIMT Python indexes arrays"
                raise MismatchError(message, "pass it as a tensor, which brings its extents along")

    def _constant(self, decl: ParamDecl, annotation: Any) -> AxisValue:
        self._refuse_stated(decl.name)
        value = self._axes.get(decl.name, decl.default)
        kind = annotation.kind if isinstance(annotation, Constant) else None
        fits = kind is None or type(value) is kind or (kind is float and type(value) is int)
        if value is None or not fits:
            message = f"constant {decl.name!r} is {decl.type}, and the matrix gives it {value!r}"
            raise MismatchError(message, f"matrix.{decl.name} = [128]")
        return float(value) if kind is float else value

    def _array(self, decl: ParamDecl, stated: Param, annotation: object) -> None:
        rank = stated.rank if stated.rank >= 0 else decl.rank
        layout = layout_of(annotation.dtype) if isinstance(annotation, Array) else None
        if layout is not None:
            rank -= 1  # the last dimension is the bytes of one struct
            if stated.stride is not None:
                message = f"parameter {decl.name!r} is an array of structs, which lie one behind the other"
                raise MismatchError(
                    message, f"leave contiguous and stride of params.{stated.name} out"
                )
            if not stated.out:
                message = f"parameter {decl.name!r} is an array of structs, whose fields numba lets the kernel store to"
                raise MismatchError(message, f"leave out = false of params.{stated.name} out")
        if not 1 <= rank <= _MOST_RANK:
            raise MismatchError(
                f"parameter {decl.name!r} has rank {rank}: arrays of SIMT kernels have 1 to {_MOST_RANK} dimensions"
            )
        dtype = self._dtype(decl, stated.dtype or decl.dtype)
        self.arguments.append(
            View(
                dtype=dtype.name,
                rank=rank,
                written=stated.out,
                strides=stated.stride,
                layout=layout,
            )
        )
        self.abi.append(AbiSlot(type="ptr", expr=f"{stated.name}.ptr", size=8, align=8))
        self.abi += [_wide(f"{stated.name}.shape[{axis}]") for axis in range(rank)]
        free = [axis for axis, fixed in enumerate(stated.stride or ()) if fixed is None]
        self.abi += [_wide(f"{stated.name}.stride[{axis}]") for axis in free]

    def _scalar(self, decl: ParamDecl, expr: str, given: str) -> None:
        dtype = self._dtype(decl, given)
        self.arguments.append(Scalar(dtype=dtype.name))
        self.abi.append(AbiSlot(type=dtype.name, expr=expr, size=dtype.bytes, align=dtype.bytes))

    def _struct(self, decl: ParamDecl, stated: Param, annotation: Any) -> None:
        if not isinstance(annotation, ByValue):
            message = f"nothing says what is in the struct {decl.name!r}"
            raise MismatchError(
                message, f"annotate it: {decl.name}: simt.Struct[a structured NumPy dtype]"
            )
        if stated.size and stated.size != annotation.layout.itemsize:
            message = f"struct {decl.name!r} has {annotation.layout.itemsize} bytes, and the manifest says {stated.size}"
            raise MismatchError(message, f"leave params.{stated.name}.size out")
        self.arguments.append(
            Struct(layout=annotation.layout, align=alignment_of(annotation.layout))
        )
        self.abi.append(
            AbiSlot(
                type="struct",
                expr=stated.name,
                size=annotation.layout.itemsize,
                align=alignment_of(annotation.layout),
            )
        )

    def _dtype(self, decl: ParamDecl, given: str) -> DType:
        return self._dtype_named(decl.name, given, NAMES, "numba")


def _wide(expr: str) -> AbiSlot:
    return AbiSlot(type="i64", expr=expr, size=8, align=8)
