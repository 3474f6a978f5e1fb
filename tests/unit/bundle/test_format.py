"""The index: what it holds, that it round-trips, and what a reader refuses."""

from __future__ import annotations

import dataclasses
import json
import math
import typing

import pytest

from tests.bundle_samples import Sample
from tilec_runtime.bundle import limits
from tilec_runtime.bundle.format import SCHEMA_VERSION, from_index, images_of, to_index
from tilec_runtime.errors import BundleError, Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import canonical_json
from tilec_runtime.model.image import ImageInfo, Resources
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, PackageInfo, VariantInfo
from tilec_runtime.model.safety import Checks, Fact, Guarantee, Region, Safety
from tilec_runtime.model.signature import Assumption, Param, ParamKind
from tilec_runtime.model.table import DispatchRule, TableDevice, TableEntry, TuningTable

EMPTY = BundleInfo(package=PackageInfo(name="p", version="1", module="p"))


def edited(*steps: str | int, value: typing.Any) -> bytes:
    """The sample's index with the value at `steps` replaced (or taken out, where `value` is ...)."""
    plain = json.loads(to_index(Sample().info()))
    place = plain
    for step in steps[:-1]:
        place = place[step]
    if value is ...:
        del place[steps[-1]]
    else:
        place[steps[-1]] = value
    return canonical_json(plain)


def test_round_trip() -> None:
    info = Sample().info()
    data = to_index(info)
    assert from_index(data) == info
    assert to_index(from_index(data)) == data
    assert len(list(images_of(info))) == 24


def test_it_is_canonical_json_with_its_version() -> None:
    data = to_index(EMPTY)
    assert data == canonical_json(json.loads(data))
    assert json.loads(data)["schema_version"] == 4, "older readers take what has nothing that is new to them"


def test_every_field_of_the_dataclasses_is_kept() -> None:
    """A field that is added to the model has to be added to the schema; some are there only where something is known."""
    plain = json.loads(to_index(Sample().info()))
    kernel = plain["kernels"][0]
    variant = kernel["variants"][0]

    def names(cls: type) -> set[str]:
        return {field.name for field in dataclasses.fields(cls)}

    assert plain.keys() == names(BundleInfo) | {"schema_version"}
    assert kernel.keys() == (names(KernelInfo) | {"abis"}) - {"safety", "table", "jit", "rules"}
    assert variant.keys() == names(VariantInfo)
    assert variant["images"][0].keys() == names(ImageInfo) - {"linking", "reproducible"}  # likewise
    assert variant["images"][0]["resources"].keys() == names(Resources)
    assert kernel["params"][0].keys() == names(Param) - {"optional"}


def test_what_is_known_of_safety_is_kept() -> None:
    info = Sample().info()
    at = Location(file="kernels/add.py", line=3, column=5)
    facts = tuple(Fact(guarantee=kind, what=f"{kind.value}, naïve", location=at if n else None) for n, kind in enumerate(Guarantee))
    safety = Safety(facts=facts, regions=(Region(param="y", tile=("B", "16"), mapped=True),), checks=Checks.OFF)
    known = dataclasses.replace(info, kernels=(dataclasses.replace(info.kernels[0], safety=safety), *info.kernels[1:]))
    assert from_index(to_index(known)) == known
    plain = json.loads(to_index(known))["kernels"][0]["safety"]
    assert plain.keys() == {field.name for field in dataclasses.fields(Safety)}
    assert plain["facts"][0].keys() == {field.name for field in dataclasses.fields(Fact)}


def test_what_is_known_of_safety_is_checked() -> None:
    info = Sample().info()
    plain = json.loads(to_index(info))
    plain["kernels"][0]["safety"] = {"facts": [], "regions": [{"param": "w", "tile": ["1"], "mapped": False}], "checks": "on"}
    with pytest.raises(BundleError, match=r"kernels\[0\].safety.regions: no parameter 'w'"):
        from_index(canonical_json(plain))
    plain["kernels"][0]["safety"] = {"facts": [], "regions": [], "checks": "perhaps"}
    with pytest.raises(BundleError, match=r"kernels\[0\].safety.checks: must be one of on, deny, off"):
        from_index(canonical_json(plain))


