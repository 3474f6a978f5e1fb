"""Bundles for tests: small, realistic, with fake image bytes that compress about as cubins do."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.runtime_samples import IMAGES, bundle_of
from tilec.package.render import render_package
from tilec.package.write import write_bundle
from tilec_runtime.bundle.format import (
    INDEX_NAME,
    from_members,
    index_digest,
    index_members,
    row_name,
)
from tilec_runtime.errors import Location
from tilec_runtime.model.arch import Target, Version
from tilec_runtime.model.digest import canonical_json, sha256
from tilec_runtime.model.image import ImageInfo, Resources
from tilec_runtime.model.kernel import (
    BundleInfo,
    KernelInfo,
    LaunchInfo,
    PackageInfo,
    ToolInfo,
    VariantInfo,
)
from tilec_runtime.model.signature import AbiSlot, Assumption, Param, ParamKind


def fake_bytes(name: str) -> bytes:
    """Bytes that are half noise and half zeros, always the same for a name."""
    return b"\x7fELF" + random.Random(name).randbytes(1500) + bytes(1500)


def row(
    target: str,
    *,
    data: bytes | None = None,
    symbol: str = "k",
    exact: bool = False,
    isa: Version | None = None,
    cuda: Version = (11, 0),
) -> ImageInfo:
    data = fake_bytes(f"{target}{symbol}{exact}{isa}{cuda}") if data is None else data
    return ImageInfo(
        target=Target.parse(target),
        digest=hashlib.sha256(data).hexdigest(),
        size=len(data),
        symbol=symbol,
        exact=exact,
        ptx_isa=isa,
        cuda=cuda,
        resources=Resources(
            registers=40,
            spill_stores=0,
            spill_loads=0,
            stack=0,
            shared=1024,
            constant=400,
            code=2048,
        ),
    )


class Sample:
    """A bundle's index with the bytes of its images."""

    def __init__(self) -> None:
        self.images: dict[str, bytes] = {}

    def add(self, target: str, symbol: str, **more: object) -> ImageInfo:
        data = fake_bytes(f"{target}{symbol}")
        info = row(target, data=data, symbol=symbol, **more)  # type: ignore[arg-type]
        self.images[info.digest] = data
        return info

    def variant(self, kernel: str, dtype: str, block: int, *, tile: bool) -> VariantInfo:
        name = f"{kernel}-{dtype}-B{block}"
        symbol = f"{kernel}_{dtype}_{block}"
        images = (
            self.add("sm_80", symbol, exact=tile),
            self.add("sm_90", symbol, exact=tile, cuda=(11, 8)),
            self.add("compute_80", symbol, isa=(8, 0), cuda=(12, 0)),
        )
        return VariantInfo(
            id=name,
            axes=(("T", dtype), ("B", block)),
            assume=(Assumption(param="x", shape=(16,), stride=(16,), align=16),),
            abi=(
                AbiSlot(type="ptr", expr="x.ptr", size=8, align=8),
                AbiSlot(type="ptr", expr="y.ptr", size=8, align=8),
                AbiSlot(type="i32", expr="x.shape[0]", size=4, align=4),
                AbiSlot(type="f32", expr="eps", size=4, align=4),
            ),
            images=images,
        )

    def kernel(self, name: str, *, tile: bool = False) -> KernelInfo:
        return KernelInfo(
            name=name,
            language="tile" if tile else "cuda",
            location=Location(file=f"kernels/{name}.{'py' if tile else 'cu'}", line=7, column=5),
            doc="Scales each row by its norm.\n\nSecond paragraph, naïve.",
            params=(
                Param(
                    name="y", kind=ParamKind.TENSOR, dtype="T", rank=2, out=True, stride=(None, 1)
                ),
                Param(
                    name="x",
                    kind=ParamKind.TENSOR,
                    dtype="T",
                    rank=2,
                    shape_divisible=(1, 4),
                    align=16,
                    doc="rows",
                ),
                Param(name="eps", kind=ParamKind.SCALAR, dtype="f32", default=1e-6),
            ),
            axes=(("T", ("f16", "f32")), ("B", (64, 128))),
            dtype_axes=("T",),
            default=(("B", 128),),
            launch=LaunchInfo(
                grid=("cdiv(x.shape[0], B)",),
                block=("256",),
                shared="256 * 4",
                requires=("x.shape[0] == y.shape[0]",),
            ),
            variants=tuple(
                self.variant(name, dtype, block, tile=tile)
                for dtype in ("f16", "f32")
                for block in (64, 128)
            ),
        )

    def info(self) -> BundleInfo:
        return BundleInfo(
            package=PackageInfo(
                name="acme-kernels",
                version="0.3.0",
                module="acme_kernels",
                description="Kernels",
                license="Apache-2.0",
            ),
            kernels=(self.kernel("add", tile=True), self.kernel("rmsnorm")),
            toolchain=(ToolInfo(name="nvrtc", version="13.4.92", digest="0" * 64),),
            sources=(("<toolkit>/cuda_fp16.h", "1" * 64), ("kernels/add.py", "2" * 64)),
            min_driver=580,
            builder="tilec 0.1.0",
        )


def write_package(folder: Path, *kernels: KernelInfo) -> None:
    """Write a generated package of kernels of `tests.runtime_samples`."""
    folder.mkdir(parents=True)
    info = bundle_of(*kernels).info
    for name, data in render_package(info, "b.tilec", index_digest(info)).items():
        (folder / name).write_bytes(data)
    write_kernels(folder / "b.tilec", *kernels)


def write_kernels(path: Path, *kernels: KernelInfo) -> Path:
    """Write a bundle of kernels of `tests.runtime_samples`."""
    write_bundle(path, bundle_of(*kernels).info, IMAGES.__getitem__)
    return path


def write_sample(path: Path) -> tuple[Sample, BundleInfo, str]:
    sample = Sample()
    info = sample.info()
    return sample, info, write_bundle(path, info, sample.images.__getitem__)


def plain_index(info: BundleInfo) -> Any:
    """An index as JSON values, with the row of each kernel in place of its digest: `{"kernels":
    {"add": {...}}, ...}`.
    """
    members = index_members(info)
    plain = json.loads(members[INDEX_NAME])
    plain["kernels"] = {
        name: json.loads(members[row_name(digest)]) for name, digest in plain["kernels"]
    }
    return plain


def members_from(plain: Any, encode: Callable[[Any], bytes] = canonical_json) -> dict[str, bytes]:
    """The members of an index that was changed as `plain_index` gives it; what is no object goes in
    as it is.
    """
    kernels = plain.get("kernels") if isinstance(plain, dict) else None
    if not isinstance(kernels, dict):
        return {INDEX_NAME: encode(plain)}
    rows = {name: row if isinstance(row, bytes) else encode(row) for name, row in kernels.items()}
    top = {**plain, "kernels": [[name, sha256(row)] for name, row in rows.items()]}
    return {INDEX_NAME: encode(top), **{row_name(sha256(row)): row for row in rows.values()}}


def read_plain(plain: Any) -> BundleInfo:
    return from_members(members_from(plain))


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())
