"""Every exception that tilec raises.

The number is the command line's exit code for the class::

    TilecError                      1   base: what happened, the usual cause, the next step
    |- UsageError                   2   the command line or an API call is not valid
    |  |- ManifestError             2   tilec.toml or a file it names is not valid; has all problems
    |  |- LinkError                 2   a symbolic link inside a project leads out of it
    |  `- ExpressionError           2   an expression of the manifest's small language
    |- MissingError                 3   a program or file outside of tilec is missing
    |  `- ToolchainError            3   a compiler is missing, too old or half installed
    |- BuildError                   1   a build failed; carries all failures
    |- CompileError                 1   one job failed; carries diagnostics
    |- BudgetError                  1   an image exceeds its kernel's budget
    |- OutputError                  1   results could not be written
    |- CacheError                   1   a compiled image was lost or damaged before it reached the bundle
    |- CaseError                    1   a case's reference failed, or its results do not fit
    `- DeviceError                  1   the host runtime; carries device, kernel, and the CUDA result's name and number
       |- CallError                 2   a call of the runtime is not valid (also a UsageError)
       |- NoDeviceError             3   no driver or no such GPU (also a MissingError)
       |- BundleError               1   a bundle is damaged, of an unknown version, or not a bundle
       |- TileIRError               1   Tile IR is damaged, or has an unknown version or operation
       |- KernelCacheError          1   an image cannot be used: refused, or without its entry point
       |  |- NoImageError           1   no image of the bundle fits this device; lists every candidate
       |  `- LinkerError            3   nvJitLink is missing, or too old for an image (also a MissingError)
       |- DriverError               1   a CUDA driver call failed
       |  `- OutOfMemoryError       1   a device's memory is used up (also a MemoryError)
       |- ContextError              1   no usable context for a device
       |  `- ContextLostError       1   a fault ended all use of a device (also a DriverError)
       |- SchedulingError           1   a use of streams or policies is not valid
       |  |- NestedExecutionError   1   an op was run inside of another op, on the same thread
       |  |- UsedOpError            1   an op was used a second time; names its first use
       |  `- GraphError             1   a CUDA graph is closed, or is used in a wrong way
       |     `- GraphCaptureError   1   an op or a call cannot be part of a CUDA graph; names the op
       |- InternalError             1   a broken invariant of tilec itself
       |- TensorError               1   a shape, dtype or partition does not fit (also a ValueError)
       |- OwnershipError            1   a use of a tensor conflicts with its owner or another user
       |  |- UseAfterMoveError      1   the tensor was moved; names its new owner
       |  `- BorrowError            1   the lease of another reader or writer conflicts; names both
       |- FaultError                1   a kernel made an invalid access on the cpu device
       `- LaunchError               1   a launch was refused before any driver call
          |- ArgumentError          1   an argument's count, name or kind (also a TypeError)
          |  |- DTypeError          1   an argument's dtype
          |  |- RankError           1   an argument's number of dimensions
          |  |- LayoutError         1   an argument's strides, contiguity or alignment
          |  |- PlacementError      1   an argument is on another device
          |  `- AliasError          1   an output overlaps another argument
          |- RequirementError       1   a `requires` of the manifest does not hold (also a ValueError)
          |- VariantError           1   no such variant was built (also a ValueError)
          `- LaunchLimitError       1   a launch exceeds the device's limits (also a ValueError)
"""

from __future__ import annotations

from typing import ClassVar

from tilec_runtime.foreign import printable
from tilec_runtime.values import value_class


@value_class(frozen=True, kw_only=True)
class Location:
    """A position in a source file; line and column count from 1, 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Return `file:line:column`, without unknown parts."""
        parts = [self.file]
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)