def test_ltoir_says_what_its_link_is_told() -> None:
    info = Sample().info()
    assert json.loads(to_index(info))["schema_version"] < SCHEMA_VERSION
    kernel = info.kernels[1]
    row = dataclasses.replace(kernel.variants[0].images[2], target=Target.parse("lto_80"), ptx_isa=(13, 4), linking=("-O0", "-fma=1"))
    variant = dataclasses.replace(kernel.variants[0], images=(*kernel.variants[0].images, row))
    told = dataclasses.replace(info, kernels=(info.kernels[0], dataclasses.replace(kernel, variants=(variant, *kernel.variants[1:]))))
    assert from_index(to_index(told)) == told
    plain = json.loads(to_index(told))
    assert plain["schema_version"] == SCHEMA_VERSION
    made = plain["kernels"][1]["variants"][0]["images"][-1]
    assert (made["target"], made["linking"]) == ("lto_80", ["-O0", "-fma=1"])
    for wrong, says in (
        ([], r"key 'linking' is \[\]: it is left out where it is"),
        (["-o=/etc/passwd"], "must be an option of a link"),
        (["-Xptxas=-v"], "an option of a link"),
    ):
        made["linking"] = wrong
        with pytest.raises(BundleError, match=says):
            from_index(canonical_json(plain))


def test_an_image_that_is_not_reproducible_says_so() -> None:
    info = Sample().info()
    kernel = info.kernels[1]
    for linking in ((), ("-fma=1",)):
        row = dataclasses.replace(kernel.variants[0].images[2], linking=linking, reproducible=False)
        variant = dataclasses.replace(kernel.variants[0], images=(*kernel.variants[0].images[:2], row))
        marked = dataclasses.replace(info, kernels=(info.kernels[0], dataclasses.replace(kernel, variants=(variant,))))
        assert from_index(to_index(marked)) == marked
        plain = json.loads(to_index(marked))
        assert plain["schema_version"] == SCHEMA_VERSION, "older readers do not know the key"
        image = plain["kernels"][1]["variants"][0]["images"][-1]
        assert image["reproducible"] is False
        for wrong, says in ((True, "is left out where it is"), (0, "must be true or false")):
            image["reproducible"] = wrong
            with pytest.raises(BundleError, match=says):
                from_index(canonical_json(plain))


def test_variants_share_their_abi() -> None:
    kernel = json.loads(to_index(Sample().info()))["kernels"][0]
    assert len(kernel["abis"]) == 1
    assert [variant["abi"] for variant in kernel["variants"]] == [0, 0, 0, 0]


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e-300, 0, True, 2**64 - 1, -(2**63), 1.0])
def test_defaults_keep_value_and_type(value: float) -> None:
    param = Param(name="x", kind=ParamKind.SCALAR, dtype="f64", default=value)
    info = dataclasses.replace(EMPTY, kernels=(KernelInfo(name="k", language="cuda", location=Location(file="k.cu"), params=(param,)),))
    read = from_index(to_index(info)).kernels[0].params[0].default
    assert read == value
    assert type(read) is type(value)


def test_nan_survives() -> None:
    param = Param(name="x", kind=ParamKind.SCALAR, dtype="f64", default=math.nan)
    info = dataclasses.replace(EMPTY, kernels=(KernelInfo(name="k", language="cuda", location=Location(file="k.cu"), params=(param,)),))
    read = from_index(to_index(info)).kernels[0].params[0].default
    assert isinstance(read, float)
    assert math.isnan(read)


IMAGE = ("kernels", 1, "variants", 2, "images", 0)


