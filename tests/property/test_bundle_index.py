"""Indexes of bundles come back as they were, and changed bundles are refused or give the same."""

from __future__ import annotations

import contextlib
import functools
import string
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tests.bundle_samples import Sample, members_from, plain_index, write_sample
from tilec_runtime.bundle.format import from_members, index_members
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import BundleError, Location
from tilec_runtime.model.arch import ARCHS, Target
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.image import ImageInfo, Resources
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import (
    BundleInfo,
    KernelInfo,
    LaunchInfo,
    PackageInfo,
    ToolInfo,
    VariantInfo,
)
from tilec_runtime.model.safety import Checks, Fact, Guarantee, Region, Safety
from tilec_runtime.model.signature import AbiSlot, Assumption, Param, ParamKind

NAMES = st.text(string.ascii_letters + "_äλ", min_size=1, max_size=8)


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


LINES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Zl", "Zp")), max_size=20
)


COUNT = st.integers(0, 2**40)


SMALL = st.integers(0, 2**31 - 1)


ALIGNMENTS = st.sampled_from((1, 2, 16, 256))


FILES = st.lists(
    st.text(string.ascii_letters + ".-_ <>", min_size=1, max_size=8).filter(lambda s: s != ".."),
    min_size=1,
    max_size=3,
).map("/".join)


DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)


VERSIONS = st.tuples(st.integers(0, 99), st.integers(0, 99))


FACTS = st.lists(st.integers(1, 64), max_size=3).map(tuple)


DIMS = st.lists(st.integers(1, 1024), max_size=3).map(tuple)


EXPRESSIONS = st.sampled_from(("cdiv(n, 4)", "x.shape[0]", "1", "256 * 4"))


LITERALS = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), LINES
)


NUMBERS = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))


TARGETS = st.sampled_from(
    [Target.parse("tileir")]
    + [
        Target.parse(f"{kind}_{cc[0]}{cc[1]}{suffix}")
        for cc, arch in ARCHS.items()
        for kind in ("sm", "compute")
        for suffix, isa in (("", arch.ptx), ("a", arch.ptx_a), ("f", arch.ptx_f))
        if isa
    ]
)


MAYBE = st.none() | COUNT


RESOURCES = st.builds(
    Resources,
    registers=st.none() | SMALL,
    spill_stores=MAYBE,
    spill_loads=MAYBE,
    stack=MAYBE,
    shared=MAYBE,
    constant=MAYBE,
    code=MAYBE,
)


@st.composite
def images(draw: st.DrawFn) -> ImageInfo:
    digest = draw(DIGESTS)
    return ImageInfo(
        target=draw(TARGETS),
        digest=digest,
        size=int(digest[:4], 16),  # one digest, one size
        symbol=draw(LINES),
        exact=draw(st.booleans()),
        ptx_isa=draw(st.none() | VERSIONS),
        cuda=draw(VERSIONS),
        resources=draw(RESOURCES),
        max_threads=draw(SMALL),
        required_block=draw(DIMS),
        cluster=draw(DIMS),
    )


HINTS = st.dictionaries(NAMES, st.integers(0, 16), min_size=1, max_size=2).map(
    lambda found: tuple(found.items())
)


def safeties(tensors: list[str]) -> st.SearchStrategy[Safety]:
    places = st.none() | st.builds(Location, file=FILES, line=COUNT, column=COUNT)
    facts = st.builds(
        Fact,
        guarantee=st.sampled_from(Guarantee),
        what=TEXT,
        location=places,
    )
    tiles = st.lists(EXPRESSIONS, max_size=3).map(tuple)
    regions = st.builds(Region, param=st.sampled_from(tensors), tile=tiles, mapped=st.booleans())
    return st.builds(
        Safety,
        facts=st.lists(facts, max_size=3).map(tuple),
        regions=st.lists(regions, max_size=2).map(tuple),
        checks=st.sampled_from(Checks),
    )


