"""Configurations of launches, for kernels without a bundle or with open keys."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

from tilec_runtime.device.scalars import is_whole, shown
from tilec_runtime.device.seam import Dim3, LaunchShape, dim3
from tilec_runtime.errors import ArgumentError, CallError, LaunchLimitError
from tilec_runtime.model.kernel import KernelInfo

_THREADS = 256
# Values of a configuration whose caller gave none.
_UNSAID = {"grid": ("1", "1", "1"), "block": ("1", "1", "1"), "shared": ("0",)}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LaunchConfig:
    """Grid, block and attributes of a launch.

    Attributes:
        grid: blocks along x, y and z. Missing extents are 1; a number is the extent along x. An
            extent of 0 launches nothing.
        block: threads of a block along x, y and z, likewise.
        shared: dynamic shared memory of a block in bytes.
        cluster: blocks of a cluster, likewise; empty for none.
        cooperative: all blocks are resident at once, so that they may wait for each other.
        programmatic: the launch may start before the preceding launch in its stream is done (from
            compute capability 9.0 on).
    """

    grid: Dim3 | tuple[int, ...] | int = (1, 1, 1)
    block: Dim3 | tuple[int, ...] | int = (1, 1, 1)
    shared: int = 0
    cluster: tuple[int, ...] | int = ()
    cooperative: bool = False
    programmatic: bool = False
    _shape: LaunchShape = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check all fields; give grid and block three extents.

        Raises:
            CallError: a flag is not a bool.
            LaunchLimitError: an extent is not a whole number, is negative, or is one of more than
                three.
        """
        (shared,) = _extents("shared memory", (self.shared,))
        for name, flag in (("cooperative", self.cooperative), ("programmatic", self.programmatic)):
            if not isinstance(flag, bool):
                raise CallError(f"LaunchConfig: {name} is {shown(flag)}, and must be True or False")
        grid, block = _dim3("grid", self.grid), _dim3("block", self.block)
        cluster = (
            ()
            if type(self.cluster) is tuple and not self.cluster
            else _dim3("cluster", self.cluster)
        )
        shape = LaunchShape(
            grid=grid,
            block=block,
            shared=shared,
            cluster=cluster,
            cooperative=self.cooperative,
            programmatic=self.programmatic,
        )
        for name, value in (
            ("grid", grid),
            ("block", block),
            ("cluster", cluster),
            ("shared", shared),
            ("_shape", shape),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def for_num_elems(cls, count: int, block: int = _THREADS, *, shared: int = 0) -> LaunchConfig:
        """Configure one thread per element. 0 elements launch nothing."""
        return cls.covering((count,), (block,), shared=shared)

    @classmethod
    def for_2d(
        cls, width: int, height: int, block: tuple[int, int] = (16, 16), *, shared: int = 0
    ) -> LaunchConfig:
        """Configure one thread per element of a matrix; x runs along `width`."""
        return cls.covering((width, height), block, shared=shared)

    @classmethod
    def for_3d(
        cls,
        width: int,
        height: int,
        depth: int,
        block: tuple[int, int, int] = (8, 8, 8),
        *,
        shared: int = 0,
    ) -> LaunchConfig:
        """Configure one thread per element of a volume; x runs along `width`."""
        return cls.covering((width, height, depth), block, shared=shared)

    @classmethod
    def covering(
        cls, extents: tuple[int, ...], block: tuple[int, ...], *, shared: int = 0
    ) -> LaunchConfig:
        """Return the smallest grid whose threads cover the extents along each axis.

        Raises:
            LaunchLimitError: an extent is not a whole number or is negative, a block has no thread
                along an axis, or the numbers of axes differ.
        """
        threads = _extents("block", _several(block))
        elements = _extents("element count", _several(extents))
        if 0 in threads:
            raise LaunchLimitError(
                f"the block is {threads}: it has one thread at least along each axis"
            )
        if len(threads) != len(elements):
            raise LaunchLimitError(
                f"{len(elements)} extents cannot be covered by blocks of {len(threads)}",
                fix="give as many of both",
            )
        grid = tuple(-(-extent // most) for extent, most in zip(elements, threads, strict=True))
        return cls(grid=grid, block=threads, shared=shared)

    @property
    def shape(self) -> LaunchShape:
        """The configuration as drivers take it."""
        return self._shape


def configured(info: KernelInfo, config: LaunchConfig) -> KernelInfo:
    """Return the kernel with a `LaunchConfig` for the open keys of its manifest.

    Raises:
        ArgumentError: `config` is not a `LaunchConfig`, the kernel takes none, or it contradicts
            the manifest.
    """
    name, launch = info.name, info.launch
    given: Any = config
    if not isinstance(given, LaunchConfig):
        message = f"{name}: config takes a LaunchConfig, got a {type(given).__qualname__}"
        raise ArgumentError(
            message,
            fix="pass LaunchConfig(grid=..., block=...) or LaunchConfig.for_num_elems(n)",
            kernel=name,
        )
    if not launch.open:
        message = f"{name}: takes no config: its manifest says grid and block, or configured() said them before"
        fix = f'leave it out, or say what callers choose: kernel.{name}.launch.open = ["grid"]'
        raise ArgumentError(message, fix=fix, kernel=name)
    shape = config.shape
    wanted = {
        "grid": _texts(shape.grid),
        "block": _texts(shape.block),
        "shared": (str(shape.shared),),
    }
    own = {"grid": _padded(launch.grid), "block": _padded(launch.block), "shared": (launch.shared,)}
    for key, texts in wanted.items():
        if key not in launch.open and texts not in (_UNSAID[key], own[key]):
            message = f"{name}: the manifest says {key} {' x '.join(own[key])}, and config says {' x '.join(texts)}"
            raise ArgumentError(
                message,
                fix=f'leave {key} out of the config, or add "{key}" to kernel.{name}.launch.open',
                kernel=name,
            )
    if shape.cluster and launch.cluster and shape.cluster != dim3(launch.cluster):
        message = (
            f"{name}: the manifest says cluster {launch.cluster}, and config says {shape.cluster}"
        )
        raise ArgumentError(message, fix="leave cluster out of the config", kernel=name)
    taken = {key: wanted[key] if key in launch.open else own[key] for key in wanted}
    launch = dataclasses.replace(
        launch,
        open=(),
        grid=taken["grid"],
        block=taken["block"],
        shared=taken["shared"][0],
        cluster=shape.cluster or launch.cluster,
        cooperative=launch.cooperative or shape.cooperative,
        programmatic=launch.programmatic or shape.programmatic,
    )
    return dataclasses.replace(info, launch=launch)


def _dim3(noun: str, extents: tuple[int, ...] | int) -> Dim3:
    given = _extents(noun, _several(extents))
    if len(given) > 3:
        raise LaunchLimitError(
            f"the {noun} {given} has {len(given)} extents, and three are possible"
        )
    return dim3(given)


def _several(extents: Any) -> tuple[Any, ...]:
    return tuple(extents) if isinstance(extents, (tuple, list)) else (extents,)


def _extents(noun: str, extents: tuple[Any, ...]) -> tuple[int, ...]:
    for extent in extents:
        if not is_whole(extent) or extent < 0:
            raise LaunchLimitError(
                f"the {noun} has {shown(extent)}, and must have whole numbers that are not negative"
            )
    return tuple([operator.index(extent) for extent in extents])


def _texts(dims: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(map(str, dims))


def _padded(texts: tuple[str, ...]) -> tuple[str, ...]:
    return (*texts, "1", "1", "1")[:3]
