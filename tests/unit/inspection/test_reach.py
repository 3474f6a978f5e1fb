"""Which devices take which images, and which variants have machine code for a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime_samples import IMAGES, image, kernel, slot
from tilec.inspection.reach import NEWER, coverage, sizes
from tilec.package.write import write_bundle
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.model.arch import ARCHS
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import BundleInfo, PackageInfo, VariantInfo


def bundle_of(
    tmp_path: Path,
    *targets: str,
    min_driver: int = 0,
    jit: JitFallback | None = None,
    **facts: object,
) -> Bundle:
    """A bundle of one kernel with an image for each target; `exact` and `cuda` are of cubins."""
    images = tuple(
        image("f", name, **facts)
        if name.startswith("sm")
        else image("f", name, ptx_isa=(8, 0), cuda=(12, 0))
        for name in targets
    )
    variant = VariantInfo(id="f", abi=(slot("i32", "1"),), images=images)
    info = BundleInfo(
        package=PackageInfo(name="acme", version="1.0", module="acme"),
        kernels=(kernel("f", (), (variant,), jit=jit),),
        min_driver=min_driver,
    )
    path = tmp_path / "acme.tilec"
    write_bundle(path, info, IMAGES.__getitem__)
    return Bundle.open(path)


def test_each_target_with_the_devices_that_take_it(tmp_path: Path) -> None:
    shipped, dead = sizes(bundle_of(tmp_path, "sm_80", "sm_90", "compute_80"))
    taken = {str(row.target): (row.devices, row.allowed, row.dead) for row in shipped}
    later = [f"sm_{major}{minor}" for major, minor in ARCHS if major > 9]
    assert taken == {
        "sm_80": (("sm_80", "sm_86", "sm_89"), (), 0),
        "sm_90": (("sm_90",), (), 0),
        "compute_80": ((), ("sm_87", "sm_88", *later, NEWER), 0),
    }
    assert not dead


def test_what_the_bundle_allows_is_taken(tmp_path: Path) -> None:
    ((row,), _) = sizes(bundle_of(tmp_path, "compute_90", jit=JitFallback.ALLOW))
    assert row.devices[0] == "sm_90"
    assert row.devices[-1] == NEWER
    assert not row.allowed


@pytest.mark.parametrize(
    ("targets", "dead"),
    [
        (("sm_90", "sm_90a"), {"sm_90": ["sm_90a"]}),
        (("sm_100a", "sm_103a", "sm_100f"), {}),  # 10.7 takes the family's
        (("compute_80", "compute_86", "compute_87", "compute_88", "compute_89"), {}),
        (("sm_75", "compute_75", "compute_80"), {"compute_75": ["sm_75", "compute_80"]}),
    ],
)
def test_dead_images(targets: tuple[str, ...], dead: dict[str, list[str]], tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, *targets)
    shipped, found = sizes(bundle)
    assert {str(one.image.target): list(map(str, sorted(one.instead))) for one in found} == dead
    sizes_of = {str(row.target): row.dead_size for row in shipped if row.dead}
    assert sizes_of == {str(one.image.target): bundle.packed(one.image.digest) for one in found}


def test_an_older_image_lives_by_the_drivers_that_need_it(tmp_path: Path) -> None:
    older = image("f", "sm_90", cuda=(12, 0))
    newer = image("f", "sm_90a", cuda=(13, 4))
    variant = VariantInfo(id="f", abi=(slot("i32", "1"),), images=(older, newer))
    path = tmp_path / "acme.tilec"
    for min_driver, dead in ((0, []), (525, []), (615, ["f-sm_90"])):
        info = BundleInfo(
            package=PackageInfo(name="acme", version="1.0", module="acme"),
            kernels=(kernel("f", (), (variant,)),),
            min_driver=min_driver,
        )
        write_bundle(path, info, IMAGES.__getitem__)
        assert [one.id for one in sizes(Bundle.open(path))[1]] == dead


def test_coverage(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, "sm_90", "compute_80", cuda=(12, 4))
    h200, b200 = coverage(bundle.info, ("sm_90", "sm_100"))
    assert (h200.complete, h200.variants, h200.driver) == (True, 1, (12, 4))
    assert (b200.complete, b200.driver) == (False, None)
    (lack,) = b200.lacks
    assert lack.variant == "f"


@pytest.mark.parametrize(
    ("jit", "reason"),
    [
        (None, "PTX that the driver would compile, and jit-fallback is deny by default"),
        (JitFallback.DENY, "PTX that the driver would compile, and jit-fallback is deny"),
        (JitFallback.ALLOW, "PTX of ISA 8.0 for 8.0, compiled by the driver for 12.0"),
    ],
)
def test_coverage_states_what_the_bundle_allows(
    jit: JitFallback | None, reason: str, tmp_path: Path
) -> None:
    bundle = bundle_of(tmp_path, "compute_80", jit=jit)
    (found,) = coverage(bundle.info, ("sm_120",))
    assert not found.complete
    assert [lack.reasons for lack in found.lacks] == [(f"compute_80: {reason}",)]


@pytest.mark.parametrize(("min_driver", "complete"), [(0, True), (525, False), (550, True)])
def test_coverage_asks_the_drivers_that_the_bundle_supports(
    min_driver: int, complete: bool, tmp_path: Path
) -> None:
    bundle = bundle_of(tmp_path, "sm_90", min_driver=min_driver, cuda=(12, 4))
    (found,) = coverage(bundle.info, ("sm_90",))
    assert found.complete == complete
