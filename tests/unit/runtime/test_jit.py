"""Compiling at load: what each policy allows, what comes of it, and what the cache gives back and
what it never does.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.runtime_samples import ADD, ADD_ABI, Array, bundle_of, fake_driver, image, loaded
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import Module, load
from tilec_runtime.bundle import store
from tilec_runtime.device.nvjitlink import LinkError, NvJitLink
from tilec_runtime.errors import (
    CallError,
    KernelCacheError,
    LinkerError,
    MissingError,
    NoImageError,
)
from tilec_runtime.launch.images import Site, store_of
from tilec_runtime.launch.jit import Jit
from tilec_runtime.launch.jit_cache import JitCache
from tilec_runtime.model.arch import TargetKind, Version
from tilec_runtime.model.jit import JitBy, JitFallback
from tilec_runtime.model.kernel import KernelInfo, VariantInfo

Z, X, Y = (Array(1000, ptr=0x100000 * k + 4) for k in (1, 2, 3))
CUBIN = b"machine code"
FIX = 'let it be compiled at load: jit-fallback = "allow" in [targets], or TILEC_JIT_FALLBACK=allow'


def ptx(isa: Version, jit: JitFallback | None = None, *more: str) -> KernelInfo:
    """The kernel `add` with PTX for 8.0 of an ISA, and images for more targets."""
    images = (image("k", "compute_80", ptx_isa=isa), *(image("k", target) for target in more))
    return dataclasses.replace(
        ADD, variants=(VariantInfo(id="add", abi=ADD_ABI, images=images),), jit=jit
    )


def lto(made_by: Version = (13, 4), *linking: str) -> KernelInfo:
    """The kernel `add` as LTO-IR for 8.0 that a CUDA release made."""
    row = dataclasses.replace(
        image("k", "lto_80", ptx_isa=made_by, cuda=(made_by[0], 0)), linking=linking
    )
    return dataclasses.replace(ADD, variants=(VariantInfo(id="add", abi=ADD_ABI, images=(row,)),))


OLD = ptx((8, 0))  # what a driver of CUDA 13.0 reads
NEW = ptx((9, 4))  # what only a newer one does


class FakeLinker:
    """A linker that makes machine code, and counts."""

    def __init__(self, version: Version = (13, 4), log: str = "") -> None:
        self.version, self.log = version, log
        self.asked: list[tuple[bytes, str, str]] = []
        self.told: list[tuple[TargetKind, tuple[str, ...]]] = []

    def compile(
        self, data: bytes, name: str, arch: str, kind: TargetKind, options: Sequence[str] = ()
    ) -> bytes:
        self.asked.append((data, name, arch))
        self.told.append((kind, tuple(options)))
        if self.log:
            raise LinkError(self.log)
        return CUBIN


def placed(
    kernel: KernelInfo,
    linker: FakeLinker | MissingError,
    root: Path | None = None,
    asked: JitFallback = JitFallback.ALLOW,
    cuda: Version = (13, 0),
) -> tuple[Module, FakeDriver]:
    """The kernel beside a linker, or what is raised where there is none; with a driver of CUDA's."""

    def found() -> FakeLinker:
        if isinstance(linker, MissingError):
            raise linker
        return linker

    driver, jit = fake_driver(kernel), Jit(cache=JitCache(root), linker=found)
    site = Site(
        bundle=bundle_of(kernel),
        device=dataclasses.replace(driver.device(0), driver=cuda),
        driver=driver,
        store=store_of(driver),
        asked=asked,
        jit=lambda: jit,
    )
    return Module(site), driver


def refused(kernel: KernelInfo, **more: object) -> NoImageError:
    module = load(bundle_of(kernel), 0, driver=fake_driver(kernel), **more)  # type: ignore[arg-type]
    with pytest.raises(NoImageError) as caught:
        module.add(Z, X, Y, stream=5)
    assert module.compiled == ()
    return caught.value


