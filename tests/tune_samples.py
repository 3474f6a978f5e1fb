"""A kernel with a small matrix, as a plan has it and as it is built, and a case of it."""

from __future__ import annotations

import dataclasses
from typing import Any

from tests.runtime_samples import GEMM, image
from tilec.manifest.types import Case, Input, Kernel
from tilec_runtime.model.image import Resources
from tilec_runtime.model.kernel import KernelInfo, VariantInfo

Point = tuple[tuple[str, Any], ...]

A, B, C = (Input(name=name, shape=("128", "128"), dtype="T") for name in "abc")


def built(point: Point, *, symbol: str = "", target: str = "sm_90", **used: Any) -> VariantInfo:
    name = "-".join(f"{axis}{value}" for axis, value in point)
    made = image(symbol or name, target, resources=Resources(**used), required_block=(128, 1, 1))
    return VariantInfo(id=f"gemm-{name}", axes=point, abi=GEMM.variants[0].abi, images=(made,))


def points() -> list[Point]:
    return [(("T", t), ("BM", bm), ("BK", 64)) for t in ("f16", "bf16") for bm in (32, 64, 128)]


def planned() -> KernelInfo:
    """Its variants have no images."""
    variants = tuple(
        VariantInfo(id=f"gemm-{t}-BM{bm}-BK{bk}", axes=p)
        for p in points()
        for (_, t), (_, bm), (_, bk) in [p]
    )
    return dataclasses.replace(
        GEMM, variants=variants, axes=(("T", ("f16", "bf16")), ("BM", (32, 64, 128)), ("BK", (64,)))
    )


def kernel_with(*cases: Case) -> Kernel:
    return Kernel(name="gemm", source="gemm.cu", function="gemm", language="cuda", cases=cases)
