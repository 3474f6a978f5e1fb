"""The protocol of a frontend (the whole plug-in surface), and installed frontends."""

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
    """Search settings for tools, read once by the command line.

    Frontends read no environment variables themselves.

    Attributes:
        prefer: `wheels` looks in the installed wheels first, `system` in CUDA_HOME and PATH first.
        cuda_home: value of CUDA_HOME (or CUDA_PATH), empty for none.
        path: value of PATH.
        cuda: version range of the toolkit that the manifest accepts, such as `>=13.2,<13.5`; empty
            for any.
        state_dir: directory of the cache, which holds records of tools' digests; empty to hash
            files in every process.
        verify: hash every file of a tool; ignore records and the file lists of wheels.
    """

    prefer: str = "wheels"
    cuda_home: str = ""
    path: str = ""
    cuda: str = ""
    state_dir: str = ""
    verify: bool = False


class Frontend(Protocol):
    """Reads one kernel language. The main process and every worker create an instance.

    Attributes:
        name: the language, as in `language = "…"` and `[frontend.…]`.
        suffixes: file suffixes that imply this language; empty if the manifest must name it.
        kinds: kinds of targets that it compiles for; its kernels skip targets of other kinds.
        simt: True if the manifest gives the threads of a block; False if the compiler chooses.
        hints: names of the compiler hints that `hints` accepts; may be empty.
    """

    name: str
    suffixes: tuple[str, ...]
    kinds: tuple[TargetKind, ...]
    simt: bool
    hints: tuple[str, ...]

    def __init__(self, search: ToolSearch) -> None:
        """Store the search settings; must not import a compiler."""

    def refuse(self, target: Target) -> str:
        """Return why a target of one of `kinds` is not supported, or an empty string.

        The text also names a target to use instead.
        """

    def toolchain(self) -> Sequence[ToolInfo]:
        """Return name, version and digest of every tool of a compile; part of every cache key.

        Raises:
            ToolchainError: a tool is missing, too old or half installed.
        """

    def inputs(self, source: Source) -> Sequence[InputFile]:
        """Return the source and every file it includes or imports, sorted by name.

        Runs no compiler.
        """

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """Return the kernels of a source, with their parameters and locations.

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
"""The frontends that ship with tilec, as `module:Class` by language."""

# A Python file holds tile kernels unless the manifest names another language.
SUFFIXES: dict[str, tuple[str, ...]] = {
    "cuda": (".cu", ".cuh"),
    "prebuilt": (".ptx", ".cubin", ".fatbin", ".ltoir", ".ll", ".bc", ".tileirbc", ".tilebc"),
    "simt": (),
    "tile": (".py",),
    "triton": (),
}
"""Suffixes by built-in language, listed here so that reading a manifest imports no compiler."""


def installed() -> dict[str, str]:
    """Return every installed frontend as `module:Class`, by language.

    Third parties register in the entry-point group `tilec.frontends`.
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
