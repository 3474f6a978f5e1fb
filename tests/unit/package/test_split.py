"""Bundles in parts: what each file holds, which part an image comes from, and what is refused."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bundle_samples import fake_bytes
from tests.runtime_samples import IMAGES, fake_driver, image, kernel, slot
from tilec.package.split import base_of, extras_of, providers_of
from tilec.package.write import Portion, write_bundle
from tilec.testing.fake_driver import H200
from tilec_runtime import load
from tilec_runtime.bundle.parts import PART_NAME, extra_of, read_providers
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import BundleError, NoImageError
from tilec_runtime.model.kernel import BundleInfo, PackageInfo, VariantInfo
from tilec_runtime.values import replace

TARGETS = ("sm_80", "sm_89", "sm_90", "sm_90a", "compute_80")
_number = itertools.count()


def info_of(version: str = "1.0", symbol: str = "f", module: str = "acme") -> BundleInfo:
    images = tuple(
        image(symbol, name)
        if name.startswith("sm")
        else image(symbol, name, ptx_isa=(8, 0), cuda=(12, 0))
        for name in TARGETS
    )
    variant = VariantInfo(id="f", abi=(slot("i32", "1"),), images=images)
    return BundleInfo(
        package=PackageInfo(name="acme-k", version=version, module=module),
        kernels=(kernel("f", (), (variant,)),),
    )


@pytest.fixture
def module() -> str:
    """A name that no test before has imported."""
    return f"acme{next(_number)}"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on Python's path."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [name for name in sys.modules if name.startswith("acme")]:
        del sys.modules[name]


def install(site: Path, info: BundleInfo, *extras: str) -> Path:
    """Write the bundle of a small wheel, and the modules of some providers; return the bundle."""
    providers = providers_of(info)
    base = site / info.package.module / "base.tilec"
    base.parent.mkdir(exist_ok=True)
    write_bundle(base, info, IMAGES.__getitem__, portion=base_of(providers))
    for cc, package in providers.items():
        if extra_of(cc) in extras:
            folder = site / package.module
            folder.mkdir(exist_ok=True)
            (folder / "__init__.py").write_text("raise AssertionError('it is not imported')\n")
            write_bundle(
                folder / PART_NAME, info, IMAGES.__getitem__, portion=Portion(machine_code=cc)
            )
    return base


def taken(base: Path, cc: tuple[int, int] = (9, 0)) -> tuple[str, bytes]:
    """The target of what a device takes of the kernel, and its bytes."""
    driver = fake_driver(devices=(replace(H200, cc=cc),))
    module = load(base, 0, driver=driver)
    site = module._site
    from tilec_runtime.bundle.choose import choose_image, require_image

    info = site.bundle.kernel("f")
    facts = site.facts(info)
    image = require_image(choose_image(info.variants[0].images, facts), facts, kernel="f").image
    return str(image.target), site.bundle.image(image.digest)


def test_names_of_providers_and_extras() -> None:
    providers = providers_of(info_of("1.0rc1"))
    assert [package.name for package in providers.values()] == [
        "acme-k-sm80",
        "acme-k-sm89",
        "acme-k-sm90",
    ]
    assert [package.module for package in providers.values()] == [
        "acme_sm80",
        "acme_sm89",
        "acme_sm90",
    ]
    extras = extras_of(providers)
    assert extras["sm90"] == ("acme-k-sm90==1.0rc1",)
    assert extras["all"] == ("acme-k-sm80==1.0rc1", "acme-k-sm89==1.0rc1", "acme-k-sm90==1.0rc1")


def test_each_file_holds_its_part(site: Path, module: str) -> None:
    base = install(site, info_of(module=module), "sm80", "sm90")
    names = {
        path: [name for name in Bundle.open(path, whole=False)._members if "images/" in name]
        for path in (base, site / f"{module}_sm80" / PART_NAME, site / f"{module}_sm90" / PART_NAME)
    }
    assert [len(held) for held in names.values()] == [1, 1, 2]
    assert Bundle.open(base).info == info_of(module=module)  # the index is whole


def test_exact_before_family_before_baseline(site: Path, module: str) -> None:
    info = info_of(module=module)
    base = install(site, info, "sm80", "sm89", "sm90")
    assert taken(base) == ("sm_90a", b"image of f for sm_90a")
    assert taken(base, (8, 9)) == ("sm_89", b"image of f for sm_89")
    assert taken(base, (8, 6)) == ("sm_80", b"image of f for sm_80")


def test_a_missing_provider_is_an_error_that_installs_it(site: Path, module: str) -> None:
    base = install(site, info_of(module=module), "sm80")
    with pytest.raises(NoImageError) as caught:
        taken(base)
    assert caught.value.fix == "pip install 'acme-k[sm90]==1.0'"
    assert "sm_90: its wheel is not installed: pip install" in caught.value.what
    with pytest.raises(NoImageError) as caught:
        load(base, 0, driver=fake_driver(), strict=True)
    assert caught.value.fix == "pip install 'acme-k[sm90]==1.0'"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (info_of("1.1"), "of acme-k 1.1 with index"),
        (info_of("1.0", symbol="g"), "of acme-k 1.0 with index"),
    ],
)
def test_a_provider_of_another_build(other: BundleInfo, said: str, site: Path, module: str) -> None:
    mixed = replace(other, package=replace(other.package, module=module))
    install(site, mixed, "sm90")
    base = install(site, info_of(module=module))
    with pytest.raises(BundleError) as caught:
        load(base, 0, driver=fake_driver())
    assert said in caught.value.what
    assert caught.value.cause == "wheels of different versions or builds are installed together"
    assert caught.value.fix == "pip install --force-reinstall --no-deps 'acme-k-sm90==1.0'"
    load(base, 0, driver=fake_driver(devices=(replace(H200, cc=(8, 0)),)))  # it is not asked


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def change(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"image of f")] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (Path.unlink, "cannot read the bundle"),
        (cut, "cut short"),
        (change, "damaged data in images/"),
        (lambda path: path.write_bytes(fake_bytes("x")), "not a bundle"),
    ],
)
def test_a_damaged_provider(
    damage: Callable[[Path], object], said: str, site: Path, module: str
) -> None:
    base = install(site, info_of(module=module), "sm90")
    damage(site / f"{module}_sm90" / PART_NAME)
    with pytest.raises(BundleError) as caught:
        taken(base)
    assert said in caught.value.what
    assert f"{module}_sm90" in caught.value.what
    assert caught.value.fix == "pip install --force-reinstall --no-deps 'acme-k-sm90==1.0'"


def test_a_part_alone_is_refused(site: Path, module: str) -> None:
    install(site, info_of(module=module), "sm90")
    with pytest.raises(BundleError, match=r"holds machine code of acme-k 1\.0 alone"):
        Bundle.open(site / f"{module}_sm90" / PART_NAME)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"sm_90":1}',
        b'{"sm_90":"a.b"}',
        b'{"sm_90": "a"}',
        b'{"compute_90":"a"}',
        b'{"sm_90a":"a"}',
        b'{"sm_91":"a"}',
        b"[" * 100_000,
    ],
)
def test_providers_that_no_build_names(data: bytes) -> None:
    with pytest.raises(BundleError, match=r"providers\.json that names no modules"):
        read_providers(data)
