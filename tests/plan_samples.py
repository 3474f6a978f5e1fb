"""Random kernels as a bundle's index describes them, and random calls of which each differs from
the one before in one fact.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any, TypeVar

import numpy as np

from tests.runtime_samples import (
    PTR,
    SCALAR,
    STRUCT,
    TENSOR,
    Array,
    fake_driver,
    image,
    kernel,
    slot,
)
from tests.unit.runtime import fake_torch
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime.errors import TilecError
from tilec_runtime.launch.images import ImageStore, Site
from tilec_runtime.launch.launcher import Launcher
from tilec_runtime.launch.plans import Plans
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import KernelInfo, LaunchInfo, VariantInfo
from tilec_runtime.model.safety import Region, Safety
from tilec_runtime.model.signature import AbiSlot, Assumption, Param
from tilec_runtime.model.table import DispatchRule, TableDevice, TableEntry, TuningTable
from tilec_runtime.model.tensormap import TensorMap

EXTENTS = (
    0,
    1,
    2,
    3,
    4,
    8,
    16,
    16,
    32,
    48,
    64,
    100,
    128,
    1000,
    1024,
    65536,
    2**31 - 1,
    2**31,
    2**40,
)
OFFSETS = (0, 0, 0, 1, 2, 4, 8, 16, 32, 256)
INTEGERS = (
    0,
    1,
    2,
    3,
    7,
    16,
    64,
    255,
    1024,
    2**31 - 1,
    2**31,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**70,
    -1,
    -16,
    -(2**31),
    -(2**63),
    True,
    False,
)
FLOATS = (0.0, -0.0, 1.0, 2.5, -3.0, 1e39, float("inf"), float("nan"), 65519.0, 65520.0)
NUMPY = (np.int32(3), np.int64(16), np.uint8(1), np.float32(2.0), np.float64(1.0), np.bool_(True))
FAR = 1 << 42


# Calls


@dataclasses.dataclass
class Fact:
    """What a tensor argument is."""

    shape: tuple[int, ...]
    base: int
    dtype: str = "f32"
    stride: tuple[int, ...] | None = None
    offset: int = 0
    device: int | None = 0
    readonly: bool = False
    negative: bool = False
    foreign: bool = False

    def array(self, torch: type[fake_torch.Tensor]) -> Any:
        """As a tensor of torch, or of another library."""
        at = self.base + self.offset
        if not self.foreign:
            dtype = DTYPES[self.dtype].numpy if self.dtype in DTYPES else self.dtype
            return torch(
                self.shape,
                at if self.base else 0,
                self.stride,
                f"torch.{dtype}",
                -1 if self.device is None else self.device,
                self.negative,
            )
        return Array(
            *self.shape,
            dtype=self.dtype,
            ptr=at if self.base else 0,
            stride=self.stride,
            device=self.device,
            readonly=self.readonly,
        )


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps = [1]
    for extent in shape[:0:-1]:
        steps.append(steps[-1] * max(extent, 1))
    return tuple(reversed(steps)) if shape else ()


class Calls:
    """Arguments of a kernel that change one fact at a time, and mostly come back to what works."""

    def __init__(
        self,
        info: KernelInfo,
        pick: random.Random,
        torch: type[fake_torch.Tensor] = fake_torch.Tensor,
    ) -> None:
        self.info, self.pick, self.torch = info, pick, torch
        self.foreign = pick.random() < 0.5
        self.values: list[Any] = [
            self._first(place, param) for place, param in enumerate(info.params)
        ]
        self.good = list(self.values)

    def _first(self, place: int, param: Param) -> Any:
        if param.kind is TENSOR:
            dtype = param.dtype if param.dtype in DTYPES else dict(self.info.axes)[param.dtype][0]
            return Fact(
                shape=(64,) * max(param.rank, 0),
                base=FAR * (place + 1),
                dtype=str(dtype),
                foreign=self.foreign,
            )
        if param.kind is STRUCT:
            return bytes(range(param.size))
        return {"bool": True, "f32": 1.0, "f16": 1.0, "bf16": 1.0, "f64": 1.0}.get(param.dtype, 16)

    def arguments(self) -> tuple[Any, ...]:
        return tuple(
            value.array(self.torch) if isinstance(value, Fact) else value for value in self.values
        )

    def change(self) -> None:
        """Change one fact; now and then go back to the arguments that worked last."""
        if self.pick.random() < 0.4:
            self.values = list(self.good)
        if self.pick.random() < 0.3:
            self._resize()
            return
        place = self.pick.randrange(len(self.values))
        value = self.values[place]
        self.values[place] = (
            self._other(place, value)
            if isinstance(value, Fact) or self.info.params[place].kind is TENSOR
            else self._scalar(place)
        )

    def keep(self) -> None:
        """These arguments work: go back to them."""
        self.good = list(self.values)

    def _resize(self) -> None:
        """Give one dimension of all tensors another extent, as programs do from step to step."""
        dim, extent = self.pick.randrange(3), self.pick.choice(EXTENTS)
        for place, value in enumerate(self.values):
            if isinstance(value, Fact) and dim < len(value.shape):
                shape = (*value.shape[:dim], extent, *value.shape[dim + 1 :])
                self.values[place] = dataclasses.replace(
                    value,
                    shape=shape,
                    stride=None if value.stride is None else self._strides(shape),
                )

    def _strides(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Of a tensor with gaps, of a transposed one, of an expanded one, or of one that runs
        backwards.
        """
        pick = self.pick.random()
        steps = list(dense(shape))
        if not steps or pick < 0.1:
            return tuple(steps)
        if pick < 0.5:
            gap = self.pick.choice((1, 4, 16, 64))
            return tuple(
                step if dim == len(steps) - 1 else step + gap for dim, step in enumerate(steps)
            )
        if pick < 0.75:
            return tuple(reversed(dense(shape[::-1])))
        place = self.pick.randrange(len(steps))
        steps[place] = self.pick.choice((0, -steps[place], 2 * steps[place]))
        return tuple(steps)

    def _other(self, place: int, value: Fact | None) -> Fact | None:
        pick, param = self.pick, self.info.params[place]
        if value is None:
            return self._first(place, param)  # type: ignore[no-any-return]
        what = pick.choice(
            (
                "extent",
                "extent",
                "stride",
                "stride",
                "offset",
                "offset",
                "base",
                "dtype",
                "device",
                "readonly",
                "negative",
                "library",
                "none",
                "rank",
            )
        )
        match what:
            case "extent" if value.shape:
                dim = pick.randrange(len(value.shape))
                shape = (*value.shape[:dim], pick.choice(EXTENTS), *value.shape[dim + 1 :])
                return dataclasses.replace(
                    value,
                    shape=shape,
                    stride=None if value.stride is None else self._strides(shape),
                )
            case "stride":
                return dataclasses.replace(
                    value, stride=pick.choice((None, self._strides(value.shape)))
                )
            case "offset":
                return dataclasses.replace(value, offset=pick.choice(OFFSETS))
            case "base":  # its own place, none, or near or inside of another tensor
                near = pick.choice([fact.base for fact in self.values if isinstance(fact, Fact)])
                base = pick.choice(
                    (FAR * (place + 1), 0, near, near + 64, near + 4096, near + 2**20, 2**63)
                )
                return dataclasses.replace(value, base=base)
            case "dtype":
                dtypes = ("f32", "f16", "bf16", "i32", *(() if value.foreign else ("complex64",)))
                return dataclasses.replace(value, dtype=pick.choice(dtypes))
            case "device":
                return dataclasses.replace(value, device=pick.choice((0, 0, 1, None)))
            case "readonly":
                return dataclasses.replace(value, readonly=not value.readonly)
            case "negative":
                return dataclasses.replace(value, negative=not value.negative)
            case "library" if value.dtype in DTYPES:
                return dataclasses.replace(value, foreign=not value.foreign)
            case "none" if param.optional or pick.random() < 0.2:
                return None
            case "rank":
                shape = pick.choice((value.shape[:-1], (*value.shape, 1)))
                return dataclasses.replace(value, shape=shape, stride=None)
        return dataclasses.replace(value, offset=0, base=FAR * (place + 1))

    def _scalar(self, place: int) -> Any:
        if self.info.params[place].kind is STRUCT:
            size = self.info.params[place].size
            return self.pick.choice(
                (
                    bytes(size),
                    bytearray(b"\1" * size),
                    b"\2" * (size + 1),
                    "text",
                    bytes(range(size)),
                )
            )
        return self.pick.choice((*INTEGERS, *FLOATS, *NUMPY, "text"))


