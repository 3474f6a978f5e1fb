"""Launchers of a bundle as ops: `package.NAME(...)` and `module.lazy.NAME(...)` describe a launch
that runs later, and gives back its arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar, Union, cast, final

from tilec_runtime.device.layout import device_words
from tilec_runtime.device.seam import Dim3
from tilec_runtime.device.seam_types import GridRule, GridWish
from tilec_runtime.errors import ArgumentError, CallError, LaunchError, LaunchLimitError
from tilec_runtime.launch.binding import bind, given_axes
from tilec_runtime.launch.contract import Contract
from tilec_runtime.launch.launcher import Launcher
from tilec_runtime.launch.plans import MOST_PLANS
from tilec_runtime.launch.select import require_built, require_options
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.holding import Held, HoldingOp
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.tensors.lease import holder

if TYPE_CHECKING:
    from typing_extensions import Self

    from tilec_runtime.launch.config import LaunchConfig
    from tilec_runtime.launch.load import Module
    from tilec_runtime.package import Package

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
# An argument of a lazy launch: the value, or an op that gives it.
OrOp = Union[T, DeviceOp[T]]  # noqa: UP007 - Python 3.10 has no `|` of a type variable and a class
Axes = dict[str, AxisValue]
# (every argument in order, the value of every axis that a caller chooses) -> an op.
Make = Callable[..., "LazyLaunch[Any]"]


class LazyLaunch(HoldingOp[R_co]):
    """An op that launches a kernel, and gives back its arguments as a tuple: tensors as they were,
    and of ops their results.

    The launch holds them until it has run, failed, or was dropped: who owns a tensor can use it
    again then, and borrows end.
    """

    __slots__ = ("_axes", "_config", "_grid", "_hints", "_origin")
    _graph_node_: ClassVar[Literal[True]] = True

    def __init__(
        self,
        origin: Origin,
        values: tuple[Any, ...],
        axes: Axes,
        config: LaunchConfig | None = None,
    ) -> None:
        """Made by the functions of a package and of `Module.lazy`."""
        if config is not None:
            from tilec_runtime.launch.config import configured  # few kernels take one

            configured(origin.contract.info, config)  # sees that the kernel takes it
        self._origin = origin
        self._config = config
        self._axes = axes
        self._hints: dict[str, int] = {}
        self._grid: Dim3 | None = None
        contract = origin.contract
        self._held = Held(holder(f"the launch of {contract.name}"), values, contract.outs)

    @property
    def name(self) -> str:
        """`launch of add`."""
        return f"launch of {self._origin.contract.name}"

    def _arity(self) -> int | None:
        return len(self._origin.contract.params)

    def grid(self, *extents: int | Sequence[int]) -> Self:
        """Launch on this grid instead of the kernel's own, `grid(4, 2)` or `grid((4, 2))`; it has
        to be that of the partitions that the kernel writes.

        Raises:
            LaunchLimitError: it has none or more than three extents, or one that is no whole number
                or negative.
        """
        kernel = self._origin.contract.name
        only = extents[0] if len(extents) == 1 else extents
        given: tuple[Any, ...] = tuple(only) if isinstance(only, (tuple, list)) else extents
        if not 1 <= len(given) <= 3 or any(
            type(extent) is not int or extent < 0 for extent in given
        ):
            what = f"{kernel}: the grid {given} is not one to three whole numbers that are not negative"
            raise LaunchLimitError(what, kernel=kernel)
        self._grid = _dim3(given)
        return self

    def const_grid(self, *extents: int | Sequence[int]) -> Self:
        """The same as `grid`: kernels are built before a grid is known, and none is compiled for
        one.
        """
        return self.grid(*extents)

    def variant(self, *args: Any, **axes: Any) -> Self:
        """Launch the variant of these axis values, by name: `variant(BM=64)`. It replaces what was
        said of these axes before. None leaves an axis open again.

        Raises:
            VariantError: an axis or a value that was not built, or no variant with these values
                together.
        """
        self._by_name("variant", args)
        chosen = given_axes(self._origin.contract, {**self._axes, **axes})
        self._require(chosen, {})
        self._axes = chosen
        return self

    def options(self, *args: Any, **hints: Any) -> Self:
        """Launch a variant that was built with these compiler hints, by name:
        `options(occupancy=4)`.

        Raises:
            VariantError: none was, on any target; names what was built. What was built for the
                device is seen when the op runs.
        """
        self._by_name("options", args)
        wanted = {**self._hints, **hints}
        self._require(self._axes, wanted)
        self._hints = wanted
        return self

    def run_by(self, launchers: Mapping[str, LazyLauncher]) -> Self:
        """Run on the device of these launchers, the one of this kernel among them: for functions of
        a generated package.
        """
        self._origin = launchers[self._origin.contract.name]._origin  # noqa: SLF001 - its own module
        return self

    def _require(self, axes: Axes, hints: dict[str, int]) -> None:
        """See that there are variants with these; what was seen is kept."""
        origin = self._origin
        key = (
            *axes.items(),
            *map(type, axes.values()),
            None,
            *hints.items(),
            *map(type, hints.values()),
        )
        try:
            if key in origin.checked:
                return
        except TypeError:  # a value that cannot be hashed is none of these
            key = ()
        require_built(origin.contract, origin.pinned, axes)
        if hints:
            require_options(origin.contract, {**origin.pinned, **axes}, hints)
        if len(origin.checked) < MOST_PLANS:
            origin.checked.add(key)

    def _by_name(self, verb: str, args: tuple[Any, ...]) -> None:
        if args:
            kernel = self._origin.contract.name
            raise ArgumentError(
                f"{kernel}: {verb} takes keywords only, got {args[0]!r} by place", kernel=kernel
            )

    def _execute(self, ctx: ExecutionContext) -> R_co:
        with self._taken() as held:
            launcher = self._picked(ctx)
            values: Any = held.ready(ctx)
            if held.claims_all:
                launcher.launch_claimed(ctx.line, values)
            else:
                launcher.enqueue(ctx.stream, values)
        return cast("R_co", values)

    def _require_here(self, ctx: ExecutionContext) -> None:
        self._origin.launcher(ctx)
        super()._require_here(ctx)

    def _picked(self, ctx: ExecutionContext) -> Launcher:
        """The launcher on the device of an execution, with the axes, the options and the grid of
        this op.
        """
        launcher, axes, hints, grid = (
            self._origin.launcher(ctx),
            self._axes,
            self._hints,
            self._grid,
        )
        if self._config is not None:
            launcher = launcher.configured(self._config)
        if not axes and not hints and grid is None:
            return launcher
        known = self._origin.picked
        key = (launcher, grid, *axes.items(), *map(type, axes.values()), None, *hints.items())
        found = known.get(key)
        if found is None:
            found = launcher.variant(**axes) if axes else launcher
            found = found.options(**hints) if hints else found
            if grid is not None:
                found = found.on_grid(
                    (GridWish(grid=grid, rule=GridRule.INSTEAD, source="grid()"),)
                )
            if len(known) >= MOST_PLANS:
                known.clear()
            known[key] = found
        return found


class Origin(Protocol):
    """Where a lazy launch gets its launcher from.

    Attributes:
        picked: launchers that were made of it, by what was asked for.
        checked: axes and options that variants were built with.
    """

    picked: dict[tuple[Any, ...], Launcher]
    checked: set[tuple[Any, ...]]

    @property
    def contract(self) -> Contract:
        """What the launch is held against; known before there is a device."""

    @property
    def pinned(self) -> Axes:
        """The axes that it is restricted to."""

    def launcher(self, ctx: ExecutionContext) -> Launcher:
        """The launcher on the device of an execution.

        Raises:
            LaunchError: it cannot run there.
        """


@final
class LazyLaunchers:
    """The launchers of a module as functions that give ops: `module.lazy.add(z, x, y)`."""

    def __init__(self, module: Module) -> None:
        """Use `Module.lazy`."""
        self._module = module

    def __getattr__(self, name: str) -> LazyLauncher:
        """The function of a kernel."""
        made = self.__dict__[name] = LazyLauncher(
            getattr(self._module, name)
        )  # found without this method the next time
        return made

    def __getitem__(self, name: str) -> LazyLauncher:
        """The function of a kernel, whatever its name."""
        return LazyLauncher(self._module.kernels[name])

    def __dir__(self) -> list[str]:
        """The kernels."""
        return list(self._module.kernels)


@final
class LazyLauncher:
    """A kernel, as a function that gives ops."""

    def __init__(self, launcher: Launcher) -> None:
        """Use `Module.lazy`; or take the launcher of a generated package's kernel, restricted as
        one likes.

        Raises:
            CallError: it is no launcher.
        """
        given: Any = launcher
        if not hasattr(given, "site"):
            what = f"LazyLauncher takes a launcher, got a {type(given).__qualname__}"
            raise CallError(what, fix='pass one of a module: LazyLauncher(kernels["axpy"])')
        self._launcher = launcher
        self._origin = _Loaded(launcher)

    def __call__(self, *args: Any, **kwargs: Any) -> LazyLaunch[tuple[Any, ...]]:
        """A launch that runs later. Nothing is enqueued now; leases are taken, so that conflicts
        show here.

        Args:
            args: the kernel's arguments in order: tensors, partitions, views, arrays of other
                libraries, numbers, or ops that give them.
            kwargs: arguments by name, axes (`BM=128`), and `config` for a kernel whose manifest
                leaves grid or block open.

        Raises:
            ArgumentError: count or names are off. VariantError: an axis value that was not built.
            OwnershipError: a tensor was moved before, is used by somebody else, or is there twice.
                UsedOpError: an op was used before.
        """
        contract = self._origin.contract
        config = (
            kwargs.pop("config", None)
            if "config" not in contract.index and "config" not in contract.axes
            else None
        )
        if not kwargs and contract.required <= len(args) <= len(contract.params):
            return LazyLaunch(self._origin, args + contract.defaults[len(args) :], {}, config)
        values, axes = bind(contract, args, kwargs)
        require_built(contract, self._origin.pinned, axes)
        return LazyLaunch(self._origin, values, axes, config)

    def __repr__(self) -> str:
        """`<LazyLauncher add on device 0 (NVIDIA H200)>`."""
        return f"<Lazy{repr(self._launcher).removeprefix('<')}"


def packaged(package: Package, kernel: str) -> Make:
    """What makes launches of a package's kernel, which run on whatever device they are run on."""
    return _Maker(_Packaged(package, kernel)).make


