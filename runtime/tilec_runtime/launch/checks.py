"""The checks of a launch that need no driver.

They check kind, dtype, rank, device, layout, writability, aliasing and requirements.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilec_runtime.device.layout import (
    ON_ANY,
    ON_CPU,
    ON_GPU,
    TensorFacts,
    contiguous_stride,
    may_overlap,
    overlaps_itself,
)
from tilec_runtime.device.scalars import is_number, numpy_dtype, refusal, shown
from tilec_runtime.device.seam import GridWish
from tilec_runtime.errors import (
    AliasError,
    ArgumentError,
    DTypeError,
    ExpressionError,
    LayoutError,
    PlacementError,
    RankError,
    RequirementError,
)
from tilec_runtime.launch.contract import Contract
from tilec_runtime.launch.images import Site
from tilec_runtime.launch.keys import CallFacts, is_cut, traced
from tilec_runtime.launch.program import Trace
from tilec_runtime.model.dtype import BY_NUMPY, DTYPES
from tilec_runtime.model.expr import Expr
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import Param, ParamKind

Values = tuple[Any, ...]


class Call:
    """A call that is being checked: values, tensor facts and bound axes.

    Expressions read their names from `env`.
    """

    __slots__ = (
        "axes",
        "contract",
        "env",
        "facts",
        "grid",
        "numbers",
        "pinned",
        "site",
        "tensors",
        "values",
    )

    def __init__(
        self,
        contract: Contract,
        values: Values,
        site: Site,
        pinned: Mapping[str, AxisValue],
        facts: CallFacts,
        grid: tuple[GridWish, ...] = (),
    ) -> None:
        """Begin with the facts of a call.

        Args:
            contract: the kernel's launch contract.
            values: all arguments in order.
            site: the bundle, device and driver.
            pinned: the axes that the caller chose.
            facts: the facts of the call.
            grid: the caller's wishes for the grid.
        """
        self.contract = contract
        self.values = values
        self.site = site
        self.pinned = pinned
        self.facts = facts
        self.grid = grid
        self.axes = dict(pinned)
        self.numbers: dict[str, int] = {}
        names = (contract.params[index].name for index in contract.tensors)
        given = zip(names, facts.tensors, strict=True)
        self.tensors = {name: read for name, read in given if read is not None}
        self.env: dict[str, Any] = {}

    def record(self, trace: Trace) -> None:
        """Let a trace record the program of the call's plan."""
        self.tensors, self.numbers = traced(self.contract, self.values, self.facts, trace)

    def check_signature(self) -> None:
        """Check kinds, dtypes, ranks, devices, layouts, writability, aliasing, in this order.

        The check of dtypes binds the dtype axes.

        Raises:
            ArgumentError: the first check that fails, as its subclass.
        """
        self.check_kinds()
        self.check_dtypes()
        self.check_ranks()
        self.check_places()
        self.check_layouts()
        self.check_writable()
        self.check_aliases()

    def check_contract(self) -> None:
        """Check requirements and divisibility, once all axes are settled.

        Raises:
            RequirementError: a condition does not hold.
            LayoutError: a stride or an address is not divisible as the manifest requires.
        """
        self.open()
        self.check_requires()
        self.check_facts()

    @property
    def absent(self) -> frozenset[str]:
        """Names of the optional tensors that are None."""
        return self.contract.optionals - self.tensors.keys()

    @property
    def cut_outputs(self) -> list[tuple[int, Any]]:
        """Places and values of the outputs that are partitions."""
        return [
            (index, self.values[index])
            for index in self.contract.outs
            if is_cut(self.values[index])
        ]

    def open(self) -> None:
        """Let expressions read the arguments and the axes that are settled."""
        arguments = zip(self.contract.params, self.values, strict=True)
        given = {param.name: self.tensors.get(param.name, value) for param, value in arguments}
        self.env = {**self.site.device.facts, **given, **self.numbers, **self.axes}

    def check_kinds(self) -> None:
        """Check the kinds of the arguments that are not tensors."""
        for index in self.contract.others:
            param, value = self.contract.params[index], self.values[index]
            fault = ""
            if param.kind is ParamKind.SCALAR:
                if not is_number(value):
                    fault = f"takes a number, got a {type(value).__qualname__}"
            elif param.kind is ParamKind.STRUCT:
                fault = _misfit(value, param.size)
            elif not (isinstance(value, int) and type(value) is not bool and 0 <= value < 2**64):
                fault = f"takes a device address (an int below 2**64), got {shown(value)}"
            if fault:
                raise self.contract.refuse(ArgumentError, param, fault)

    def check_dtypes(self) -> None:
        """Bind the dtype axes; check that all arguments of an axis agree."""
        contract = self.contract
        origin = {axis: "this launcher" for axis in contract.info.dtype_axes if axis in self.axes}
        for param, facts in self._tensor_params():
            dtype = facts.dtype
            if param.dtype not in contract.info.dtype_axes:
                if dtype != param.dtype:
                    raise self.contract.refuse(
                        DTypeError, param, f"takes {param.dtype}, got {dtype}"
                    )
            elif param.dtype in origin:
                bound = self.axes[param.dtype]
                if dtype != bound:
                    message = (
                        f"has dtype {dtype}, but {param.dtype} is {bound} by {origin[param.dtype]}"
                    )
                    raise self.contract.refuse(DTypeError, param, message)
            else:
                self._bind_dtype(param, dtype)
                origin[param.dtype] = f"{param.name!r}"
        for param, value in zip(contract.params, self.values, strict=True):
            if param.kind is ParamKind.SCALAR:
                self._check_scalar(param, value)

    def _bind_dtype(self, param: Param, dtype: str) -> None:
        built = self.contract.axes.get(param.dtype, ())
        if dtype not in built:
            message = f"has dtype {dtype}, and {param.dtype} was built for {self.contract.built(param.dtype)}"
            fix = f"add {dtype} to the matrix of kernel.{self.contract.name} and build again"
            if dtype not in DTYPES:
                fix = f"convert it: {dtype} is no dtype of kernels, and cannot be built"
            raise self.contract.refuse(DTypeError, param, message, fix)
        self.axes[param.dtype] = dtype

    def _check_scalar(self, param: Param, value: Any) -> None:
        axis = param.dtype
        if axis in self.contract.info.dtype_axes and axis not in self.axes:
            named = BY_NUMPY.get(numpy_dtype(value))
            built = self.contract.axes.get(axis, ())
            if named is not None:
                self._bind_dtype(param, named.name)
            elif axis in self.contract.default or len(built) == 1:
                self.axes[axis] = self.contract.default.get(axis, built[0])
            else:
                message = f"is {value!r}, which does not say what {axis} is: pass a NumPy scalar of {self.contract.built(axis)}"
                raise self.contract.refuse(DTypeError, param, message)
        why = refusal(value, self.contract.dtype_of(param, self.axes))
        if why:
            raise self.contract.refuse(ArgumentError, param, why)

    def check_ranks(self) -> None:
        """Check the number of dimensions of every tensor."""
        for param, facts in self._tensor_params():
            if param.rank not in (-1, len(facts.shape)):
                dims = f"{len(facts.shape)} dimension{'' if len(facts.shape) == 1 else 's'}"
                raise self.contract.refuse(
                    RankError,
                    param,
                    f"has {dims} (shape {facts.shape}), the kernel takes {param.rank}",
                )

    def check_places(self) -> None:
        """Check that every tensor is on the kernel's device and, unless empty, has memory."""
        device = self.site.device
        for param, facts in self._tensor_params():
            if facts.device in (device.ordinal, ON_ANY):
                if not facts.sound and not facts.ptr:
                    message = f"has shape {facts.shape} and no memory: its address is 0"
                    raise self.contract.refuse(
                        PlacementError,
                        param,
                        message,
                        "its storage was freed or never allocated: bring it back first",
                    )
                continue
            where = {ON_CPU: "the CPU", ON_GPU: "an accelerator"}.get(
                facts.device, f"device {facts.device}"
            )
            message = f"is on {where}, and the kernel is loaded on {device}"
            fix = (
                "copy it to the device first"
                if facts.device == ON_CPU
                else f"copy it, or load the package with device={facts.device}"
            )
            if device.ordinal == ON_CPU:
                fix = f"copy it to the CPU, or load the package with device={max(facts.device, 0)}"
            raise self.contract.refuse(PlacementError, param, message, fix)

    def check_layouts(self) -> None:
        """Check strides, and that addresses are aligned to the element size."""
        for param, facts in self._tensor_params():
            if param.stride is None:
                if not facts.contiguous:
                    wanted = contiguous_stride(facts.shape)
                    message = f"has strides {facts.stride} for shape {facts.shape}, and must be C-contiguous: strides {wanted}"
                    raise self.contract.refuse(
                        LayoutError, param, message, self._way_to_strides(param, facts)
                    )
            else:
                for dim, (wants, has) in enumerate(zip(param.stride, facts.stride, strict=False)):
                    if wants is None or facts.empty:
                        continue
                    if has != wants and facts.shape[dim] > 1:
                        raise self.contract.refuse(
                            LayoutError,
                            param,
                            f"has stride {has} in dimension {dim}, and {wants} is taken",
                        )
            # cuda.tile assumes of every array that its strides are not negative.
            if self.contract.info.language == "tile" and not facts.ahead:
                message = f"has strides {facts.stride}, and tile kernels take none that is negative"
                raise self.contract.refuse(LayoutError, param, message, "pass a copy")
            if not facts.sound:
                message = f"has address {facts.ptr:#x}, which is not aligned to its {facts.itemsize}-byte elements"
                raise self.contract.refuse(
                    LayoutError,
                    param,
                    message,
                    "pass a copy: memory that libraries give out is aligned",
                )

    def _way_to_strides(self, param: Param, facts: TensorFacts) -> str:
        """Return the next step for a tensor with gaps.

        Entry points of tile kernels always take strides. Those of other languages take them only if
        their source declares such parameters.
        """
        if self.contract.info.language != "tile" or not facts.ahead:
            return "pass a contiguous copy"
        pitched = ", ".join(('"?"',) * (len(facts.stride) - 1) + ("1",))
        key = f"stride = [{pitched}]" if facts.stride[-1] == 1 else "contiguous = false"
        return f"pass a contiguous copy, or let the kernel take such strides: {key} in kernel.{self.contract.name}.params.{param.name}"

    def check_writable(self) -> None:
        """Check that no output is read-only or overlaps itself."""
        for param, facts in self._tensor_params():
            if param.out and facts.readonly:
                raise self.contract.refuse(
                    ArgumentError,
                    param,
                    "is read-only, and the kernel writes it",
                    "pass a writable copy",
                )
            if param.out and overlaps_itself(facts):
                message = f"overlaps itself: strides {facts.stride} for shape {facts.shape} name one element several times"
                raise self.contract.refuse(
                    AliasError, param, message, "pass a copy that is not expanded"
                )

    def check_aliases(self) -> None:
        """Check that no output shares memory with another argument."""
        for pair in self.contract.pairs:
            param, other = (self.contract.params[index] for index in pair)
            facts, other_facts = self.tensors.get(param.name), self.tensors.get(other.name)
            if facts is None or other_facts is None or not may_overlap(facts, other_facts):
                continue
            noun = "output" if other.out else "argument"
            message = f"overlaps {noun} {other.name!r}: {_extent(facts)} and {_extent(other_facts)}"
            fix = "pass separate memory, or a copy of the input"
            error = self.contract.refuse(AliasError, param, message, fix)
            error.cause = self._both(param, other)
            raise error

    def _both(self, one: Param, two: Param) -> str:
        """Name two arguments, with the lines that made them if known, and the launch."""
        from tilec_runtime.tensors.lease import holder_here  # for messages alone

        values = dict(zip((param.name for param in self.contract.params), self.values, strict=True))
        words = " and ".join(
            f"{param.name!r} is {_origin(values[param.name])}" for param in (one, two)
        )
        return f"{words}, in {holder_here(f'the launch of {self.contract.name}')}"

    def check_requires(self) -> None:
        """Check every `requires` of the manifest."""
        name = self.contract.name
        absent = self.absent
        for condition in self.contract.requires:
            if absent and absent & condition.names:  # a condition on an absent tensor holds
                continue
            if not self.evaluate(condition):
                raise RequirementError(
                    f"{name}: requires {condition.text}: {_sides(condition, self.env)}",
                    kernel=name,
                )

    def check_facts(self) -> None:
        """Check the divisors and alignments that the manifest requires of all launches."""
        for param, facts in self._tensor_params():
            for dim, (divisor, extent) in enumerate(
                zip(param.shape_divisible, facts.shape, strict=False)
            ):
                if extent % divisor:
                    message = f"{self.contract.name}: argument {param.name!r}: extent {dim} is {extent}, and must be divisible by {divisor}"
                    raise RequirementError(message, kernel=self.contract.name)
            for dim, (divisor, stride) in enumerate(
                zip(param.stride_divisible, facts.stride, strict=False)
            ):
                if stride % divisor:
                    raise self.contract.refuse(
                        LayoutError,
                        param,
                        f"has stride {stride} in dimension {dim}, which must be divisible by {divisor}",
                    )
            if facts.ptr % param.align:
                raise self.contract.refuse(
                    LayoutError,
                    param,
                    f"has address {facts.ptr:#x}, which must be divisible by {param.align}",
                )

    def evaluate(self, expression: Expr) -> Any:
        """Return the value of an expression for this call.

        Raises:
            RequirementError: the expression has no value (division by zero, no such dimension).
        """
        try:
            return expression.evaluate(self.env)
        except ExpressionError as error:
            raise RequirementError(
                f"{self.contract.name}: {error.what}", kernel=self.contract.name
            ) from error

    def _tensor_params(self) -> list[tuple[Param, TensorFacts]]:
        return [(p, self.tensors[p.name]) for p in self.contract.checked if p.name in self.tensors]


def _misfit(value: Any, size: int) -> str:
    """Return why a value is not a struct of this size, or an empty string if it is."""
    try:
        given = memoryview(value).nbytes
    except TypeError:
        return f"takes {size} bytes (bytes, or anything with a buffer), got a {type(value).__qualname__}"
    return "" if given == size else f"takes {size} bytes, got {given}"


def _origin(value: Any) -> str:
    origin: str | None = getattr(value, "_tilec_origin_", None)
    kind = type(value)
    return origin or f"a {kind.__module__.partition('.')[0]} {kind.__qualname__}"


def _extent(facts: TensorFacts) -> str:
    return f"shape {facts.shape}, strides {facts.stride} at {facts.ptr:#x}"


def _sides(condition: Expr, env: Mapping[str, Any]) -> str:
    """Return both sides of a comparison that fails, or the values of its names."""
    if len(condition.sides) == 2:
        left, right = (run(env) for run in condition.sides)
        return f"left-hand side is {left!r}, right-hand side is {right!r}"
    values = [f"{text} is {value!r}" for text, value in condition.values(env).items()]
    return ", ".join(values) or "it never holds"
