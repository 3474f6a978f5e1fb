"""Kernels: as a frontend finds them in a source, and as the bundle's index describes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilec.model.alike import Alike
from tilec_runtime.errors import Diagnostic, Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.safety import (
    Safety,
)  # its name has to be there: declarations are decoded by their annotations
from tilec_runtime.model.signature import AbiSlot, Assumption, Param
from tilec_runtime.values import value_class

if TYPE_CHECKING:
    from tilec_runtime.model.table import DispatchRule, TuningTable

AxisValue = str | int | float | bool


@value_class(frozen=True, kw_only=True, slots=True)
class ParamDecl:
    """A parameter as the source declares it.

    Attributes:
        name: its name in the source.
        type: its type as written, for messages (`const T*`, `ct.Constant[int]`); empty where the
            language has none.
        kind: `tensor` (a pointer or array), `scalar`, `struct` or `constant` (a compile-time
            constant, bound by a matrix axis).
        dtype: a dtype's name, or the name of a template parameter, or empty where the source does
            not say.
        out: True where the source says that it is written, False where it says that it is only
            read, None where it does not say.
        size: bytes of a struct, 0 where the source does not say.
        default: default value of a scalar or constant, if the source gives one.
        location: where it is declared.
        rank: dimensions of a tensor, -1 where the source does not say.
    """

    name: str
    type: str = ""
    kind: str
    dtype: str = ""
    out: bool | None = None
    size: int = 0
    default: AxisValue | None = None
    location: Location | None = None
    rank: int = -1


@value_class(frozen=True, kw_only=True, slots=True)
class AxisUse:
    """An axis of the matrix that a source names: its values are dtypes, or sizes; `where` it does
    (`z: tl.Mut[T, (BM, BN)]`).
    """

    name: str
    dtype: bool
    where: str


@value_class(frozen=True, kw_only=True, slots=True)
class KernelDecl:
    """A kernel as a frontend finds it in a source.

    Attributes:
        name: function name, without namespace or template arguments.
        qualified: the name to compile by (`ns::name`).
        location: where it is defined.
        doc: its docstring or leading comment.
        params: in ABI order, compile-time constants included.
        template: names of its template parameters, in order (C++); that of a pack ends in `...`.
        max_threads: threads per block that the source bounds it to, 0 for none or not a literal.
        cluster: cluster dimensions fixed in the source.
        together: most variants of the source that the frontend compiles in one go; 1 where each is
            compiled alone.
        axes: axes of the matrix that the source names besides its constants.
        grid: how many blocks the source says there are; then the manifest says nothing else, unless
            `grid_free`.
        requires: conditions on the arguments that the source demands.
        alike: extents that have to be equal unless a requirement says otherwise.
        safety: what is known of its safety, None where the language does not say.
        unproven: accesses that need a check inside of the kernel, each with what would prove it,
            and notes of the calls on the way to it.
        named: its parameters have names of their own; where not, the manifest's `params` name them
            in order.
        simt: the manifest says how many threads a block has; None as the language has it.
        block: block that the code was compiled for (`reqntid`), empty for any.
        kinds: kinds of targets that can be made of it (`cubin`, `ptx`, `tileir`); empty for all
            that the language makes.
        captures: variables around the kernel that it reads. Those of kind `scalar` are numbers,
            which the manifest may make parameters of the launch; of the others, `type` says what
            they are.
        typed: the compiled entry's name holds the types of its parameters, so that dtypes may be
            left to it.
    """

    name: str
    qualified: str = ""
    location: Location
    doc: str = ""
    params: tuple[ParamDecl, ...] = ()
    template: tuple[str, ...] = ()
    max_threads: int = 0
    cluster: tuple[int, ...] = ()
    together: int = 1
    axes: tuple[AxisUse, ...] = ()
    grid: tuple[str, ...] = ()
    grid_free: bool = False
    requires: tuple[str, ...] = ()
    alike: tuple[Alike, ...] = ()
    safety: Safety | None = None
    unproven: tuple[Diagnostic, ...] = ()
    named: bool = True
    simt: bool | None = None
    block: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    captures: tuple[ParamDecl, ...] = ()
    typed: bool = False

    @property
    def variadic(self) -> bool:
        """Whether it takes any number of template arguments."""
        return any(name.endswith("...") for name in self.template)

    @property
    def places(self) -> str:
        """`{T}, {N}, …`: template arguments that axes of the same names give, for messages."""
        return ", ".join(
            "…" if not name or name.endswith("...") else f"{{{name}}}" for name in self.template
        )

    def bound(self, arguments: Sequence[str]) -> dict[str, str]:
        """Each template parameter's argument; that of a pack where it has just one."""
        pairs = zip(self.template, arguments, strict=False)
        several = len(arguments) > len(self.template)
        return {
            name.removesuffix("..."): argument
            for name, argument in pairs
            if not (several and name.endswith("..."))
        }