@pytest.mark.parametrize(
    ("steps", "value", "says"),
    [
        (("colour",), 1, "unknown key 'colour'"),
        (("kernels",), ..., "key 'kernels' is missing"),
        (("package", "name"), "../evil", "package.name: must be a package name, is '../evil'"),
        (("package", "version"), "1/../..", "package.version: must be a version"),
        (("package", "module"), "a-b", "package.module: must be a module name"),
        (("min_driver",), True, "min_driver: must be an integer, is True"),
        (("min_driver",), 1.5, "min_driver: must be an integer, is 1.5"),
        (("kernels",), {}, "kernels: must be an array, is {}"),
        (("kernels", 0), None, "kernels[0]: must be an object"),
        (("kernels", 0, "name"), "a b", "kernels[0].name: must be an identifier, is 'a b'"),
        (("kernels", 1, "name"), "add", "kernels: kernel name 'add' appears twice"),
        (
            ("kernels", 0, "location", "file"),
            "/etc/passwd",
            "kernels[0].location.file: '/etc/passwd' is not a file name inside the project",
        ),
        (("kernels", 0, "location", "file"), "a/../../b", "not a file name inside the project"),
        (("kernels", 0, "location", "file"), "C:/x", "not a file name inside the project"),
        (("kernels", 0, "location", "file"), "C:\\x", "not a file name inside the project"),
        (("sources", 0, 0), "../x.h", "sources[0]: '../x.h' is not a file name inside the project"),
        (("sources", 0), ["x"], "sources[0]: must be an array of 2 items"),
        (("sources", 1, 0), "<toolkit>/cuda_fp16.h", "source '<toolkit>/cuda_fp16.h' appears twice"),
        (("kernels", 0, "params", 1, "kind"), "array", "kernels[0].params[1].kind: must be one of tensor, scalar, ptr, struct; is 'array'"),
        (("kernels", 0, "params", 1, "dtype"), "f12", "kernels[0].params[1].dtype: 'f12' is neither a dtype nor a dtype axis"),
        (("kernels", 0, "params", 1, "name"), "y", "parameter 'y' appears twice"),
        (("kernels", 0, "params", 0, "rank"), 65, "rank: must be between -1 and 64, is 65"),
        (("kernels", 0, "params", 2, "default"), [1], "params[2].default: must be a string, a number or a truth value, is [1]"),
        (("kernels", 0, "params", 2, "default"), {"float": "0"}, "must be a string, a number or a truth value"),
        (("kernels", 0, "params", 2, "default"), 1 << 70, "must fit 64 bits"),
        (("kernels", 0, "dtype_axes", 0), "U", "kernels[0].dtype_axes: no axis 'U'"),
        (("kernels", 0, "axes", 0, 1, 0), "f13", "axis 'T' holds 'f13', which is no dtype"),
        (("kernels", 0, "default", 0, 0), "Z", "kernels[0].default: no axis 'Z'"),
        (("kernels", 0, "launch", "grid"), ["1"] * 4, "launch.grid: has 4 items, more than 3"),
        (("kernels", 0, "launch", "cooperative"), 1, "launch.cooperative: must be true or false, is 1"),
        (("kernels", 0, "variants", 1, "id"), "add-f16-B64", "variant 'add-f16-B64' appears twice"),
        (("kernels", 0, "variants", 0, "axes", 0, 0), "Q", "kernels[0].variants[0].axes: no axis 'Q'"),
        (("kernels", 0, "variants", 0, "assume", 0, "param"), "q", "kernels[0].variants[0].assume: no tensor 'q'"),
        (("kernels", 0, "variants", 0, "abi"), 1, "variant 'add-f16-B64' names ABI 1 of 1"),
        (("kernels", 0, "variants", 0, "abi"), -1, "variants[0].abi: must be between"),
        (("kernels", 0, "abis"), ..., "kernels[0]: must be an object with a key 'abis'"),
        (("kernels", 0, "abis", 0, 0, "type"), "f12", "'f12' is neither ptr, struct, a dtype, a tensor map nor scratch memory"),
        (("kernels", 0, "abis", 0, 0, "type"), "tensormap:6:3:512x64", "'tensormap:6:3:512x64' is neither ptr, struct, a dtype, a tensor"),
        (("kernels", 0, "abis", 0, 0, "type"), "tensormap:6:3:64x64", "'x.ptr' of 8 bytes is no tensor map of a parameter"),
        (("kernels", 0, "abis", 0, 0, "type"), "scratch:128", "'scratch:128' is no address of scratch memory"),
        (("kernels", 0, "abis", 0, 1, "size"), "8", "kernels[0].abis[0][1].size: must be an integer, is '8'"),
        ((*IMAGE, "target"), "sm_99", "kernels[1].variants[2].images[0].target: unknown architecture in target 'sm_99'"),
        ((*IMAGE, "target"), "sm_80a", "target 'sm_80a' does not exist"),
        ((*IMAGE, "target"), 80, "must be a name, is 80"),
        ((*IMAGE, "digest"), "AB" * 32, "images[0].digest: must be a SHA-256 in hex"),
        ((*IMAGE, "size"), 1 << 40, "images[0].size: must be between 0 and"),
        ((*IMAGE, "cuda"), [13], "images[0].cuda: must be an array of 2 items"),
        ((*IMAGE, "cluster"), [1, 1, 1, 1], "cluster: has 4 items, more than 3"),
        ((*IMAGE, "resources", "registers"), "40", "resources.registers: must be an integer, is '40'"),
        # Numbers that a launch would divide by, allocate, or index with.
        (("kernels", 0, "variants", 0, "assume", 0, "shape"), [0], "assume[0].shape[0]: must be between 1 and"),
        (("kernels", 0, "variants", 0, "assume", 0, "stride"), [-1], "assume[0].stride[0]: must be between 1 and"),
        (("kernels", 0, "variants", 0, "assume", 0, "align"), 24, "assume[0].align: must be a power of two, is 24"),
        (("kernels", 0, "variants", 0, "assume", 0, "param"), "eps", "variants[0].assume: no tensor 'eps'"),
        (("kernels", 0, "params", 1, "shape_divisible"), [0], "params[1].shape_divisible[0]: must be between 1 and"),
        (("kernels", 0, "params", 1, "align"), 0, "params[1].align: must be between 1 and"),
        (("kernels", 0, "params", 1, "rank"), -2, "params[1].rank: must be between -1 and 64"),
        (("kernels", 0, "params", 1, "rank"), True, "params[1].rank: must be an integer, is True"),
        (("kernels", 0, "params", 1, "dtype"), "", "params[1].dtype: '' is neither a dtype nor a dtype axis"),
        (("kernels", 0, "params", 0, "stride"), [-1, None], "params[0].stride[0]: must be between 0 and"),
        (("kernels", 0, "axes", 1, 1), [], "axes[1]: axis 'B' has no values"),
        (("kernels", 0, "abis", 0, 0, "align"), 1 << 61, "abis[0][0].align: must be between 1 and 1024"),
        (("kernels", 0, "abis", 0, 0, "size"), 16, "abi: 'x.ptr' of type ptr has 16 bytes, not 8"),
        (("kernels", 0, "abis", 0, 0, "type"), "struct", "abi: 'x.ptr' of type struct has 8 bytes, not 0"),
        (("kernels", 0, "abis", 0, 3, "expr"), "x", "abi: 'x' is a tensor, and is passed as f32"),
        (("kernels", 0, "abis", 0), [{"align": 1, "expr": "1", "size": 1, "type": "u8"}] * 5000, "has 5000 items, more than 4096"),
        (("kernels", 0, "launch", "requires"), ["eps == 1"] * 1001, "launch.requires: has 1001 items, more than 1000"),
        (("kernels", 0, "launch", "requires"), [f"eps == {n} + {'1' * 200}" for n in range(999)], "launch: 1006 expressions are too much"),
        (("kernels", 0, "launch", "shared"), "1" * 1001, "launch.shared: has 1001 characters, more than 1000"),
        # Text of one line that could pass for other lines, or drive a terminal.
        ((*IMAGE, "symbol"), "k\x1b]0;owned\x07", "symbol: must be one line without control characters, is 'k\\x1b]0;owned\\x07'"),
        (("kernels", 0, "variants", 0, "id"), "add\nverified", "id: must be one line without control characters"),
        (("builder",), "tilec \u202e0.1.0", "builder: must be one line without control characters"),
        (("sources", 0, 0), "a\rb", "sources[0][0]: must be one line without control characters"),
        (("package", "description"), [[[[[[[[]]]]]]]] * 100, "package.description: must be a string, is [[[[[[[...]]]]]], [[["),
    ],
)
def test_refused_with_place_and_reason(steps: tuple[str | int, ...], value: object, says: str) -> None:
    with pytest.raises(BundleError) as caught:
        from_index(edited(*steps, value=value))
    assert says in caught.value.what
    assert caught.value.what.startswith("bundle.json")
    assert caught.value.cause
    assert caught.value.fix