def test_nothing_is_compiled_where_nothing_is_said() -> None:
    told = "PTX ISA 9.4 that nvJitLink would compile, since a driver of CUDA 13.0 does not read it"
    assert f"compute_80: {told}, and jit-fallback is deny by default" in refused(NEW).what
    error = refused(OLD)
    assert error.what == (
        "add: no image runs on Fake H200 (compute capability 9.0, driver of CUDA 13.0)\n"
        "  compute_80: PTX that the driver would compile, and jit-fallback is deny by default"
    )
    assert error.fix == f"add sm_90 to [targets] and build again; or {FIX}"


def test_the_driver_compiles_what_it_reads_where_that_is_allowed() -> None:
    module, driver = loaded(ptx((8, 0), JitFallback.ALLOW))
    module.add(Z, X, Y, stream=5)
    assert driver.loads == [(0, b"image of k for compute_80")]
    (made,) = module.compiled
    assert (made.variant, made.target, made.by) == ("add", "compute_80", JitBy.DRIVER)
    assert str(made) == "add: compute_80 was compiled at load by the driver"


def test_it_goes_through_nvjitlink_where_that_is_allowed(tmp_path: Path) -> None:
    linker = FakeLinker()
    module, driver = placed(NEW, linker, tmp_path)
    said = str(module.add.explain(Z, X, Y))
    assert (
        "  takes image compute_80: PTX of ISA 9.4 for 8.0, too new for a driver of CUDA 13.0: compiled by nvJitLink for 9.0"
        in said
    )
    assert linker.asked == [], "to explain compiles nothing"
    module.add(Z, X, Y, stream=5)
    module.add(Z, X, Y, stream=5)
    assert linker.asked == [(b"image of k for compute_80", "add.ptx", "sm_90")]
    assert driver.loads == [(0, CUBIN)]
    assert len(driver.launches) == 2
    assert [made.by for made in module.compiled] == [JitBy.NVJITLINK]


def test_another_linker_driver_text_or_option_is_another_key(tmp_path: Path) -> None:
    (old,) = NEW.variants[0].images
    text = dataclasses.replace(old, digest=image("other", "compute_80").digest, size=29)
    edited = dataclasses.replace(
        NEW, variants=(dataclasses.replace(NEW.variants[0], images=(text,)),)
    )
    calls: list[tuple[KernelInfo, Version, Version]] = [
        (NEW, (13, 4), (13, 0)),
        (NEW, (13, 5), (13, 0)),
        (NEW, (13, 4), (13, 1)),
        (edited, (13, 4), (13, 0)),
        (lto(), (13, 4), (13, 0)),
        (lto((13, 4), "-ftz=1"), (13, 4), (13, 0)),
    ]
    for known in (0, 1):
        for kernel, version, cuda in calls:
            linker = FakeLinker(version=version)
            placed(kernel, linker, tmp_path, cuda=cuda)[0].add(Z, X, Y, stream=5)
            assert len(linker.asked) == 1 - known
    assert len(entries(tmp_path)) == len(calls)


def test_a_warning_comes_before_the_compile() -> None:
    linker = FakeLinker()
    module, driver = placed(NEW, linker, asked=JitFallback.WARN)
    with pytest.raises(
        RuntimeWarning
    ) as raised:  # warnings are errors here: nothing is compiled then
        module.add(Z, X, Y, stream=5)
    assert str(raised.value) == (
        "add: no machine code for Fake H200 (compute capability 9.0, driver of CUDA 13.0); compute_80 is compiled at load by nvJitLink: "
        "add sm_90 to [targets] and build again"
    )
    assert (linker.asked, driver.loads) == ([], [])
    with pytest.warns(RuntimeWarning, match="compute_80 is compiled at load by nvJitLink"):
        module.add(Z, X, Y, stream=5)
    module.add(Z, X, Y, stream=6)
    assert len(linker.asked) == 1
    with pytest.warns(RuntimeWarning, match="compute_80 is compiled at load by the driver"):
        loaded(ptx((8, 0), JitFallback.WARN))[0].add(Z, X, Y, stream=5)


