"""The interface to cuda.tile: import in a fixed environment, kernels, signatures, export.

Its private names are used here only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import tempfile
import typing
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from tilec.frontends.tile import patches
from tilec.frontends.tools.environment import variables_hidden
from tilec.frontends.tools.python_errors import characters, line_of
from tilec_runtime.errors import Location, ToolchainError
from tilec_runtime.model.arch import Version
from tilec_runtime.model.dtype import DType

# Bytecode versions that cuda.tile writes, oldest first; and those that it writes without a target.
BYTECODES: tuple[Version, ...] = ((13, 1), (13, 2), (13, 3), (13, 4))
PORTABLE: tuple[Version, ...] = BYTECODES[2:]
FIX = "pip install 'tilec[build]'"


PLAIN: dict[object, str] = {bool: "bool", int: "i32", float: "f32"}
"""The dtype of a number of Python, as cuda.tile passes it."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Annotation:
    """The annotation of a kernel's parameter.

    Attributes:
        constant: it is a compile-time constant; `inner` is the type inside, or None.
        scalar: dtype of an annotated scalar (`i32`, `i64`), or empty.
        plain: dtype of a parameter annotated with a Python number type; the manifest may
            change it.
        index: type of extents and strides, `i32` or `i64`.
        unsupported: why tilec cannot pass such a parameter, or empty.
    """

    constant: bool = False
    inner: type | None = None
    scalar: str = ""
    plain: str = ""
    index: str = "i32"
    unsupported: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """Tile IR bytecode of one kernel, the optimisation level to assemble it at, and warnings."""

    bytecode: bytes
    opt: int
    warnings: tuple[warnings.WarningMessage, ...]


@functools.cache
def cuda_tile() -> ModuleType:
    """Return the module `cuda.tile`.

    Raises:
        ToolchainError: it cannot be imported.
    """
    try:
        with _environment():
            import cuda.tile
            import cuda.tile.compilation
    except (ImportError, OSError) as exc:
        raise ToolchainError(
            f"cuda-tile cannot be imported: {exc}",
            cause="it is not installed, half installed, or for another platform",
            fix=FIX,
        ) from exc
    patches.name_installed_files()
    return typing.cast("ModuleType", cuda.tile)


def compilation() -> Any:
    """Return the module `cuda.tile.compilation`."""
    return cuda_tile().compilation


def dtype(dtype: DType) -> object:
    """Return cuda.tile's object of a dtype; cuda.tile must have the dtype."""
    return getattr(cuda_tile(), dtype.tile)


def lang() -> ModuleType:
    """Return the module `tilec.lang`, the safe language."""
    cuda_tile()
    import tilec.lang

    return tilec.lang


@functools.cache
def language_names() -> frozenset[str]:
    """Return the names of the language's files in debug information."""
    return frozenset(
        patches.installed_name(str(path))
        for path in Path(lang().__file__ or "").parent.glob("*.py")
    )


def _environment() -> contextlib.AbstractContextManager[None]:
    """Hide cuda.tile's environment variables, some of which change its output, at its import.

    Its cache stays off. The directory is set so that it creates no temporary one, which a killed
    worker would leave behind.
    """
    return variables_hidden(
        ("CUDA_TILE_", "EXPERIMENTAL_CUDA_TILE_"),
        CUDA_TILE_CACHE_DIR="off",
        CUDA_TILE_TEMP_DIR=tempfile.gettempdir(),
    )


def is_kernel(value: object) -> bool:
    """Whether `value` is a kernel of cuda.tile."""
    return isinstance(value, cuda_tile().kernel)


def function_of(kernel: Any) -> FunctionType:
    """Return the Python function of a kernel."""
    return typing.cast("FunctionType", kernel._pyfunc)  # noqa: SLF001 - there is no public way