def test_the_abi_table_has_one_form() -> None:
    info = Sample().info()
    first, *rest = info.kernels[0].variants
    other = dataclasses.replace(first, abi=first.abi[:1])
    kernel = dataclasses.replace(info.kernels[0], variants=(other, *rest))
    good = dataclasses.replace(info, kernels=(kernel,))
    assert from_index(to_index(good)) == good
    for change in ([0, 0, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]):
        plain = json.loads(to_index(good))
        for variant, place in zip(plain["kernels"][0]["variants"], change, strict=True):
            variant["abi"] = place
        with pytest.raises(BundleError, match="that no variant names, that repeat, or that are not in the order"):
            from_index(canonical_json(plain))
    plain = json.loads(to_index(good))
    plain["kernels"][0]["abis"][1] = plain["kernels"][0]["abis"][0]
    with pytest.raises(BundleError, match="that repeat"):
        from_index(canonical_json(plain))


def test_one_digest_has_one_size() -> None:
    digest = json.loads(to_index(Sample().info()))["kernels"][1]["variants"][0]["images"][0]["digest"]
    data = edited(*IMAGE, "digest", value=digest)
    assert from_index(data)  # equal sizes are fine: two variants share an image
    plain = json.loads(data)
    plain["kernels"][1]["variants"][2]["images"][0]["size"] = 17
    with pytest.raises(BundleError, match="has two sizes, 3004 and 17"):
        from_index(canonical_json(plain))


