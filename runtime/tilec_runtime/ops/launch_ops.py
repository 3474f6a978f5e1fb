"""Ops that launch kernels without a bundle."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, final

from tilec_runtime.device.layout import ON_ANY, ON_CPU, ON_GPU
from tilec_runtime.device.scalars import (
    bare,
    encoded,
    is_number,
    numpy_dtype,
    packed_format,
    refusal,
    require_kind,
    shown,
    whole,
)
from tilec_runtime.device.seam import LaunchParts, LaunchShape, TensorPart
from tilec_runtime.errors import (
    ArgumentError,
    DTypeError,
    LaunchError,
    LayoutError,
    PlacementError,
)
from tilec_runtime.launch.config import LaunchConfig
from tilec_runtime.launch.limits import admit, check_device_limits, check_residency
from tilec_runtime.launch.packing import ArgumentBlock, Layout
from tilec_runtime.model.dtype import BY_NUMPY, DTYPES
from tilec_runtime.ops.base import Op
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.holding import HoldingOp
from tilec_runtime.ops.modules import KernelFunction, size_of
from tilec_runtime.tensors.described import Described
from tilec_runtime.tensors.facts import UnreadableError, tensor_facts
from tilec_runtime.tensors.lease import holder_here


@final
class AsyncKernelLaunch(HoldingOp[tuple[Any, ...]]):
    """An op that launches a function of a module, and returns its arguments.

    Arguments are pushed in the order of the kernel's parameters. They are checked as far as the
    parameters are known. The caller is responsible for the rest: a kernel with other parameters
    reads memory outside of its arguments.
    """

    _graph_node_: ClassVar[Literal[True]] = True

    def __init__(self, function: KernelFunction) -> None:
        """Create a launch of a function; arguments and configuration are added later.

        Raises:
            CallError: `function` is not a function of a module.
        """
        fix = "pass module.function(name), of a module that was loaded or borrowed"
        require_kind("AsyncKernelLaunch", "a KernelFunction", function, KernelFunction, fix)
        self._function = function
        self._config: LaunchConfig | None = None
        # By argument: the dtype of a number (`ptr` for an address), `struct`, or "" for a tensor.
        self._dtypes: list[str] = []
        self._hold(holder_here(f"the launch of {function.symbol}"), ())

    def _arity(self) -> int | None:
        return len(self._values)

    def push_arg(self, argument: Any, dtype: str = "") -> AsyncKernelLaunch:
        """Add a number, the address of a tensor, or the bytes of a struct by value.

        The launch holds a tensor until it has run, and returns it. A tensor that is not read-only
        counts as written; views, shared tensors and read-only borrows count as read. Arrays of
        other libraries are kept alive.

        Args:
            argument: a number, a NumPy scalar, a tensor of any library on the function's device, or
                `bytes`.
            dtype: dtype of a number, if neither the function's parameters nor NumPy tell it.

        Raises:
            ArgumentError: the argument has another type, does not fit its dtype, is on another
                device, or exceeds the function's parameters.
            OwnershipError: a tensor cannot be used in this way.
            UsedOpError: the launch was used before.
        """
        index, wanted = self._next()
        if is_number(argument):
            if wanted == "ptr":
                message = f"{self._at(index)} takes an address or a tensor, got {shown(argument)}"
                raise DTypeError(
                    message,
                    fix="push_device_ptr takes addresses, unchecked",
                    kernel=self._function.symbol,
                )
            named = dtype or wanted or _numpy_name(argument)
            return self._add(argument, self._checked(index, argument, named, wanted))
        if isinstance(argument, Op):
            message = f"{self._at(index)} is an op, and a launch takes what is there"
            raise ArgumentError(
                message,
                fix="op.then(lambda x: launch.push_arg(x)), or a launcher of a bundle, which takes ops",
            )
        if wanted not in ("", "ptr"):
            raise DTypeError(
                f"{self._at(index)} takes a number ({wanted}), got a {type(argument).__qualname__}"
            )
        if isinstance(argument, bytes) and not wanted:
            self._check_size(index, len(argument))
            return self._add(argument, "struct")
        self._check_size(index, 8)
        write = isinstance(argument, Described) and not argument.readonly
        of = argument if isinstance(argument, Described) else self._facts(index, argument)
        self._check_place(index, of.device)
        self._hold_more(holder_here(f"the {self.name}"), argument, write=write, moved=True)
        self._dtypes.append("")
        return self

    def push_device_ptr(self, address: int) -> AsyncKernelLaunch:
        """Add an address without checks.

        The caller guarantees that its memory exists, is large enough and has no other user.

        Raises:
            ArgumentError: `address` is not an address, the parameter takes none, or the function
                has no further parameter.
        """
        index, wanted = self._next()
        if wanted not in ("", "ptr"):
            raise DTypeError(f"{self._at(index)} takes a number ({wanted}), got an address")
        number = whole(self._at(index), bare(address), ArgumentError)
        return self._add(number, self._checked(index, number, "ptr", "ptr"))

    def set_launch_config(self, config: LaunchConfig) -> AsyncKernelLaunch:
        """Set grid, block and attributes of the launch.

        Raises:
            CallError: `config` is not a `LaunchConfig`.
        """
        fix = "pass LaunchConfig(...) or LaunchConfig.for_num_elems(n)"
        require_kind("set_launch_config", "a LaunchConfig", config, LaunchConfig, fix)
        self._config = config
        return self

    def _require_device(self, ctx: ExecutionContext) -> None:
        name, device = self._function.symbol, self._function.device
        if (ctx.driver, ctx.device) != (device.driver, device.ordinal):
            message = f"{name}: the function is on {device!r}, and the stream on device {ctx.device} of {type(ctx.driver).__name__}"
            raise LaunchError(
                message, fix="run it under use_device, or on a stream of that device", kernel=name
            )

    def _work(self, ctx: ExecutionContext, *values: Any) -> tuple[Any, ...]:
        function, name = self._function, self._function.symbol
        shape = self._shape()
        if function.sizes is not None and len(values) != len(function.sizes):
            fix = ""
            if set(function.sizes[len(values) :]) == {8}:  # hidden parameters, as Triton adds
                fix = "where these are pointers to scratch memory that Triton added: push_device_ptr(0) for each"
            raise ArgumentError(
                f"{name}: takes {len(function.sizes)} arguments, got {len(values)}",
                fix=fix,
                kernel=name,
            )
        packed: list[tuple[str | TensorPart, Any]] = []
        for index, (dtype, value) in enumerate(zip(self._dtypes, values, strict=True)):
            if dtype:
                packed.append((dtype, value))
                continue
            facts = self._facts(index, value)
            if facts.ptr % function.aligned.get(index, 1):
                message = f"{self._at(index)} is at address {facts.ptr:#x}, and the PTX takes multiples of {function.aligned[index]}"
                raise LayoutError(
                    message, fix="pass a tensor that begins there, or a copy (dup)", kernel=name
                )
            packed.append((TensorPart.of(f"argument {index}", facts), facts.ptr))
            if isinstance(value, Described):
                (ctx.reads if value.readonly else ctx.writes)(value.storage)
        if 0 not in shape.grid:
            _enqueue(ctx, function, shape, packed, values)
        return values

    def _shape(self) -> LaunchShape:
        """Return the launch's shape, checked against device and image."""
        function, config = self._function, self._config
        name, device = function.symbol, function.device
        if config is None:
            raise LaunchError(
                f"{name}: there is no launch configuration",
                fix="call set_launch_config before",
                kernel=name,
            )
        shape = config.shape
        check_device_limits(name, shape, device.info)
        if 0 not in shape.grid:
            admit(name, shape, function.loaded)
            check_residency(name, shape, function.loaded)
        return shape

    def _next(self) -> tuple[int, str]:
        """Return the next argument's place, and its dtype if known."""
        if self._gone is not None:
            raise self._used()
        index, function = len(self._values), self._function
        if function.sizes is not None and index >= len(function.sizes):
            raise ArgumentError(
                f"{function.symbol}: takes {len(function.sizes)} arguments, and has them all",
                kernel=function.symbol,
            )
        return index, function.params[index] if function.params is not None else ""

    def _add(self, value: Any, dtype: str) -> AsyncKernelLaunch:
        self._values += (value,)
        self._dtypes.append(dtype)
        return self

    def _checked(self, index: int, number: Any, dtype: str, wanted: str) -> str:
        """Return the dtype of a number, which can hold it."""
        where, kernel = self._at(index), self._function.symbol
        if not dtype:
            raise ArgumentError(
                f"{where} is {shown(number)}, whose dtype is not known",
                fix='say it: push_arg(5, "i32")',
                kernel=kernel,
            )
        if dtype != "ptr" and dtype not in DTYPES:
            raise DTypeError(
                f"{where}: {dtype!r} is no dtype; known are {', '.join(DTYPES)}", kernel=kernel
            )
        if wanted and dtype != wanted:
            raise DTypeError(f"{where} takes {wanted}, got {dtype}", kernel=kernel)
        problem = refusal(number, "u64" if dtype == "ptr" else dtype)
        if problem:
            raise ArgumentError(f"{where} {problem}", kernel=kernel)
        self._check_size(index, size_of(dtype))
        return dtype

    def _check_size(self, index: int, size: int) -> None:
        sizes = self._function.sizes
        if sizes is not None and sizes[index] != size:
            raise DTypeError(
                f"{self._at(index)} has {sizes[index]} bytes, got one of {size}",
                kernel=self._function.symbol,
            )

    def _check_place(self, index: int, ordinal: int) -> None:
        device = self._function.device
        if ordinal not in (device.ordinal, ON_ANY):
            where = {ON_CPU: "the CPU", ON_GPU: "an accelerator"}.get(ordinal, f"device {ordinal}")
            fix = "copy it to the device first; where its address does serve both, push_device_ptr takes it unchecked"
            raise PlacementError(
                f"{self._at(index)} is on {where}, and the function on {device!r}",
                fix=fix,
                kernel=self._function.symbol,
            )

    def _facts(self, index: int, tensor: Any) -> Any:
        try:
            facts = tensor_facts(tensor, self._function.device.driver.pointer_device)
        except UnreadableError as error:
            raise ArgumentError(
                f"{self._at(index)} takes a number or a tensor: {error}",
                kernel=self._function.symbol,
            ) from error
        return facts

    def _at(self, index: int) -> str:
        return f"{self._function.symbol}: argument {index}"


