"""Compiles jobs of the tile frontend: bind, export to bytecode, assemble, read back, check."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from tilec.frontends.base import ToolSearch
from tilec.frontends.tile import api
from tilec.frontends.tile.declare import TileKernel, read
from tilec.frontends.tile.entry import entry
from tilec.frontends.tile.errors import export_error
from tilec.frontends.tile.signature import Bound, bind, symbol_of
from tilec.frontends.tile.toolchain import find
from tilec.frontends.tools.kernels import Kernels, placing
from tilec.frontends.tools.modules import LoadedModule, load
from tilec.frontends.tools.python_errors import located
from tilec.frontends.tools.search import Tool
from tilec.frontends.tools.tileiras import bytecode_image, cubin_image
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, Source
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.arch import TargetKind, Version
from tilec_runtime.model.image import Image

# Since this version, bytecode can declare an access as in bounds.
_UNMASKED: Version = (13, 4)


class Compiler:
    """Declares and compiles. Modules are executed once per process and state of their files."""

    def __init__(self, search: ToolSearch) -> None:
        self._search = search
        self._found: dict[str, Tool] = {}
        self._kernels = Kernels("kernel", "@tl.kernel, or @ct.kernel", _loaded, read)

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """Execute the module, and return the kernels among its attributes in order of appearance.

        Raises:
            CompileError: executing it fails; with the user's line.
            ToolchainError: cuda-tile is missing.
        """
        return self._kernels.declare(source)

    def compile(self, job: Job) -> Image:
        """Compile one variant for one target.

        Raises:
            CompileError: kernel and manifest contradict each other, or a compiler rejects it.
            ToolchainError: a tool is missing.
        """
        module, kernel = self._kernels.find(job)
        with placing(job, module.texts):
            return self._image(job, module, kernel)

    def _image(self, job: Job, module: LoadedModule, kernel: TileKernel) -> Image:
        at = kernel.decl.location
        bound = bind(job, kernel.params)
        portable = job.target.kind is TargetKind.TILEIR
        symbol = symbol_of(job.spec.name)
        # Drivers read versions up to their own: portable bytecode uses the oldest version that
        # can express the kernel.
        versions = api.PORTABLE if portable else (self.bytecode_version(),)
        exported, version = self._export_oldest(
            job, module, kernel, bound, symbol=symbol, versions=versions
        )
        warned = _warnings(exported, module.texts, at)
        if portable:
            return bytecode_image(
                job,
                exported.bytecode,
                symbol=symbol,
                version=version,
                abi=bound.abi,
                warnings=warned,
            )
        return cubin_image(
            job,
            exported.bytecode,
            symbol=symbol,
            abi=bound.abi,
            tileiras=self.tools()["tileiras"].path,
            opt=exported.opt,
            texts=module.texts,
            warnings=warned,
        )

    def tools(self) -> dict[str, Tool]:
        """Return tileiras and the tools that it uses, searched once."""
        if not self._found:
            self._found = find(self._search, digest=False)
        return self._found

    def bytecode_version(self) -> Version:
        """Return the newest bytecode version that cuda.tile writes and this tileiras reads: tileiras
        reads versions up to its own release.
        """
        release = self.tools()["tileiras"].release
        return max(
            (v for v in api.BYTECODES if v <= release),
            default=api.BYTECODES[-1 if release == (0, 0) else 0],
        )

    def _export_oldest(
        self,
        job: Job,
        module: LoadedModule,
        kernel: TileKernel,
        bound: Bound,
        *,
        symbol: str,
        versions: Sequence[Version],
    ) -> tuple[api.Exported, Version]:
        for version in versions[:-1]:
            try:
                return self._export(
                    job, module, kernel, bound, symbol=symbol, version=version
                ), version
            except CompileError as exc:
                if not api.wants_newer(exc.__cause__):
                    raise
        return self._export(
            job, module, kernel, bound, symbol=symbol, version=versions[-1]
        ), versions[-1]

    def _export(
        self,
        job: Job,
        module: LoadedModule,
        kernel: TileKernel,
        bound: Bound,
        *,
        symbol: str,
        version: Version,
    ) -> api.Exported:
        target = "" if job.target.kind is TargetKind.TILEIR else str(job.target)
        name, at = kernel.decl.name, kernel.decl.location
        hints = dict(job.hints)
        with (
            module.active(),
            _kernel_of(job, module, kernel, _divisors(kernel, bound, version)) as plain,
        ):
            # Without a hint, the lower of the author's level and the profile's counts.
            hints.setdefault("opt_level", min(job.spec.opt, api.opt_level(plain, target)))
            try:
                hinted = api.with_hints(plain, hints)
            except (TypeError, ValueError) as exc:
                raise CompileError(
                    f"kernel {name!r}: a hint is out of range: {exc}",
                    fix=f"change [kernel.{job.spec.name}.hints]",
                ) from exc
            try:
                exported = api.export(
                    hinted,
                    (api.Tuple(bound.bindings),) if kernel.safe else bound.bindings,
                    symbol=symbol,
                    target=target,
                    version=version,
                )
            except CompileError:
                raise
            except Exception as exc:
                function = kernel.safe.function if kernel.safe else api.function_of(plain)
                raise export_error(
                    exc,
                    source=job.spec.source,
                    texts=module.texts,
                    kernel=name,
                    at=at,
                    function=function,
                ) from exc
        _check_tiles(exported.bytecode)
        return exported


def _loaded(source: Source, *, again: bool) -> LoadedModule:
    api.cuda_tile()
    return load(source, again=again)


def _kernel_of(
    job: Job,
    module: LoadedModule,
    kernel: TileKernel,
    divisors: Mapping[str, tuple[int, ...]] | None,
) -> contextlib.AbstractContextManager[Any]:
    """Return cuda.tile's kernel object for a `with`."""
    if kernel.safe is None:
        return contextlib.nullcontext(kernel.kernel)
    defaults = {p.name: p.default for p in kernel.safe.params if p.default is not None}
    return entry(
        kernel.safe,
        {**defaults, **dict(job.variant.constants)},
        list(module.modules.values()),
        line=kernel.decl.location.line,
        checks=job.spec.checks,
        divisors=divisors,
    )


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


def _divisors(
    kernel: TileKernel, bound: Bound, version: Version
) -> Mapping[str, tuple[int, ...]] | None:
    """Return divisors of the extents of each array (a known extent divides itself), or None if the
    bytecode version has no unchecked accesses.
    """
    if version < _UNMASKED:
        return None
    found = {}
    for param, array in zip(kernel.params, bound.bindings, strict=True):
        if isinstance(array, api.Array):
            extents = array.extents or (None,) * len(array.shape_divisible)
            known = zip(extents, array.shape_divisible, strict=True)
            found[param.name] = tuple(
                divisor if extent is None else extent for extent, divisor in known
            )
    return found


def _warnings(
    exported: api.Exported, texts: Mapping[str, str], at: Location
) -> tuple[Diagnostic, ...]:
    found = []
    for warned in exported.warnings:
        place = (
            Location(file=warned.filename, line=warned.lineno) if warned.filename in texts else at
        )
        found.append(located(texts, place, str(warned.message), severity="warning"))
    return tuple(dict.fromkeys(found))
