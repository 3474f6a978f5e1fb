"""Launchers as ops: `package.ops.NAME(...)` and `module.ops.NAME(...)`.

The op runs the launch later, and returns its arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar, Union, cast, final

from tilec_runtime.device.layout import device_words
from tilec_runtime.device.scalars import require_kind
from tilec_runtime.device.seam import DeviceDriver, Dim3, GridRule, GridWish, dim3
from tilec_runtime.errors import ArgumentError, LaunchError, LaunchLimitError
from tilec_runtime.launch.binding import bind
from tilec_runtime.launch.contract import Contract
from tilec_runtime.launch.launcher import Launcher
from tilec_runtime.launch.plans import MOST_PLANS
from tilec_runtime.launch.select import require_built, require_options
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.ops.context import ExecutionContext
from tilec_runtime.ops.holding import HoldingOp, MovingClaims
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.sites import recorded
from tilec_runtime.tensors.lease import holder_here

if TYPE_CHECKING:
    from typing_extensions import Self

    from tilec_runtime.launch.config import LaunchConfig

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
OrOp = Union[T, DeviceOp[T]]  # noqa: UP007 - Python 3.10 has no `|` of a type variable and a class
"""An argument of a lazy launch, or an op that gives it."""

Axes = dict[str, AxisValue]


class _Wish(NamedTuple):
    """The differences of a launch from the kernel's own one.

    Attributes:
        axes, hints: names and values.
        grid: a grid instead of the kernel's.
        config: the configuration for the open keys of the manifest.
    """

    axes: Axes
    hints: dict[str, int]
    grid: Dim3 | None = None
    config: LaunchConfig | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that is equal for equal wishes."""
        shape = self.config and self.config.shape
        return *self.axes.items(), *self.hints.items(), self.grid, shape


_NO_WISH = _Wish({}, {})


class Origin:
    """A kernel of lazy launches: its contract, and its launcher on each device.

    Attributes:
        contract: the contract that launches are checked against.
        load: returns the launcher on a device; raises LaunchError if the kernel cannot run there.
        pinned: the axis values that it is restricted to.
    """

    def __init__(
        self, contract: Contract, load: Callable[[DeviceDriver, int], Launcher], pinned: Axes
    ) -> None:
        self.contract = contract
        self.load = load
        # Typed, because True and 1 are different axis values.
        self._axes = functools.lru_cache(maxsize=256, typed=True)(self._checked)
        self._wished: dict[tuple[Any, ...], Launcher] = {}
        self._claims: MovingClaims | None = None
        self.pinned = pinned

    @classmethod
    def of(cls, launcher: Launcher) -> Origin:
        """Return the kernel of a launcher, with launches on its device only."""
        load = functools.partial(_on, launcher)
        return cls(launcher.contract, load, launcher.pinned)

    def make(
        self,
        values: tuple[Any, ...],
        choices: tuple[AxisValue | None, ...] = (),
        config: LaunchConfig | None = None,
    ) -> LazyLaunch[Any]:
        """Return an op of a launch; functions of generated packages call this.

        Args:
            values: every argument, in order.
            choices: the value of every axis that a caller chooses, in the manifest's order; None
                leaves an axis open.
            config: the configuration for the open keys of the manifest.

        Raises:
            As for a call of a `LazyLauncher`.
        """
        lists = self.contract.lists
        values = values if lists is None else lists.spread(values)
        if not choices or all(choice is None for choice in choices):
            return LazyLaunch(self, values, None, config)
        try:
            axes = self._axes(*choices)
        except TypeError:  # a value without a hash, which `_checked` refuses
            axes = self._checked(*choices)
        return LazyLaunch(self, values, axes, config)

    def _checked(self, *choices: AxisValue | None) -> Axes:
        named = dict(zip(self.contract.choices, choices, strict=True))
        return require_built(self.contract, self.pinned, named)

    def claims(self) -> MovingClaims:
        """Return the claims of a new launch; in debug mode they have its call site."""
        claims = self._claims
        if claims is None or recorded():
            claims = MovingClaims.of(holder_here(f"the launch of {self.contract.name}"))
            self._claims = claims
        return claims

    def wished(self, launcher: Launcher, wish: _Wish) -> Launcher:
        """Return a launcher with an op's wishes."""
        key = (launcher, *wish.key)
        known = self._wished.get(key)
        if known is None:
            known = launcher.configured(wish.config)
            known = known.variant(**wish.axes) if wish.axes else known
            known = known.options(**wish.hints) if wish.hints else known
            if wish.grid is not None:
                grid = GridWish(grid=wish.grid, rule=GridRule.INSTEAD, source="grid()")
                known = known.on_grid((grid,))
            if len(self._wished) >= MOST_PLANS:
                self._wished.clear()
            self._wished[key] = known
        return known