def test_a_newer_schema_says_so() -> None:
    with pytest.raises(BundleError) as caught:
        from_index(edited("schema_version", value=6))
    assert caught.value.what == "bundle.json has schema version 6; this tilec reads versions 1 to 5"
    assert caught.value.cause == "the bundle was written by a newer tilec"
    assert caught.value.fix == "update tilec"


def older(version: int = 1) -> typing.Any:
    """The sample's index as an older version wrote it."""
    plain = json.loads(to_index(Sample().info()))
    for kernel in plain["kernels"]:
        for variant in kernel["variants"]:
            if version == 1:
                del variant["hints"]
            for fact in variant["assume"]:
                del fact["extent"], fact["contiguous"]
            for image in variant["images"] if version < 3 else ():
                del image["block"], image["dynamic_shared"]
    return {**plain, "schema_version": version}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_older_bundles_are_read(version: int) -> None:
    assert from_index(canonical_json(older(version))) == Sample().info()


def test_what_few_kernels_have_is_in_an_index_of_version_5() -> None:
    first, *others = Sample().info().kernels
    launch = dataclasses.replace(first.launch, programmatic=True)
    for said in (dataclasses.replace(first, jit=JitFallback.WARN), dataclasses.replace(first, launch=launch)):
        info = dataclasses.replace(Sample().info(), kernels=(said, *others))
        data = to_index(info)
        assert json.loads(data)["schema_version"] == SCHEMA_VERSION == 5
        assert from_index(data) == info
        assert to_index(from_index(data)) == data


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("jit", "always", r"kernels\[0\]\.jit: must be one of deny, warn, allow; is 'always'"),
        ("jit", None, r"kernels\[0\]\.jit: must be one of deny, warn, allow; is None"),
        ("programmatic", 1, r"kernels\[0\]\.programmatic: must be true or false, is 1"),
        ("programmatic", False, r"kernels\[0\]: key 'programmatic' is there and false"),
    ],
)
def test_what_it_says_there_is_known(key: str, value: object, said: str) -> None:
    plain = json.loads(to_index(Sample().info()))
    plain["kernels"][0][key] = value
    with pytest.raises(BundleError, match=said):
        from_index(canonical_json({**plain, "schema_version": 5}))


def with_optional() -> BundleInfo:
    """The sample, a tensor of whose first kernel may be None; its first variant is for calls without it."""
    info = Sample().info()
    first = info.kernels[0]
    name = next(param.name for param in first.params if param.kind is ParamKind.TENSOR)
    params = tuple(dataclasses.replace(param, optional=param.name == name) for param in first.params)
    gone = tuple(fact for fact in first.variants[0].assume if fact.param != name)
    variant = dataclasses.replace(first.variants[0], assume=(*gone, Assumption(param=name, absent=True)))
    kernel = dataclasses.replace(first, params=params, variants=(variant, *first.variants[1:]))
    return dataclasses.replace(info, kernels=(kernel, *info.kernels[1:]))


def test_tensors_that_may_be_none_are_kept() -> None:
    info = with_optional()
    data = to_index(info)
    assert json.loads(data)["schema_version"] == 5
    assert from_index(data) == info
    assert to_index(from_index(data)) == data


