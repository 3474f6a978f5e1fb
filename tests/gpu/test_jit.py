"""Compiling at load on a GPU: code of the driver and of nvJitLink gives the same numbers, and where that is denied nothing is made."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.jit_samples import ptx_bundle
from tilec.errors import MissingError, NoImageError
from tilec.model.driver import ptx_isa_of_cuda
from tilec.model.jit import JitBy, JitFallback
from tilec.runtime import Module, load
from tilec.runtime.devices import process_driver
from tilec.runtime.images import ImageStore
from tilec.runtime.jit import Jit
from tilec.runtime.jit_cache import JitCache
from tilec.runtime.prepare import Site

pytestmark = pytest.mark.gpu

OLD = (8, 0)


def scaled(torch, module) -> None:
    x = torch.arange(1000, dtype=torch.float32, device="cuda")
    y = torch.zeros_like(x)
    module.scale(torch.cuda.current_stream(), y, x, 3.0)
    torch.cuda.synchronize()
    assert torch.equal(y, x * 3)


def on_an_older_driver(isa, root: Path) -> Module:
    """PTX that this driver reads, on one that is said to be of CUDA 11.8: nvJitLink's code runs on the real one."""
    driver, jit = process_driver(), Jit(cache=JitCache(root))
    device = dataclasses.replace(driver.device(0), driver=(11, 8))
    return Module(Site(bundle=ptx_bundle(isa), device=device, driver=driver, store=ImageStore(), asked=JitFallback.ALLOW, jit=lambda: jit))


def test_the_driver_compiles_what_it_reads(torch) -> None:
    with pytest.raises(NoImageError, match="PTX that the driver would compile, and jit-fallback is deny by default") as caught:
        scaled(torch, load(ptx_bundle(OLD), 0))
    assert 'jit-fallback = "allow" in [targets], or TILEC_JIT_FALLBACK=allow' in caught.value.fix
    module = load(ptx_bundle(OLD, jit=JitFallback.ALLOW), 0)
    scaled(torch, module)
    assert [made.by for made in module.compiled] == [JitBy.DRIVER]
    with pytest.warns(RuntimeWarning, match="compute_80 is compiled at load by the driver"):
        scaled(torch, Module(dataclasses.replace(load(ptx_bundle(OLD), 0, jit_fallback="warn")._site, store=ImageStore())))


def test_nvjitlinks_code_is_loaded_and_kept(torch, tmp_path: Path) -> None:
    for kept in (False, True):
        module = on_an_older_driver(OLD, tmp_path)
        scaled(torch, module)
        assert [(made.by, made.kept) for made in module.compiled] == [(JitBy.NVJITLINK, kept)]


def test_ptx_that_this_driver_does_not_read(torch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path))
    newer = ptx_isa_of_cuda(process_driver().version())[0], ptx_isa_of_cuda(process_driver().version())[1] + 1
    with pytest.raises(NoImageError, match="TILEC_JIT_FALLBACK=allow"):
        scaled(torch, load(ptx_bundle(newer), 0))
    module = load(ptx_bundle(newer), 0, jit_fallback="allow")
    try:
        scaled(torch, module)
    except MissingError as error:
        pytest.skip(f"no nvJitLink that is newer than the driver: {error.what}")
    assert [made.by for made in module.compiled] == [JitBy.NVJITLINK]
