"""A small bundle for HTML reports: code with source lines in three forms, and texts that a careless
page would take for markup.
"""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

from tilec.frontends.base import ToolSearch
from tilec.inspection.page import Page, make_page
from tilec.inspection.report import Report
from tilec_runtime.errors import Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.image import ImageInfo, Resources
from tilec_runtime.model.kernel import (
    BundleInfo,
    KernelInfo,
    LaunchInfo,
    PackageInfo,
    ToolInfo,
    VariantInfo,
)
from tilec_runtime.model.signature import Param, ParamKind

HOSTILE = "</script><img src=x onerror=\"document.title='taken'\">&amp;'"
SOURCE = "__global__ void scale(float* y)\n{\n    y[threadIdx.x] *= 2.0f; // " + HOSTILE + "\n}\n"
PTX = """\
.version 8.0
.target sm_80
.visible .entry scale(.param .u64 y)
{
\t.reg .b32 %r<4>;
\t.loc 1 3 5
\tld.global.f32 %f1, [%rd1];
\tmul.f32 %f2, %f1, 0f40000000;
\t.loc 1 4 1
\tret;
}
\t.file 1 "scale.cu"
.section .debug_str
{
.b8 83
}
"""
SASS = """\
\t.target\tsm_90
.text.scale:
\t//## File "scale.cu", line 1
        /*0000*/                   LDC R1, c[0x0][0x28] ;
\t//## File "scale.cu", line 3
        /*0010*/                   LDG.E R0, desc[UR4][R2.64] ;
        /*0020*/                   FADD R0, R0, R0 ;
        /*0030*/                   STL [R1], R0 ;
\t//## File "lib.cuh", line 7 inlined at "scale.cu", line 3
\t//## File "scale.cu", line 3
        /*0040*/                   STG.E desc[UR4][R2.64], R0 ;
\t//## File "scale.cu", line 4
        /*0050*/                   EXIT ;
"""


@dataclasses.dataclass(frozen=True)
class Loose:
    """Images that are in no file."""

    info: BundleInfo
    blobs: dict[str, bytes]
    digest: str = "5" * 64

    def image(self, digest: str) -> bytes:
        return self.blobs[digest]


def sample(folder: Path, *, kernels: tuple[str, ...] = ("scale",)) -> Loose:
    """Kernels with a cubin and PTX each, all of one source, which lies in `folder`."""
    (folder / "scale.cu").write_text(SOURCE)
    blobs: dict[str, bytes] = {}

    def image(target: str, data: bytes, **more: object) -> ImageInfo:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return ImageInfo(
            target=Target.parse(target), digest=digest, size=len(data), symbol="scale", **more
        )  # type: ignore[arg-type]

    used = Resources(
        registers=40, spill_stores=8, spill_loads=8, stack=16, shared=1024, constant=400, code=2048
    )
    made = tuple(
        KernelInfo(
            name=name,
            language="cuda",
            location=Location(file="scale.cu", line=1),
            doc=HOSTILE,
            params=(Param(name="y", kind=ParamKind.TENSOR, dtype="f32", rank=1, out=True),),
            launch=LaunchInfo(grid=("1",), block=("256",)),
            variants=(
                VariantInfo(
                    id=name,
                    images=(
                        image("sm_90", b"\x7fELF" + ascii(name).encode(), resources=used),
                        image(
                            "compute_80", PTX.encode() + f"// {name!a}\n".encode(), ptx_isa=(8, 0)
                        ),
                    ),
                ),
            ),
        )
        for name in kernels
    )
    info = BundleInfo(
        package=PackageInfo(name=HOSTILE, version="1.0", module="m", description=HOSTILE),
        kernels=made,
        toolchain=(ToolInfo(name="nvrtc", version="13.4.92", digest="0" * 64),),
        sources=(("scale.cu", hashlib.sha256(SOURCE.encode()).hexdigest()),),
        min_driver=580,
        builder="tilec 0.1.0",
    )
    return Loose(info, blobs)


def nvdisasm(folder: Path) -> ToolSearch:
    """A toolkit whose nvdisasm is a shell script that prints `SASS`. What it is run with is in
    `calls`.
    """
    home = folder / "cuda"
    (home / "bin").mkdir(parents=True, exist_ok=True)
    (home / "sass.txt").write_text(SASS)
    (home / "version.json").write_text('{"cuda": {"version": "13.4.0"}}')
    tool = home / "bin" / "nvdisasm"
    tool.write_text(f'#!/bin/sh\necho "$@" >> {home}/calls\ncat {home}/sass.txt\n')
    tool.chmod(0o755)
    return ToolSearch(cuda_home=str(home), path="/usr/bin:/bin", prefer="system")


def page(bundle: Loose, search: ToolSearch, folder: Path) -> Page:
    report = Report(
        path=f"dist/{HOSTILE}.tilec",
        kind="bundle",
        size=123456,
        digest=bundle.digest,
        info=bundle.info,
    )
    return make_page(bundle, report, search, folder)
