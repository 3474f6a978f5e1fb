"""The toolkit's nvJitLink makes machine code of PTX that a driver is too old for; no GPU is needed
for that.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jit_samples import ptx_bundle, ptx_scale
from tests.runtime_samples import Array, fake_driver
from tilec_runtime import load
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.device.nvjitlink import LinkError, NvJitLink
from tilec_runtime.errors import KernelCacheError
from tilec_runtime.model.jit import JitBy

pytestmark = pytest.mark.toolchain

Y, X = Array(1000, ptr=0x100000), Array(1000, ptr=0x200000)


def test_ptx_becomes_machine_code_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path))
    driver = fake_driver(ptx_scale((9, 4)))
    module = load(ptx_bundle((9, 4)), 0, driver=driver, jit_fallback="allow")
    module.scale(Y, X, 2.0, stream=5)
    ((_, cubin),) = driver.loads
    read = read_cubin(cubin)
    assert read.cc == (9, 0)
    assert [param.size for param in read.kernel("scale").params] == [8, 8, 4, 4]
    monkeypatch.setattr(NvJitLink, "compile", lambda *_: pytest.fail("compiled again"))
    again = fake_driver(ptx_scale((9, 4)))
    other = load(ptx_bundle((9, 4)), 0, driver=again, jit_fallback="allow")
    other.scale(Y, X, 2.0, stream=5)
    assert again.loads == driver.loads
    assert [made.by for made in (*module.compiled, *other.compiled)] == [JitBy.NVJITLINK] * 2


def test_its_log_is_shown_and_the_next_link_is_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEC_CACHE_DIR", str(tmp_path))
    wrong = load(
        ptx_bundle((9, 4), line="foo.bar %r1;"),
        0,
        driver=fake_driver(ptx_scale((9, 4))),
        jit_fallback="allow",
    )
    for _ in range(2):
        with pytest.raises(KernelCacheError) as caught:
            wrong.scale(Y, X, 2.0, stream=5)
        assert caught.value.what.startswith("scale: nvJitLink 13.")
        assert (
            "\n  ptxas application ptx input, line 20; error   : Not a name of any known instruction: 'foo'"
            in caught.value.what
        )
    driver = fake_driver(ptx_scale((9, 4)))
    load(ptx_bundle((9, 4)), 0, driver=driver, jit_fallback="allow").scale(Y, X, 2.0, stream=5)
    assert len(driver.loads) == 1


def test_an_architecture_that_it_does_not_know() -> None:
    with pytest.raises(LinkError, match=r"UNRECOGNIZED_ARCH.*\(-arch=sm_500\)"):
        NvJitLink().compile(b".version 8.0\n.target sm_80\n", "k.ptx", "sm_500")