@value_class(frozen=True, kw_only=True, slots=True)
class VariantInfo:
    """One variant in the bundle's index: its point of the matrix, its assumptions, its ABI and its
    images.

    Attributes:
        hints: compiler hints by the target that they held for, in the order of the images; targets
            without any are left out.
    """

    id: str
    axes: tuple[tuple[str, AxisValue], ...] = ()
    assume: tuple[Assumption, ...] = ()
    abi: tuple[AbiSlot, ...] = ()
    images: tuple[ImageInfo, ...] = ()
    hints: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()

    def hints_of(self, target: Target) -> dict[str, int]:
        """The compiler hints that its image for a target was made with."""
        return dict(dict(self.hints).get(str(target), ()))

    @property
    def divisibility(self) -> int:
        """The largest divisor that it assumes of an extent, a stride or an address; 1 where it
        assumes none.
        """
        return max(
            [
                1,
                *(
                    divisor
                    for fact in self.assume
                    for divisor in (*fact.shape, *fact.stride, fact.align)
                ),
            ]
        )


@value_class(frozen=True, kw_only=True, slots=True)
class LaunchInfo:
    """How a kernel is launched; every number is an expression over parameters and axes.

    Attributes:
        grid: one to three expressions.
        block: one to three expressions; tile kernels have (1, 1, 1), which stands for whatever the
            image needs.
        shared: dynamic shared memory in bytes.
        cluster: cluster dimensions, empty for none.
        cooperative: all blocks are resident at once.
        programmatic: may begin before the launch in front of it in its stream is done (programmatic
            dependent launch).
        requires: conditions on the arguments, each checked before a launch.
        open: what each launch says by its configuration: of `grid`, `block` and `shared`.
    """

    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ("1",)
    shared: str = "0"
    cluster: tuple[int, ...] = ()
    cooperative: bool = False
    programmatic: bool = False
    requires: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


@value_class(frozen=True, kw_only=True, slots=True)
class KernelInfo:
    """One kernel in the bundle's index.

    Attributes:
        name: launcher name.
        language: frontend that compiled it.
        location: source file (relative to the project) and line.
        doc: docstring of the kernel.
        params: what the launcher takes, in order.
        axes: every axis with the values that were built, in manifest order.
        dtype_axes: names of the axes that hold dtypes (bound by the arguments at launch).
        default: default value of the axes that the caller may leave out.
        launch: how it is launched.
        variants: in the order in which a launch tries them (assumption sets fastest first, fallback
            last).
        safety: what is known of its safety, None where its language does not say.
        table: what tuning found, None where the manifest names none.
        jit: whether images may be compiled at load, None where the manifest does not say, which
            denies it.
        rules: what launches take by their arguments, first rule first; a tuning table comes before
            them.
    """

    name: str
    language: str
    location: Location
    doc: str = ""
    params: tuple[Param, ...] = ()
    axes: tuple[tuple[str, tuple[AxisValue, ...]], ...] = ()
    dtype_axes: tuple[str, ...] = ()
    default: tuple[tuple[str, AxisValue], ...] = ()
    launch: LaunchInfo = LaunchInfo()
    variants: tuple[VariantInfo, ...] = ()
    safety: Safety | None = None
    table: TuningTable | None = None
    jit: JitFallback | None = None
    rules: tuple[DispatchRule, ...] = ()

    @property
    def dispatched(self) -> bool:
        """Whether a table or rules say what launches take, before the default does."""
        return self.table is not None or bool(self.rules)

    @property
    def optionals(self) -> frozenset[str]:
        """Names of the tensors that may be None."""
        return frozenset(param.name for param in self.params if param.optional)

    @property
    def choices(self) -> tuple[str, ...]:
        """Axes that a caller chooses: more than one value, and no parameter's dtype says which. In
        manifest order.
        """
        bound = {param.dtype for param in self.params} & set(self.dtype_axes)
        return tuple(name for name, values in self.axes if len(values) > 1 and name not in bound)

    def tiled_by(self, axis: str) -> tuple[str, ...]:
        """Outputs whose partitions say what an axis is: it is an extent of the tiles that the
        kernel divides them into.
        """
        regions = self.safety.regions if self.safety is not None else ()
        return tuple(region.param for region in regions if axis in region.tile)


@value_class(frozen=True, kw_only=True, slots=True)
class ToolInfo:
    """A tool that took part in a build: name, version, and the SHA-256 of its file (or of the
    wheel's file list).
    """

    name: str
    version: str
    digest: str


@value_class(frozen=True, kw_only=True, slots=True)
class PackageInfo:
    """The package a bundle belongs to."""

    name: str
    version: str
    module: str
    description: str = ""
    license: str = ""


@value_class(frozen=True, kw_only=True, slots=True)
class BundleInfo:
    """A bundle's whole index."""

    package: PackageInfo
    kernels: tuple[KernelInfo, ...] = ()
    toolchain: tuple[ToolInfo, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    profile: str = "release"
    min_driver: int = 0
    builder: str = ""
