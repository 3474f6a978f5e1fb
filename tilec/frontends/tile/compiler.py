"""Compiles jobs of the tile frontend: bind, export to bytecode, assemble, read back, check."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from tilec.frontends.tile import api
from tilec.frontends.tile.declare import TileKernel
from tilec.frontends.tile.entry import entry
from tilec.frontends.tile.errors import export_error
from tilec.frontends.tile.signature import bind, divisors, symbol_of
from tilec.frontends.tools.modules import LoadedModule
from tilec.frontends.tools.python_errors import located
from tilec.frontends.tools.search import Tool
from tilec.frontends.tools.tileiras import bytecode_image, cubin_image
from tilec.model.job import Job
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.arch import TargetKind, Version
from tilec_runtime.model.image import Image

# Since this version, bytecode can declare an access as in bounds.
_UNMASKED: Version = (13, 4)


class JobCompiler:
    """Compiles one job; `tools` may be empty for portable bytecode."""

    def __init__(
        self, job: Job, module: LoadedModule, kernel: TileKernel, tools: Mapping[str, Tool]
    ) -> None:
        self._job, self._module, self._kernel, self._tools = job, module, kernel, tools
        self._portable = job.target.kind is TargetKind.TILEIR
        self._symbol = symbol_of(job.spec.name)

    def run(self) -> Image:
        """Return the image.

        Raises:
            CompileError: with located diagnostics, log and command.
            ToolchainError: tileiras does not start.
        """
        constraints, abi = bind(self._job, self._kernel.decl.params, self._kernel.annotations)
        # Drivers read versions up to their own: portable bytecode uses the oldest version that
        # can express the kernel.
        versions = api.PORTABLE if self._portable else (newest_bytecode(self._tools["tileiras"]),)
        exported, version = self._export_oldest(constraints, versions)
        if self._portable:
            return bytecode_image(
                self._job,
                exported.bytecode,
                symbol=self._symbol,
                version=version,
                abi=abi,
                warnings=self._warnings(exported),
            )
        return cubin_image(
            self._job,
            exported.bytecode,
            symbol=self._symbol,
            abi=abi,
            tileiras=self._tools["tileiras"].path,
            opt=exported.opt,
            texts=self._module.texts,
            warnings=self._warnings(exported),
        )

    def _export_oldest(
        self, constraints: Sequence[object], versions: Sequence[Version]
    ) -> tuple[api.Exported, Version]:
        for version in versions[:-1]:
            try:
                return self._export(constraints, version), version
            except CompileError as exc:
                if not api.wants_newer(exc.__cause__):
                    raise
        return self._export(constraints, versions[-1]), versions[-1]

    def _export(self, constraints: Sequence[object], version: Version) -> api.Exported:
        spec, kernel = self._job.spec, self._kernel
        target = "" if self._portable else str(self._job.target)
        hints = dict(self._job.hints)
        with self._module.active(), self._kernel_object(constraints, version) as plain:
            # Without a hint, the lower of the author's level and the profile's counts.
            hints.setdefault("opt_level", min(spec.opt, api.opt_level(plain, target)))
            try:
                hinted = api.with_hints(plain, hints)
            except (TypeError, ValueError) as exc:
                raise CompileError(
                    f"kernel {kernel.decl.name!r}: a hint is out of range: {exc}",
                    fix=f"change [kernel.{spec.name}.hints]",
                ) from exc
            try:
                exported = api.export(
                    hinted,
                    (tuple(constraints),) if kernel.safe else constraints,
                    symbol=self._symbol,
                    target=target,
                    version=version,
                )
            except CompileError:
                raise
            except Exception as exc:
                function = kernel.safe.function if kernel.safe else api.function_of(plain)
                raise export_error(
                    exc,
                    source=spec.source,
                    texts=self._module.texts,
                    kernel=kernel.decl.name,
                    at=kernel.decl.location,
                    function=function,
                ) from exc
        _check_tiles(exported.bytecode)
        return exported

    def _kernel_object(
        self, constraints: Sequence[object], version: Version
    ) -> contextlib.AbstractContextManager[Any]:
        """Return cuda.tile's kernel object for a `with`."""
        kernel = self._kernel
        if kernel.safe is None:
            return contextlib.nullcontext(kernel.kernel)
        names = [param.name for param in kernel.safe.params]
        defaults = {p.name: p.default for p in kernel.safe.params if p.default is not None}
        return entry(
            kernel.safe,
            {**defaults, **dict(self._job.variant.constants)},
            list(self._module.modules.values()),
            line=kernel.decl.location.line,
            checks=self._job.spec.checks,
            # Older bytecode has no unchecked accesses.
            divisors=divisors(names, constraints) if version >= _UNMASKED else None,
        )

    def _warnings(self, exported: api.Exported) -> tuple[Diagnostic, ...]:
        texts, found = self._module.texts, []
        for warned in exported.warnings:
            place = Location(file=warned.filename, line=warned.lineno)
            at = place if place.file in texts else self._kernel.decl.location
            found.append(located(texts, at, str(warned.message), severity="warning"))
        return tuple(dict.fromkeys(found))


def newest_bytecode(tileiras: Tool) -> Version:
    """Return the newest bytecode version that cuda.tile writes and tileiras reads.

    tileiras reads versions up to its own release.
    """
    oldest, newest = api.BYTECODES[0], api.BYTECODES[-1]
    if tileiras.release == (0, 0):  # it reports no release
        return newest
    return max((v for v in api.BYTECODES if v <= tileiras.release), default=oldest)


def _check_tiles(bytecode: bytes) -> None:
    """Refuse tiles that no device runs: cuda.tile accepts them, and tileiras then reports an error
    without a source location.
    """
    from tilec_runtime.cpu.tileir.read import too_large_tile
    from tilec_runtime.cpu.tileir.types import MAX_ELEMENTS

    if extents := too_large_tile(bytecode):
        shape = " x ".join(map(str, extents))
        raise CompileError(
            f"a tile of {shape} elements is too large: the most is {MAX_ELEMENTS}",
            fix="give the axes of the matrix that its extents come from smaller values",
        )