# Kernels


class Kernels:
    """Makes random kernels."""

    def __init__(self, pick: random.Random) -> None:
        self.pick = pick

    def one(self, name: str) -> KernelInfo:
        """A kernel: tensors z (written), x, and perhaps w (may be None), and scalars."""
        pick = self.pick
        self.params = self._params()
        self.counted = any(param.name == "n" for param in self.params)
        self.names = [
            param.name for param in self.params if param.kind is TENSOR and not param.optional
        ]
        tuned = pick.random() < 0.4
        points = (64, 128) if tuned or pick.random() < 0.3 else (64,)
        typed = any(param.dtype == "T" for param in self.params)
        dtypes = ("f16", "f32") if typed else ("",)
        optional = any(param.optional for param in self.params)
        facts = self._image_facts()
        variants = []
        for dtype in dtypes:
            for bm in points:
                abi = self._abi()
                for sets in (
                    *([self._assumed(True)] if pick.random() < 0.7 else []),
                    self._assumed(False),
                ):
                    for absent in (False, True) if optional else (False,):
                        assume = (*sets, Assumption(param="w", absent=True)) if absent else sets
                        number = len(variants)
                        own = tuple(each for each in abi if not absent or "w." not in each.expr)
                        axes = (*((("T", dtype),) if typed else ()), ("BM", bm))
                        img = image(f"{name}_{number}", **facts)
                        variants.append(
                            VariantInfo(
                                id=f"{name}-{number}",
                                axes=axes,
                                assume=assume,
                                abi=own,
                                images=(img,),
                            )
                        )
        axes = (*((("T", dtypes),) if typed else ()), ("BM", points))
        regions = (Region(param="z", tile=(pick.choice(("BM", "1")),), mapped=True),)
        made = kernel(
            name,
            self.params,
            tuple(variants),
            axes=axes,
            dtype_axes=("T",) if typed else (),
            default=(("BM", points[-1]),) if pick.random() < 0.8 else (),
            launch=self._launch(),
            table=self._table(points) if tuned and pick.random() < 0.6 else None,
            rules=self._rules(points) if tuned and pick.random() < 0.6 else (),
            safety=Safety(regions=regions)
            if pick.random() < 0.3 and self.params[0].rank == 1
            else None,
        )
        return dataclasses.replace(made, language=pick.choice(("cuda", "cuda", "tile")))

    def _params(self) -> tuple[Param, ...]:
        pick = self.pick
        rank = pick.choice((0, 1, 1, 2, 2, 3))
        dtype = pick.choice(("f32", "f32", "T"))

        def tensor(name: str, **facts: Any) -> Param:
            layouts: list[tuple[int | None, ...] | None] = [
                None,
                (None,) * rank,
                (*(None,) * (rank - 1), 1)[:rank],
            ]
            return Param(
                name=name,
                kind=TENSOR,
                dtype=dtype,
                rank=rank,
                stride=pick.choice(layouts),
                align=pick.choice((1, 1, 16)),
                shape_divisible=pick.choice(((), (), (8,) * rank)),
                stride_divisible=pick.choice(((), (), (4,) * (rank - 1))) if rank else (),
                **facts,
            )

        found = [tensor("z", out=True), tensor("x")]
        if pick.random() < 0.4:
            found.append(tensor("w", optional=pick.random() < 0.5, out=pick.random() < 0.3))
        scalars = (
            Param(name="n", kind=SCALAR, dtype=pick.choice(("i32", "i64", "u8", "u64"))),
            Param(name="alpha", kind=SCALAR, dtype=pick.choice(("f32", "f16", "bf16", "f64"))),
            Param(name="on", kind=SCALAR, dtype="bool"),
            Param(name="p", kind=PTR),
            Param(name="s", kind=STRUCT, size=pick.choice((4, 12))),
        )
        return (*found, *(param for param in scalars if pick.random() < 0.4))

    def number(self, depth: int = 0) -> str:
        """An expression that is a whole number."""
        pick = self.pick
        name, rank = pick.choice(self.names), self.params[0].rank
        leaves = [
            f"{name}.size",
            f"nbytes({name})",
            str(pick.choice((1, 2, 3, 16, 64, 1000))),
            "BM",
        ]
        if rank:
            leaves += [f"{name}.shape[{pick.choice((0, -1, rank - 1))}]"] * 4 + [
                f"{name}.stride[{pick.randrange(rank)}]"
            ]
        leaves += ["n", "n"] if self.counted else []
        if depth > 2 or pick.random() < 0.4:
            return pick.choice(leaves)
        a, b = self.number(depth + 1), self.number(depth + 1)
        forms = (
            "{a} + {b}",
            "({a} - {b})",
            "{a} * {b}",
            "{a} // {b}",
            "{a} % {b}",
            "cdiv({a}, {b})",
            "min({a}, {b})",
            "max({a}, {b}, 1)",
        )
        forms += ("next_pow2({a})", "-{a}", "({a} or {b})", "({a} and {b})", "max(1, {a})")
        return "(" + pick.choice(forms).format(a=a, b=b) + ")"

    def condition(self, depth: int = 0) -> str:
        pick = self.pick
        name, rank = pick.choice(self.names), self.params[0].rank
        plain = [
            f"{self.number(1)} {pick.choice(('<', '<=', '>', '>=', '!=', '=='))} {self.number(1)}"
        ]
        plain += [
            f"z.shape == {name}.shape",
            f"{name}.size < 100000",
            f"{name}.dtype == 'f32'",
            f"{name}.ptr % 32 == 0",
            "1 < 2",
        ]
        if rank:
            plain += [
                f"x.shape[0] == z.shape[0], {name}".split(",", maxsplit=1)[0],
                f"{name}.shape[0] % 16 == 0",
                f"0 <= {name}.shape[-1] <= 1024",
            ]
        if any(param.name == "alpha" for param in self.params):
            plain += ["alpha < 2.5", f"alpha * {name}.size < 1000"]
        if any(param.name == "on" for param in self.params):
            plain += ["on", "not on", f"(on or {name}.size > 4)"]
        if depth > 1 or pick.random() < 0.6:
            return pick.choice(plain)
        joined = f"({self.condition(depth + 1)} {pick.choice(('and', 'or'))} {self.condition(depth + 1)})"
        return joined if pick.random() < 0.8 else f"(not {joined})"

    def _abi(self) -> tuple[AbiSlot, ...]:
        pick, found = self.pick, []
        for param in self.params:
            if param.kind is TENSOR:
                found.append(slot("ptr", f"{param.name}.ptr"))
                for dim in range(param.rank):
                    kind = pick.choice(("i32", "i64", "u32"))
                    found += (
                        [slot(kind, f"{param.name}.shape[{dim}]")] if pick.random() < 0.6 else []
                    )
                    found += (
                        [slot(kind, f"{param.name}.stride[{dim}]")] if pick.random() < 0.4 else []
                    )
            elif pick.random() < 0.8:
                kind = (
                    "ptr"
                    if param.kind is PTR
                    else "struct"
                    if param.kind is STRUCT
                    else param.dtype
                )
                found.append(
                    AbiSlot(type="struct", expr="s", size=param.size, align=4)
                    if kind == "struct"
                    else slot(kind, param.name)
                )
                if param.name == "n" and pick.random() < 0.3:
                    found.append(slot(pick.choice(("i64", "i32", "f32")), "n"))
        for _ in range(pick.choice((0, 0, 1, 2))):
            kind = pick.choice(("i32", "i64", "u32", "u8", "f32", "f64", "bool", "f16"))
            found.append(slot(kind, self.number() if pick.random() < 0.8 else self.condition()))
        if pick.random() < 0.06 and self.params[1].rank:
            wanted = TensorMap(element=7, swizzle=0, box=(16,) * self.params[1].rank)
            found.append(AbiSlot(type=str(wanted), expr="x.ptr", size=128, align=64))
        if pick.random() < 0.06:
            found.append(AbiSlot(type="scratch:96", expr="0", size=8, align=8))
        pick.shuffle(found)
        return tuple(found)

    def _assumed(self, much: bool) -> tuple[Assumption, ...]:
        pick, found = self.pick, []
        for param in self.params if much else ():
            if param.kind is TENSOR and not param.optional and pick.random() < 0.8:
                rank = param.rank
                found.append(
                    Assumption(
                        param=param.name,
                        shape=pick.choice(((), (16,) * rank, (1,) * rank)),
                        stride=pick.choice(((), (), (8,) * (rank - 1))) if rank else (),
                        align=pick.choice((1, 16, 32)),
                        extent=pick.choice(((), (), (*(None,) * (rank - 1), 64))) if rank else (),
                        contiguous=pick.random() < 0.3,
                    )
                )
        return tuple(found)

    def _launch(self) -> LaunchInfo:
        pick = self.pick
        grids = [
            ("cdiv(z.size, BM)",),
            ("max(z.size, 1)", "2"),
            ("1",),
            (self.number(),),
            (self.number(), self.number()),
            ("z.size",),
        ]
        count = ("n", "n * 4") if self.counted else ()
        return LaunchInfo(
            grid=pick.choice((*grids, *((each,) for each in count))),
            block=pick.choice(
                (
                    ("128",),
                    ("128",),
                    ("64", "2"),
                    ("BM",),
                    (f"min({self.number(2)}, 1024)",),
                    *((each,) for each in count),
                )
            ),
            shared=pick.choice(("0", "0", "BM * 64", "z.size * 4", self.number(1), *count)),
            cluster=pick.choice(((), (), (), (2,))),
            cooperative=pick.random() < 0.15,
            requires=tuple(self.condition() for _ in range(pick.choice((0, 0, 1, 2)))),
        )

    def _image_facts(self) -> dict[str, Any]:
        pick = self.pick.random()
        if pick < 0.6:
            return {}
        choices: tuple[dict[str, Any], ...] = (
            {"required_block": (128, 1, 1)},
            {"max_threads": 128},
            {"cluster": (2,)},
            {"block": (64,), "dynamic_shared": 1024, "cluster": (2, 1, 1)},
            {"exact": True},
        )
        return self.pick.choice(choices)

    def _rules(self, points: tuple[int, ...]) -> tuple[DispatchRule, ...]:
        return tuple(
            DispatchRule(
                when=self.condition() if self.pick.random() < 0.8 else "",
                take=(("BM", self.pick.choice(points)),),
            )
            for _ in range(2)
        )

    def _table(self, points: tuple[int, ...]) -> TuningTable:
        sizes = tuple(self.number(2) for _ in range(self.pick.choice((1, 2))))

        def ranges() -> tuple[tuple[int, int], ...]:
            return tuple(
                (low, low + self.pick.choice((0, 15, 1000)))
                for low in (self.pick.choice(EXTENTS) for _ in sizes)
            )

        typed = any(param.dtype == "T" for param in self.params)
        entries = tuple(
            TableEntry(
                ranges=ranges(),
                point=(
                    *((("T", self.pick.choice(("f16", "f32"))),) if typed else ()),
                    ("BM", self.pick.choice(points)),
                ),
            )
            for _ in range(self.pick.choice((1, 4)))
        )
        device = TableDevice(name="Fake H200", cc=(9, 0), multiprocessors=132, entries=entries)
        return TuningTable(source="tuned.json", sizes=sizes, devices=(device,))


