"""A bundle in parts on a device: machine code comes from a provider's module, or is asked for."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tilec.package.write import Portion, write_bundle
from tilec_runtime import load
from tilec_runtime.bundle.format import images_of
from tilec_runtime.bundle.parts import PART_NAME
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import NoImageError
from tilec_runtime.model.arch import TargetKind

pytestmark = pytest.mark.gpu


@pytest.fixture
def parts(dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The examples in parts: the bundle without machine code, and where the modules would be that
    have it.
    """
    (whole,) = (dist / "tilec_examples").glob("*.tilec")
    bundle = Bundle.open(whole)
    cubins = {i.target.cc for i in images_of(bundle.info) if i.target.kind is TargetKind.CUBIN}
    modules = {cc: f"split_examples_sm{cc[0]}{cc[1]}" for cc in sorted(cubins)}
    base = tmp_path / "base.tilec"
    write_bundle(base, bundle.info, bundle.image, portion=Portion(modules=modules))
    for cc, module in modules.items():
        folder = tmp_path / "site" / module
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        write_bundle(
            folder / PART_NAME, bundle.info, bundle.image, portion=Portion(machine_code=cc)
        )
    importlib.invalidate_caches()
    monkeypatch.setattr(sys, "path", [*sys.path])
    return base, tmp_path / "site"


def test_machine_code_comes_from_its_module(parts, torch):
    base, site = parts
    sys.path.append(str(site))
    module = load(base, 0, strict=True)
    assert module.preload() > 1
    x = torch.ones(4096, device="cuda")
    z = torch.zeros_like(x)
    module.vector_add(z, x, x)
    torch.cuda.synchronize()
    assert torch.all(z == 2)


def test_without_it_the_error_says_what_to_install(parts, torch):
    base, _ = parts
    x = torch.ones(4096, device="cuda")
    major, minor = torch.cuda.get_device_capability(0)
    with pytest.raises(NoImageError) as caught:
        load(base, 0, jit_fallback="deny").vector_add(torch.zeros_like(x), x, x)
    assert f"[sm{major}{minor}]==" in caught.value.fix
    assert caught.value.fix.startswith("pip install ")
    with pytest.raises(NoImageError):
        load(base, 0, strict=True)
