"""Recipes that fill memory, with a kernel for GPUs and a NumPy twin.

Both give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from tilec_runtime.device.layout import TensorFacts
from tilec_runtime.kernels import CODES, PACKAGE, held_of, width_of
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.tensors.described import Described, facts_of
from tilec_runtime.tensors.host import unpaired
from tilec_runtime.values import value_class

if TYPE_CHECKING:
    from tilec_runtime.kernels.elements import Array
    from tilec_runtime.launch.load import Module

# Elements per step of a twin.
_CHUNK = 1 << 16


class Raw:
    """The bytes of a tensor, without lease and stream order.

    Launches take its address, and the storage keeps the memory.
    """

    def __init__(self, tensor: Described) -> None:
        """Take a contiguous tensor that the caller has ordered."""
        self.storage = tensor.storage
        self.facts = facts_of(self.storage, (tensor.nbytes,), "u8", start=tensor.facts.ptr)

    def _tilec_facts_(self) -> TensorFacts:
        return self.facts


def enqueue(recipe: Recipe, ctx: ExecutionContext, to: Described) -> None:
    """Fill a contiguous tensor on an execution's stream.

    The caller has ordered the stream.
    """

    def work(data: Array) -> None:
        recipe.compute(data.view(f"u{to.itemsize}"), to.dtype)

    _run(ctx, type(recipe).__name__.lower(), lambda: recipe.launch(ctx, to), work, to)


def convert(ctx: ExecutionContext, to: Described, source: Described) -> None:
    """Convert a contiguous tensor to another one of another dtype.

    Both have the same number of elements.
    """

    def work(target: Array, origin: Array) -> None:
        from tilec_runtime.kernels import elements

        into, of = target.view(f"u{to.itemsize}"), origin.view(f"u{source.itemsize}")
        each, every = (_CHUNK // DTYPES[tensor.dtype].per_byte for tensor in (to, source))
        for part in range(-(-into.size // each)):
            into[part * each : (part + 1) * each] = elements.convert(
                of[part * every : (part + 1) * every], source.dtype, to.dtype
            )

    _run(ctx, "convert", lambda: _launch_convert(ctx, to, source), work, to, source)


def spread(ctx: ExecutionContext, to: Described, source: Described) -> None:
    """Write packed elements to one byte each, as ml_dtypes has them on the host."""

    def launch() -> None:
        _module(ctx).unpack(Raw(to), Raw(source), to.size, len(CODES), stream=ctx.stream)

    def work(target: Array, origin: Array) -> None:
        target.view("u1")[...] = unpaired(origin.view("u1"))

    _run(ctx, "spread", launch, work, to, source)


def _run(
    ctx: ExecutionContext,
    name: str,
    launch: Callable[[], None],
    work: Callable[..., None],
    to: Described,
    *sources: Described,
) -> None:
    """Fill a tensor by kernels, or on the cpu device by their NumPy twin, in stream order.

    Args:
        ctx: the context of the op.
        name: the name of the work, for messages.
        launch: launches the kernels.
        work: takes the bytes of all tensors.
        to: the tensor.
        sources: tensors that are read.
    """
    driver: Any = ctx.driver
    if not to.nbytes:
        return
    if driver.device(ctx.device).interprets is None:
        launch()
        return
    tensors = [(tensor.facts.ptr, tensor.nbytes) for tensor in (to, *sources)]
    driver.call(ctx.stream, name, work, tensors)  # of the cpu driver alone


def _launch_convert(ctx: ExecutionContext, to: Described, source: Described) -> None:
    """Launch the kernel for packed elements on one side, or the kernel for all others."""
    module, form = _module(ctx), held_of(source.dtype, to.dtype)
    into, of, stream = Raw(to), Raw(source), ctx.stream
    if DTYPES[to.dtype].packed:
        module.pack(into, of, to.size, CODES[source.dtype], HELD=form, stream=stream)
    elif DTYPES[source.dtype].packed:
        module.unpack(into, of, to.size, CODES[to.dtype], stream=stream)
    else:
        codes = CODES[to.dtype], CODES[source.dtype]
        module.convert(into, of, to.size, *codes, HELD=form, stream=stream)


@value_class(frozen=True, kw_only=True)
class Fill:
    """One value for all elements.

    Attributes:
        bits: bits of an element, or of a byte of packed elements.
    """

    bits: int

    def launch(self, ctx: ExecutionContext, to: Described) -> None:
        """Fill by the driver if all bytes are equal, else by a kernel."""
        width = width_of(to.dtype)
        pattern = self.bits.to_bytes(1 << width, "little") * (8 >> width)
        if len(set(pattern)) == 1:
            ctx.driver.fill(ctx.device, to.facts.ptr, pattern[0], to.nbytes, ctx.stream)
        else:
            _module(ctx).fill(
                Raw(to), to.nbytes, int.from_bytes(pattern, "little"), stream=ctx.stream
            )

    def compute(self, to: Array, dtype: str) -> None:  # noqa: ARG002 - of a recipe
        """Do as `launch`, with NumPy."""
        to[...] = self.bits


@value_class(frozen=True, kw_only=True)
class Diagonal:
    """A matrix of zeros with one value on its diagonal.

    Attributes:
        bits: bits of the value.
        rows, columns: extents of the matrix.
    """

    bits: int
    rows: int
    columns: int

    def launch(self, ctx: ExecutionContext, to: Described) -> None:
        """Write zeros, then the diagonal."""
        ctx.driver.fill(ctx.device, to.facts.ptr, 0, to.nbytes, ctx.stream)
        count, step = min(self.rows, self.columns), self.columns + 1
        _module(ctx).diagonal(
            Raw(to), count, step, self.bits, width_of(to.dtype), stream=ctx.stream
        )

    def compute(self, to: Array, dtype: str) -> None:  # noqa: ARG002 - of a recipe
        """Do as `launch`, with NumPy."""
        to[...] = 0
        count, step = min(self.rows, self.columns), self.columns + 1
        to[: (count - 1) * step + 1 : step] = self.bits


@value_class(frozen=True, kw_only=True)
class Integers:
    """start + i * step in 64-bit integers, reduced to their low bits."""

    start: int
    step: int

    def launch(self, ctx: ExecutionContext, to: Described) -> None:
        """Launch the kernel."""
        _module(ctx).integers(
            Raw(to),
            to.size,
            self.start % 2**64,
            self.step % 2**64,
            CODES[to.dtype],
            stream=ctx.stream,
        )

    def compute(self, to: Array, dtype: str) -> None:  # noqa: ARG002 - of a recipe
        """Do as `launch`, with NumPy."""
        import numpy as np

        start, step = np.uint64(self.start % 2**64), np.uint64(self.step % 2**64)
        with np.errstate(over="ignore"):
            for first in range(0, to.size, _CHUNK):
                part = to[first : first + _CHUNK]
                part[...] = (
                    np.arange(first, first + part.size, dtype=np.uint64) * step + start
                ).astype(part.dtype)


@value_class(frozen=True, kw_only=True)
class Numbers:
    """start + i * step in f64, each operation rounded, with `last` at the end.

    Integer dtypes round down.
    """

    start: float
    step: float
    last: float

    def launch(self, ctx: ExecutionContext, to: Described) -> None:
        """Launch the kernel."""
        _module(ctx).numbers(
            Raw(to), to.size, self.start, self.step, self.last, CODES[to.dtype], stream=ctx.stream
        )

    def compute(self, to: Array, dtype: str) -> None:
        """Do as `launch`, with NumPy."""
        import numpy as np

        from tilec_runtime.kernels import elements

        for first in range(0, to.size, _CHUNK):
            part = to[first : first + _CHUNK]
            values = np.arange(first, first + part.size, dtype=np.float64) * self.step + self.start
            if first + part.size == to.size:
                values[-1] = self.last
            part[...] = elements.encode(
                values if DTYPES[dtype].kind == "float" else np.floor(values), dtype
            )


@value_class(frozen=True, kw_only=True)
class Uniform:
    """Uniform random numbers in [0, 1)."""

    seed: int

    def launch(self, ctx: ExecutionContext, to: Described) -> None:
        """Launch the kernel."""
        _module(ctx).uniform(Raw(to), to.size, self.seed, CODE=CODES[to.dtype], stream=ctx.stream)

    def compute(self, to: Array, dtype: str) -> None:
        """Do as `launch`, with NumPy."""
        from tilec_runtime.kernels import philox

        philox.write_uniform(to, dtype, self.seed)


@value_class(frozen=True, kw_only=True)
class Normal:
    """Random numbers of a normal distribution.

    For dtypes other than f64, f32 can represent mean and deviation.
    """

    seed: int
    mean: float
    deviation: float

    def launch(self, ctx: ExecutionContext, to: Described) -> None:
        """Launch the kernel."""
        _module(ctx).normal(
            Raw(to),
            to.size,
            self.seed,
            self.mean,
            self.deviation,
            CODE=CODES[to.dtype],
            stream=ctx.stream,
        )

    def compute(self, to: Array, dtype: str) -> None:
        """Do as `launch`, with NumPy."""
        from tilec_runtime.kernels import philox

        philox.write_normal(to, dtype, self.seed, self.mean, self.deviation)


# Fills a contiguous tensor: `launch` on a GPU, `compute` in an array of unsigned integers of the
# element's size.
Recipe: TypeAlias = Fill | Diagonal | Integers | Numbers | Uniform | Normal


def _module(ctx: ExecutionContext) -> Module:
    return PACKAGE.on(ctx.driver, ctx.device)
