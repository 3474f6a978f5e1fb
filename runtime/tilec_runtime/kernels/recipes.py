"""What fills memory: each recipe by a kernel on a GPU, and by its NumPy twin on the cpu device,
with the same bits.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Protocol

from tilec_runtime.device.layout import TensorFacts
from tilec_runtime.kernels import CODES, held_of, kernels, width_of
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.tensors.described import Described, facts_of
from tilec_runtime.tensors.storage import Storage

if TYPE_CHECKING:
    from tilec_runtime.kernels.elements import Array
    from tilec_runtime.launch.load import Module

# Elements that a twin makes at a time.
_CHUNK = 1 << 16


class Recipe(Protocol):
    """Fills contiguous memory with elements."""

    def launch(self, ctx: ExecutionContext, to: Place) -> None:
        """Enqueue what does so on a GPU."""

    def compute(self, to: Array, dtype: str) -> None:
        """Do so at once. `to` has unsigned integers of the element's size, and the bits go there."""


class Raw:
    """Bytes without lease and order: launches take their address, and the storage keeps the memory."""

    def __init__(self, storage: Storage, facts: TensorFacts) -> None:
        """Made by `Place.raw`."""
        self.storage = storage
        self.facts = facts

    def _tilec_facts_(self) -> TensorFacts:
        return self.facts


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Memory that is contiguous, and whose order is seen to.

    Attributes:
        storage: the memory. facts: of the tensor in it.
    """

    storage: Storage
    facts: TensorFacts

    @classmethod
    def of(cls, tensor: Described) -> Place:
        """Return the place of a tensor."""
        return cls(storage=tensor.storage, facts=tensor.facts)

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return DTYPES[self.facts.dtype].size_of(self.facts.size)

    @property
    def raw(self) -> Raw:
        """Its bytes, as launches take them."""
        return Raw(self.storage, facts_of(self.storage, (self.nbytes,), "u8", start=self.facts.ptr))

    @property
    def code(self) -> int:
        """What kernels call its dtype."""
        return CODES[self.facts.dtype]


def enqueue(recipe: Recipe, ctx: ExecutionContext, to: Place) -> None:
    """Fill a place on the stream of an execution."""
    if not to.nbytes:
        return
    if ctx.driver.device(ctx.device).interprets is None:
        recipe.launch(ctx, to)
        return
    dtype, size = to.facts.dtype, DTYPES[to.facts.dtype].bytes
    host: Any = ctx.driver  # the cpu device's, which can call functions

    def work(data: Array) -> None:
        recipe.compute(data.view(f"u{size}"), dtype)

    host.call(ctx.stream, type(recipe).__name__.lower(), work, [(to.facts.ptr, to.nbytes)])


def convert(ctx: ExecutionContext, to: Place, source: Place) -> None:
    """Convert the elements of a place to those of another one with as many, of another dtype."""
    if not to.nbytes:
        return
    wanted, given = to.facts.dtype, source.facts.dtype
    if ctx.driver.device(ctx.device).interprets is None:
        _launch_convert(ctx, to, source)
        return

    def work(target: Array, origin: Array) -> None:
        from tilec_runtime.kernels import elements

        into, of = target.view(f"u{DTYPES[wanted].bytes}"), origin.view(f"u{DTYPES[given].bytes}")
        each, every = (_CHUNK // DTYPES[dtype].per_byte for dtype in (wanted, given))
        for part in range(-(-into.size // each)):
            into[part * each : (part + 1) * each] = elements.convert(
                of[part * every : (part + 1) * every], given, wanted
            )

    host: Any = ctx.driver
    host.call(
        ctx.stream, "convert", work, [(to.facts.ptr, to.nbytes), (source.facts.ptr, source.nbytes)]
    )


def spread(ctx: ExecutionContext, to: Place, source: Place) -> None:
    """The bits of packed elements, one of them in each byte of a place: what ml_dtypes has on the
    host.
    """
    if not to.nbytes:
        return
    if ctx.driver.device(ctx.device).interprets is None:
        _module(ctx).unpack(to.raw, source.raw, to.facts.size, len(CODES), stream=ctx.stream)
        return

    def work(target: Array, origin: Array) -> None:
        from tilec_runtime.kernels import elements

        target.view("u1")[...] = elements.spread(origin.view("u1"))

    host: Any = ctx.driver
    host.call(
        ctx.stream, "spread", work, [(to.facts.ptr, to.nbytes), (source.facts.ptr, source.nbytes)]
    )


def _launch_convert(ctx: ExecutionContext, to: Place, source: Place) -> None:
    """By the kernel for packed elements on one side, or by that for all others."""
    module, count = _module(ctx), to.facts.size
    wanted, given = to.facts.dtype, source.facts.dtype
    if DTYPES[wanted].packed:
        module.pack(
            to.raw, source.raw, count, source.code, HELD=held_of(given, wanted), stream=ctx.stream
        )
    elif DTYPES[given].packed:
        module.unpack(to.raw, source.raw, count, to.code, stream=ctx.stream)
    else:
        module.convert(
            to.raw,
            source.raw,
            count,
            to.code,
            source.code,
            HELD=held_of(given, wanted),
            stream=ctx.stream,
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Fill:
    """One value everywhere.

    Attributes:
        bits: of an element, or of a byte of packed ones. width: bytes of it, as a power of two.
    """

    bits: int
    width: int

    def launch(self, ctx: ExecutionContext, to: Place) -> None:
        """By the driver where all bytes are equal, else by a kernel."""
        pattern = self.bits.to_bytes(1 << self.width, "little") * (8 >> self.width)
        if len(set(pattern)) == 1:
            ctx.driver.fill(ctx.device, to.facts.ptr, pattern[0], to.nbytes, ctx.stream)
        else:
            _module(ctx).fill(
                to.raw, to.nbytes, int.from_bytes(pattern, "little"), stream=ctx.stream
            )

    def compute(self, to: Array, dtype: str) -> None:  # noqa: ARG002 - of a recipe
        """As `launch`."""
        to[...] = self.bits


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Diagonal:
    """A matrix of zeros with one value on its diagonal.

    Attributes:
        bits: of the value. rows, columns: of the matrix.
    """

    bits: int
    rows: int
    columns: int

    def launch(self, ctx: ExecutionContext, to: Place) -> None:
        """Zeros first, then the diagonal."""
        ctx.driver.fill(ctx.device, to.facts.ptr, 0, to.nbytes, ctx.stream)
        count, step = min(self.rows, self.columns), self.columns + 1
        _module(ctx).diagonal(
            to.raw, count, step, self.bits, width_of(to.facts.dtype), stream=ctx.stream
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

    def launch(self, ctx: ExecutionContext, to: Place) -> None:
        """By a kernel."""
        _module(ctx).integers(
            to.raw, to.facts.size, self.start % 2**64, self.step % 2**64, to.code, stream=ctx.stream
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

    def launch(self, ctx: ExecutionContext, to: Place) -> None:
        """By a kernel."""
        _module(ctx).numbers(
            to.raw, to.facts.size, self.start, self.step, self.last, to.code, stream=ctx.stream
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

    def launch(self, ctx: ExecutionContext, to: Place) -> None:
        """By a kernel."""
        _module(ctx).uniform(to.raw, to.facts.size, self.seed, CODE=to.code, stream=ctx.stream)

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

    def launch(self, ctx: ExecutionContext, to: Place) -> None:
        """By a kernel."""
        _module(ctx).normal(
            to.raw,
            to.facts.size,
            self.seed,
            self.mean,
            self.deviation,
            CODE=to.code,
            stream=ctx.stream,
        )

    def compute(self, to: Array, dtype: str) -> None:
        """As `launch`."""
        from tilec_runtime.kernels import philox

        philox.write_normal(to, dtype, self.seed, self.mean, self.deviation)


def _module(ctx: ExecutionContext) -> Module:
    return kernels(ctx.driver, ctx.device)