class LazyLaunch(HoldingOp[R_co]):
    """An op that launches a kernel, and returns its arguments as a tuple.

    Tensors are returned as they were; an argument that is an op is replaced by its result. The
    launch holds its arguments until it has run, failed, or was dropped. Then owned tensors can be
    used again, and borrows end.
    """

    __slots__ = ("_origin", "_wish")
    _graph_node_: ClassVar[Literal[True]] = True

    def __init__(
        self,
        origin: Origin,
        values: tuple[Any, ...],
        axes: Axes | None = None,
        config: LaunchConfig | None = None,
    ) -> None:
        """Use `ops` of a package or a module."""
        contract = origin.contract
        self._origin = origin
        self._wish = _NO_WISH
        if axes or config is not None:
            if config is not None:
                from tilec_runtime.launch.config import configured  # few kernels take one

                configured(contract.info, config)  # checks that the kernel takes it
            self._wish = _Wish(axes or {}, {}, config=config)
        self._move_in(origin.claims(), values, contract.outs)

    def _arity(self) -> int | None:
        return len(self._origin.contract.call_params)

    def grid(self, *extents: int | Sequence[int]) -> Self:
        """Launch on this grid instead of the kernel's own: `grid(4, 2)` or `grid((4, 2))`.

        It has to be the grid of the partitions that the kernel writes.

        Raises:
            LaunchLimitError: there are not one to three extents, or one is not a whole number or is
                negative.
        """
        kernel = self._origin.contract.name
        only = extents[0] if len(extents) == 1 else extents
        given: tuple[Any, ...] = tuple(only) if isinstance(only, (tuple, list)) else extents
        if not 1 <= len(given) <= 3 or any(
            type(extent) is not int or extent < 0 for extent in given
        ):
            message = f"{kernel}: the grid {given} is not one to three whole numbers that are not negative"
            raise LaunchLimitError(message, kernel=kernel)
        self._wish = self._wish._replace(grid=dim3(given))
        return self

    def variant(self, *args: Any, **axes: Any) -> Self:
        """Launch the variant with these axis values, by name: `variant(BM=64)`.

        They replace earlier values of the same axes; None leaves an axis open again.

        Raises:
            VariantError: an axis does not exist, a value was not built, or no variant has all the
                values.
        """
        origin = self._origin
        self._by_name("variant", args)
        wished = {**self._wish.axes, **axes}
        chosen = require_built(origin.contract, origin.pinned, wished)
        self._wish = self._wish._replace(axes=chosen)
        return self

    def options(self, *args: Any, **hints: Any) -> Self:
        """Launch a variant with these compiler hints: `options(occupancy=4)`.

        Raises:
            VariantError: no variant was built with them for any target; the message names the hints
                that were built. The device's own target is checked when the op runs.
        """
        origin = self._origin
        self._by_name("options", args)
        wanted = {**self._wish.hints, **hints}
        if wanted:
            require_options(origin.contract, {**origin.pinned, **self._wish.axes}, wanted)
        self._wish = self._wish._replace(hints=wanted)
        return self

    def _by_name(self, verb: str, args: tuple[Any, ...]) -> None:
        # Without `*args`, type checkers refuse the stubs of packages, which name axes and hints.
        if args:
            kernel = self._origin.contract.name
            raise ArgumentError(
                f"{kernel}: {verb} takes keywords only, got {args[0]!r} by place", kernel=kernel
            )

    def _execute(self, ctx: ExecutionContext) -> R_co:
        """Launch the kernel. The launcher checks the devices of tensors."""
        wish, origin = self._wish, self._origin
        try:
            launcher = origin.load(ctx.driver, ctx.device)
            if wish is not _NO_WISH:
                launcher = origin.wished(launcher, wish)
            claimed = not (self._others and self._ops())
            values: Any = self._ready(ctx)
            if claimed:
                launcher.launch_claimed(ctx.line, values)
            else:
                launcher.enqueue(ctx.stream, values)
            lists = origin.contract.lists
            return cast("R_co", values if lists is None else lists.gathered(values))
        finally:
            self._end()