@value_class(frozen=True, kw_only=True)
class Diagnostic:
    """A message about the user's source, from a compiler or from a check of tilec.

    Attributes:
        excerpt: the source line, without its newline; the caret is drawn under `location.column`.
        hint: tilec's own advice.
    """

    message: str
    location: Location | None = None
    severity: str = "error"
    excerpt: str = ""
    hint: str = ""

    def render(self) -> str:
        """Return location, severity and message, source line with caret, and hint."""
        head = f"{self.location}: " if self.location else ""
        lines = [f"{head}{self.severity}: {self.message}"]
        if self.excerpt:
            lines.append(f"    {self.excerpt}")
            if self.location and self.location.column:
                indent = "".join(
                    "\t" if c == "\t" else " " for c in self.excerpt[: self.location.column - 1]
                )
                lines.append(f"    {indent}^")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class TilecError(Exception):
    """Base of all errors that tilec raises.

    Args:
        what: what happened, with the values that did not fit.
        cause: the usual cause, unless `what` makes it obvious.
        fix: the next step.
        kernel: the kernel or variant id concerned.
        target: the target concerned.
        location: the position in the user's sources.

    Attributes:
        op: the DeviceOp that failed, with its call site; empty for none.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        what: str,
        *,
        cause: str = "",
        fix: str = "",
        kernel: str = "",
        target: str = "",
        location: Location | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.cause = cause
        self.fix = fix
        self.kernel = kernel
        self.target = target
        self.location = location
        self.op = ""

    def __str__(self) -> str:
        """Return `what`, cause, next step and op, with control characters escaped."""
        text = f"{self.location}: {self.what}" if self.location else self.what
        if self.cause:
            text += f"\n  cause: {self.cause}"
        if self.fix:
            text += f"\n  fix: {self.fix}"
        if self.op:
            text += f"\n  op: {self.op}"
        return printable(text)

    def __reduce__(self) -> tuple[object, ...]:
        """Keep every field when an error crosses a process boundary."""
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


def _rebuild(
    cls: type[TilecError], args: tuple[object, ...], state: dict[str, object]
) -> TilecError:
    error: TilecError = BaseException.__new__(
        cls, *args
    )  # `cls.__new__` fails for a class that also derives from MemoryError
    error.args = args
    error.__dict__.update(state)
    return error


class UsageError(TilecError):
    """The command line or an API call is not valid."""

    exit_code = 2


class ManifestError(UsageError):
    """tilec.toml, or a file it names, is not valid; `problems` holds all problems."""

    def __init__(self, problems: tuple[Diagnostic, ...], *, fix: str = "") -> None:
        super().__init__("\n".join(p.render() for p in problems), fix=fix)
        self.problems = problems


class LinkError(UsageError):
    """A symbolic link inside a project leads out of the project."""


class ExpressionError(UsageError):
    """An expression of the manifest is malformed, or cannot be evaluated.

    `column` counts from 1 inside the expression.
    """

    def __init__(self, what: str, *, column: int = 0, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.column = column


class MissingError(TilecError):
    """A program or file outside of tilec is needed, and is missing."""

    exit_code = 3


class ToolchainError(MissingError):
    """A compiler or one of its parts is missing, too old or half installed."""


class CompileError(TilecError):
    """One job failed.

    Attributes:
        diagnostics: messages with locations.
        log: the compiler's output.
        command: the compiler's command line.
        kept: directory of the kept input, set by the build.
        overtime: whether the job reached its time limit.
    """

    def __init__(
        self,
        what: str,
        *,
        diagnostics: tuple[Diagnostic, ...] = (),
        log: str = "",
        command: str = "",
        cause: str = "",
        fix: str = "",
        kernel: str = "",
        target: str = "",
        overtime: bool = False,
    ) -> None:
        super().__init__(what, cause=cause, fix=fix, kernel=kernel, target=target)
        self.diagnostics = diagnostics
        self.log = log
        self.command = command
        self.kept = ""
        self.overtime = overtime


class BuildError(TilecError):
    """A failed build, with the sources that cannot be read and the failed jobs.

    They are in plan order. `summary` replaces the count in the message.
    """

    def __init__(
        self,
        failures: tuple[TilecError, ...],
        *,
        total: int,
        what: str = "jobs failed",
        summary: str = "",
    ) -> None:
        super().__init__(summary or f"{len(failures)} of {total} {what}")
        self.failures = failures
        self.total = total

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """Every failure as diagnostics, including errors that have none themselves."""
        diagnostics: list[Diagnostic] = []
        for failure in self.failures:
            located = failure.diagnostics if isinstance(failure, CompileError) else ()
            diagnostics.extend(
                located
                or [Diagnostic(message=failure.what, location=failure.location, hint=failure.fix)]
            )
        return tuple(diagnostics)


class BudgetError(TilecError):
    """An image uses more than its kernel's budget allows."""


class OutputError(TilecError):
    """Results could not be written; existing files are unchanged."""


class CacheError(TilecError):
    """A compiled image was lost or damaged on its way to the bundle.

    Compile it again.
    """


class CaseError(TilecError):
    """A case's reference failed, or its results do not match the kernel's outputs."""


class DeviceError(TilecError):
    """Base of the host runtime's errors.

    Attributes:
        device: ordinal of the device, -1 for the cpu device; None if no device is concerned.
        result: name of the CUDA driver's result, such as `CUDA_ERROR_OUT_OF_MEMORY`; empty if no
            driver call failed.
        code: number of the result.
    """

    def __init__(
        self,
        what: str,
        *,
        cause: str = "",
        fix: str = "",
        kernel: str = "",
        target: str = "",
        location: Location | None = None,
        device: int | None = None,
        result: str = "",
        code: int = 0,
    ) -> None:
        super().__init__(
            what, cause=cause, fix=fix, kernel=kernel, target=target, location=location
        )
        self.device = device
        self.result = result
        self.code = code


class CallError(DeviceError, UsageError):
    """A call of the runtime is not valid: an argument's type or value is wrong."""


class NoDeviceError(DeviceError, MissingError):
    """There is no driver, or no such GPU."""


class BundleError(DeviceError):
    """A bundle is damaged, has an unknown version, or is not a bundle."""


class TileIRError(DeviceError):
    """Tile IR is damaged, or has an unknown version or operation."""