def test_what_is_none_belongs_together() -> None:
    plain = json.loads(to_index(with_optional()))
    row = plain["kernels"][0]
    (name,), absent = row["optional"]
    for said, what in (
        ([[], absent], "has to name tensors of the kernel"),
        ([["nobody"], absent], "has to name tensors of the kernel"),
        ([[name], absent[:-1]], f"speaks of {len(absent) - 1} variants, and there are {len(absent)}"),
        ([[name], [["nobody"], *absent[1:]]], r"says that nobody may be None in '\S+', whose assumptions say otherwise"),
        ([[name], [absent[0], [name], *absent[2:]]], "whose assumptions say otherwise"),
        ("x", "must be an array of 2 items"),
    ):
        row["optional"] = said
        with pytest.raises(BundleError, match=rf"kernels\[0\].*{what}"):
            from_index(canonical_json(plain))
    unknown = dataclasses.replace(with_optional().kernels[0], params=Sample().info().kernels[0].params)
    with pytest.raises(BundleError, match="no optional parameter"):
        to_index(dataclasses.replace(with_optional(), kernels=(unknown,)))


def test_version_3_is_read_as_strictly() -> None:
    plain = older(3)
    plain["kernels"][0]["table"] = {}
    with pytest.raises(BundleError, match=r"kernels\[0\]: unknown key 'table'"):
        from_index(canonical_json(plain))
    plain = older(3)
    plain["kernels"][0]["variants"][0]["assume"][0]["extent"] = [1]
    with pytest.raises(BundleError, match=r"kernels\[0\]\.variants\[0\]\.assume\[0\]: unknown key 'extent'"):
        from_index(canonical_json(plain))
    with pytest.raises(BundleError, match="key 'contiguous' is missing; key 'extent' is missing"):
        from_index(canonical_json({**older(3), "schema_version": 4}))


def tabled(**changes: typing.Any) -> BundleInfo:
    """The sample with a tuning table of its first kernel, which has axes."""
    info = Sample().info()
    kernel = info.kernels[0]
    entry = TableEntry(ranges=((1, 1023),), point=tuple((name, items[0]) for name, items in kernel.axes))
    device = TableDevice(name="NVIDIA H200", cc=(9, 0), multiprocessors=132, entries=(dataclasses.replace(entry, **changes),))
    table = TuningTable(source="tuning/k.json", sizes=(f"{kernel.params[0].name}.shape[0]",), devices=(device,))
    return dataclasses.replace(info, kernels=(dataclasses.replace(kernel, table=table), *info.kernels[1:]))


def ruled(when: str = "", take: tuple[tuple[str, typing.Any], ...] | None = None) -> BundleInfo:
    """The sample with a dispatch rule of its first kernel."""
    info = Sample().info()
    kernel = info.kernels[0]
    rule = DispatchRule(when=when, take=kernel.variants[0].axes[:1] if take is None else take)
    return dataclasses.replace(info, kernels=(dataclasses.replace(kernel, rules=(rule,)), *info.kernels[1:]))


def test_dispatch_rules_are_kept_and_fit_the_kernel() -> None:
    name = Sample().info().kernels[0].params[0].name
    for known in (ruled(), ruled(f"{name}.shape[0] < 64")):
        data = to_index(known)
        assert from_index(data) == known
        assert json.loads(data)["schema_version"] == SCHEMA_VERSION, "older readers would pass over the rules"
    with pytest.raises(BundleError, match=r"kernels\[0\]\.rules\[0\]\.when: no parameter 'q'"):
        to_index(ruled("q < 64"))
    with pytest.raises(BundleError, match=r"kernels\[0\]\.rules\[0\]\.when: "):
        to_index(ruled(f"{name}.shape[0] <"))
    with pytest.raises(BundleError, match=r"kernels\[0\]\.rules\[0\]\.take: Q = 1 is no value of an axis of the kernel"):
        to_index(ruled(take=(("Q", 1),)))


def test_tuning_tables_are_kept() -> None:
    known = tabled()
    assert from_index(to_index(known)) == known


def test_tuning_tables_fit_the_kernel() -> None:
    with pytest.raises(BundleError, match=r"table\.devices\[0\]\.entries\[0\]: has 0 ranges, and there are 1 sizes"):
        to_index(tabled(ranges=()))
    with pytest.raises(BundleError, match="its point has other axes than the kernel"):
        to_index(tabled(point=(("Q", 1),)))

    def sized(text: str) -> BundleInfo:
        info = tabled()
        assert info.kernels[0].table is not None
        table = dataclasses.replace(info.kernels[0].table, sizes=(text,))
        return dataclasses.replace(info, kernels=(dataclasses.replace(info.kernels[0], table=table), *info.kernels[1:]))

    with pytest.raises(BundleError, match=r"table\.sizes\[0\]: no parameter 'q'"):
        to_index(sized("q.shape[0]"))
    with pytest.raises(BundleError, match=r"table\.sizes\[0\]: "):
        to_index(sized("q.shape["))


