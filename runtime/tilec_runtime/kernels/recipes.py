"""What fills memory: each recipe by a kernel on a GPU, and by its NumPy twin on the cpu device,
with the same bits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from tilec_runtime.device.layout import TensorFacts
from tilec_runtime.kernels import CODES, held_of, kernels, width_of
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.tensors.described import Described, facts_of
from tilec_runtime.tensors.host import unpaired

if TYPE_CHECKING:
    from tilec_runtime.kernels.elements import Array
    from tilec_runtime.launch.load import Module

# Elements that a twin makes at a time.
_CHUNK = 1 << 16


class Raw:
    """The bytes of a tensor without lease and order: launches take their address, and the storage
    keeps the memory.
    """

    def __init__(self, tensor: Described) -> None:
        """Take a contiguous tensor, whose order is seen to."""
        self.storage = tensor.storage
        self.facts = facts_of(self.storage, (tensor.nbytes,), "u8", start=tensor.facts.ptr)

    def _tilec_facts_(self) -> TensorFacts:
        return self.facts


def enqueue(recipe: Recipe, ctx: ExecutionContext, to: Described) -> None:
    """Fill a contiguous tensor on the stream of an execution, which sees to its order."""
    if not to.nbytes:
        return
    if _runs_kernels(ctx):
        recipe.launch(ctx, to)
        return

    def work(data: Array) -> None:
        recipe.compute(data.view(f"u{to.itemsize}"), to.dtype)

    _call_on_host(ctx, type(recipe).__name__.lower(), work, to)


def convert(ctx: ExecutionContext, to: Described, source: Described) -> None:
    """Convert the elements of a contiguous tensor to those of another one with as many, of another
    dtype.
    """
    if not to.nbytes:
        return
    if _runs_kernels(ctx):
        _launch_convert(ctx, to, source)
        return

    def work(target: Array, origin: Array) -> None:
        from tilec_runtime.kernels import elements

        into, of = target.view(f"u{to.itemsize}"), origin.view(f"u{source.itemsize}")
        each, every = (_CHUNK // DTYPES[tensor.dtype].per_byte for tensor in (to, source))
        for part in range(-(-into.size // each)):
            into[part * each : (part + 1) * each] = elements.convert(
                of[part * every : (part + 1) * every], source.dtype, to.dtype
            )

    _call_on_host(ctx, "convert", work, to, source)


def spread(ctx: ExecutionContext, to: Described, source: Described) -> None:
    """Write the bits of packed elements, one of them in each byte: what ml_dtypes has on the host."""
    if not to.nbytes:
        return
    if _runs_kernels(ctx):
        _module(ctx).unpack(Raw(to), Raw(source), to.size, len(CODES), stream=ctx.stream)
        return

    def work(target: Array, origin: Array) -> None:
        target.view("u1")[...] = unpaired(origin.view("u1"))

    _call_on_host(ctx, "spread", work, to, source)


def _runs_kernels(ctx: ExecutionContext) -> bool:
    """Return whether the device runs the kernels: the cpu device has their NumPy twins instead."""
    return ctx.driver.device(ctx.device).interprets is None


def _call_on_host(
    ctx: ExecutionContext, name: str, work: Callable[..., None], *tensors: Described
) -> None:
    """Let the cpu device call a function with the bytes of tensors, in stream order."""
    driver: Any = ctx.driver  # no other one calls functions
    driver.call(ctx.stream, name, work, [(tensor.facts.ptr, tensor.nbytes) for tensor in tensors])


def _launch_convert(ctx: ExecutionContext, to: Described, source: Described) -> None:
    """Convert by the kernel for packed elements on one side, or by the one for all others."""
    module, form = _module(ctx), held_of(source.dtype, to.dtype)
    into, of, stream = Raw(to), Raw(source), ctx.stream
    if DTYPES[to.dtype].packed:
        module.pack(into, of, to.size, CODES[source.dtype], HELD=form, stream=stream)
    elif DTYPES[source.dtype].packed:
        module.unpack(into, of, to.size, CODES[to.dtype], stream=stream)
    else:
        codes = CODES[to.dtype], CODES[source.dtype]
        module.convert(into, of, to.size, *codes, HELD=form, stream=stream)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Fill:
    """One value everywhere.

    Attributes:
        bits: of an element, or of a byte of packed ones.
        width: bytes of it, as a power of two.
    """

    bits: int
    width: int

    def launch(self, ctx: ExecutionContext, to: Described) -> None:
        """By the driver where all bytes are equal, else by a kernel."""
        pattern = self.bits.to_bytes(1 << self.width, "little") * (8 >> self.width)
        if len(set(pattern)) == 1:
            ctx.driver.fill(ctx.device, to.facts.ptr, pattern[0], to.nbytes, ctx.stream)
        else:
            _module(ctx).fill(
                Raw(to), to.nbytes, int.from_bytes(pattern, "little"), stream=ctx.stream
            )

    def compute(self, to: Array, dtype: str) -> None:  # noqa: ARG002 - of a recipe
        """As `launch`."""
        to[...] = self.bits


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Diagonal:
    """A matrix of zeros with one value on its diagonal.

    Attributes:
        bits: of the value.
        rows, columns: of the matrix.
    """

    bits: int
    rows: int
    columns: int

    def launch(self, ctx: ExecutionContext, to: Described) -> None:
        """Zeros first, then the diagonal."""
        ctx.driver.fill(ctx.device, to.facts.ptr, 0, to.nbytes, ctx.stream)
        count, step = min(self.rows, self.columns), self.columns + 1
        _module(ctx).diagonal(
            Raw(to), count, step, self.bits, width_of(to.dtype), stream=ctx.stream
        )

    def compute(self, to: Array, dtype: str) -> None:  # noqa: ARG002 - of a recipe
        """As `launch`."""
        to[...] = 0
        count, step = min(self.rows, self.columns), self.columns + 1
        to[: (count - 1) * step + 1 : step] = self.bits


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Integers:
    """start + i * step, in integers of 64 bits whose low bits are taken."""

    start: int
    step: int

    def launch(self, ctx: ExecutionContext, to: Described) -> None:
        """By a kernel."""
        _module(ctx).integers(
            Raw(to),
            to.size,
            self.start % 2**64,
            self.step % 2**64,
            CODES[to.dtype],
            stream=ctx.stream,
        )

    def compute(self, to: Array, dtype: str) -> None:  # noqa: ARG002 - of a recipe
        """As `launch`."""
        import numpy as np

        start, step = np.uint64(self.start % 2**64), np.uint64(self.step % 2**64)
        with np.errstate(over="ignore"):
            for first in range(0, to.size, _CHUNK):
                part = to[first : first + _CHUNK]
                part[...] = (
                    np.arange(first, first + part.size, dtype=np.uint64) * step + start
                ).astype(part.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Numbers:
    """start + i * step, in f64 with each operation rounded, and `last` at the end; integer dtypes
    take what is not above.
    """

    start: float
    step: float
    last: float

    def launch(self, ctx: ExecutionContext, to: Described) -> None:
        """By a kernel."""
        _module(ctx).numbers(
            Raw(to), to.size, self.start, self.step, self.last, CODES[to.dtype], stream=ctx.stream
        )

    def compute(self, to: Array, dtype: str) -> None:
        """As `launch`."""
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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Uniform:
    """Random numbers in [0, 1)."""

    seed: int

    def launch(self, ctx: ExecutionContext, to: Described) -> None:
        """By a kernel."""
        _module(ctx).uniform(Raw(to), to.size, self.seed, CODE=CODES[to.dtype], stream=ctx.stream)

    def compute(self, to: Array, dtype: str) -> None:
        """As `launch`."""
        from tilec_runtime.kernels import philox

        philox.write_uniform(to, dtype, self.seed)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Normal:
    """Random numbers of a normal distribution. For dtypes other than f64, mean and deviation are
    numbers that f32 has.
    """

    seed: int
    mean: float
    deviation: float

    def launch(self, ctx: ExecutionContext, to: Described) -> None:
        """By a kernel."""
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
        """As `launch`."""
        from tilec_runtime.kernels import philox

        philox.write_normal(to, dtype, self.seed, self.mean, self.deviation)


# Fills a contiguous tensor: `launch` on a GPU, `compute` at once in unsigned integers of the
# element's size.
Recipe: TypeAlias = Fill | Diagonal | Integers | Numbers | Uniform | Normal


def _module(ctx: ExecutionContext) -> Module:
    return kernels(ctx.driver, ctx.device)