@final
class LazyLaunchers:
    """A module's launchers as functions that return ops: `module.ops.add(z, x, y)`."""

    def __init__(
        self, kernels: Mapping[str, Launcher], named: Callable[[str, object], Launcher]
    ) -> None:
        """Use `Module.ops`.

        Args:
            kernels: the module's launchers.
            named: returns the launcher of an attribute's name, or raises an error about the object.
        """
        self._kernels = kernels
        self._named = named

    def __getattr__(self, name: str) -> LazyLauncher:
        """Return the function of a kernel."""
        # The next look-up finds it in `__dict__`, without this method.
        launcher = self.__dict__[name] = LazyLauncher(self._named(name, self))
        return launcher

    def __getitem__(self, name: str) -> LazyLauncher:
        """Return the function of a kernel by its name, which may be any string."""
        return LazyLauncher(self._kernels[name])

    def __dir__(self) -> list[str]:
        """List the kernels."""
        return list(self._kernels)


@final
class LazyLauncher:
    """A kernel, as a function that returns ops."""

    def __init__(self, launcher: Launcher) -> None:
        """Wrap a launcher, which may be restricted to variants; `Module.ops` does so too.

        Raises:
            CallError: `launcher` is not a launcher.
        """
        fix = 'pass one of a module: LazyLauncher(kernels["axpy"])'
        require_kind("LazyLauncher", "a launcher", launcher, Launcher, fix)
        self._launcher = launcher
        self.origin = Origin.of(launcher)

    def __call__(self, *args: Any, **kwargs: Any) -> LazyLaunch[tuple[Any, ...]]:
        """Describe a launch that runs later.

        Nothing is enqueued now. Tensors are claimed, so that conflicts are reported here.

        Args:
            args: the kernel's arguments in order: tensors, partitions, views, arrays of other
                libraries, numbers, or ops that return them.
            kwargs: arguments by name, axes (`BM=128`), and `config` for a kernel whose manifest
                leaves grid or block open.

        Raises:
            ArgumentError: too many or too few arguments, an unknown or a repeated name.
            VariantError: an axis value was not built.
            OwnershipError: a tensor was moved before, is used elsewhere, or occurs twice.
            UsedOpError: an op was used before.
        """
        contract = self.origin.contract
        most = len(contract.params)
        if not kwargs and not contract.lists and contract.required <= len(args) <= most:
            return LazyLaunch(self.origin, args + contract.defaults[len(args) :])
        values, named, config = bind(contract, args, kwargs)
        axes = require_built(contract, self.origin.pinned, named)
        return LazyLaunch(self.origin, values, axes, config)

    def __repr__(self) -> str:
        """Return, for example, `<LazyLauncher add on device 0 (NVIDIA H200)>`."""
        return f"<Lazy{repr(self._launcher).removeprefix('<')}"


def _on(launcher: Launcher, driver: DeviceDriver, ordinal: int) -> Launcher:
    """Return a launcher if it launches on this device; raise otherwise."""
    site = launcher.site
    if driver is not site.driver or ordinal != site.device.ordinal:
        name = launcher.info.name
        raise LaunchError(
            f"{name}: the bundle is loaded on {site.device}, and the op is run on {device_words(ordinal)}",
            fix="run it under use_device, or on a stream of that device",
            kernel=name,
        )
    return launcher
