"""Jobs: one variant for one target, as a picklable value that a worker can compile on its own."""

from __future__ import annotations

import dataclasses

from tilec.model.declaration import KernelDecl
from tilec_runtime.model.arch import Target
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.safety import Checks
from tilec_runtime.model.signature import AbiSlot, Assumption, Param

EMPTY = AbiSlot(type="u8", expr="0", size=1, align=1)
"""The argument of a parameter of an empty type."""
Option = str | int | float | bool | tuple[str, ...] | tuple[tuple[str, str], ...]
Options = tuple[tuple[str, Option], ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A source file as frontends see it.

    Attributes:
        root: the project's directory (absolute); never part of a key, never written into an image.
        path: the file, relative to `root`, with forward slashes.
        options: the language's options from the manifest, sorted by name.
    """

    root: str
    path: str
    options: Options = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class InputFile:
    """A file that a compile reads, in its cache key.

    Attributes:
        name: relative to the project, or `<toolkit>/…`.
        digest: SHA-256 of its bytes.
    """

    name: str
    digest: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """A kernel at one point of its matrix, under one set of assumptions.

    `let` has the values of the derived axes there: constants of the code, which no launch knows.
    """

    kernel: str
    id: str
    axes: tuple[tuple[str, AxisValue], ...] = ()
    assume: tuple[Assumption, ...] = ()
    let: tuple[tuple[str, AxisValue], ...] = ()

    @property
    def constants(self) -> tuple[tuple[str, AxisValue], ...]:
        """The axes, then the derived ones."""
        return (*self.axes, *self.let)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class KernelSpec:
    """The facts that all jobs of one kernel share.

    Attributes:
        name: the kernel's name in the manifest.
        language: frontend.
        source: where its code is.
        decl: the kernel as the frontend declared it.
        symbol: name or template instance to compile, with `{axis}` places (`rmsnorm<{T}, {VEC}>`).
        params: the launcher's parameters.
        abi: the entry point's arguments from the manifest; empty if the frontend derives them.
        cluster: cluster dimensions from the manifest.
        cooperative: whether its launches are cooperative.
        opt: optimisation level, 0 to 3.
        lineinfo: keep source lines in the code.
        debug: make unoptimized code for a debugger, with variables if the language supports them.
        bounds: check indices, in languages that support it.
        max_isa: newest PTX ISA (and Tile IR version) that the oldest supported driver reads, None
            for no bound.
        timeout: seconds one compile may take.
        checks: whether unproven accesses keep their bounds checks.
    """

    name: str
    language: str
    source: Source
    decl: KernelDecl
    symbol: str
    params: tuple[Param, ...]
    abi: tuple[AbiSlot, ...] = ()
    cluster: tuple[int, ...] = ()
    cooperative: bool = False
    opt: int = 3
    lineinfo: bool = False
    debug: bool = False
    bounds: bool = False
    max_isa: tuple[int, int] | None = None
    timeout: float = 300.0
    checks: Checks = Checks.ON


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """An entry point of a group: its kernel's `symbol`, and the axis values that fill its places."""

    symbol: str
    axes: tuple[tuple[str, AxisValue], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """(variant, target): the unit that is compiled and cached.

    Attributes:
        spec, variant, target: what is compiled for what.
        hints: compiler hints of this variant and target.
        group: entry points that compile together for this target, this job's included; empty if it
            compiles alone.
    """

    spec: KernelSpec
    variant: Variant
    target: Target
    hints: tuple[tuple[str, int], ...] = ()
    group: tuple[Member, ...] = ()

    @property
    def cacheable(self) -> bool:
        """Whether a cache key covers all that the job depends on: unchecked flags may read files."""
        return dict(self.spec.source.options).get("unchecked-flags") is not True

    @property
    def id(self) -> str:
        """`gemm-f16-BM128-sm_90`."""
        return f"{self.variant.id}-{self.target}"
