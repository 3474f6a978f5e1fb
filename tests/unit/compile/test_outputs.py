"""What counts as up to date: the bytes that lie there are those that a build of the same plan
wrote.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from tilec.compile import own
from tilec.compile.cache import Cache
from tilec.manifest.locate import Locator
from tilec.manifest.types import Manifest, Package, Targets
from tilec.package.outputs import Output, fingerprint, save_outputs, unchanged_outputs
from tilec_runtime.errors import LinkError, Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, PackageInfo

DRAFT = BundleInfo(package=PackageInfo(name="p", version="1", module="p"), kernels=())


def manifest(root: Path, **changes: object) -> Manifest:
    value = Manifest(
        path="tilec.toml",
        root=str(root),
        package=Package(name="p", version="1", module="p"),
        targets=Targets(default=(Target.parse("sm_90"),)),
        profiles=(),
        locate=Locator("", "tilec.toml"),
    )
    return dataclasses.replace(value, **changes)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", note=pytest.fail)


@pytest.fixture
def built(cache: Cache, tmp_path: Path) -> Output:
    path = tmp_path / "project" / "dist" / "out.tilec"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"image")
    output = Output(kind="bundle", path=str(path), size=5, digest=sha256(b"image"))
    save_outputs(cache, "f", tmp_path / "project", (output,))
    return output


@pytest.mark.parametrize(
    "change",
    [
        "edited",
        "of the same time",
        "removed",
        "a link to the same bytes",
        "moved out of the project",
    ],
)
def test_other_bytes_are_not_up_to_date(
    cache: Cache, built: Output, tmp_path: Path, change: str
) -> None:
    path, root = Path(built.path), tmp_path / "project"
    times = path.stat()
    if change in ("edited", "of the same time"):
        path.write_bytes(b"imagE")
        if change == "of the same time":
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    elif change == "removed":
        path.unlink()
    elif change == "a link to the same bytes":
        path.rename(root / "other")
        path.symlink_to("../other")
    else:
        path.parent.rename(tmp_path / "dist")
        (root / "dist").symlink_to(tmp_path / "dist")
        with pytest.raises(LinkError):
            unchanged_outputs(cache, "f", root)
        return
    assert unchanged_outputs(cache, "f", root) is None


def test_a_pipe_in_the_place_of_an_empty_output_is_not_read(cache: Cache, tmp_path: Path) -> None:
    path = tmp_path / "py.typed"
    os.mkfifo(path)
    output = Output(kind="package", path=str(path), size=0, digest=sha256(b""))
    save_outputs(cache, "g", tmp_path, (output,))
    assert unchanged_outputs(cache, "g", tmp_path) is None


def test_the_fingerprint_covers_keys_order_index_emit_output_and_licences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = manifest(tmp_path)
    licence = tmp_path / "LICENSE"
    licence.write_text("one")
    licensed = manifest(
        tmp_path, package=dataclasses.replace(base.package, license_files=("LICENSE",))
    )
    kernel = KernelInfo(name="k", language="cuda", location=Location(file="k.cu"))
    elsewhere = manifest(tmp_path, output=dataclasses.replace(base.output, dir="elsewhere"))
    prints = [
        fingerprint(["a", "b"], DRAFT, ("bundle",), base),
        fingerprint(["b", "a"], DRAFT, ("bundle",), base),
        fingerprint(["a"], DRAFT, ("bundle",), base),
        fingerprint(["a", "b"], dataclasses.replace(DRAFT, kernels=(kernel,)), ("bundle",), base),
        fingerprint(["a", "b"], DRAFT, ("bundle", "wheel"), base),
        fingerprint(["a", "b"], DRAFT, ("bundle",), elsewhere),
        fingerprint(["a", "b"], DRAFT, ("bundle",), licensed),
    ]
    licence.write_text("two")
    prints.append(fingerprint(["a", "b"], DRAFT, ("bundle",), licensed))
    assert prints[0] == fingerprint(["a", "b"], DRAFT, ("bundle",), base)
    monkeypatch.setattr(own, "digest", lambda: "edited")  # tilec's own code
    prints.append(fingerprint(["a", "b"], DRAFT, ("bundle",), base))
    assert len(set(prints)) == len(prints)