@st.composite
def kernels(draw: st.DrawFn, name: str) -> KernelInfo:
    kinds = {
        **draw(st.dictionaries(NAMES, st.sampled_from(ParamKind), max_size=2)),
        draw(NAMES): ParamKind.TENSOR,
    }
    tensors = [param for param, kind in kinds.items() if kind is ParamKind.TENSOR]
    structs = {
        param: draw(st.integers(1, 1000))
        for param, kind in kinds.items()
        if kind is ParamKind.STRUCT
    }
    axes = draw(
        st.dictionaries(NAMES, st.lists(LITERALS, min_size=1, max_size=2).map(tuple), max_size=2)
    )
    axes["T"] = draw(st.lists(st.sampled_from(sorted(DTYPES)), min_size=1, max_size=2).map(tuple))
    assumptions = st.builds(
        Assumption, param=st.sampled_from(tensors), shape=FACTS, stride=FACTS, align=ALIGNMENTS
    )
    sizes = {"ptr": 8, **{name: dtype.bytes for name, dtype in DTYPES.items()}}
    plain = [
        st.builds(
            AbiSlot, type=st.just(name), expr=EXPRESSIONS, size=st.just(size), align=ALIGNMENTS
        )
        for name, size in sizes.items()
    ]
    by_value = [
        AbiSlot(type="struct", expr=name, size=size, align=8) for name, size in structs.items()
    ]
    slots = st.one_of(*plain, *map(st.just, by_value))
    points = st.lists(st.tuples(st.sampled_from(sorted(axes)), LITERALS), max_size=2).map(tuple)
    variants = [
        VariantInfo(
            id=identity,
            axes=draw(points),
            assume=draw(st.lists(assumptions, max_size=2).map(tuple)),
            abi=draw(st.lists(slots, max_size=3).map(tuple)),
            images=made,
            hints=tuple(
                (target, draw(HINTS))
                for target in dict.fromkeys(str(image.target) for image in made)
                if draw(st.booleans())
            ),
        )
        for identity in draw(st.lists(LINES, unique=True, max_size=2))
        for made in (draw(st.lists(images(), max_size=2).map(tuple)),)
    ]
    return KernelInfo(
        name=name,
        language=draw(NAMES),
        location=draw(st.builds(Location, file=FILES, line=COUNT, column=COUNT)),
        doc=draw(TEXT),
        params=tuple(
            Param(
                name=param,
                kind=kind,
                dtype=draw(
                    st.sampled_from(
                        ["T", *DTYPES]
                        if kind in (ParamKind.TENSOR, ParamKind.SCALAR)
                        else ["", "T", *DTYPES]
                    )
                ),
                rank=draw(st.integers(-1, 8)),
                out=draw(st.booleans()),
                stride=draw(
                    st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3).map(tuple)
                ),
                shape_divisible=draw(FACTS),
                stride_divisible=draw(FACTS),
                align=draw(ALIGNMENTS),
                default=draw(st.none() | NUMBERS),
                size=structs.get(param, 0),
                doc=draw(TEXT),
            )
            for param, kind in kinds.items()
        ),
        axes=tuple(axes.items()),
        dtype_axes=("T",),
        default=draw(points),
        launch=draw(
            st.builds(
                LaunchInfo,
                grid=st.lists(EXPRESSIONS, max_size=3).map(tuple),
                block=st.lists(EXPRESSIONS, max_size=3).map(tuple),
                shared=EXPRESSIONS,
                cluster=DIMS,
                cooperative=st.booleans(),
                programmatic=st.booleans(),
                requires=st.lists(EXPRESSIONS, max_size=2).map(tuple),
            )
        ),
        variants=tuple(variants),
        safety=draw(st.none() | safeties(tensors)),
        jit=draw(st.none() | st.sampled_from(JitFallback)),
    )


@st.composite
def bundles(draw: st.DrawFn) -> BundleInfo:
    return BundleInfo(
        package=PackageInfo(
            name="acme-kernels",
            version="1.0",
            module="acme",
            description=draw(TEXT),
            license=draw(TEXT),
        ),
        kernels=tuple(
            draw(kernels(name)) for name in draw(st.lists(NAMES, unique=True, max_size=2))
        ),
        toolchain=draw(
            st.lists(
                st.builds(ToolInfo, name=LINES, version=LINES, digest=DIGESTS), max_size=2
            ).map(tuple)
        ),
        sources=draw(st.dictionaries(FILES, DIGESTS, max_size=2).map(lambda d: tuple(d.items()))),
        profile=draw(NAMES),
        min_driver=draw(st.integers(0, 999)),
        builder=draw(LINES),
    )


@examples(60)
@given(bundles())
def test_round_trip(info: BundleInfo) -> None:
    data = index_members(info)
    again = from_members(data)
    assert again == info
    assert repr(again) == repr(info)  # equality alone takes 1 for True
    assert index_members(again) == data


@functools.cache
def good() -> tuple[bytes, dict[str, bytes]]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a.tilec"
        sample, _, _ = write_sample(path)
        return path.read_bytes(), sample.images


def use(data: bytes) -> None:
    _, images = good()
    with contextlib.suppress(BundleError):
        bundle = Bundle.open(data)
        assert bundle.info == Sample().info()
        for digest, expected in images.items():
            with contextlib.suppress(BundleError):
                assert bundle.image(digest) == expected
    with contextlib.suppress(BundleError):
        bundle = Bundle.open(data, whole=False)
        for name in bundle.kernels:
            with contextlib.suppress(BundleError):
                assert bundle.kernel(name) in Sample().info().kernels


@examples(150)
@given(
    st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=4
    )
)
def test_flipped_bytes(flips: list[tuple[float, int]]) -> None:
    data = bytearray(good()[0])
    for place, mask in flips:
        data[int(place * len(data))] ^= mask
    use(bytes(data))


@examples(100)
@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_moved_and_missing_pieces(start: float, end: float, to: float, keep: bool) -> None:
    data = good()[0]
    low, high = sorted((int(start * len(data)), int(end * len(data))))
    rest = data if keep else data[:low] + data[high:]
    at = int(to * len(rest))
    use(rest[:at] + data[low:high] + rest[at:])


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@examples(200)
@given(st.data())
def test_changed_indexes(data: st.DataObject) -> None:
    """Any value of the index replaced by any other: read as what was written, or refused."""
    plain: Any = plain_index(Sample().info())
    place = plain
    while True:
        key = data.draw(
            st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place)))
        )
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.integers(0, 3)) == 0:
            break
        place = inner
    place[key] = data.draw(VALUES)
    changed = members_from(plain)
    with contextlib.suppress(BundleError):
        assert index_members(from_members(changed)) == changed
