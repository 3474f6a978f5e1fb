"""What a launch refuses before the driver is asked: the class, the whole message, and the order of
the checks.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.runtime_samples import (
    ADD,
    ADD_ABI,
    ADD_PARAMS,
    GEMM,
    SCALAR,
    STRUCT,
    Array,
    image,
    kernel,
    loaded,
    slot,
)
from tilec_runtime import Tensor, api
from tilec_runtime.errors import (
    AliasError,
    ArgumentError,
    BundleError,
    DTypeError,
    LaunchLimitError,
    LayoutError,
    NoImageError,
    PlacementError,
    RankError,
    RequirementError,
    UseAfterMoveError,
    VariantError,
)
from tilec_runtime.model.kernel import LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Assumption, Param

Z, X, Y = (Array(1024, ptr=0x10000 * i) for i in (1, 2, 3))


def refusal(kind, call, *args, **kwargs):
    with pytest.raises(kind) as caught:
        call(*args, **kwargs, stream=5)
    assert type(caught.value) is kind
    return caught.value.what


@pytest.fixture
def add():
    module, driver = loaded(ADD)
    yield module.add
    assert driver.launches == [], "nothing reaches the driver"
    assert driver.loads == []


@pytest.mark.parametrize(
    ("args", "kwargs", "what"),
    [
        (
            (Z, X),
            {},
            "add: takes 4 arguments (z, x, y, alpha=1.0), got 2: the argument is missing: 'y'",
        ),
        (
            (),
            {},
            "add: takes 4 arguments (z, x, y, alpha=1.0), got 0: the arguments are missing: 'z', 'x', 'y'",
        ),
        ((Z, X, Y, 1.0, 2.0), {}, "add: takes 4 arguments (z, x, y, alpha=1.0), got 5"),
        ((Z, X, Y), {"x": X}, "add: argument 'x' is given twice, by place and by name"),
        (
            (Z, X, Y),
            {"alhpa": 2.0},
            "add: there is no argument 'alhpa'; did you mean 'alpha'; it takes z, x, y, alpha=1.0",
        ),
        (
            (Z, [1.0], Y),
            {},
            "add: argument 'x' takes a tensor (DLPack or __cuda_array_interface__): got a list",
        ),
        (
            (Z, None, Y),
            {},
            "add: argument 'x' takes a tensor (DLPack or __cuda_array_interface__): got None",
        ),
        (
            (Z, api.zeros(4), Y),
            {},
            "add: argument 'x' takes a tensor (DLPack or __cuda_array_interface__): got a tilec_runtime.api.making.Make",
        ),
        ((Z, X, Y, "2"), {}, "add: argument 'alpha' takes a number, got a str"),
        ((Z, X, Y, np.zeros(())), {}, "add: argument 'alpha' takes a number, got a ndarray"),
        ((Z, X, Y, 1e39), {}, "add: argument 'alpha' is 1e+39, which f32 cannot hold"),
        (
            (Array(1024, readonly=True), X, Y),
            {},
            "add: output 'z' is read-only, and the kernel writes it",
        ),
    ],
)
def test_arguments(add, args, kwargs, what):
    assert refusal(ArgumentError, add, *args, **kwargs) == what


@pytest.mark.parametrize(
    ("kind", "args", "what"),
    [
        (DTypeError, (Z, X, Array(1024, dtype="f16")), "add: argument 'y' takes f32, got f16"),
        (DTypeError, (Z, X, np.zeros(1024)), "add: argument 'y' takes f32, got f64"),
        (
            RankError,
            (Z, X, Array(32, 32)),
            "add: argument 'y' has 2 dimensions (shape (32, 32)), the kernel takes 1",
        ),
        (
            RankError,
            (Z, X, Array()),
            "add: argument 'y' has 0 dimensions (shape ()), the kernel takes 1",
        ),
        (
            PlacementError,
            (Z, X, Array(1024, device=1)),
            "add: argument 'y' is on device 1, and the kernel is loaded on device 0 (Fake H200)",
        ),
        (
            PlacementError,
            (Z, X, np.zeros(1024, "float32")),
            "add: argument 'y' is on the CPU, and the kernel is loaded on device 0 (Fake H200)",
        ),
        (
            LayoutError,
            (Z, X, Array(1024, stride=(2,), ptr=0x30000)),
            "add: argument 'y' has strides (2,) for shape (1024,), and must be C-contiguous: strides (1,)",
        ),
        (
            LayoutError,
            (Z, X, Array(1024, ptr=0x30002)),
            "add: argument 'y' has address 0x30002, which is not aligned to its 4-byte elements",
        ),
        (
            AliasError,
            (Z, X, Array(1024, ptr=0x10000 + 4 * 1023)),
            "add: output 'z' overlaps argument 'y': shape (1024,), strides (1,) at 0x10000 and shape (1024,), strides (1,) at 0x10ffc",
        ),
        (
            RequirementError,
            (Z, X, Array(1000, ptr=0x30000)),
            "add: requires y.shape[0] == z.shape[0]: left-hand side is 1000, right-hand side is 1024",
        ),
    ],
)
def test_tensors(add, kind, args, what):
    assert refusal(kind, add, *args) == what


def test_the_checks_come_in_the_documented_order():
    """A launch that is wrong in every way is refused for the first check; each step repairs what
    was told. (All limits: test_launch_limits.py.)
    """
    wrong = {
        "requires": ("x.shape[0] == 1",),
        "align": 1 << 20,
        "assume": (Assumption(param="z", shape=(16,)),),
        "grid": "1057",
        "target": "sm_80",
        "required_block": (64,),
        "shared": "232449",
        "block": "2048",
    }
    array = {
        "shape": (7, 7),
        "dtype": "f16",
        "device": 1,
        "stride": (9, 3),
        "ptr": 0x10002,
        "readonly": True,
    }
    steps = [
        (DTypeError, "f16", {"dtype": "f32"}),
        (RankError, "2 dimensions", {"shape": (1023,), "stride": (3,)}),
        (PlacementError, "on device 1", {"device": 0}),
        (LayoutError, "strides (3,)", {"stride": None}),
        (LayoutError, "not aligned", {"ptr": 0x20000}),
        (ArgumentError, "read-only", {"readonly": False}),
        (AliasError, "overlaps argument 'x'", {"ptr": 0x10000}),
        (RequirementError, "requires x.shape[0] == 1", {"requires": ()}),
        (
            LayoutError,
            "output 'z' has address 0x10000, which must be divisible by 1048576",
            {"align": 1},
        ),
        (VariantError, "no variant", {"assume": ()}),
        (LaunchLimitError, "block.x is 2048", {"block": "128"}),
        (NoImageError, "no image runs on", {"target": "sm_90"}),
        (
            LaunchLimitError,
            "the kernel was compiled for exactly (64, 1, 1)",
            {"required_block": ()},
        ),
        (LaunchLimitError, "a block needs 232449 bytes of shared memory", {"shared": "0"}),
        (
            LaunchLimitError,
            "the cooperative grid has 1057 blocks, and 1056 can be resident",
            {"grid": "1056"},
        ),
    ]
    x, y = (Array(1023, ptr=0x10000 * i) for i in (2, 3))
    for kind, what, repair in steps:
        module, driver = wholly(wrong)
        facts = dict(array)
        assert what in refusal(kind, module.add, Array(*facts.pop("shape"), **facts), x, y)
        assert driver.launches == []
        for wrongs in (wrong, array):
            wrongs.update({name: fact for name, fact in repair.items() if name in wrongs})
    module, driver = wholly(wrong)
    module.add(Array(1023, ptr=0x10000), x, y, stream=5)
    assert len(driver.launches) == 1


def test_ownership_is_checked_before_what_arguments_are():
    module, driver = loaded(ADD)
    moved = Tensor.uninitialized((64,), "f32", driver=driver, ordinal=0, stream=0)
    shared = moved.share()
    with pytest.raises(UseAfterMoveError, match="it was moved into share"):
        module.add(moved, shared, "no tensor", stream=5)
    with pytest.raises(ArgumentError, match="got 2"):
        module.add(moved, shared, stream=5)
    assert driver.launches == []


def wholly(facts):
    launch = LaunchInfo(
        grid=(facts["grid"],),
        block=(facts["block"],),
        shared=facts["shared"],
        cooperative=True,
        requires=facts["requires"],
    )
    made = image("wrong", facts["target"], required_block=facts["required_block"])
    variant = VariantInfo(id="add", abi=ADD_ABI, assume=facts["assume"], images=(made,))
    params = (dataclasses.replace(ADD_PARAMS[0], align=facts["align"]), *ADD_PARAMS[1:])
    return loaded(kernel("add", params, (variant,), launch=launch), active_blocks=8)


F16, BF16 = (
    tuple(Array(64, 64, dtype=dtype, ptr=0x10000 * i) for i in (1, 2, 3))
    for dtype in ("f16", "bf16")
)
BUILT = "built are: T=f16, BM=64, BK=64; T=f16, BM=128, BK=64; T=bf16, BM=128, BK=64"


F64 = Array(64, 64, dtype="f64")


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda g: g(F16[0], BF16[1], F16[2]), "argument 'a' has dtype bf16, but T is f16 by 'c'"),
        (lambda g: g(F64, *F16[1:]), "output 'c' has dtype f64, and T was built for f16, bf16"),
        (
            lambda g: g.variant(T="bf16")(*F16),
            "output 'c' has dtype f16, but T is bf16 by this launcher",
        ),
    ],
)
def test_axes_of_dtypes_agree(call, what):
    with pytest.raises(DTypeError) as caught:
        call(loaded(GEMM)[0].gemm)
    assert caught.value.what == f"gemm: {what}"


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda g: g(*BF16, BM=32), "BM = 32 was not built; built are 64, 128"),
        (lambda g: g(*BF16, BM=64.0), "BM = 64.0 was not built; built are 64, 128"),
        (lambda g: g(*BF16, BM=64), f"no variant with T=bf16, BM=64, BK=64 was built; {BUILT}"),
        (
            lambda g: g.variant(bm=64),
            "there is no axis 'bm'; did you mean 'BM'; its axes are T, BM, BK",
        ),
        (lambda g: g.variant(T="bf16", BM=64), f"no variant with T=bf16, BM=64 was built; {BUILT}"),
        (lambda g: g.variant(BM=64)(*F16, BM=128), "BM is 64 for this launcher, got 128"),
    ],
)
def test_choices_that_were_not_built(call, what):
    gemm = loaded(GEMM)[0].gemm
    with pytest.raises(VariantError) as caught:
        call(gemm)
    assert caught.value.what == f"gemm: {what}"


def test_choices_are_told_apart_by_type():
    """1 == True and 128 == 128.0, and what was remembered for one is not for the other."""
    gemm = loaded(GEMM)[0].gemm
    gemm.launch(5, BF16, (128,))
    for value in (128.0, True, [128], "128") * 2:
        for call in (lambda v: gemm.launch(5, BF16, (v,)), lambda v: gemm.variant(BM=v)):
            with pytest.raises(VariantError) as caught:
                call(value)
            assert caught.value.what == f"gemm: BM = {value!r} was not built; built are 64, 128"


@pytest.mark.parametrize(
    ("requires", "what"),
    [
        ("x.shape == z.shape", "left-hand side is (1000,), right-hand side is (1024,)"),
        ("z.size == 1024 and x.size == 1024", "x.size is 1000, z.size is 1024"),
        ("x.dtype == 'f16'", "left-hand side is 'f32', right-hand side is 'f16'"),
        ("x.size == 1 or x.size == 2", "x.size is 1000"),
        ("not x.size", "x.size is 1000"),
        ("0 < x.size < 10", "x.size is 1000"),
    ],
)
def test_requirements_give_both_values(requires, what):
    module, _ = loaded(
        dataclasses.replace(ADD, launch=LaunchInfo(grid=("1",), requires=(requires,)))
    )
    message = refusal(RequirementError, module.add, Z, Array(1000, ptr=0x20000), Y)
    assert message == f"add: requires {requires}: {what}"


def changed(**facts):
    """The kernel `add`, whose output has these facts."""
    return dataclasses.replace(
        ADD, params=(dataclasses.replace(ADD_PARAMS[0], **facts), *ADD_PARAMS[1:])
    )


SHORT = tuple(Array(12, ptr=0x10000 * i) for i in (1, 2, 3))
COMPUTED = VariantInfo(
    id="add",
    abi=(*ADD_ABI[:3], slot("i32", "z.shape[0] * 4194304"), ADD_ABI[4]),
    images=(image("add_any"),),
)


SCALED = kernel(
    "scaled",
    (ADD_PARAMS[0], Param(name="a", kind=SCALAR, dtype="T")),
    tuple(
        VariantInfo(
            id=f"scaled-{t}",
            axes=(("T", t),),
            abi=(slot("ptr", "z.ptr"), slot(t, "a")),
            images=(image(f"scaled_{t}"),),
        )
        for t in ("f16", "bf16")
    ),
    axes=(("T", ("f16", "bf16")),),
    dtype_axes=("T",),
    launch=LaunchInfo(grid=("1",)),
)


@pytest.mark.parametrize(
    ("kernel", "arguments", "kind", "what"),
    [
        (
            changed(stride=(None,)),
            (Array(1024, stride=(0,)), X, Y),
            AliasError,
            "add: output 'z' overlaps itself: strides (0,) for shape (1024,) name one element several times",
        ),
        (
            changed(shape_divisible=(8,)),
            SHORT,
            RequirementError,
            "add: argument 'z': extent 0 is 12, and must be divisible by 8",
        ),
        (
            changed(align=32),
            (Array(1024, ptr=0x10010), X, Y),
            LayoutError,
            "add: output 'z' has address 0x10010, which must be divisible by 32",
        ),
        (
            dataclasses.replace(ADD, variants=ADD.variants[:1]),
            SHORT,
            VariantError,
            "add: the arguments satisfy the assumptions of no variant\n  add-a16: z.shape[0] is 12, not divisible by 16",
        ),
        (
            dataclasses.replace(ADD, variants=(COMPUTED,)),
            (Z, X, Y),
            LayoutError,
            "add: z.shape[0] * 4194304 is 4294967296, which the kernel's i32 cannot hold",
        ),
        (
            dataclasses.replace(ADD, launch=LaunchInfo(grid=("1 // (y.shape[0] - 1024)",))),
            (Z, X, Y),
            RequirementError,
            "add: division by zero in ",
        ),
        (
            dataclasses.replace(ADD, launch=LaunchInfo(grid=("x.shape[",))),
            (Z, X, Y),
            BundleError,
            "add: the bundle's index holds an expression that cannot be read",
        ),
        (
            SCALED,
            (Z, 3.0),
            DTypeError,
            "scaled: argument 'a' is 3.0, which does not say what T is: pass a NumPy scalar of ",
        ),
        (
            dataclasses.replace(GEMM, default=()),
            F16,
            VariantError,
            "gemm: BM has no default: choose one of 64, 128",
        ),
    ],
)
def test_what_a_kernel_asks_of_its_launches(kernel, arguments, kind, what):
    module, driver = loaded(kernel)
    assert refusal(kind, module.kernels[kernel.name], *arguments).startswith(what)
    assert driver.launches == []


def test_structs():
    structs = kernel(
        "tune",
        (Param(name="config", kind=STRUCT, size=12),),
        (VariantInfo(id="tune", abi=(slot("struct", "config", 12),), images=(image("tune"),)),),
        launch=LaunchInfo(grid=("1",)),
    )
    module, driver = loaded(structs)
    for value, what in (
        (b"short", "takes 12 bytes, got 5"),
        (3, "takes 12 bytes (bytes, or anything with a buffer), got a int"),
    ):
        assert refusal(ArgumentError, module.tune, value) == f"tune: argument 'config' {what}"
    data = bytearray(b"abcdefghijkl")
    module.tune(data, stream=5)
    data[0] = ord("A")  # the same object, with other contents
    module.tune(data, stream=5)
    assert [launch.arguments[0] for launch in driver.launches] == [b"abcdefghijkl", b"Abcdefghijkl"]


class Failing:
    @property
    def __cuda_stream__(self):
        raise OSError("gone")


@pytest.mark.parametrize("place", [0, 4])
def test_a_stream_by_place(add, place):
    values = [Z, X, Y, 1.0]
    values.insert(place, Failing())
    with pytest.raises(ArgumentError, match="got 5") as caught:
        add(*values)
    assert caught.value.fix == "pass the stream by name: add(z, x, y, alpha, stream=stream)"


@pytest.mark.parametrize(
    ("stream", "what"),
    [
        (True, "add: True is no stream"),
        ("default", "add: a builtins.str is no stream"),
        (-1, "add: the stream's handle is -1"),
        (2**64, "add: the stream's handle is 18446744073709551616"),
        (Failing(), "add: gone"),
    ],
)
def test_streams(add, stream, what):
    with pytest.raises(ArgumentError) as caught:
        add(Z, X, Y, stream=stream)
    assert caught.value.what == what
    assert "0 is the legacy default stream" in caught.value.fix


def test_integers_that_python_refuses_to_write(add):
    huge = 10**5000
    assert (
        refusal(ArgumentError, add, Z, X, Y, huge)
        == "add: argument 'alpha' is an integer of 16610 bits, which f32 cannot hold"
    )
    with pytest.raises(
        ArgumentError, match=r"^add: the stream's handle is an integer of 16610 bits\b"
    ):
        add(Z, X, Y, stream=huge)