def annotations_of(function: FunctionType) -> dict[str, Annotation]:
    """Return the annotation of every parameter that has one.

    Raises:
        Exception: any exception that evaluating an annotation raises.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    return {name: _annotation(hint) for name, hint in hints.items() if name != "return"}


def _annotation(hint: Any) -> Annotation:
    ct = cuda_tile()
    if typing.get_origin(hint) is not typing.Annotated:
        return Annotation(
            plain=PLAIN.get(hint, ""),
            unsupported="tuples are not supported" if typing.get_origin(hint) is tuple else "",
        )
    inner, *extras = typing.get_args(hint)
    unsupported = "tuples are not supported" if typing.get_origin(inner) is tuple else ""
    constant, scalar, index = False, "", "i32"
    for extra in extras:
        if isinstance(extra, ct.ConstantAnnotation):
            constant = True
        elif isinstance(extra, ct.ListAnnotation):
            unsupported = "lists of arrays are not supported"
        elif isinstance(extra, ct.ArrayAnnotation):
            index = "i64" if extra.index_dtype == ct.int64 else "i32"
            if extra.static_shape_dims:
                unsupported = "static_shape_dims is not supported: extents are known at launch only; use a ct.Constant and a matrix axis"
        elif hasattr(extra, "dtype"):
            scalar = "i64" if extra.dtype == ct.int64 else "i32"
    return Annotation(
        constant=constant,
        inner=inner if isinstance(inner, type) else None,
        scalar=scalar,
        index=index,
        unsupported=unsupported,
    )


def with_hints(kernel: Any, hints: Mapping[str, int]) -> Any:
    """Return the kernel with compiler hints replaced.

    Raises:
        ValueError: a value is out of range.
    """
    return kernel.replace_hints(**hints)


def opt_level(kernel: Any, target: str) -> int:
    """Return the optimisation level of the kernel's decorator."""
    return int(kernel._compiler_options.opt_level_for_target(target or "default"))  # noqa: SLF001 - there is no public way


def export(
    kernel: Any, constraints: Sequence[object], *, symbol: str, target: str, version: Version
) -> Exported:
    """Compile a kernel to Tile IR bytecode for `target` (`sm_90`; empty for any).

    `constraints` has cuda.tile's constraint of each parameter.

    Raises:
        Exception: TileError and its subclasses for errors in the user's source; others for a wrong
            signature or a bug in cuda.tile.
    """
    ctc = compilation()
    opt = opt_level(kernel, target)
    signature = ctc.KernelSignature(
        constraints, ctc.CallingConvention.cutile_python_v2(), symbol=symbol
    )
    output = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ctc.export_kernel(
            kernel,
            [signature],
            output,
            gpu_code=target or None,
            output_format="tileir_bytecode",
            bytecode_version=f"{version[0]}.{version[1]}",
        )
    return Exported(bytecode=output.getvalue(), opt=opt, warnings=tuple(caught))


def tile_error(
    exc: BaseException, texts: Mapping[str, str]
) -> tuple[str, list[tuple[Location, str]]] | None:
    """Return message and locations of an error in tile code, or None for any other exception.

    The locations are those in `texts`, innermost first, each with the name of its function.
    """
    if not isinstance(exc, cuda_tile().TileError):
        return None
    places = []
    loc: Any = exc.loc
    while loc is not None and not loc.is_unknown():
        if loc.filename in texts:
            text = line_of(texts, loc.filename, loc.line)
            column = 0 if loc.col is None else characters(text, loc.col) + 1
            at = Location(file=loc.filename, line=loc.line, column=column)
            places.append((at, getattr(loc.function, "name", "") or "<lambda>"))
        loc = loc.call_site
    return str(exc.message), places


def wants_newer(exc: BaseException | None) -> bool:
    """Whether the kernel uses a feature that the bytecode version lacks."""
    # cuda.tile has one class for all unsupported features; only the text names the version.
    return isinstance(exc, cuda_tile().TileUnsupportedFeatureError) and "requires tileiras" in str(
        exc.message
    )


def is_bug(exc: BaseException) -> bool:
    """Whether cuda.tile reports the error as its own bug."""
    return isinstance(exc, cuda_tile().TileInternalError)
