"""Every exception that tilec raises.

The number is the exit code that the class gives the command line::

    TilecError                      1   base: what happened, the usual cause, the next step
    |- UsageError                   2   the command line or an API call is off
    |  |- ManifestError             2   tilec.toml and what it names; carries every problem found
    |  |- LinkError                 2   a symbolic link of a project leads out of it
    |  `- ExpressionError           2   an expression of the manifest's small language
    |- MissingError                 3   something outside tilec is not there
    |  `- ToolchainError            3   a compiler is missing, too old or half installed
    |- BuildError                   1   the build's end: every failed job, grouped
    |- CompileError                 1   one job failed; carries diagnostics
    |- BudgetError                  1   an image is over its kernel's budget
    |- OutputError                  1   results could not be written
    |- CacheError                   1   a compiled image was lost or damaged before it reached the bundle
    |- CaseError                    1   a case's reference failed or gives something else than the kernel's outputs
    `- DeviceError                  1   the host runtime; carries device, kernel, and the CUDA result's name and number
       |- CallError                 2   a call of the runtime is off (also a UsageError)
       |- NoDeviceError             3   no driver or no such GPU (also a MissingError)
       |- BundleError               1   a bundle is damaged, of an unknown version, or not a bundle
       |- TileIRError               1   Tile IR that is damaged, or has something that is not known
       |- KernelCacheError          1   an image cannot be used: the driver or nvJitLink refuses it, or it has no such entry point
       |  |- NoImageError           1   no image of the bundle fits this device; lists every candidate
       |  `- LinkerError            3   nvJitLink is missing, or too old for an image (also a MissingError)
       |- DriverError               1   a CUDA driver call failed
       |  `- OutOfMemoryError       1   a device's memory is used up (also a MemoryError); carries what was asked, used and reserved
       |- ContextError              1   no usable context for a device
       |  `- ContextLostError       1   a fault ended all use of a device (also a DriverError); names launches that may be to blame
       |- SchedulingError           1   streams and policies
       |  |- NestedExecutionError   1   an op was executed while another one is, on the same thread
       |  |- UsedOpError            1   an op was used a second time; names where it went
       |  `- GraphError             1   a CUDA graph that is closed, or used where it cannot be
       |     `- GraphCaptureError   1   an op or a call cannot be part of a CUDA graph; names the op
       |- InternalError             1   a broken invariant of tilec itself
       |- TensorError               1   a shape, slice, dtype or partition that does not fit a tensor (also a ValueError)
       |- OwnershipError            1   who may use a tensor
       |  |- UseAfterMoveError      1   it was moved elsewhere; names where
       |  `- BorrowError            1   a lease of another reader or writer; names both
       |- FaultError                1   a kernel did on the cpu device what it must not: operation, block, element
       `- LaunchError               1   refused before the driver was asked; starts with the kernel's name
          |- ArgumentError          1   count, name or kind of an argument (also a TypeError)
          |  |- DTypeError          1   its dtype
          |  |- RankError           1   its number of dimensions
          |  |- LayoutError         1   strides, contiguity, alignment
          |  |- PlacementError      1   the argument lives on another device
          |  `- AliasError          1   an output overlaps another argument
          |- RequirementError       1   a `requires` of the manifest does not hold (also a ValueError)
          |- VariantError           1   no such variant was built; names those that were (also a ValueError)
          `- LaunchLimitError       1   grid, block or shared memory beyond the device (also a ValueError)
"""

from __future__ import annotations

from typing import ClassVar

from tilec_runtime.foreign import printable
from tilec_runtime.values import value_class


@value_class(frozen=True, kw_only=True)
class Location:
    """A place in a source file; line and column count from 1, 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """`file:line:column`, without the parts that are unknown."""
        parts = [self.file]
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)


@value_class(frozen=True, kw_only=True)
class Diagnostic:
    """One message about the user's source, from a compiler or from a check of tilec.

    `excerpt` is the source line (without its newline); the caret is drawn under `location.column`.
    `hint` is tilec's own advice.
    """

    message: str
    location: Location | None = None
    severity: str = "error"
    excerpt: str = ""
    hint: str = ""

    def render(self) -> str:
        """The message as text: location, severity, message, then source line with caret, then the
        hint.
        """
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
    """Base of everything tilec raises on purpose.

    Args:
        what: what happened, with the values that did not fit.
        cause: the usual cause, where it is not plain from `what`.
        fix: the next step.
        kernel: kernel or variant id the error is about.
        target: target the error is about.
        location: where in the user's sources.

    Attributes:
        op: the DeviceOp that it came out of, with where that was made; empty for none.
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
        """What happened, then cause, next step and op on lines of their own; control characters in
        them are escaped.
        """
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
    )  # `cls.__new__` refuses a class that is a MemoryError too
    error.args = args
    error.__dict__.update(state)
    return error


class UsageError(TilecError):
    """The command line or an API call is off."""

    exit_code = 2


class ManifestError(UsageError):
    """tilec.toml, or a file it names, is off; `problems` holds all of them."""

    def __init__(self, problems: tuple[Diagnostic, ...], *, fix: str = "") -> None:
        super().__init__("\n".join(p.render() for p in problems), fix=fix)
        self.problems = problems


class LinkError(UsageError):
    """A symbolic link of a project leads out of it."""