class _Maker:
    """Makes lazy launches of one kernel, and caches which axis values were checked."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._known: dict[tuple[Any, ...], Axes] = {(): {}}

    def make(
        self,
        values: tuple[Any, ...],
        choices: tuple[AxisValue | None, ...] = (),
        config: LaunchConfig | None = None,
    ) -> LazyLaunch[Any]:
        """Make an op of a launch with these arguments, these axis values by place, and this
        configuration.
        """
        return LazyLaunch(self._origin, values, dict(self._chosen(choices)), config)

    def _chosen(self, choices: tuple[AxisValue | None, ...]) -> Axes:
        """The axes that a caller chose by place."""
        key = (*choices, *map(type, choices))  # True equals 1, and is no value of the same axis
        try:
            found = self._known.get(key)
        except TypeError:  # a value that cannot be hashed is none of an axis
            found = None
        if found is None:
            contract = self._origin.contract
            found = {
                name: value
                for name, value in zip(contract.choices, choices, strict=True)
                if value is not None
            }
            require_built(contract, self._origin.pinned, found)
            self._known[key] = found
        return found


class _Loaded:
    """The launcher of a module, which is loaded on one device."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._driver, self._device = launcher.site.driver, launcher.site.device.ordinal
        self.pinned: Axes = launcher.pinned
        self.picked: dict[tuple[Any, ...], Launcher] = {}
        self.checked: set[tuple[Any, ...]] = set()

    @functools.cached_property
    def contract(self) -> Contract:
        return self._launcher.contract

    def launcher(self, ctx: ExecutionContext) -> Launcher:
        launcher = self._launcher
        if ctx.driver is not self._driver or ctx.device != self._device:
            site = launcher.site
            what = f"{launcher.info.name}: the bundle is loaded on {site.device}, and the op is run on {device_words(ctx.device)}"
            raise LaunchError(
                what,
                fix="run it under use_device, or on a stream of that device",
                kernel=launcher.info.name,
            )
        return launcher


class _Packaged:
    """A kernel of a generated package, whose bundle is loaded on a device when an op first runs
    there.
    """

    def __init__(self, package: Package, kernel: str) -> None:
        self._package = package
        self._kernel = kernel
        self._launchers: dict[tuple[Any, int], Launcher] = {}
        self.pinned: Axes = {}
        self.picked: dict[tuple[Any, ...], Launcher] = {}
        self.checked: set[tuple[Any, ...]] = set()
        self.contract = Contract(package.bundle.kernel(kernel))

    def launcher(self, ctx: ExecutionContext) -> Launcher:
        place = ctx.driver, ctx.device
        found = self._launchers.get(place)
        if found is None:
            found = self._launchers[place] = self._package.on(*place).kernels[self._kernel]
        return found


@functools.lru_cache(maxsize=256)
def _dim3(extents: tuple[int, ...]) -> Dim3:
    x, y, z = (*extents, 1, 1, 1)[:3]
    return x, y, z