class _Images:
    """As much of a bundle as launches of a kernel that is at hand need."""

    def image(self, digest: str) -> bytes:
        return digest.encode()


class Driver(FakeDriver):
    """Scratch memory is told by its size, and is none."""

    def allocate(self, ordinal: int, size: int, stream: int | None, pool: int | None = None) -> int:
        return size

    def free(self, ordinal: int, address: int, stream: int | None) -> None:
        pass


class Plain(Driver):
    """A driver whose launches take Python's path."""

    def launch_target(self, ordinal: int) -> Any:
        return None


D = TypeVar("D", bound=Driver)


def launcher_of(info: KernelInfo, driver: type[D]) -> tuple[Launcher, D]:
    """A launcher of a kernel on a driver of its own; no bundle is written."""
    made = driver((H200,), fake_driver(info, active_blocks=2).kernels)
    site = Site(
        bundle=_Images(), device=H200, driver=made, store=ImageStore(), asked=None, jit=None
    )  # type: ignore[arg-type]
    return Launcher(info, site), made


def outcome(
    launcher: Launcher, driver: FakeDriver, values: tuple[Any, ...], stream: int = 5
) -> list[str]:
    """What came of a launch: all that the driver was given, or the error's text."""
    before = len(driver.launches)
    try:
        launcher(*values, stream=stream)
    except TilecError as error:
        return [f"{type(error).__name__}: {error}"]
    launches = [launch for launch in driver.launches[before:] if launch.stream == stream]
    for launch in launches:  # the function was opted in to its shared memory
        assert launch.shape.shared <= max(48 * 1024, driver.allowed_shared.get(launch.symbol, 0))
    return [f"{launch.symbol} {launch.shape} {launch.arguments!r}" for launch in launches]


def plan_count(launcher: Launcher) -> int:
    """How many plans Python keeps for a launcher."""
    return sum(map(len, launcher.plans._plans.values()))


def compare(
    calls: Calls, count: int, cached: Launcher, driver: Driver, stream: int = 5
) -> tuple[int, int]:
    """Call a launcher, and one that makes every plan anew; how many calls launched, and how many of
    those by a plan of an earlier call.
    """
    fresh, other = launcher_of(calls.info, Plain)
    launched = hits = 0
    for _ in range(count):
        values, before, enqueued = calls.arguments(), plan_count(cached), len(other.launches)
        fresh.plans = Plans()
        found = outcome(cached, driver, values, stream)
        assert found == outcome(fresh, other, values, stream), f"{calls.info}\n{calls.values}"
        if len(other.launches) > enqueued:
            launched += 1
            hits += plan_count(cached) == before
            calls.keep()
        calls.change()
    return launched, hits


def working(pick: random.Random, name: str) -> KernelInfo:
    """A random kernel whose first call launches."""
    while True:
        info = Kernels(pick).one(name)
        launcher, driver = launcher_of(info, Plain)
        if outcome(launcher, driver, Calls(info, pick).arguments()) and driver.launches:
            return info