def _enqueue(
    ctx: ExecutionContext,
    function: KernelFunction,
    shape: LaunchShape,
    packed: list[tuple[str | TensorPart, Any]],
    keep: object,
) -> None:
    """Enqueue a launch.

    Args:
        ctx: the context of the op.
        function: the function.
        shape: the launch's shape, checked for the device.
        packed: the arguments: the dtype of a number (`ptr` for an address) and the number, `struct`
            and its bytes, or facts of a tensor and its address.
        keep: objects that must live until the launch is done, for drivers that hold arguments.

    Raises:
        TilecError: the driver refuses the launch.
    """
    driver = ctx.driver
    layout, sizes, offsets = Layout(), list[int](), list[int]()
    for kind, value in packed:
        if kind == "struct":
            raw, align = value, 16  # enough for any struct
        else:
            raw = encoded(packed_format(kind if isinstance(kind, str) else "ptr"), value)
            align = len(raw)
        sizes.append(len(raw))
        offsets.append(layout.constant(raw, align))
    parts = LaunchParts(
        kernel=function.symbol,
        sizes=tuple(sizes),
        addresses=tuple(
            (index, f"argument {index}") for index, (kind, _) in enumerate(packed) if kind == "ptr"
        ),
        tensors=tuple(kind for kind, _ in packed if not isinstance(kind, str)),
    )
    block = ArgumentBlock(layout.template, tuple(offsets))
    kept = (
        (tuple(value for kind, value in packed if not isinstance(kind, str)), keep)
        if driver.holds_arguments
        else 0
    )
    driver.adopt(
        ctx.device
    )  # without it, the driver refuses the first launch of a thread, and `launch_failed` retries it
    call = driver.bind_launch(ctx.device, function.handle, shape, ctx.stream, parts)
    result = call(block.address, kept)[0]
    if result:
        driver.launch_failed(
            ctx.device, result, ctx.stream, lambda: call(block.address, kept)[0], function.symbol
        )


def _numpy_name(number: Any) -> str:
    row = BY_NUMPY.get(numpy_dtype(number))
    return row.name if row else "bool" if isinstance(number, bool) else ""