class KernelCacheError(DeviceError):
    """The image of a kernel cannot be used; nothing was launched."""


class NoImageError(KernelCacheError):
    """No image of the bundle fits the device.

    The message lists every candidate with a reason.
    """


class LinkerError(KernelCacheError, MissingError):
    """An image needs nvJitLink, which is missing or too old."""


class DriverError(DeviceError):
    """A CUDA driver call failed, with `result` and `code`."""


class OutOfMemoryError(DriverError, MemoryError):
    """A device has no memory of the requested size.

    Everything allocated before stays valid.

    Attributes:
        requested: bytes requested.
        used, reserved: bytes that the pool has allocated, and has reserved on the device.
        free, total: bytes of the device.
    """

    def __init__(
        self,
        what: str,
        *,
        requested: int,
        used: int,
        reserved: int,
        free: int,
        total: int,
        cause: str = "",
        fix: str = "",
        device: int | None = None,
    ) -> None:
        super().__init__(
            what, result="CUDA_ERROR_OUT_OF_MEMORY", code=2, cause=cause, fix=fix, device=device
        )
        self.requested = requested
        self.used = used
        self.reserved = reserved
        self.free = free
        self.total = total


class TensorError(DeviceError, ValueError):
    """A shape, slice, dtype or partition does not fit a tensor."""


class OwnershipError(DeviceError):
    """A use of a tensor conflicts with its owner or with another user."""


class UseAfterMoveError(OwnershipError):
    """A tensor was moved before; the message names its new owner."""


class BorrowError(OwnershipError):
    """Another lease conflicts with this use, or a borrow has ended.

    The message names both sides and their call sites.
    """


class ContextError(DeviceError):
    """A device has no usable context."""


class ContextLostError(ContextError, DriverError):
    """A kernel or the hardware failed, and the device cannot be used any more.

    Every later call on it fails in this process. `result` and `code` are those of the first
    failure. `kernel` is the failed launch if that is certain.

    Attributes:
        since: the driver call that reported the failure first, which is rarely the failed launch.
        launches: launches that may be the cause, the latest first, as text.
        again: whether this error was raised by a later call.
    """

    def __init__(
        self,
        what: str,
        *,
        cause: str = "",
        fix: str = "",
        kernel: str = "",
        device: int | None = None,
        result: str = "",
        code: int = 0,
        since: str = "",
        launches: tuple[str, ...] = (),
        again: bool = False,
    ) -> None:
        super().__init__(
            what, cause=cause, fix=fix, kernel=kernel, device=device, result=result, code=code
        )
        self.since = since
        self.launches = launches
        self.again = again


class SchedulingError(DeviceError):
    """A use of streams or scheduling policies is not valid."""


class NestedExecutionError(SchedulingError):
    """An op was run while this thread ran another, for example in `then`."""


class UsedOpError(SchedulingError):
    """An op was used a second time; the message names its first use."""


class GraphError(SchedulingError):
    """A CUDA graph is closed, is used on another device, or its output is taken twice."""


class GraphCaptureError(GraphError):
    """An op or a call cannot be part of a CUDA graph, such as an allocation or a wait."""


class InternalError(DeviceError):
    """An invariant of tilec itself is broken: please report it."""


class FaultError(DeviceError):
    """A kernel made an invalid access on the cpu device.

    The message starts with the kernel's name.

    Attributes:
        block: x, y and z of the block; empty if no single block is concerned.
        parameter: the parameter whose memory is concerned, or an empty string.
        index: the element, one number per dimension, or an empty tuple.
    """

    def __init__(
        self,
        what: str,
        *,
        cause: str = "",
        fix: str = "",
        kernel: str = "",
        location: Location | None = None,
        block: tuple[int, ...] = (),
        parameter: str = "",
        index: tuple[int, ...] = (),
    ) -> None:
        super().__init__(what, cause=cause, fix=fix, kernel=kernel, location=location, device=-1)
        self.block = block
        self.parameter = parameter
        self.index = index


class LaunchError(DeviceError):
    """A launch was refused before any driver call.

    The message starts with the kernel's name.
    """


class ArgumentError(LaunchError, TypeError):
    """The count, name or kind of an argument is not valid."""


class DTypeError(ArgumentError):
    """An argument has another dtype than the kernel takes."""


class RankError(ArgumentError):
    """An argument has another number of dimensions than the kernel takes."""


class LayoutError(ArgumentError):
    """Strides, contiguity or alignment of an argument do not fit."""


class PlacementError(ArgumentError):
    """An argument is on another device than the kernel."""


class AliasError(ArgumentError):
    """An output overlaps another argument."""


class RequirementError(LaunchError, ValueError):
    """A `requires` of the manifest does not hold for these arguments."""


class VariantError(LaunchError, ValueError):
    """There is no such variant; the message names the variants that were built."""


class LaunchLimitError(LaunchError, ValueError):
    """Grid, block or shared memory exceeds the limits of the device."""
