"""Kernels, variants and packages in the bundle's index."""

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
    """One variant: its point of the matrix, assumptions, ABI and images.

    Attributes:
        hints: compiler hints by target, in the order of the images. Targets without hints are left
            out.
    """

    id: str
    axes: tuple[tuple[str, AxisValue], ...] = ()
    assume: tuple[Assumption, ...] = ()
    abi: tuple[AbiSlot, ...] = ()
    images: tuple[ImageInfo, ...] = ()
    hints: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()

    def hints_of(self, target: Target) -> dict[str, int]:
        """Return the compiler hints of its image for a target."""
        return dict(dict(self.hints).get(str(target), ()))

    @property
    def divisibility(self) -> int:
        """The largest assumed divisor of an extent, a stride or an address; 1 without any."""
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
    """The launch description of a kernel.

    Numbers are expressions over parameters and axes.

    Attributes:
        grid: one to three expressions.
        block: one to three expressions. Tile kernels have (1, 1, 1), which stands for the block of
            the image.
        shared: dynamic shared memory in bytes.
        cluster: cluster dimensions, empty for none.
        cooperative: whether all blocks must be resident at once.
        programmatic: whether it may start before the preceding launch of its stream has finished
            (programmatic dependent launch).
        requires: preconditions on the arguments, checked before each launch.
        open: the fields that each launch configures, of `grid`, `block` and `shared`.
        preset: whether open fields also have values, for launches without a configuration.
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
        params: parameters of the kernel in order; each array of a list is one parameter.
        lists: parameters of calls that are lists of arrays, in order.
        axes: every axis with its built values, in manifest order.
        dtype_axes: names of the axes of dtypes, which the arguments determine at launch.
        default: default values of axes that the caller may leave out.
        launch: launch description.
        variants: variants in the order in which a launch tries them: fastest assumptions first,
            fallback last.
        safety: safety facts, or None if its language has none.
        table: tuning table, or None if the manifest names none.
        jit: policy for compilation at load, or None if the manifest has none, which denies it.
        rules: dispatch rules in order; the tuning table goes before them.
        op: description as an operator of other libraries, or None if it is not an operator.
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
    def abis(self) -> tuple[tuple[AbiSlot, ...], ...]:
        """The different ABIs of its variants, in the order of their first use."""
        return tuple(dict.fromkeys(variant.abi for variant in self.variants))

    @property
    def call_params(self) -> tuple[Param, ...]:
        """Parameters of calls in order, one per list of arrays.

        The parameter of a list has the properties of the list's first array.
        """
        starts = {row.first: row for row in self.lists}
        inside = {row.first + index for row in self.lists for index in range(1, row.most)}
        return tuple(
            replace(param, name=starts[index].name) if index in starts else param
            for index, param in enumerate(self.params)
            if index not in inside
        )

    @property
    def list_counts(self) -> dict[str, tuple[AxisValue, ...]]:
        """Allowed numbers of arrays of each list, by its name."""
        axes = dict(self.axes)
        return {row.name: axes[row.axis] if row.axis else (row.most,) for row in self.lists}

    def in_lists(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Convert arguments by names of `params` to those of `call_params`.

        The given arrays of a list become one argument.
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
        """Whether a tuning table or rules choose axes, before the default does."""
        return self.table is not None or bool(self.rules)

    @property
    def allocated(self) -> tuple[Param, ...]:
        """Parameters that calls of the operator may allocate; empty if not an operator."""
        names = self.op.allocated if self.op is not None else ()
        return tuple(param for param in self.params if param.name in names)

    @property
    def inputs(self) -> tuple[Param, ...]:
        """Parameters that calls of the operator do not allocate, in order."""
        names = self.op.allocated if self.op is not None else ()
        return tuple(param for param in self.params if param.name not in names)

    @property
    def given(self) -> tuple[Param, ...]:
        """Inputs that every call must give, positionally or by name."""
        return tuple(param for param in self.inputs if param.default is None and not param.optional)

    @property
    def backward(self) -> BackwardInfo | None:
        """The operator that computes its gradients, or None."""
        return self.op.backward if self.op is not None else None

    @property
    def optionals(self) -> frozenset[str]:
        """Names of the tensors that may be None."""
        return frozenset(param.name for param in self.params if param.optional)

    @property
    def choices(self) -> tuple[str, ...]:
        """Axes that a caller chooses, in manifest order.

        They have several values, and neither a parameter's dtype nor a list's length determines
        them.
        """
        bound = {param.dtype for param in self.params} & set(self.dtype_axes)
        bound |= {row.axis for row in self.lists}
        return tuple(name for name, values in self.axes if len(values) > 1 and name not in bound)

    @property
    def undispatched(self) -> tuple[str, ...]:
        """Axes of `choices` that neither table nor rules decide.

        With rules, an axis that follows from the others, because no two variants differ in it
        alone, is decided.
        """
        if self.table is not None:
            return ()
        ruled = {axis for rule in self.rules for axis, _ in rule.take}
        free = tuple(name for name in self.choices if name not in ruled)
        return tuple(filter(self._varies_alone, free)) if self.rules else free

    @property
    def undecided(self) -> tuple[str, ...]:
        """Axes of `undispatched` without a default.

        Every call must choose them, except where the device or a partition does.
        """
        default = dict(self.default)
        return tuple(name for name in self.undispatched if name not in default)

    def _varies_alone(self, axis: str) -> bool:
        """Whether two variants differ in this axis and in no other."""
        points = {variant.axes for variant in self.variants}
        others = {tuple(row for row in point if row[0] != axis) for point in points}
        return len(others) < len(points)

    def by_device(self, axis: str) -> bool:
        """Whether the device determines an axis: it is equal in all images of a target."""
        values: dict[Target, set[AxisValue]] = {}
        for variant in self.variants:
            for image in variant.images:
                values.setdefault(image.target, set()).add(dict(variant.axes)[axis])
        return bool(values) and all(len(built) == 1 for built in values.values())

    def tiled_by(self, axis: str) -> tuple[str, ...]:
        """Return the outputs whose tiles have an axis as an extent."""
        regions = self.safety.regions if self.safety is not None else ()
        return tuple(region.param for region in regions if axis in region.tile)


@value_class(frozen=True, kw_only=True)
class ToolInfo:
    """A tool of a build: name, version, and SHA-256.

    The SHA-256 is that of its file, or of its wheel's file list.
    """

    name: str
    version: str
    digest: str


@value_class(frozen=True, kw_only=True)
class PackageInfo:
    """The package of a bundle."""

    name: str
    version: str
    module: str
    description: str = ""
    license: str = ""


@value_class(frozen=True, kw_only=True)
class BundleInfo:
    """The whole index of a bundle."""

    package: PackageInfo
    kernels: tuple[KernelInfo, ...] = ()
    toolchain: tuple[ToolInfo, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    profile: str = "release"
    min_driver: int = 0
    builder: str = ""
