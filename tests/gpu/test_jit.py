"""Compiling at load on a GPU: denied by default; where it is allowed, code of the driver and of
nvJitLink gives the same numbers.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.jit_samples import ltoir_scale, ptx_bundle
from tests.runtime_samples import bundle_of
from tilec_runtime import Module, load
from tilec_runtime.device.devices import process_driver
from tilec_runtime.errors import MissingError, NoImageError
from tilec_runtime.launch.images import ImageStore, Site
from tilec_runtime.launch.jit import Jit
from tilec_runtime.launch.jit_cache import JitCache
from tilec_runtime.model.arch import Version
from tilec_runtime.model.jit import JitBy, JitFallback

pytestmark = pytest.mark.gpu

OLD = (8, 0)
SCALE = b"""extern "C" __global__ void scale(float* y, const float* x, float s, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * s;
}
"""


def scaled(torch, module) -> None:
    x = torch.arange(1000, dtype=torch.float32, device="cuda")
    y = torch.zeros_like(x)
    module.scale(y, x, 3.0)
    torch.cuda.synchronize()
    assert torch.equal(y, x * 3)


@pytest.fixture(scope="module")
def ltoir() -> tuple[bytes, Version]:
    """The kernel as LTO-IR, and the release that made it; nothing where there is no NVRTC."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        _, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError as error:
        pytest.skip(f"NVRTC is not installed: {error}")
    _, program = nvrtc.nvrtcCreateProgram(SCALE, b"scale.cu", 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, 2, [b"-arch=compute_80", b"-dlto"])
    assert not status
    _, size = nvrtc.nvrtcGetLTOIRSize(program)
    data = bytearray(size)
    nvrtc.nvrtcGetLTOIR(program, data)
    return bytes(data), (major, minor)


def linked_by_nvjitlink(
    ltoir: tuple[bytes, Version], root: Path, made_by: Version | None = None
) -> Module:
    data, release = ltoir
    driver, jit = process_driver(), Jit(cache=JitCache(root))
    bundle = bundle_of(ltoir_scale(data, made_by or release))
    store = ImageStore()  # of its own: what one test has loaded is not there for the next
    return Module(
        Site(
            bundle=bundle,
            device=driver.device(0),
            driver=driver,
            store=store,
            asked=JitFallback.ALLOW,
            jit=lambda: jit,
        )
    )


def test_the_driver_compiles_what_it_reads(torch) -> None:
    with pytest.raises(
        NoImageError, match="PTX that the driver would compile, and jit-fallback is deny by default"
    ) as caught:
        scaled(torch, load(ptx_bundle(OLD), 0))
    assert 'jit-fallback = "allow" in [targets], or TILEC_JIT_FALLBACK=allow' in caught.value.fix
    module = load(ptx_bundle(OLD, jit=JitFallback.ALLOW), 0)
    scaled(torch, module)
    assert [made.by for made in module.compiled] == [JitBy.DRIVER]
    with pytest.warns(RuntimeWarning, match="compute_80 is compiled at load by the driver"):
        scaled(
            torch,
            Module(
                dataclasses.replace(
                    load(ptx_bundle(OLD), 0, jit_fallback="warn")._site, store=ImageStore()
                )
            ),
        )


def test_ltoir_is_linked_and_its_code_is_kept(torch, ltoir, tmp_path: Path) -> None:
    for _ in range(2):
        module = linked_by_nvjitlink(ltoir, tmp_path)
        try:
            scaled(torch, module)
        except MissingError as error:
            pytest.skip(f"no nvJitLink of NVRTC's release: {error.what}")
        compiled = [(made.target, made.by) for made in module.compiled]
        assert compiled == [("lto_80", JitBy.NVJITLINK)]
        assert sum(path.is_file() for path in tmp_path.rglob("jit/*/*")) == 1


def test_ltoir_is_denied_by_default(torch, ltoir) -> None:
    with pytest.raises(
        NoImageError, match="LTO-IR that nvJitLink would link, and jit-fallback is deny by default"
    ):
        scaled(torch, load(bundle_of(ltoir_scale(*ltoir)), 0))
