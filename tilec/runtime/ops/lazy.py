"""Launchers of a bundle as ops: `module.lazy.NAME(...)` describes a launch that runs later and gives back its arguments."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, final

from tilec.errors import LaunchError, LaunchLimitError
from tilec.model.kernel import AxisValue
from tilec.runtime.binding import bind
from tilec.runtime.grid import GridRule, GridWish
from tilec.runtime.launch import Launcher
from tilec.runtime.ops.context import ExecutionContext
from tilec.runtime.ops.holding import Held, discard_all, hold_all
from tilec.runtime.ops.op import DeviceOp
from tilec.runtime.seam import Dim3
from tilec.runtime.tensors.lease import holder
from tilec.runtime.tensors.partition import MappedPartition, Partition

if TYPE_CHECKING:
    from tilec.runtime.load import Module


@final
class LazyLaunchers:
    """The launchers of a module as functions that give ops: `module.lazy.add(z, x, y)`."""

    def __init__(self, module: Module) -> None:
        """Use `Module.lazy`."""
        self._module = module

    def __getattr__(self, name: str) -> LazyLauncher:
        """The function of a kernel."""
        made = self.__dict__[name] = LazyLauncher(getattr(self._module, name))  # found without this method the next time
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
        """Use `Module.lazy`."""
        self._launcher = launcher

    def __call__(self, *args: Any, **kwargs: Any) -> LazyLaunch:
        """A launch that runs later. Nothing is enqueued now; leases are taken, so that conflicts show here.

        Args:
            args: the kernel's arguments in order: tensors, partitions, views, arrays of other libraries, numbers, or ops that give them.
            kwargs: arguments by name, and axes (`BM=128`).

        Raises:
            ArgumentError: count or names are off. VariantError: an axis value that was not built.
            OwnershipError: a tensor was moved before, is used by somebody else, or is there twice. UsedOpError: an op was used before.
        """
        values, axes = bind(self._launcher.contract, args, kwargs)
        return LazyLaunch(self._launcher.variant(**axes) if axes else self._launcher, values)

    def __repr__(self) -> str:
        """`<LazyLauncher add on device 0 (NVIDIA H200)>`."""
        return f"<Lazy{repr(self._launcher).removeprefix('<')}"


@final
class LazyLaunch(DeviceOp[tuple[Any, ...]]):
    """An op that launches a kernel, and gives back its arguments as a tuple: tensors as they were, and of ops their results.

    Tensors and partitions that are owned move in; borrowed ones are claimed until the launch has run.
    """

    def __init__(self, launcher: Launcher, values: tuple[Any, ...]) -> None:
        """Use `Module.lazy`."""
        self._launcher = launcher
        self._grid: Dim3 | None = None
        params = launcher.contract.params
        contents = [(value, param.out) for value, param in zip(values, params, strict=True)]
        self._held = hold_all(contents, holder(f"the launch of {launcher.info.name}"))

    @property
    def name(self) -> str:
        """`launch of add`."""
        return f"launch of {self._launcher.info.name}"

    def grid(self, *extents: int) -> LazyLaunch:
        """Launch on this grid instead of the kernel's own; it has to be that of the partitions that the kernel writes.

        Raises:
            LaunchLimitError: it has none or more than three extents, or one that is no whole number or negative.
        """
        if not 1 <= len(extents) <= 3 or any(type(extent) is not int or extent < 0 for extent in extents):
            what = f"{self._launcher.info.name}: the grid {extents} is not one to three whole numbers that are not negative"
            raise LaunchLimitError(what, kernel=self._launcher.info.name)
        self._grid = _dim3(extents)
        return self

    def const_grid(self, *extents: int) -> LazyLaunch:
        """The same as `grid`: kernels are built before a grid is known, and none is compiled for one."""
        return self.grid(*extents)

    def variant(self, **axes: AxisValue) -> LazyLaunch:
        """Launch the variant of these axis values.

        Raises:
            VariantError: an axis or a value that was not built, or no variant with these values together.
        """
        self._launcher = self._launcher.variant(**axes)
        return self

    def _execute(self, ctx: ExecutionContext) -> tuple[Any, ...]:
        held, self._held = self._held, []
        try:
            return self._launch(ctx, held)
        except BaseException:
            discard_all(held)
            raise

    def _discard(self) -> None:
        held, self._held = self._held, []
        discard_all(held)

    def __del__(self) -> None:
        """An op that is dropped without having run gives back what moved in."""
        discard_all(self.__dict__.get("_held", ()))

    def _launch(self, ctx: ExecutionContext, held: list[Held]) -> tuple[Any, ...]:
        launcher = self._launcher
        site = launcher.site
        if (ctx.driver, ctx.device) != (site.driver, site.device.ordinal):
            where = "the cpu device" if ctx.device < 0 else f"device {ctx.device}"
            what = f"{launcher.info.name}: the bundle is loaded on {site.device}, and the op is run on {where}"
            raise LaunchError(what, fix="run it under use_device, or on a stream of that device", kernel=launcher.info.name)
        ready = [argument.ready(ctx) for argument in held]
        wishes = self._wishes([argument.given for argument in ready])
        (launcher.on_grid(wishes) if wishes else launcher).launch(ctx.stream, tuple([argument.taken for argument in ready]))
        for argument in held:
            argument.release()
        return tuple([argument.given for argument in ready])

    def _wishes(self, given: list[Any]) -> tuple[GridWish, ...]:
        """What the call says of the grid."""
        found = []
        if self._grid is not None:
            found.append(GridWish(grid=self._grid, rule=GridRule.INSTEAD, source="grid()"))
        for value, param in zip(given, self._launcher.contract.params, strict=True):
            if isinstance(value, Partition) and param.out:
                found.append(_wish(value, param.name, self._launcher.info.name))
        return tuple(found)


def _wish(partition: Partition[Any], name: str, kernel: str) -> GridWish:
    if isinstance(partition, MappedPartition):
        return GridWish(grid=(partition.blocks, 1, 1), rule=GridRule.INSTEAD, source=f"the mapped partition {name}")
    if len(partition.grid) > 3:
        what = f"{kernel}: the partition {name} has {len(partition.grid)} dimensions, and a grid has three"
        raise LaunchLimitError(what, fix="map() it to a number of blocks", kernel=kernel)
    rule = GridRule.AT_MOST if partition.prefix else GridRule.EXACTLY
    return GridWish(grid=_dim3(partition.grid), rule=rule, source=f"the partition {name}")


@functools.lru_cache(maxsize=256)
def _dim3(extents: tuple[int, ...]) -> Dim3:
    x, y, z = (*extents, 1, 1, 1)[:3]
    return x, y, z
