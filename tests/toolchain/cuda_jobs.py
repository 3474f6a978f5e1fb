"""Small jobs of the cuda frontend over sources that a test writes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tests.toolchain.projects import SEARCH, write
from tilec.frontends.cuda.frontend import CudaFrontend
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, KernelSpec, Option, Source, Variant
from tilec_runtime.model.arch import Target
from tilec_runtime.model.image import Image
from tilec_runtime.model.kernel import AxisValue

NVCC = {"compiler": "nvcc"}


def frontend(**changes: str) -> CudaFrontend:
    return CudaFrontend(dataclasses.replace(SEARCH, **changes))


def job(
    root: Path,
    symbol: str = "k",
    target: str = "sm_90",
    *,
    path: str = "k/a.cu",
    axes: dict[str, AxisValue] | None = None,
    options: dict[str, Option] | None = None,
    decl: KernelDecl | None = None,
    **spec,
) -> Job:
    """A job for the kernel that `symbol` names."""
    source = Source(root=str(root), path=path, options=tuple(sorted((options or {}).items())))
    name = symbol.split("<")[0].split("::")[-1]
    if decl is None:
        decl = next(d for d in frontend().declare(source) if d.name == name)
    return Job(
        spec=KernelSpec(
            name=name, language="cuda", source=source, decl=decl, symbol=symbol, params=(), **spec
        ),
        variant=Variant(kernel=name, id=name, axes=tuple((axes or {}).items())),
        target=Target.parse(target),
    )


def compile_text(
    tmp_path: Path, text: str, symbol: str = "k", target: str = "sm_90", **kwargs
) -> Image:
    return frontend().compile(job(write(tmp_path, {"k/a.cu": text}), symbol, target, **kwargs))
