"""The manifest as frozen values: one dataclass per table of tilec.toml, defaults included."""

from __future__ import annotations

import dataclasses

from tilec.manifest.locate import Locator
from tilec.model.job import Options
from tilec_runtime.model.arch import Target
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import AxisValue, PackageInfo

# One machine code for each generation since Ampere, PTX and Tile IR for what comes after them.
DEFAULT_TARGETS = tuple(
    map(Target.parse, ("sm_80", "sm_90", "sm_100", "sm_120", "compute_80", "tileir"))
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """[package]: what is built."""

    name: str
    version: str = "0.1.0"
    description: str = ""
    license: str = ""
    license_files: tuple[str, ...] = ()
    module: str

    @property
    def info(self) -> PackageInfo:
        """The package as the bundle's index names it."""
        return PackageInfo(
            name=self.name,
            version=self.version,
            module=self.module,
            description=self.description,
            license=self.license,
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Targets:
    """[targets]: what it is built for, and what may be compiled at load (None: it does not say,
    which denies it).
    """

    default: tuple[Target, ...] = DEFAULT_TARGETS
    groups: tuple[tuple[str, tuple[Target, ...]], ...] = ()
    min_driver: int = 0
    jit_fallback: JitFallback | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """[profile.NAME], with what it inherits already in it."""

    name: str
    opt: int = 3
    lineinfo: bool = False
    debug: bool = False
    bounds: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Toolchain:
    """[toolchain]: version ranges, where tools are looked for first, and the time limit of one
    compile in seconds.
    """

    cuda: str = ""
    prefer: str = "wheels"
    timeout: float = 300.0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Exclude:
    """One entry of a matrix's exclude: an expression over the axes (`when`), or axis values that
    all must match.
    """

    when: str = ""
    values: tuple[tuple[str, AxisValue], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """[kernel.NAME.matrix]: the product of axes, minus exclude, plus include.

    `by_target` has the axes whose values differ by target, each with its values by target, `*` for
    all others; `axes` then has every value. With `autotune` the product is over the source's
    `configs` too, which planning finds.
    """

    axes: tuple[tuple[str, tuple[AxisValue, ...]], ...] = ()
    exclude: tuple[Exclude, ...] = ()
    include: tuple[tuple[tuple[str, AxisValue], ...], ...] = ()
    by_target: tuple[tuple[str, tuple[tuple[str, tuple[AxisValue, ...]], ...]], ...] = ()
    autotune: bool = False
    configs: tuple[tuple[tuple[str, AxisValue], ...], ...] = ()
    max_variants: int = 256


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class AssumeSet:
    """One set of kernel.NAME.assume.sets: facts per parameter; the empty set is the general
    fallback.

    `divisible` gives divisors of the extents, one per dimension: a number, or the axis whose value
    it is. Strides that are not fixed are then divisible by the innermost divisor, which is what a
    contiguous tensor gives; `stride` says otherwise. `aligned` is the base address in bytes, for
    every tensor (`("", n)`) or by name. `extent` gives extents that are compiled in, None where
    they are free; `contiguous` names tensors (`""` for every one) whose strides are those of a
    C-contiguous one.
    """

    name: str = ""
    divisible: tuple[tuple[str, tuple[int | str, ...]], ...] = ()
    stride: tuple[tuple[str, tuple[int, ...]], ...] = ()
    aligned: tuple[tuple[str, int], ...] = ()
    extent: tuple[tuple[str, tuple[int | None, ...]], ...] = ()
    contiguous: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ParamTable:
    """kernel.NAME.params.P: what the manifest says of a parameter; None where it says nothing."""

    name: str
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
    """kernel.NAME.launch; numbers in grid, block and shared are expressions too, so all are text
    here.
    """

    requires: tuple[str, ...] = ()
    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared: str = "0"
    cooperative: bool = False
    programmatic: bool = False
    cluster: tuple[int, ...] = ()
    open: tuple[str, ...] = ()

    @property
    def given(self) -> tuple[str, ...]:
        """What is open, and given too, for launches without a config."""
        has = {"grid": self.grid, "block": self.block, "shared": self.shared != "0"}
        return tuple(key for key in self.open if has[key])

    @property
    def preset(self) -> bool:
        """Whether all that is open is given too; without `shared` there is none."""
        return bool(self.given) and {*self.given, "shared"} >= set(self.open)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """kernel.NAME.budget: most of each resource that any image of the kernel may use; None for no
    bound. Bytes, except registers.
    """

    registers: int | None = None
    spills: int | None = None
    shared: int | None = None
    stack: int | None = None
    constant: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """kernel.NAME.case.C.inputs.P: a tensor to make (shape, dtype, dist, seed), or a plain value
    for a scalar.

    `shape` holds numbers or expressions over the case's earlier inputs and axes; it is None where
    `file` holds the array, and may be where `make` names a function that returns it. `dist` is
    normal, uniform, integers, sorted, permutation, arange, constant (`value`), zeros, ones or empty
    (poisoned before the run); `low` and `high` bound uniform, integers and sorted. `dtype` may name
    a matrix axis: the case then runs for each value. `small` holds the extents of runs that are
    compared, where they are not those of `shape`. Without a `seed` the name of the input gives one,
    so that no two inputs hold the same numbers.
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
        """Whether it is an array, not a number."""
        return self.shape is not None or bool(self.file or self.make)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Tolerance:
    """How far a result may be from the reference, by one of two measures; `dtype` is empty for the
    general one.

    Attributes:
        rtol, atol: |actual - expected| <= atol + rtol * |expected|.
        ulp: so many numbers of the output's dtype; 0 for this measure not being given.
    """

    rtol: float = 0.0
    atol: float = 0.0
    ulp: int = 0
    dtype: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """kernel.NAME.case.C.bench: work done by one launch, as expressions, and what to hold it
    against.
    """

    flops: str = ""
    bytes: str = ""
    against: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """kernel.NAME.case.C: named inputs and a reference. `axes` chooses a variant where the
    arguments do not.
    """

    name: str
    inputs: tuple[Input, ...] = ()
    reference: str = ""
    tolerance: tuple[Tolerance, ...] = ()
    axes: tuple[tuple[str, AxisValue], ...] = ()
    bench: Bench | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """kernel.NAME.dispatch.rules[]: launches whose arguments `when` holds for take this point, as
    far as it says; empty: all launches.
    """

    when: str = ""
    take: tuple[tuple[str, AxisValue], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class OpOutput:
    """kernel.NAME.op.outputs.P: how a call that leaves the output out allocates it; empty where the
    parameter says it.
    """

    name: str
    like: str = ""
    shape: tuple[str, ...] | None = None
    dtype: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Backward:
    """kernel.NAME.op.backward: the kernel that computes gradients. `args` says what its parameters
    stand for where their names do not.
    """

    kernel: str
    args: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Op:
    """kernel.NAME.op: the kernel as an operator of other libraries."""

    outputs: tuple[OpOutput, ...] = ()
    backward: Backward | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """[kernel.NAME]. `source` is relative to the project; `function` stands behind its colon (or is
    the symbol's base name, or NAME). `let` has the derived axes: expressions over those before them.
    """

    name: str
    source: str
    function: str
    symbol: str = ""
    language: str
    matrix: Matrix = Matrix()
    let: tuple[tuple[str, str], ...] = ()
    assume: tuple[AssumeSet, ...] = (AssumeSet(),)
    hints: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    params: tuple[ParamTable, ...] = ()
    args: tuple[str, ...] | None = None
    launch: Launch = Launch()
    default: tuple[tuple[str, AxisValue], ...] = ()
    table: str = ""
    sizes: tuple[str, ...] = ()
    keep: str = "all"
    rules: tuple[Rule, ...] = ()
    budget: Budget = Budget()
    cases: tuple[Case, ...] = ()
    options: Options = ()
    checks: str = ""
    op: Op | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Operand:
    """What a step gives a kernel: an input of the case by its name, or a value."""

    name: str = ""
    value: AxisValue | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """chain.NAME.steps[]: the launch of a kernel; `named` are parameters and axes that are given by
    keyword.
    """

    kernel: str
    args: tuple[Operand, ...] = ()
    named: tuple[tuple[str, Operand], ...] = ()

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All of them, in order."""
        return (*self.args, *(operand for _, operand in self.named))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Chain:
    """[chain.NAME]: launches in order, on one stream, over the same arrays. Its cases have the
    inputs of all steps together.
    """

    name: str
    steps: tuple[Step, ...]
    cases: tuple[Case, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Override:
    """[[override]]: what changes for jobs whose id matches `select`; the last match wins. `targets`
    limits a kernel to some targets.
    """

    select: str
    hints: tuple[tuple[str, int], ...] = ()
    targets: tuple[Target, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """[output.wheel]: how the wheel is split (`arch`, empty for one), and the most that each may
    weigh in bytes (0 for no bound).
    """

    split: str = ""
    max_size: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """[output]: where results go (relative to the project), what is written, and the most a bundle
    may weigh in bytes (0 for no bound).
    """

    dir: str = "dist"
    emit: tuple[str, ...] = ("bundle", "package")
    max_size: int = 0
    wheel: Wheel = Wheel()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RemoteTable:
    """[cache]: URL of the remote cache and what is done with it; empty where it does not say."""

    remote: str = ""
    remote_mode: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """A whole tilec.toml. `path` is the file, `root` its directory (both absolute); `frontends`
    holds the options by language.
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
