"""The protocol of a frontend: the whole plug-in surface, with the table of those that are
installed.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence
from typing import Protocol

from tilec.model.declaration import KernelDecl
from tilec.model.job import InputFile, Job, Source
from tilec_runtime.errors import ToolchainError
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.image import Image
from tilec_runtime.model.kernel import ToolInfo


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ToolSearch:
    """Where tools are looked for: everything a frontend may know of the machine, read once at the
    edge.

    Attributes:
        prefer: `wheels` looks in the installed wheels first, `system` in CUDA_HOME and PATH first.
        cuda_home: value of CUDA_HOME (or CUDA_PATH), empty for none.
        path: value of PATH.
        cuda: version range of the toolkit that the manifest accepts, such as `>=13.2,<13.5`; empty
            for any.
        state_dir: directory of the cache, which has the table of tool digests by file status; empty
            to hash each time.
        verify: hash every file of a tool, whatever the table and the file lists of wheels say.
    """

    prefer: str = "wheels"
    cuda_home: str = ""
    path: str = ""
    cuda: str = ""
    state_dir: str = ""
    verify: bool = False


class Frontend(Protocol):
    """Reads one kernel language. Instances are made in the main process and again in every worker.

    Attributes:
        name: the language, as in `language = "…"` and `[frontend.…]`.
        suffixes: file suffixes that mean this language where the manifest does not say; empty where
            it always has to.
        kinds: kinds of targets it can make; targets of other kinds do not concern its kernels and
            are passed over.
        simt: the manifest says how many threads a block has; False where the compiler chooses.
        hints: names of the compiler hints that `hints` may give; empty where the language has none.
    """

    name: str
    suffixes: tuple[str, ...]
    kinds: tuple[TargetKind, ...]
    simt: bool
    hints: tuple[str, ...]

    def __init__(self, search: ToolSearch) -> None:
        """Keep where to look for tools; must not import a compiler."""

    def refuse(self, target: Target) -> str:
        """Why a target of one of `kinds` cannot be compiled for (with what would do), or an empty
        text where it can.
        """

    def toolchain(self) -> Sequence[ToolInfo]:
        """Names, versions and digests of every tool a compile uses; part of every cache key.

        Raises:
            ToolchainError: a tool is missing, too old or half installed.
        """

    def inputs(self, source: Source) -> Sequence[InputFile]:
        """The source and every file it pulls in (headers, imported project modules), sorted by
        name; no compiler is run.
        """

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """The kernels of a source, with their parameters and places.

        Raises:
            CompileError: the source cannot be read; with located diagnostics.
        """

    def compile(self, job: Job) -> Image:
        """Compile one job; needs no device.

        Raises:
            CompileError: with located diagnostics, the compiler's log and its command.
            ToolchainError: a tool is missing.
        """


BUILTIN = {
    "cuda": "tilec.frontends.cuda.frontend:CudaFrontend",
    "prebuilt": "tilec.frontends.prebuilt.frontend:PrebuiltFrontend",
    "simt": "tilec.frontends.simt.frontend:SimtFrontend",
    "tile": "tilec.frontends.tile.frontend:TileFrontend",
    "triton": "tilec.frontends.triton.frontend:TritonFrontend",
}
"""Where the frontends that ship with tilec are found, by language."""

# Python files are those of tile kernels where the manifest does not say another language.
SUFFIXES: dict[str, tuple[str, ...]] = {
    "cuda": (".cu", ".cuh"),
    "prebuilt": (".ptx", ".cubin", ".fatbin", ".ltoir", ".ll", ".bc", ".tileirbc", ".tilebc"),
    "simt": (),
    "tile": (".py",),
    "triton": (),
}
"""Their `suffixes`: known here, so that a manifest is read without importing compilers."""


def installed() -> dict[str, str]:
    """Where every installed frontend is found (`module:Class`), by language; third parties register
    in the group `tilec.frontends`.
    """
    from importlib.metadata import (
        entry_points,
    )  # only manifests that name a language pay for the scan

    return {point.name: point.value for point in entry_points(group="tilec.frontends")}


def load_frontend(where: str, language: str) -> type[Frontend]:
    """Return the frontend class at `module:Class`.

    Raises:
        ToolchainError: it cannot be imported.
    """
    module, _, name = where.partition(":")
    try:
        frontend: type[Frontend] = getattr(importlib.import_module(module), name)
    except Exception as exc:
        raise ToolchainError(
            f"the frontend for language {language!r} cannot be loaded from {where}: "
            f"{type(exc).__name__}: {exc}",
            cause="the package that provides it is half installed or of another version",
            fix="install it again; `tilec doctor` shows what is found",
        ) from exc
    return frontend
