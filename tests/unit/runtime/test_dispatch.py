"""Which variant a launch takes: the tuning table, rules, the default, what fits, forced axes,
partitions; and what is said of it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from tests.runtime_samples import ADD, TENSOR, Array, image, kernel, loaded, slot
from tilec.testing.fake_driver import H200, FakeDriver
from tilec_runtime import Module, Tensor
from tilec_runtime.errors import LayoutError, RequirementError, VariantError
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import KernelInfo, LaunchInfo, VariantInfo
from tilec_runtime.model.safety import Region, Safety
from tilec_runtime.model.signature import Assumption, Param
from tilec_runtime.model.table import DispatchRule, Point, TableDevice, TableEntry, TuningTable

ABI = (
    slot("ptr", "z.ptr"),
    slot("ptr", "x.ptr"),
    slot("i32", "x.shape[0]"),
    slot("i32", "x.shape[1]"),
    slot("i32", "x.stride[0]"),
)
DIV16 = tuple(Assumption(param=name, shape=(1, 16), stride=(16, 1), align=16) for name in "zx")


def variants(name: str) -> tuple[VariantInfo, ...]:
    return tuple(
        VariantInfo(
            id=f"{name}-{t}-BM{bm}-BN{bn}{'-div16' if assume else ''}",
            axes=(("T", t), ("BM", bm), ("BN", bn)),
            assume=assume,
            abi=ABI,
            images=(image(f"{name}_{t}_{bm}_{bn}_{len(assume)}"),),
        )
        for t in ("f32", "f16")
        for bm, bn in ((64, 64), (64, 128), (128, 128))
        for assume in (DIV16, ())
    )


def point(t: str, bm: int, bn: int) -> Point:
    return (("T", t), ("BM", bm), ("BN", bn))


def entry(rows: int, t: str, bm: int, bn: int) -> TableEntry:
    return TableEntry(ranges=((rows, 2 * rows - 1), (1, 1 << 20)), point=point(t, bm, bn))


TABLE = TuningTable(
    source="tuning/tiled.json",
    sizes=("x.shape[0]", "x.shape[1]"),
    devices=(
        TableDevice(
            name="Fake H200",
            cc=(9, 0),
            multiprocessors=132,
            entries=(
                entry(1024, "f32", 64, 128),
                entry(4096, "f32", 128, 128),
                entry(1024, "f16", 64, 64),
            ),
        ),
        TableDevice(
            name="Fake H100", cc=(9, 0), multiprocessors=114, entries=(entry(256, "f32", 64, 64),)
        ),
    ),
)
TILED = kernel(
    "tiled",
    (
        Param(name="z", kind=TENSOR, dtype="T", rank=2, out=True, stride=(None, 1)),
        Param(name="x", kind=TENSOR, dtype="T", rank=2, stride=(None, 1)),
    ),
    variants("tiled"),
    axes=(("T", ("f32", "f16")), ("BM", (64, 128)), ("BN", (64, 128))),
    dtype_axes=("T",),
    default=(("BM", 128), ("BN", 128)),
    launch=LaunchInfo(
        grid=("cdiv(z.shape[0], BM)", "cdiv(z.shape[1], BN)"),
        block=("128",),
        requires=("x.shape == z.shape",),
    ),
    safety=Safety(regions=(Region(param="z", tile=("BM", "BN")),)),
    table=TABLE,
)


def arrays(rows: int, columns: int = 64, dtype: str = "f32", **facts: Any) -> tuple[Array, Array]:
    return Array(rows, columns, dtype=dtype, ptr=0x1000_0000, **facts), Array(
        rows, columns, dtype=dtype, ptr=0x8000_0000, **facts
    )


def taken(info: KernelInfo, *arguments: Any, **axes: Any) -> str:
    """The variant that a launch runs; the explanation says the same."""
    module, driver = loaded(info)
    launcher = module.kernels[info.name]
    why = launcher.explain(*arguments, **axes)
    for _ in range(2):  # once with all checks, once by the memo
        launcher(*arguments, **axes, stream=3)
    (symbol,) = {launch.symbol for launch in driver.launches}
    assert symbol == why.variant.images[0].symbol
    return why.variant.id


LEFT = dataclasses.replace(  # the table's point has a variant for divisible extents alone
    TILED,
    variants=tuple(
        v for v in TILED.variants if v.assume or v.axes[1:] == (("BM", 128), ("BN", 128))
    ),
)
ASKING = dataclasses.replace(
    TILED,
    launch=dataclasses.replace(
        TILED.launch, requires=(*TILED.launch.requires, "x.shape[1] % BN == 0 or BN == 64")
    ),
)
NO_DEFAULT = dataclasses.replace(TILED, default=())
RULED = dataclasses.replace(
    TILED,
    table=None,
    default=(("BN", 64),),
    rules=(
        DispatchRule(when="x.shape[0] <= 64", take=(("BM", 64),)),
        DispatchRule(when="x.shape[1] // (x.shape[0] - 100) > 7", take=(("BM", 64), ("BN", 128))),
        DispatchRule(when="", take=(("BM", 128),)),
    ),
)
TABLED = dataclasses.replace(RULED, table=TABLE)
RULED_64 = dataclasses.replace(RULED, default=(("BM", 64), ("BN", 64)))


@pytest.mark.parametrize(
    ("info", "given", "axes", "variant"),
    [
        (TILED, (1024, 64), {}, "f32-BM64-BN128-div16"),
        (TILED, (2047, 64), {}, "f32-BM64-BN128-div16"),
        # the table's point, without the assumption
        (TILED, (1024, 63), {}, "f32-BM64-BN128"),
        (TILED, (1024, 64, "f16"), {}, "f16-BM64-BN64-div16"),
        # by the other device of the architecture
        (TILED, (300, 64), {}, "f32-BM64-BN64-div16"),
        # the default
        (TILED, (8192, 64), {}, "f32-BM128-BN128-div16"),
        # the caller's, then the default
        (TILED, (1024, 64), {"BM": 128}, "f32-BM128-BN128-div16"),
        # neither table nor default has it
        (TILED, (1024, 64), {"BN": 64}, "f32-BM64-BN64-div16"),
        (TILED, (1024, 64), {"BM": None, "BN": None}, "f32-BM64-BN128-div16"),
        # the first that fits
        (NO_DEFAULT, (8192,), {}, "f32-BM64-BN64-div16"),
        (NO_DEFAULT, (8192, 63), {}, "f32-BM64-BN64"),
        # points whose assumptions or requirements do not hold are passed over
        (LEFT, (1024, 64), {}, "f32-BM64-BN128-div16"),
        (LEFT, (1024, 63), {}, "f32-BM128-BN128"),
        (ASKING, (1024, 128), {}, "f32-BM64-BN128-div16"),
        (ASKING, (1024, 64), {}, "f32-BM64-BN64-div16"),
        # rules: what the rule leaves open is the default's
        (RULED, (64, 64), {}, "f32-BM64-BN64-div16"),
        (RULED, (101, 64), {}, "f32-BM64-BN128-div16"),
        # the second condition divides by zero; the third rule's point, without the default
        (RULED, (100, 64), {}, "f32-BM128-BN128-div16"),
        (RULED, (8192, 63), {}, "f32-BM128-BN128"),
        # the caller's comes before every rule
        (RULED, (8192, 64), {"BM": 64}, "f32-BM64-BN64-div16"),
        (RULED, (64, 64), {"BN": 128}, "f32-BM64-BN128-div16"),
        (RULED, (64, 64), {"BM": 128}, "f32-BM128-BN128-div16"),
        # a table comes before rules, and rules before the default
        (TABLED, (1024,), {}, "f32-BM64-BN128-div16"),
        (TABLED, (8192,), {}, "f32-BM128-BN128-div16"),
        (RULED_64, (8192,), {}, "f32-BM128-BN128-div16"),
    ],
)
def test_order_of_choice(
    info: KernelInfo, given: tuple[Any, ...], axes: dict[str, Any], variant: str
) -> None:
    assert taken(info, *arrays(*given), **axes) == f"tiled-{variant}"


@pytest.mark.parametrize(
    ("size", "alpha", "shown"),
    [
        ("alpha", math.inf, "inf"),
        ("alpha * 0.5", -math.inf, "-inf"),
        ("alpha", math.nan, "nan"),
        ("x.dtype", 1.0, "'f32'"),
    ],
)
def test_sizes_that_are_no_numbers_leave_it_to_the_default(
    size: str, alpha: float, shown: str
) -> None:
    device = TableDevice(
        name="Fake H200",
        cc=(9, 0),
        multiprocessors=132,
        entries=(TableEntry(ranges=((0, 9),), point=()),),
    )
    info = dataclasses.replace(
        ADD, table=TuningTable(source="t.json", sizes=(size,), devices=(device,))
    )
    z, x, y = (Array(64, ptr=0x10000 * place) for place in (1, 2, 3))
    assert taken(info, z, x, y, alpha) == "add-a16"
    why = loaded(info)[0].add.explain(z, x, y, alpha)
    assert why.reasons == (
        f"t.json cannot say: {size} is {shown}, no whole number",
        "so the default is tried: the only point",
    )


def test_a_rule_that_reads_a_tensor_which_is_none_says_that() -> None:
    b = Param(name="b", kind=TENSOR, dtype="f32", rank=1, optional=True)
    variants = tuple(
        dataclasses.replace(v, assume=(*v.assume, Assumption(param="b", absent=True)))
        for v in RULED.variants
    )
    rules = (
        DispatchRule(when="x.shape[0] > 64 and b.size > 9", take=(("BM", 64),)),
        *RULED.rules[2:],
    )
    optional = dataclasses.replace(RULED, params=(*RULED.params, b), variants=variants, rules=rules)
    tiled = loaded(optional)[0].tiled
    assert (
        tiled.explain(*arrays(100)).reasons[0]
        == "dispatch rule 1, x.shape[0] > 64 and b.size > 9, cannot say: b is None"
    )
    assert (
        tiled.explain(*arrays(64)).reasons[0]
        == "dispatch rule 1, x.shape[0] > 64 and b.size > 9, does not hold"
    )


def test_a_rule_whose_variants_do_not_fit_is_passed_over() -> None:
    launch = dataclasses.replace(
        TILED.launch, requires=(*TILED.launch.requires, "x.shape[1] % BN == 0 or BM == 64")
    )
    why = loaded(dataclasses.replace(RULED, launch=launch))[0].tiled.explain(*arrays(8192))
    assert why.variant.id == "tiled-f32-BM64-BN64-div16"
    assert why.reasons == (
        "dispatch rule 1, x.shape[0] <= 64, does not hold",
        "dispatch rule 2, x.shape[1] // (x.shape[0] - 100) > 7, does not hold",
        "dispatch rule 3 holds: T=f32, BM=128, BN=128",
        "passed over: tiled: requires x.shape[1] % BN == 0 or BM == 64: BM is 128, BN is 128, x.shape is (8192, 64)",
        "no default: tiled: BM has no default: choose one of 64, 128",
        "so the next that may fit is tried: tiled-f32-BM64-BN64-div16",
    )
    cannot = loaded(RULED)[0].tiled.explain(*arrays(100), BM=64)
    assert "division by zero" in cannot.reasons[1]
    assert (
        cannot.reasons[2]
        == "dispatch rule 3 holds, and says BM=128, which was not built with what is settled already"
    )
    assert dict(loaded(RULED)[0].tiled.explain(*arrays(64)).origins) == dict.fromkeys(
        ("BM", "BN"), "dispatch rule 1's"
    ) | {"T": "the dtype of the arguments"}


def test_an_axis_that_no_rule_names_must_be_chosen() -> None:
    only_bm = dataclasses.replace(RULED, default=(), rules=RULED.rules[2:])
    with pytest.raises(VariantError, match="BN has no default: choose one of 64, 128"):
        taken(only_bm, *arrays(64))
    assert taken(only_bm, *arrays(64), BN=128) == "tiled-f32-BM128-BN128-div16"
    follows = dataclasses.replace(
        only_bm, variants=tuple(v for v in RULED.variants if len({n for _, n in v.axes[1:]}) == 1)
    )
    assert taken(follows, *arrays(64)) == "tiled-f32-BM128-BN128-div16"


def test_a_hint_leaves_its_default_for_a_variant_that_fits() -> None:
    """64 has 4 and 8 warps, 128 has 8. An axis that is no hint may compute something else."""
    info = dataclasses.replace(
        TILED,
        variants=tuple(
            dataclasses.replace(
                variants("tiled")[0],
                id=f"tiled-{bm}-{warps}",
                axes=(("T", "f32"), ("BM", bm), ("num_warps", warps), ("MODE", mode)),
                assume=(),
                hints=(("sm_90", (("num_warps", warps),)),),
                images=(image(f"tiled_{bm}_{warps}"),),
            )
            for bm, warps, mode in ((64, 4, "a"), (64, 8, "a"), (128, 8, "a"), (256, 8, "b"))
        ),
        axes=(
            ("T", ("f32",)),
            ("BM", (64, 128, 256)),
            ("num_warps", (4, 8)),
            ("MODE", ("a", "b")),
        ),
        default=(("BM", 64), ("num_warps", 4), ("MODE", "a")),
        launch=LaunchInfo(grid=("cdiv(z.shape[0], BM)",), block=("128",)),
        safety=None,
        table=None,
    )
    assert taken(info, *arrays(1024)) == "tiled-64-4"
    assert taken(info, *arrays(1024), num_warps=8) == "tiled-64-8"
    assert taken(info, *arrays(1024), BM=128) == "tiled-128-8"
    assert taken(info, *arrays(1024), BM=256, MODE="b") == "tiled-256-8"
    module, _ = loaded(info)
    assert dict(module.tiled.explain(*arrays(1024), BM=128).origins) == {
        "BM": "the caller's",
        "num_warps": "what fits",
        "MODE": "the default",
    }
    with pytest.raises(VariantError, match="no variant with T=f32, BM=256, num_warps=4, MODE=a"):
        module.tiled.explain(*arrays(1024), BM=256)


def test_explanations_name_what_decided() -> None:
    module, _ = loaded(TILED)
    assert str(module.tiled.explain(*arrays(1024, 63, "f16"), BN=64)) == (
        "tiled on device 0 (Fake H200): T=f16, BM=64, BN=64\n"
        "  T is the dtype of the arguments; BM is the tuning table's; BN is the caller's\n"
        "  tuning/tiled.json has it for x.shape[0] 1024 to 2047, x.shape[1] 1 to 1048576 on Fake H200\n"
        "  passes over variant tiled-f16-BM64-BN64-div16: z.shape[1] is 63, not divisible by 16\n"
        "  takes variant tiled-f16-BM64-BN64: it assumes nothing\n"
        "  takes image sm_90: machine code for 9.0\n"
        "  grid (16, 1, 1), block (128, 1, 1), 0 bytes of dynamic shared memory\n"
        "  leaves variant tiled-f32-BM64-BN64-div16: T is f32, and f16 is the dtype of the arguments\n"
        "  leaves variant tiled-f32-BM64-BN64: T is f32, and f16 is the dtype of the arguments\n"
        "  leaves variant tiled-f32-BM64-BN128-div16: T is f32, and f16 is the dtype of the arguments\n"
        "  leaves variant tiled-f32-BM64-BN128: T is f32, and f16 is the dtype of the arguments\n"
        "  leaves variant tiled-f32-BM128-BN128-div16: T is f32, and f16 is the dtype of the arguments\n"
        "  leaves variant tiled-f32-BM128-BN128: T is f32, and f16 is the dtype of the arguments\n"
        "  leaves variant tiled-f16-BM64-BN128-div16: BN is 128, and 64 is the caller's\n"
        "  leaves variant tiled-f16-BM64-BN128: BN is 128, and 64 is the caller's\n"
        "  leaves 2 more: `others` has them all"
    )
    default = module.tiled.explain(*arrays(8192))
    assert default.reasons == (
        "tuning/tiled.json has no entry for x.shape[0] = 8192, x.shape[1] = 64 on Fake H200, Fake H100",
        "so the default is tried: T=f32, BM=128, BN=128",
    )
    assert dict(default.origins) == {
        "T": "the dtype of the arguments",
        "BM": "the default",
        "BN": "the default",
    }
    assert {each.reason for each in default.others} >= {
        "tiled-f32-BM128-BN128-div16 comes before it"
    }


def test_points_that_are_not_in_the_bundle_are_passed_over() -> None:
    left = tuple(variant for variant in TILED.variants if dict(variant.axes)["BM"] == 128)
    module, _ = loaded(dataclasses.replace(TILED, variants=left))
    why = module.tiled.explain(*arrays(1024))
    assert why.variant.id == "tiled-f32-BM128-BN128-div16"
    assert why.reasons[0].endswith("; the bundle has no variant there")


TWICE = dataclasses.replace(
    TILED,
    name="twice",
    table=None,
    variants=variants("twice"),
    params=tuple(dataclasses.replace(param, out=True) for param in TILED.params),
    safety=Safety(
        regions=(Region(param="z", tile=("BM", "BN")), Region(param="x", tile=("BM", "BN")))
    ),
)


KERNELS = (dataclasses.replace(TILED, table=None), TWICE)


def made(driver: Any, rows: int = 1024, columns: int = 256) -> Tensor:
    return Tensor.uninitialized((rows, columns), "f32", driver=driver, ordinal=0, stream=0)


def test_tiles_of_a_partition_choose_the_variant(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    tiled = module.ops.tiled
    for tile in ((64, 128), (128, 128), (64, 64), (64, 128)):
        tiled(made(driver).partition(tile), made(driver)).sync()
    tiled(made(driver).partition((64, 64)), made(driver)).variant(BM=64).sync()
    assert [launch.symbol for launch in driver.launches] == [
        "tiled_f32_64_128_2",
        "tiled_f32_128_128_2",
        "tiled_f32_64_64_2",
        "tiled_f32_64_128_2",
        "tiled_f32_64_64_2",
    ]
    assert [launch.shape.grid for launch in driver.launches] == [
        (16, 2, 1),
        (8, 2, 1),
        (16, 4, 1),
        (16, 2, 1),
        (16, 4, 1),
    ]


def test_tiles_that_contradict_are_refused_before_a_launch(gpu: tuple[Module, FakeDriver]) -> None:
    module, driver = gpu
    tiled, twice = module.ops.tiled, module.ops.twice
    twice(made(driver).partition(64, 64), made(driver).partition(64, 64)).sync()
    with pytest.raises(
        LayoutError,
        match=r"tiled: output 'z' is cut into tiles of \(64, 32\), and no variant with BN = 32 was built",
    ):
        tiled(made(driver).partition(64, 32), made(driver)).sync()
    with pytest.raises(
        LayoutError,
        match=r"is cut into tiles of \(64, 64\), and the kernel's blocks write tiles of \(128, 128\)",
    ):
        tiled(made(driver).partition(64, 64), made(driver)).variant(BM=128).sync()
    with pytest.raises(VariantError, match="no variant with T=f32, BM=128, BN=64 was built"):
        tiled(made(driver).partition(128, 64), made(driver)).sync()
    what = (
        r"'x' is cut into tiles of \(128, 128\), which makes BM 128, and the tiles of z make it 64"
    )
    with pytest.raises(LayoutError, match=what):
        twice(made(driver).partition(64, 128), made(driver).partition(128, 128)).sync()
    assert len(driver.launches) == 1


FACTS = kernel(
    "facts",
    (
        Param(name="z", kind=TENSOR, dtype="f32", rank=2, out=True, stride=(None, None)),
        Param(name="x", kind=TENSOR, dtype="f32", rank=2, stride=(None, None)),
    ),
    (
        VariantInfo(
            id="facts-256",
            assume=(Assumption(param="x", extent=(None, 256), contiguous=True),),
            abi=ABI,
            images=(image("facts_256"),),
        ),
        VariantInfo(
            id="facts-contiguous",
            assume=(Assumption(param="x", contiguous=True),),
            abi=ABI,
            images=(image("facts_dense"),),
        ),
        VariantInfo(id="facts", abi=ABI, images=(image("facts_any"),)),
    ),
    launch=LaunchInfo(grid=("z.shape[0]",), block=("32",)),
)


@pytest.mark.parametrize(
    ("shape", "stride", "variant", "why"),
    [
        ((4, 256), None, "facts-256", ""),
        ((4, 128), None, "facts-contiguous", "x.shape[1] is 128, not 256"),
        (
            (4, 256),
            (512, 1),
            "facts",
            "x has strides (512, 1), not those of a contiguous tensor, (256, 1)",
        ),
        (
            (4, 256),
            (1, 4),
            "facts",
            "x has strides (1, 4), not those of a contiguous tensor, (256, 1)",
        ),
        ((1, 256), (999, 1), "facts-256", ""),  # no access uses the stride of one row
        ((0, 256), (7, 3), "facts-256", ""),
        ((4, 0), None, "facts-contiguous", "x.shape[1] is 0, not 256"),
    ],
)
def test_extents_and_contiguity_are_verified(
    shape: tuple[int, int], stride: tuple[int, int] | None, variant: str, why: str
) -> None:
    module, _ = loaded(FACTS)
    found = module.facts.explain(Array(*shape, ptr=0x9000_0000), Array(*shape, stride=stride))
    assert found.variant.id == variant
    assert found.considered[0].reason == (why or "the arguments satisfy all its assumptions")


def persistent(*, default: tuple[tuple[str, int], ...] = ()) -> KernelInfo:
    """A kernel whose tile is 128 on compute capability 9.0, and 64 elsewhere."""
    built = ((128, ("sm_90",)), (64, ("sm_80", "compute_80")))
    return kernel(
        "rows",
        (Param(name="x", kind=TENSOR, dtype="f32", rank=2, out=True),),
        tuple(
            VariantInfo(
                id=f"rows-BM{bm}",
                axes=(("BM", bm),),
                abi=(slot("ptr", "x.ptr"), slot("i32", "sm_count")),
                images=tuple(image(f"rows_{bm}", target) for target in targets),
            )
            for bm, targets in built
        ),
        axes=(("BM", (128, 64)),),
        default=default,
        launch=LaunchInfo(
            grid=("min(sm_count, cdiv(x.shape[0], BM))",),
            block=("128",),
            requires=("x.shape[1:] == (4,)", "cc >= 80"),
        ),
        jit=JitFallback.ALLOW,
    )


def test_the_device_says_what_an_axis_is_that_differs_by_target() -> None:
    module, driver = loaded(persistent())
    for rows, blocks in ((300, 3), (128 * 500, 132)):
        module.rows(Array(rows, 4), stream=3)
        assert (driver.launches[-1].symbol, driver.launches[-1].shape.grid) == (
            "rows_128",
            (blocks, 1, 1),
        )
    with pytest.raises(
        RequirementError, match=r"requires x.shape\[1:\] == \(4,\): left-hand side is \(5,\)"
    ):
        module.rows(Array(3, 5), stream=3)
    older = dataclasses.replace(H200, cc=(8, 6), multiprocessors=7)
    module, driver = loaded(persistent(), devices=(older,))
    module.rows(Array(64 * 100, 4), stream=3)
    assert (driver.launches[-1].symbol, driver.launches[-1].shape.grid) == ("rows_64", (7, 1, 1))
    with pytest.raises(VariantError, match="BM"):
        module.rows(Array(64, 4), stream=3, BM=128)
