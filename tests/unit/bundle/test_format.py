"""The index: what it holds, that it round-trips, and what a reader refuses."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable

import pytest

from tests.attack.mutants import KERNELS
from tests.bundle_samples import Sample, plain_index, read_plain
from tests.runtime_samples import bundle_of
from tilec_runtime.bundle.format import (
    INDEX_NAME,
    from_members,
    index_members,
)
from tilec_runtime.errors import BundleError, Location
from tilec_runtime.model.image import ImageInfo, Resources
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, PackageInfo, VariantInfo
from tilec_runtime.model.operator import BackwardInfo, OperatorInfo, OutputInfo
from tilec_runtime.model.signature import Assumption, ListParam, Param, ParamKind
from tilec_runtime.model.table import DispatchRule, TableDevice, TableEntry, TuningTable

EMPTY = BundleInfo(package=PackageInfo(name="p", version="1", module="p"))


def full() -> BundleInfo:
    """The sample, the first kernel of which has an optional tensor, a rule and a tuning table."""
    info = Sample().info()
    first, *others = info.kernels
    params = (dataclasses.replace(first.params[0], optional=True), *first.params[1:])
    absent = Assumption(param="y", absent=True)
    variant, *variants = first.variants
    variant = dataclasses.replace(variant, assume=(*variant.assume, absent))
    entry = TableEntry(ranges=((1, 1023),), point=variant.axes)
    device = TableDevice(name="NVIDIA H200", cc=(9, 0), multiprocessors=132, entries=(entry,))
    kernel = dataclasses.replace(
        first,
        params=params,
        variants=(variant, *variants),
        rules=(DispatchRule(when="y.shape[0] < 64", take=variant.axes[:1]),),
        table=TuningTable(source="tuning/k.json", sizes=("y.shape[0]",), devices=(device,)),
    )
    op = OperatorInfo(
        outputs=(OutputInfo(param="y", like="x", dtype="f32"),),
        backward=BackwardInfo(kernel="rmsnorm", args=(("y", "grad_x"), ("x", "grad_y"))),
    )
    return dataclasses.replace(
        info, kernels=(kernel, *(dataclasses.replace(other, op=op) for other in others))
    )


def edited(*steps: str | int, value: typing.Any) -> typing.Any:
    """The index with the value at `steps` replaced (or taken out, where `value` is ...)."""
    plain = plain_index(full())
    place = plain
    for step in steps[:-1]:
        place = place[step]
    if value is ...:
        del place[steps[-1]]
    else:
        place[steps[-1]] = value
    return plain


def odd() -> BundleInfo:
    """Kernels with lists, with few facts, and with values that JSON or equality would change."""
    values = (True, 1, 1.0, -0.0, "", "é", math.inf, -math.inf, 2**63 - 1, -(2**63))
    arrays = tuple(
        Param(name=f"x_{n}", kind=ParamKind.TENSOR, dtype="f8e4m3", rank=-1, optional=n > 0)
        for n in range(2)
    )
    kernel = KernelInfo(
        name="odd",
        language="",
        location=Location(file="a b/ä.py"),
        params=(Param(name="n", kind=ParamKind.SCALAR, dtype="i64", default=math.inf), *arrays),
        axes=(("é", values), ("G", (1, 2))),
        default=(("é", True),),
        lists=(ListParam(name="x", first=1, most=2, axis="G"),),
        jit=JitFallback.WARN,
    )
    return dataclasses.replace(EMPTY, kernels=(kernel,), sources=(("<toolkit>/a.h", "0" * 64),))


@pytest.mark.parametrize("make", [full, odd, lambda: bundle_of(*KERNELS).info, lambda: EMPTY])
def test_round_trip(make: Callable[[], BundleInfo]) -> None:
    info = make()
    members = index_members(info)
    again = from_members(members)
    assert again == info
    assert repr(again) == repr(info)  # equality alone takes 1 for True
    assert index_members(again) == members


def test_every_field_of_the_dataclasses_is_kept() -> None:
    """A field that is added to the model has to be added to the schema."""
    plain = plain_index(Sample().info())
    kernel = plain["kernels"]["add"]
    variant = kernel["variants"][0]

    def names(cls: type) -> set[str]:
        return {field.name for field in dataclasses.fields(cls)}

    assert plain.keys() == names(BundleInfo) | {"schema_version"}
    assert kernel.keys() == names(KernelInfo) | {"abis"}
    assert variant.keys() == names(VariantInfo)
    assert variant["images"][0].keys() == names(ImageInfo)
    assert variant["images"][0]["resources"].keys() == names(Resources)
    assert kernel["params"][0].keys() == names(Param)


SM_80, SM_90 = ["sm_80", [["occupancy", 2]]], ["sm_90", [["num_ctas", 2], ["occupancy", 2]]]
IMAGE = ("kernels", "rmsnorm", "variants", 2, "images", 0)


@pytest.mark.parametrize(
    ("steps", "value", "says"),
    [
        (("colour",), 1, "unknown key 'colour'"),
        (("kernels",), ..., "kernels: must be an array, is None"),
        (("package", "name"), "../evil", "package.name: must be a package name, is '../evil'"),
        (("package", "version"), "1/../..", "package.version: must be a version"),
        (("package", "module"), "a-b", "package.module: must be a module name"),
        (("min_driver",), True, "min_driver: must be an integer, is True"),
        (("min_driver",), 1.5, "min_driver: must be an integer, is 1.5"),
        (("kernels",), 1, "kernels: must be an array, is 1"),
        (("kernels", "add"), None, "kernels.add: must be an object"),
        (("kernels", "add", "name"), "a b", "kernels.add.name: must be an identifier, is 'a b'"),
        (
            ("kernels", "add", "jit"),
            "always",
            "kernels.add.jit: must be one of deny, warn, allow; is 'always'",
        ),
        (
            ("kernels", "add", "launch", "programmatic"),
            1,
            "launch.programmatic: must be true or false, is 1",
        ),
        (
            ("kernels", "rmsnorm", "name"),
            "add",
            "kernels.rmsnorm.name: must be 'rmsnorm', is 'add'",
        ),
        (
            ("kernels", "add", "location", "file"),
            "/etc/passwd",
            "kernels.add.location.file: '/etc/passwd' is not a file name inside the project",
        ),
        (("kernels", "add", "location", "file"), "a/../../b", "not a file name inside the project"),
        (("kernels", "add", "location", "file"), "C:/x", "not a file name inside the project"),
        (("kernels", "add", "location", "file"), "C:\\x", "not a file name inside the project"),
        (("sources", 0, 0), "../x.h", "sources[0]: '../x.h' is not a file name inside the project"),
        (("sources", 0), ["x"], "sources[0]: must be an array of 2 items"),
        (
            ("sources", 1, 0),
            "<toolkit>/cuda_fp16.h",
            "source '<toolkit>/cuda_fp16.h' appears twice",
        ),
        (
            ("kernels", "add", "params", 1, "kind"),
            "array",
            "kernels.add.params[1].kind: must be one of tensor, scalar, ptr, struct; is 'array'",
        ),
        (
            ("kernels", "add", "params", 1, "dtype"),
            "f12",
            "kernels.add.params[1].dtype: 'f12' is neither a dtype nor a dtype axis",
        ),
        (("kernels", "add", "params", 1, "name"), "y", "parameter 'y' appears twice"),
        (("kernels", "add", "params", 0, "rank"), 65, "rank: must be between -1 and 64, is 65"),
        (
            ("kernels", "add", "params", 2, "default"),
            [1],
            "params[2].default: must be a string, a number or a truth value, is [1]",
        ),
        (
            ("kernels", "add", "params", 2, "default"),
            {"float": "0"},
            "must be a string, a number or a truth value",
        ),
        (("kernels", "add", "params", 2, "default"), 1 << 70, "must fit 64 bits"),
        (("kernels", "add", "dtype_axes", 0), "U", "kernels.add.dtype_axes: no axis 'U'"),
        (("kernels", "add", "axes", 0, 1, 0), "f13", "axis 'T' holds 'f13', which is no dtype"),
        (("kernels", "add", "default", 0, 0), "Z", "kernels.add.default: no axis 'Z'"),
        (("kernels", "add", "launch", "grid"), ["1"] * 4, "launch.grid: has 4 items, more than 3"),
        (
            ("kernels", "add", "launch", "cooperative"),
            1,
            "launch.cooperative: must be true or false, is 1",
        ),
        (
            ("kernels", "add", "variants", 1, "id"),
            "add-f16-B64",
            "variant 'add-f16-B64' appears twice",
        ),
        (
            ("kernels", "add", "variants", 0, "axes", 0, 0),
            "Q",
            "kernels.add.variants[0].axes: no axis 'Q'",
        ),
        (
            ("kernels", "add", "variants", 0, "assume", 0, "param"),
            "q",
            "kernels.add.variants[0].assume: no tensor 'q'",
        ),
        (
            ("kernels", "add", "variants", 0, "abi"),
            1,
            "kernels.add: has ABIs that no variant names",
        ),
        (("kernels", "add", "variants", 0, "abi"), -1, "variants[0].abi: must be between"),
        (("kernels", "add", "abis"), ..., "kernels.add: key 'abis' is missing"),
        (
            ("kernels", "add", "abis", 0, 0, "type"),
            "f12",
            "'f12' is neither ptr, struct, a dtype, a tensor map nor scratch memory",
        ),
        (
            ("kernels", "add", "abis", 0, 0, "type"),
            "tensormap:6:3:512x64",
            "'tensormap:6:3:512x64' is neither ptr, struct, a dtype, a tensor",
        ),
        (
            ("kernels", "add", "abis", 0, 0, "type"),
            "tensormap:16:0:64",
            "'tensormap:16:0:64' is neither ptr, struct, a dtype, a tensor",
        ),
        (
            ("kernels", "add", "abis", 0, 0, "type"),
            "tensormap:6:4:64",
            "'tensormap:6:4:64' is neither ptr, struct, a dtype, a tensor",
        ),
        (
            ("kernels", "add", "abis", 0, 0, "type"),
            "tensormap:6:3:1x2x3x4x5x6",
            "'tensormap:6:3:1x2x3x4x5x6' is neither ptr, struct, a dtype, a tensor",
        ),
        (
            ("kernels", "add", "abis", 0, 0, "type"),
            "tensormap:6:3:64x64",
            "'x.ptr' of 8 bytes is no tensor map of a parameter",
        ),
        (
            ("kernels", "add", "abis", 0, 0, "type"),
            "scratch:128",
            "'scratch:128' is no address of scratch memory",
        ),
        (
            ("kernels", "add", "abis", 0, 1, "size"),
            "8",
            "kernels.add.abis[0][1].size: must be an integer, is '8'",
        ),
        (
            (*IMAGE, "target"),
            "sm_99",
            "kernels.rmsnorm.variants[2].images[0].target: unknown architecture in target 'sm_99'",
        ),
        ((*IMAGE, "target"), "sm_80a", "target 'sm_80a' does not exist"),
        ((*IMAGE, "target"), 80, "must be a name, is 80"),
        ((*IMAGE, "digest"), "AB" * 32, "images[0].digest: must be a SHA-256 in hex"),
        ((*IMAGE, "size"), 1 << 40, "images[0].size: must be between 0 and"),
        ((*IMAGE, "cuda"), [13], "images[0].cuda: must be an array of 2 items"),
        ((*IMAGE, "cluster"), [1, 1, 1, 1], "cluster: has 4 items, more than 3"),
        (
            (*IMAGE, "resources", "registers"),
            "40",
            "resources.registers: must be an integer, is '40'",
        ),
        # Numbers that a launch would divide by, allocate, or index with.
        (
            ("kernels", "add", "variants", 0, "assume", 0, "shape"),
            [0],
            "assume[0].shape[0]: must be between 1 and",
        ),
        (
            ("kernels", "add", "variants", 0, "assume", 0, "stride"),
            [-1],
            "assume[0].stride[0]: must be between 1 and",
        ),
        (
            ("kernels", "add", "variants", 0, "assume", 0, "align"),
            24,
            "assume[0].align: must be a power of two, is 24",
        ),
        (
            ("kernels", "add", "variants", 0, "assume", 0, "param"),
            "eps",
            "variants[0].assume: no tensor 'eps'",
        ),
        (
            ("kernels", "add", "params", 1, "shape_divisible"),
            [0],
            "params[1].shape_divisible[0]: must be between 1 and",
        ),
        (("kernels", "add", "params", 1, "align"), 0, "params[1].align: must be between 1 and"),
        (("kernels", "add", "params", 1, "rank"), -2, "params[1].rank: must be between -1 and 64"),
        (
            ("kernels", "add", "params", 1, "rank"),
            True,
            "params[1].rank: must be an integer, is True",
        ),
        (
            ("kernels", "add", "params", 1, "dtype"),
            "",
            "params[1].dtype: '' is neither a dtype nor a dtype axis",
        ),
        (
            ("kernels", "add", "params", 0, "stride"),
            [-1, None],
            "params[0].stride[0]: must be between 0 and",
        ),
        (("kernels", "add", "axes", 1, 1), [], "axes[1]: axis 'B' has no values"),
        (
            ("kernels", "add", "abis", 0, 0, "align"),
            1 << 61,
            "abis[0][0].align: must be between 1 and 1024",
        ),
        (
            ("kernels", "add", "abis", 0, 0, "size"),
            16,
            "abi: 'x.ptr' of type ptr has 16 bytes, not 8",
        ),
        (
            ("kernels", "add", "abis", 0, 0, "type"),
            "struct",
            "abi: 'x.ptr' of type struct has 8 bytes, not 0",
        ),
        (
            ("kernels", "add", "abis", 0, 3, "expr"),
            "x",
            "abi: 'x' is a tensor, and is passed as f32",
        ),
        (
            ("kernels", "add", "abis", 0),
            [{"align": 1, "expr": "1", "size": 1, "type": "u8"}] * 5000,
            "has 5000 items, more than 4096",
        ),
        (
            ("kernels", "add", "launch", "requires"),
            ["eps == 1"] * 1001,
            "launch.requires: has 1001 items, more than 1000",
        ),
        (
            ("kernels", "add", "launch", "requires"),
            [f"eps == {n} + {'1' * 200}" for n in range(999)],
            "launch: 1008 expressions are too much",
        ),
        (
            ("kernels", "add", "launch", "shared"),
            "1" * 1001,
            "launch.shared: has 1001 characters, more than 1000",
        ),
        (
            ("kernels", "add", "safety"),
            {
                "facts": [],
                "regions": [{"param": "w", "tile": ["1"], "mapped": False}],
                "checks": "on",
            },
            "kernels.add.safety.regions: no parameter 'w'",
        ),
        (
            ("kernels", "add", "safety"),
            {"facts": [], "regions": [], "checks": "perhaps"},
            "kernels.add.safety.checks: must be one of on, deny, off",
        ),
        (
            ("kernels", "rmsnorm", "op", "outputs", 0, "param"),
            "w",
            "'w' is no tensor that the kernel writes",
        ),
        (
            ("kernels", "rmsnorm", "op", "outputs", 0, "param"),
            "x",
            "'x' is no tensor that the kernel writes",
        ),
        (
            ("kernels", "rmsnorm", "op", "outputs", 0, "like"),
            "y",
            "'y' is no tensor among the inputs",
        ),
        (
            ("kernels", "rmsnorm", "op", "outputs", 0, "dtype"),
            "eps.dtype",
            "'eps' is no tensor among the inputs",
        ),
        (
            ("kernels", "rmsnorm", "op", "backward", "kernel"),
            "sub",
            "'sub' is no operator of the bundle",
        ),
        (
            ("kernels", "rmsnorm", "op", "backward", "args"),
            [["w", "x"]],
            "'rmsnorm' has no parameter 'w'",
        ),
        (
            ("kernels", "rmsnorm", "op", "backward", "args"),
            [["x", "grad_w"]],
            "'grad_w' is neither a parameter nor the gradient of one",
        ),
        (("kernels", "add", "params", 2, "optional"), True, "only tensors may be None"),
        (
            ("kernels", "add", "variants", 0, "assume", 1, "param"),
            "nobody",
            "no optional parameter 'nobody'",
        ),
        (
            ("kernels", "add", "table", "devices", 0, "entries", 0, "ranges"),
            [],
            "table.devices[0].entries[0]: has 0 ranges, and there are 1 sizes",
        ),
        # Text of one line that could pass for other lines, or drive a terminal.
        (
            (*IMAGE, "symbol"),
            "k\x1b]0;owned\x07",
            "symbol: must be one line without control characters, is 'k\\x1b]0;owned\\x07'",
        ),
        (
            ("kernels", "add", "variants", 0, "id"),
            "add\nverified",
            "id: must be one line without control characters",
        ),
        (("builder",), "tilec \u202e0.1.0", "builder: must be one line without control characters"),
        (("sources", 0, 0), "a\rb", "sources[0][0]: must be one line without control characters"),
        (
            ("package", "description"),
            [[[[[[[[]]]]]]]] * 100,
            "package.description: must be a string, is [[[[[[[...]]]]]], [[[",
        ),
    ],
)
def test_refused_with_place_and_reason(
    steps: tuple[str | int, ...], value: object, says: str
) -> None:
    with pytest.raises(BundleError) as caught:
        read_plain(edited(*steps, value=value))
    assert says in caught.value.what
    assert caught.value.what.startswith("bundle.json")
    assert caught.value.cause
    assert caught.value.fix


@pytest.mark.parametrize(
    "places", [[0, 0, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1], [0, 1, 1, 1]], ids=str
)
def test_the_abi_table_has_one_form(places: list[int]) -> None:
    """Each ABI stands there once, in the order in which variants name it first."""
    info = full()
    first, *rest = info.kernels[0].variants
    other = dataclasses.replace(first, abi=first.abi[:1])
    kernel = dataclasses.replace(info.kernels[0], variants=(other, *rest))
    plain = plain_index(dataclasses.replace(info, kernels=(kernel,)))
    row = plain["kernels"]["add"]
    if places == [variant["abi"] for variant in row["variants"]]:
        row["abis"][1] = row["abis"][0]
    for variant, place in zip(row["variants"], places, strict=True):
        variant["abi"] = place
    with pytest.raises(BundleError, match="that no variant names, that repeat, or that are not in"):
        read_plain(plain)


def test_a_newer_schema_says_so() -> None:
    with pytest.raises(BundleError) as caught:
        read_plain(edited("schema_version", value=2))
    assert caught.value.what == "bundle.json has schema version 2; this tilec reads version 1"
    assert caught.value.cause == "the bundle was written by a newer tilec"
    assert caught.value.fix == "update tilec"


def test_hints_are_of_images() -> None:
    plain = edited("kernels", "add", "variants", 0, "hints", value=[SM_80, SM_90])
    variant = read_plain(plain).kernels[0].variants[0]
    assert [variant.hints_of(image.target) for image in variant.images] == [
        {"occupancy": 2},
        {"num_ctas": 2, "occupancy": 2},
        {},
    ]


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"schema_version":1' + b"1" * 5000 + b"}"),
        *(b"nul", b"[]", b"null", b"1"),
    ],
)
def test_refuses_what_is_no_object_of_json(data: bytes) -> None:
    with pytest.raises(BundleError):
        from_members({INDEX_NAME: data})


def test_a_repeated_key_is_refused() -> None:
    data = index_members(EMPTY)[INDEX_NAME]
    for other in (data.replace(b'{"builder":""', b'{"builder":"x","builder":""'), data + b"\n"):
        with pytest.raises(BundleError, match="not canonical JSON"):
            from_members({INDEX_NAME: other})


def test_number_of_values_is_bounded_before_they_take_memory() -> None:
    with pytest.raises(BundleError, match="and 1400001 values, more than"):
        from_members({INDEX_NAME: b"[" + b"[]," * 700_000 + b"]"})