def test_caller_environment_and_bundle_in_that_order(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = ptx((8, 0), JitFallback.ALLOW)
    monkeypatch.setenv("TILEC_JIT_FALLBACK", "deny")
    refused(allowed)
    driver = fake_driver(allowed)
    load(bundle_of(allowed), 0, driver=driver, jit_fallback="allow").add(Z, X, Y, stream=5)
    assert len(driver.loads) == 1
    monkeypatch.setenv("TILEC_JIT_FALLBACK", "")
    load(bundle_of(allowed), 0, driver=driver).add(Z, X, Y, stream=5)
    refused(allowed, jit_fallback=JitFallback.DENY)


@pytest.mark.parametrize("text", ["always", "Deny"])
def test_no_such_policy(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    with pytest.raises(CallError, match=r"jit_fallback: '' is none of deny, warn, allow"):
        load(bundle_of(OLD), 0, driver=fake_driver(OLD), jit_fallback="")
    monkeypatch.setenv("TILEC_JIT_FALLBACK", text)
    with pytest.raises(
        CallError,
        match=f"TILEC_JIT_FALLBACK: {text!r} is none of deny, warn, allow\n  fix: say deny",
    ):
        load(bundle_of(OLD), 0, driver=fake_driver(OLD))


def test_what_the_linker_says_is_shown_and_nothing_is_kept(tmp_path: Path) -> None:
    linker = FakeLinker(log="line 11; error   : Unknown modifier '.bar'\nptxas fatal")
    module, driver = placed(NEW, linker, tmp_path)
    with pytest.raises(KernelCacheError) as caught:
        module.add(Z, X, Y, stream=5)
    assert caught.value.what == (
        "add: nvJitLink 13.4 does not compile the PTX for compute_80 for sm_90:"
        "\n  line 11; error   : Unknown modifier '.bar'\n  ptxas fatal"
    )
    assert caught.value.fix == "add sm_90 to [targets] and build again: a build finds such errors"
    assert (caught.value.kernel, caught.value.target) == ("add", "compute_80")
    assert (driver.loads, entries(tmp_path)) == ([], [])
    linker.log = ""
    module.add(Z, X, Y, stream=5)
    assert len(linker.asked) == 2, "a failure is not kept"


def test_no_nvjitlink() -> None:
    missing = MissingError(
        "nvJitLink cannot be loaded: no such library", cause="nobody brings it", fix="install it"
    )
    with pytest.raises(LinkerError) as caught:
        placed(NEW, missing)[0].add(Z, X, Y, stream=5)
    too_old = "add: the PTX for compute_80 has to go through nvJitLink, for the driver is too old"
    assert caught.value.what == f"{too_old}: nvJitLink cannot be loaded: no such library"
    assert (caught.value.cause, caught.value.fix) == (
        "nobody brings it",
        "install it; or add sm_90 to [targets] and build again",
    )
    assert caught.value.exit_code == 3


def test_the_library_that_the_bindings_do_not_find(monkeypatch: pytest.MonkeyPatch) -> None:
    def version() -> None:
        raise RuntimeError('Failure finding "libnvJitLink.so.13":\n  No such file')

    monkeypatch.setattr(
        "cuda.bindings.nvjitlink", types.SimpleNamespace(version=version), raising=False
    )
    with pytest.raises(MissingError) as caught:
        NvJitLink()
    assert (
        caught.value.what
        == 'nvJitLink cannot be loaded: Failure finding "libnvJitLink.so.13": No such file'
    )
    assert caught.value.fix == "install it: pip install 'nvidia-nvjitlink>=13,<14'"


def test_an_nvjitlink_that_is_too_old() -> None:
    module, driver = placed(NEW, FakeLinker(version=(13, 0)))
    with pytest.raises(LinkerError) as caught:
        module.add(Z, X, Y, stream=5)
    assert (
        caught.value.what
        == "add: nvJitLink 13.0 reads PTX up to ISA 9.0, and the PTX for compute_80 is of ISA 9.4"
    )
    assert (
        caught.value.fix
        == "pip install --upgrade 'nvidia-nvjitlink<14'; or add sm_90 to [targets] and build again"
    )
    assert driver.loads == []


# LTO-IR


def test_ltoir_is_linked_as_it_was_built(tmp_path: Path) -> None:
    linker = FakeLinker()
    module, driver = placed(lto((13, 4), "-ftz=1", "-maxrregcount=24"), linker, tmp_path)
    assert "takes image lto_80: LTO-IR of CUDA 13.4 for 8.0, linked by nvJitLink for 9.0" in str(
        module.add.explain(Z, X, Y)
    )
    module.add(Z, X, Y, stream=5)
    assert linker.asked == [(b"image of k for lto_80", "add.ltoir", "sm_90")]
    assert linker.told == [(TargetKind.LTOIR, ("-ftz=1", "-maxrregcount=24"))]
    assert driver.loads == [(0, CUBIN)]
    assert [str(made) for made in module.compiled] == [
        "add: lto_80 was compiled at load by nvJitLink"
    ]


@pytest.mark.parametrize(
    ("version", "made_by"), [((13, 0), (13, 4)), ((14, 1), (13, 4)), ((13, 9), (14, 0))]
)
def test_ltoir_that_the_linker_does_not_read(version: Version, made_by: Version) -> None:
    linker = FakeLinker(version=version)
    module, driver = placed(lto(made_by), linker, cuda=(14, 0))
    with pytest.raises(LinkerError) as caught:
        module.add(Z, X, Y, stream=5)
    own, other = (f"{major}.{minor}" for major, minor in (version, made_by))
    reads = f"links LTO-IR of CUDA {version[0]}.0 to {own}"
    assert (
        caught.value.what
        == f"add: nvJitLink {own} {reads}, and the LTO-IR for lto_80 is of CUDA {other}"
    )
    assert (linker.asked, driver.loads) == ([], [])


# The cache


def entries(root: Path) -> list[Path]:
    return sorted((root / store.FORMAT / "jit").glob("*/*"))


def _flip(path: Path, _: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def _foreign(path: Path, root: Path) -> None:
    """A sound entry of another key, in this one's place."""
    JitCache(root / "other").put({"arch": "sm_90"}, CUBIN)
    (entry,) = entries(root / "other")
    path.write_bytes(entry.read_bytes())


@pytest.mark.parametrize("folder", ["", store.FORMAT, f"{store.FORMAT}/jit"])
def test_a_cache_that_others_can_change_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """Code from there would run on the GPU."""
    monkeypatch.setattr("tilec_runtime.bundle.place._warned", set())
    key = {"arch": "sm_90"}
    JitCache(tmp_path).put(key, CUBIN)
    assert JitCache(tmp_path).get(key) == CUBIN
    (tmp_path / folder).chmod(0o777)
    before = entries(tmp_path)
    with pytest.warns(
        RuntimeWarning,
        match=r"is neither read nor written, since others may change it: .* \(mode 0777\)",
    ) as told:
        caches = [JitCache(tmp_path) for _ in range(3)]
    assert len(told) == 1
    assert caches[0].get(key) is None
    caches[0].put({"arch": "sm_80"}, CUBIN)
    assert entries(tmp_path) == before


def _link(path: Path, root: Path) -> None:
    (root / "elsewhere").write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(root / "elsewhere")


@pytest.mark.parametrize("damage", [_flip, _foreign, _link])
def test_a_damaged_or_foreign_entry_is_never_given(
    tmp_path: Path, damage: Callable[[Path, Path], None]
) -> None:
    placed(NEW, FakeLinker(), tmp_path)[0].add(Z, X, Y, stream=5)
    (entry,) = entries(tmp_path)
    sound = entry.read_bytes()
    damage(entry, tmp_path)
    linker = FakeLinker()
    module, driver = placed(NEW, linker, tmp_path)
    module.add(Z, X, Y, stream=5)
    assert len(linker.asked) == 1
    assert driver.loads == [(0, CUBIN)]
    assert (entry.is_symlink(), entry.read_bytes()) == (False, sound), "it is made anew"


def test_a_cache_that_cannot_be_written_costs_a_compile(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no directory")
    for _ in range(2):
        linker = FakeLinker()
        module, driver = placed(NEW, linker, tmp_path / "file")
        module.add(Z, X, Y, stream=5)
        assert (len(linker.asked), driver.loads) == (1, [(0, CUBIN)])