def test_version_2_is_read_as_strictly() -> None:
    plain = older(2)
    plain["kernels"][0]["variants"][0]["images"][1]["block"] = [32]
    with pytest.raises(BundleError, match=r"kernels\[0\]\.variants\[0\]\.images\[1\]: unknown key 'block'"):
        from_index(canonical_json(plain))
    for strange in (1, [1], [{"images": 1}], [{"images": [1]}]):
        with pytest.raises(BundleError):
            from_index(canonical_json({"kernels": [{"variants": strange}], "schema_version": 2}))


def test_version_1_is_read_as_strictly() -> None:
    plain = older()
    plain["kernels"][1]["variants"][2]["hints"] = []
    with pytest.raises(BundleError, match=r"kernels\[1\]\.variants\[2\]: unknown key 'hints'"):
        from_index(canonical_json(plain))
    with pytest.raises(BundleError, match="key 'hints' is missing"):
        from_index(canonical_json({**older(), "schema_version": 2}))
    for strange in ({}, {"kernels": 1}, {"kernels": [1]}, {"kernels": [{"variants": [1]}]}):
        with pytest.raises(BundleError):
            from_index(canonical_json({**strange, "schema_version": 1}))
    with pytest.raises(BundleError, match="not canonical JSON"):
        from_index(canonical_json(older()) + b" ")


def test_hints_are_of_images() -> None:
    def hinted(*hints: typing.Any) -> typing.Any:
        return edited("kernels", 0, "variants", 0, "hints", value=list(hints))

    sm_80, sm_90 = ["sm_80", [["occupancy", 2]]], ["sm_90", [["num_ctas", 2], ["occupancy", 2]]]
    variant = from_index(hinted(sm_80, sm_90)).kernels[0].variants[0]
    assert [variant.hints_of(image.target) for image in variant.images] == [{"occupancy": 2}, {"num_ctas": 2, "occupancy": 2}, {}]
    with pytest.raises(BundleError, match=r"hints\.sm_80: hint 'occupancy' appears twice"):
        from_index(hinted(["sm_80", [["occupancy", 2], ["occupancy", 4]]]))
    for wrong in ((sm_90, sm_80), (sm_80, sm_80), (["sm_100", [["occupancy", 2]]],), (["sm_80", []],)):
        with pytest.raises(
            BundleError, match=r"kernels\[0\]\.variants\[0\]\.hints: are for the targets .*, and its images for sm_80, sm_90"
        ):
            from_index(hinted(*wrong))


@pytest.mark.parametrize("version", [0, "1", None, True, 1.0, ...])
def test_other_schema_versions(version: object) -> None:
    with pytest.raises(BundleError, match="schema version"):
        from_index(edited("schema_version", value=version))


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"schema_version":1' + b"1" * 5000 + b"}", b"nul"])
def test_not_json(data: bytes) -> None:
    with pytest.raises(BundleError):
        from_index(data)


@pytest.mark.parametrize("data", [b"[]", b"null", b"1"])
def test_not_an_object(data: bytes) -> None:
    with pytest.raises(BundleError, match="must be an object"):
        from_index(data)


def test_a_repeated_key_is_refused() -> None:
    data = to_index(EMPTY)
    with pytest.raises(BundleError, match="not canonical JSON"):
        from_index(data.replace(b'{"builder":""', b'{"builder":"x","builder":""'))
    with pytest.raises(BundleError, match="not canonical JSON"):
        from_index(data + b"\n")


def test_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = to_index(EMPTY)
    monkeypatch.setattr(limits, "INDEX", len(data) - 1)
    with pytest.raises(BundleError, match="more than"):
        from_index(data)


def test_number_of_values_is_bounded_before_they_take_memory() -> None:
    with pytest.raises(BundleError, match="has 1400001 values, more than 400000"):
        from_index(b"[" + b"[]," * 700_000 + b"]")


def test_number_of_images_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMAGES", 23)
    with pytest.raises(BundleError, match="24 images, more than 23"):
        to_index(Sample().info())


def test_the_writer_holds_the_rules_too() -> None:
    info = dataclasses.replace(EMPTY, sources=(("../x", "0" * 64),))
    with pytest.raises(BundleError, match="not a file name inside the project"):
        to_index(info)