class ExpressionError(UsageError):
    """An expression is not of the manifest's small language, or cannot be evaluated; `column`
    counts from 1 inside the expression.
    """

    def __init__(self, what: str, *, text: str = "", column: int = 0, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.text = text
        self.column = column


class MissingError(TilecError):
    """Something outside tilec is needed and not there."""

    exit_code = 3


class ToolchainError(MissingError):
    """A compiler or one of its parts is missing, too old or half installed."""


class CompileError(TilecError):
    """One job failed.

    `diagnostics` are located messages, `log` the compiler's own words, `command` what was run,
    `kept` where its input lies. `overtime` says that it reached its time limit.
    """

    def __init__(
        self,
        what: str,
        *,
        diagnostics: tuple[Diagnostic, ...] = (),
        log: str = "",
        command: str = "",
        kept: str = "",
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
        self.kept = kept
        self.overtime = overtime


class BuildError(TilecError):
    """The build's end: every source that cannot be read and every job that failed, in plan order;
    `summary` replaces the count.
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
        """Every failure as diagnostics, also of errors that have none."""
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
    """Results could not be written; what was there before is untouched."""


class CacheError(TilecError):
    """A compiled image was lost or damaged before it reached the bundle; compiling it again helps."""


class CaseError(TilecError):
    """A case's reference failed, or gives something else than the kernel's outputs."""


class DeviceError(TilecError):
    """Base of the host runtime's errors.

    Attributes:
        device: ordinal of the device it is about, -1 for the cpu device; None where it is about
            none.
        result: name of the CUDA driver's result code, such as `CUDA_ERROR_OUT_OF_MEMORY`; empty
            where no driver was asked.
        code: its number.
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
    """A call of the runtime is off: an argument of a wrong type, or a value that makes no sense."""


class NoDeviceError(DeviceError, MissingError):
    """No driver, or no such GPU."""


class BundleError(DeviceError):
    """A bundle is damaged, of an unknown version, or no bundle at all."""


class TileIRError(DeviceError):
    """Tile IR that is damaged, or of a version or with an operation that is not known."""


class KernelCacheError(DeviceError):
    """The image of a kernel cannot be used: nothing was launched."""


class NoImageError(KernelCacheError):
    """No image of the bundle fits the device; the message lists every candidate and why it was
    refused.
    """


class LinkerError(KernelCacheError, MissingError):
    """An image needs nvJitLink, which is missing or too old."""


class DriverError(DeviceError):
    """A CUDA driver call failed: `result` and `code` say how."""


class OutOfMemoryError(DriverError, MemoryError):
    """A device has no memory of the size that was asked for. Everything that was there before still
    works.

    Attributes:
        requested: bytes that were asked for.
        used, reserved: bytes of the pool that are allocated, and that it has of the device.
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
    """Who may use a tensor: it has other owners, or another user."""


class UseAfterMoveError(OwnershipError):
    """A tensor was moved elsewhere; the message names where to."""


class BorrowError(OwnershipError):
    """Another lease conflicts with this use, or a borrow has ended; the message names both sides
    and where each was made.
    """


class ContextError(DeviceError):
    """There is no usable context for a device."""


class ContextLostError(ContextError, DriverError):
    """A kernel or the hardware failed in a way that ends all use of a device in this process: every
    later call there raises this too.

    `result` and `code` are the first failure's. `kernel` is the launch that failed where that is
    known for sure.

    Attributes:
        since: the driver's call that told of it first; that is seldom the launch that failed.
        launches: those that may be to blame, the latest first, as text.
        again: whether this is a later call, after it was told once.
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
    """Streams and scheduling policies."""


class NestedExecutionError(SchedulingError):
    """An op was executed while another one is, on the same thread: inside of `then`, for example."""


class UsedOpError(SchedulingError):
    """An op was used a second time. It is single use: the message names where it went."""


class GraphError(SchedulingError):
    """A CUDA graph is closed, or is used where it cannot be: on another device, or its output a
    second time.
    """


class GraphCaptureError(GraphError):
    """An op or a call cannot be part of a CUDA graph: what it allocates or waits for is not there
    when the graph is replayed.
    """


class InternalError(DeviceError):
    """A broken invariant of tilec itself: please report it."""


class FaultError(DeviceError):
    """A kernel did on the cpu device what it must not. The message starts with the kernel's name.

    Attributes:
        block: x, y and z of the block; empty where the fault is not one block's.
        parameter: the parameter whose memory it is about; empty where there is none.
        index: the element, one number per dimension; empty where there is none.
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
    """A launch was refused before the driver was asked; the message starts with the kernel's name."""


class ArgumentError(LaunchError, TypeError):
    """Count, name or kind of an argument."""


class DTypeError(ArgumentError):
    """An argument has another dtype than the kernel takes."""


class RankError(ArgumentError):
    """An argument has another number of dimensions than the kernel takes."""


class LayoutError(ArgumentError):
    """Strides, contiguity or alignment of an argument do not fit."""


class PlacementError(ArgumentError):
    """An argument lives on another device than the kernel is launched on."""


class AliasError(ArgumentError):
    """An output overlaps another argument."""


class RequirementError(LaunchError, ValueError):
    """A `requires` of the manifest does not hold for these arguments."""


class VariantError(LaunchError, ValueError):
    """No such variant was built; the message names those that were."""


class LaunchLimitError(LaunchError, ValueError):
    """Grid, block or shared memory beyond what the device allows."""
