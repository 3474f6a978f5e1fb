"""The manifest as frozen dataclasses, one per table of tilec.toml, with defaults."""

from __future__ import annotations

import dataclasses

from tilec.manifest.locate import Locator
from tilec.model.job import Options
from tilec_runtime.model.arch import Target
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import AxisValue, PackageInfo
from tilec_runtime.model.operator import BackwardInfo
from tilec_runtime.model.table import DispatchRule

# Machine code for each generation since Ampere; PTX and Tile IR for later ones.
DEFAULT_TARGETS = tuple(
    map(Target.parse, ("sm_80", "sm_90", "sm_100", "sm_120", "compute_80", "tileir"))
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """[package]: name and metadata of the distribution."""

    name: str
    version: str = "0.1.0"
    description: str = ""
    license: str = ""
    license_files: tuple[str, ...] = ()
    module: str = ""

    @property
    def info(self) -> PackageInfo:
        """The package's entry in the bundle index."""
        return PackageInfo(
            name=self.name,
            version=self.version,
            module=self.module,
            description=self.description,
            license=self.license,
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Targets:
    """[targets]: targets of a build, the oldest driver, and compilation at load time.

    `jit_fallback` is None if the manifest does not set it; it is then denied.
    """

    default: tuple[Target, ...] = DEFAULT_TARGETS
    groups: tuple[tuple[str, tuple[Target, ...]], ...] = ()
    min_driver: int = 0
    jit_fallback: JitFallback | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """[profile.NAME], with inherited values filled in."""

    name: str
    opt: int = 3
    lineinfo: bool = False
    debug: bool = False
    bounds: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Toolchain:
    """[toolchain]: version range, preferred origin of tools, and time limit of a compile (s)."""

    cuda: str = ""
    prefer: str = "wheels"
    timeout: float = 300.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Exclude:
    """One entry of a matrix's `exclude`: an expression over the axes, or axis values that match."""

    when: str = ""
    values: tuple[tuple[str, AxisValue], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """[kernel.NAME.matrix]: the product of axes, minus `exclude`, plus `include`.

    Attributes:
        axes: axes with all of their values.
        exclude: points to leave out.
        include: points to add.
        by_target: axes with different values by target: values by target, `*` for all others.
        autotune: whether the product includes the configurations of the source.
        max_variants: largest number of variants.
    """

    axes: tuple[tuple[str, tuple[AxisValue, ...]], ...] = ()
    exclude: tuple[Exclude, ...] = ()
    include: tuple[tuple[tuple[str, AxisValue], ...], ...] = ()
    by_target: tuple[tuple[str, tuple[tuple[str, tuple[AxisValue, ...]], ...]], ...] = ()
    autotune: bool = False
    max_variants: int = 256


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class AssumeSet:
    """One set of kernel.NAME.assume.sets: facts by parameter; the empty set is the fallback.

    Attributes:
        name: name in the variant's id.
        divisible: divisors of the extents, one per dimension: numbers or names of axes. Strides
            that are not fixed are then divisible by the innermost divisor, as in a contiguous
            tensor, unless `stride` gives others.
        stride: divisors of the strides in elements, one per dimension.
        aligned: alignment of base addresses in bytes, by parameter or for every tensor (`""`).
        extent: extents that are compiled in, one per dimension; None for a free one.
        contiguous: names of C-contiguous tensors; `""` for every tensor.
    """

    name: str = ""
    divisible: tuple[tuple[str, tuple[int | str, ...]], ...] = ()
    stride: tuple[tuple[str, tuple[int, ...]], ...] = ()
    aligned: tuple[tuple[str, int], ...] = ()
    extent: tuple[tuple[str, tuple[int | None, ...]], ...] = ()
    contiguous: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ParamTable:
    """kernel.NAME.params.P: keys of a parameter; None for a key that is not given."""

    name: str = ""
    kind: str | None = None
    dtype: str | None = None
    rank: int | None = None
    out: bool | None = None
    stride: tuple[int | None, ...] | None = None
    contiguous: bool | None = None
    divisible: tuple[int, ...] | None = None
    aligned: int | None = None
    default: AxisValue | None = None
    size: int | None = None
    optional: bool = False
    list: int | str | None = None
    doc: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """kernel.NAME.launch; numbers in grid, block and shared are expressions too, kept as text."""

    requires: tuple[str, ...] = ()
    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared: str = "0"
    cooperative: bool = False
    programmatic: bool = False
    cluster: tuple[int, ...] = ()
    open: tuple[str, ...] = ()

    @property
    def expressions(self) -> tuple[str, ...]:
        """All expressions."""
        return (*self.grid, *self.block, self.shared, *self.requires)

    @property
    def given(self) -> tuple[str, ...]:
        """The open parts that the manifest also gives, for launches without a config."""
        has = {"grid": self.grid, "block": self.block, "shared": self.shared != "0"}
        return tuple(key for key in self.open if has[key])

    @property
    def preset(self) -> bool:
        """Whether every open part is also given; shared memory is 0 if not given."""
        return bool(self.given) and {*self.given, "shared"} >= set(self.open)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """kernel.NAME.budget: upper bounds on the resources of every image; None for no bound.

    All are bytes, except registers.
    """

    registers: int | None = None
    spills: int | None = None
    shared: int | None = None
    stack: int | None = None
    constant: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """kernel.NAME.case.C.inputs.P: a tensor to make, or the value of a scalar.

    Attributes:
        name: the parameter.
        shape: numbers, or expressions over the case's earlier inputs and axes; None for a `file`,
            and optionally for `make`.
        small: extents of runs that compare results, if they differ from `shape`.
        dtype: a dtype, or an axis of the matrix: the case then runs for each of its values.
        dist: normal, uniform, integers, sorted, permutation, arange, constant (`value`), zeros,
            ones or empty (poisoned before the run).
        seed: seed of the random numbers; None derives it from the name, so that no two inputs hold
            the same numbers.
        low, high: bounds of uniform, integers and sorted.
        value: the scalar, or the element of a constant tensor.
        file: file that holds the array.
        make: function that returns the array.
    """

    name: str
    shape: tuple[str, ...] | None = None
    small: tuple[str, ...] | None = None
    dtype: str = ""
    dist: str = "normal"
    seed: int | None = None
    low: float | None = None
    high: float | None = None
    value: AxisValue | None = None
    file: str = ""
    make: str = ""

    @property
    def tensor(self) -> bool:
        """Whether the input is an array."""
        return self.shape is not None or bool(self.file or self.make)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Tolerance:
    """The tolerance of results, by one of two measures.

    Attributes:
        rtol, atol: |actual - expected| <= atol + rtol * |expected|.
        ulp: distance in representable numbers of the output's dtype; 0 if not given.
        dtype: dtype that it applies to; empty for all.
    """

    rtol: float = 0.0
    atol: float = 0.0
    ulp: int = 0
    dtype: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """kernel.NAME.case.C.bench: work of one launch, as expressions, and calls to compare with."""

    flops: str = ""
    bytes: str = ""
    against: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """kernel.NAME.case.C: named inputs and a reference.

    `axes` chooses a variant among those that fit the arguments.
    """

    name: str
    inputs: tuple[Input, ...] = ()
    reference: str = ""
    tolerance: tuple[Tolerance, ...] = ()
    axes: tuple[tuple[str, AxisValue], ...] = ()
    bench: Bench | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class OpOutput:
    """kernel.NAME.op.outputs.P: allocation of an output that a call leaves out.

    Attributes:
        name: the parameter.
        like: input of the same shape.
        shape: extents, in place of `like`.
        dtype: its dtype; empty to take the parameter's.
    """

    name: str = ""
    like: str = ""
    shape: tuple[str, ...] | None = None
    dtype: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Op:
    """kernel.NAME.op: the kernel as an operator of other libraries.

    `backward.args` has the parameters of the backward kernel whose names differ.
    """

    outputs: tuple[OpOutput, ...] = ()
    backward: BackwardInfo | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """[kernel.NAME]: a kernel.

    Attributes:
        source: its file, relative to the project.
        function: the name after the colon of `source`, else the symbol's base name, else NAME.
        let: derived axes: expressions over earlier axes.
        assume: assumption sets; without any, there is the empty one.
    """

    name: str
    source: str
    function: str
    symbol: str = ""
    language: str
    matrix: Matrix = Matrix()
    let: tuple[tuple[str, str], ...] = ()
    assume: tuple[AssumeSet, ...] = ()
    hints: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    params: tuple[ParamTable, ...] = ()
    args: tuple[str, ...] | None = None
    launch: Launch = Launch()
    default: tuple[tuple[str, AxisValue], ...] = ()
    table: str = ""
    sizes: tuple[str, ...] = ()
    keep: str = "all"
    rules: tuple[DispatchRule, ...] = ()
    budget: Budget = Budget()
    cases: tuple[Case, ...] = ()
    options: Options = ()
    checks: str = ""
    op: Op | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Operand:
    """An argument of a step: the name of an input of the case, or a value."""

    name: str = ""
    value: AxisValue | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """chain.NAME.steps[]: the launch of a kernel; `named` are parameters and axes by keyword."""

    kernel: str
    args: tuple[Operand, ...] = ()
    named: tuple[tuple[str, Operand], ...] = ()

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All arguments, in order."""
        return (*self.args, *(operand for _, operand in self.named))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Chain:
    """[chain.NAME]: launches in order, on one stream, over the same arrays.

    A case has the inputs of all steps.
    """

    name: str
    steps: tuple[Step, ...]
    cases: tuple[Case, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Override:
    """[[override]]: hints or targets of the jobs whose id matches `select`; the last match wins.

    `targets` limits the matching jobs to some targets.
    """

    select: str
    hints: tuple[tuple[str, int], ...] = ()
    targets: tuple[Target, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """[output.wheel]: how to split the wheel, and its largest size.

    Attributes:
        split: `arch`, or empty for one wheel.
        max_size: bytes; 0 for no bound.
    """

    split: str = ""
    max_size: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """[output]: results of a build.

    Attributes:
        dir: directory, relative to the project.
        emit: kinds of results to write.
        max_size: largest bundle in bytes; 0 for no bound.
        wheel: options of wheels.
    """

    dir: str = "dist"
    emit: tuple[str, ...] = ("bundle", "package")
    max_size: int = 0
    wheel: Wheel = Wheel()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RemoteTable:
    """[cache]: URL and mode of the remote cache; empty if not given."""

    remote: str = ""
    remote_mode: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """A whole tilec.toml.

    Attributes:
        path: the file, absolute.
        root: its directory, absolute.
        frontends: options by language.
        locate: finds the locations of keys.
    """

    path: str
    root: str
    package: Package
    targets: Targets
    profiles: tuple[Profile, ...]
    toolchain: Toolchain = Toolchain()
    frontends: tuple[tuple[str, Options], ...] = ()
    kernels: tuple[Kernel, ...] = ()
    chains: tuple[Chain, ...] = ()
    overrides: tuple[Override, ...] = ()
    output: Output = Output()
    cache: RemoteTable = RemoteTable()
    locate: Locator = dataclasses.field(compare=False, repr=False)
