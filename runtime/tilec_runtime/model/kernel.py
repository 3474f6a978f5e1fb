"""Kernels, variants and packages as the bundle's index describes them."""

from __future__ import annotations

from collections.abc import Mapping

from tilec_runtime.errors import Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.operator import BackwardInfo, OperatorInfo
from tilec_runtime.model.safety import Safety
from tilec_runtime.model.signature import AbiSlot, Assumption, ListParam, Param
from tilec_runtime.model.table import AxisValue, DispatchRule, TuningTable
from tilec_runtime.values import replace, value_class

__all__ = [
    "AxisValue",
    "BundleInfo",
    "KernelInfo",
    "LaunchInfo",
    "PackageInfo",
    "ToolInfo",
    "VariantInfo",
]


@value_class(frozen=True, kw_only=True)
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


@value_class(frozen=True, kw_only=True)
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
        open: what a launch says by its configuration: of `grid`, `block` and `shared`.
        preset: what is open is given too, for launches without a configuration.
    """

    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ("1",)
    shared: str = "0"
    cluster: tuple[int, ...] = ()
    cooperative: bool = False
    programmatic: bool = False
    requires: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    preset: bool = False


@value_class(frozen=True, kw_only=True)
class KernelInfo:
    """One kernel in the bundle's index.

    Attributes:
        name: launcher name.
        language: frontend that compiled it.
        location: source file (relative to the project) and line.
        doc: docstring of the kernel.
        params: what the launcher takes, in order; of a list of arrays, each array.
        lists: the lists of arrays that calls take for some of `params`, in order.
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
        op: the kernel as an operator of other libraries, None where the manifest makes it none.
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
    op: OperatorInfo | None = None
    lists: tuple[ListParam, ...] = ()

    @property
    def call_params(self) -> tuple[Param, ...]:
        """The parameters of calls, in order: one for each list of arrays, which has the properties
        of its first array.
        """
        starts = {row.first: row for row in self.lists}
        inside = {row.first + place for row in self.lists for place in range(1, row.most)}
        return tuple(
            replace(param, name=starts[place].name) if place in starts else param
            for place, param in enumerate(self.params)
            if place not in inside
        )

    @property
    def list_counts(self) -> dict[str, tuple[AxisValue, ...]]:
        """How many arrays each list may have, by its name."""
        axes = dict(self.axes)
        return {row.name: axes[row.axis] if row.axis else (row.most,) for row in self.lists}

    def in_lists(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return arguments by the names of `params` as calls take them: the arrays of a list, those
        that are given, are one argument.
        """
        given = dict(arguments)
        for row in self.lists:
            names = [param.name for param in self.params[row.first : row.first + row.most]]
            arrays = [given.pop(name) for name in names if name in given]
            if arrays:
                given[row.name] = arrays
        return given

    @property
    def dispatched(self) -> bool:
        """Whether a table or rules say what launches take, before the default does."""
        return self.table is not None or bool(self.rules)

    @property
    def allocated(self) -> tuple[Param, ...]:
        """What calls of the operator may leave out, in order; nothing where it is none."""
        names = self.op.allocated if self.op is not None else ()
        return tuple(param for param in self.params if param.name in names)

    @property
    def inputs(self) -> tuple[Param, ...]:
        """What calls of the operator take, in order: every parameter that they do not allocate."""
        names = self.op.allocated if self.op is not None else ()
        return tuple(param for param in self.params if param.name not in names)

    @property
    def given(self) -> tuple[Param, ...]:
        """The inputs without a default, which every call gives, by place or by name."""
        return tuple(param for param in self.inputs if param.default is None and not param.optional)

    @property
    def backward(self) -> BackwardInfo | None:
        """The operator that computes its gradients; None where there is none."""
        return self.op.backward if self.op is not None else None

    @property
    def optionals(self) -> frozenset[str]:
        """Names of the tensors that may be None."""
        return frozenset(param.name for param in self.params if param.optional)

    @property
    def choices(self) -> tuple[str, ...]:
        """Axes that a caller chooses: more than one value, and neither a parameter's dtype nor the
        length of a list says which. In manifest order.
        """
        bound = {param.dtype for param in self.params} & set(self.dtype_axes)
        bound |= {row.axis for row in self.lists}
        return tuple(name for name, values in self.axes if len(values) > 1 and name not in bound)

    def by_device(self, axis: str) -> bool:
        """Whether the device says what an axis is: each target has images of one value alone."""
        values: dict[Target, set[AxisValue]] = {}
        for variant in self.variants:
            for image in variant.images:
                values.setdefault(image.target, set()).add(dict(variant.axes)[axis])
        return bool(values) and all(len(built) == 1 for built in values.values())

    def tiled_by(self, axis: str) -> tuple[str, ...]:
        """Outputs whose partitions say what an axis is: it is an extent of the tiles that the
        kernel divides them into.
        """
        regions = self.safety.regions if self.safety is not None else ()
        return tuple(region.param for region in regions if axis in region.tile)


@value_class(frozen=True, kw_only=True)
class ToolInfo:
    """A tool that took part in a build: name, version, and the SHA-256 of its file (or of the
    wheel's file list).
    """

    name: str
    version: str
    digest: str


@value_class(frozen=True, kw_only=True)
class PackageInfo:
    """The package a bundle belongs to."""

    name: str
    version: str
    module: str
    description: str = ""
    license: str = ""


@value_class(frozen=True, kw_only=True)
class BundleInfo:
    """A bundle's whole index."""

    package: PackageInfo
    kernels: tuple[KernelInfo, ...] = ()
    toolchain: tuple[ToolInfo, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    profile: str = "release"
    min_driver: int = 0
    builder: str = ""
