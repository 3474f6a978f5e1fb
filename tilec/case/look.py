"""A manifest for a kernel of a file that has none: what its source leaves open is guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.model.dtype import DTYPES

CASE = "look"
ALONE, SQUARE = 4096, 256  # extents of vectors, and of all arrays where some have more dimensions
TILE, THREADS = 128, 256
_COUNT = re.compile(r"n|m|k|size|len|length|count|numel|n_\w+|num_\w+", re.IGNORECASE)


def bare_manifest(name: str, file: str, language: str) -> str:
    """Return the manifest that names a kernel and nothing else."""
    lines = ["edition = 1", 'package.name = "look"', f"[kernel.{name}]"]
    lines += [f"source = {json.dumps(f'{file}:{name}')}", f'language = "{language}"']
    return "\n".join(lines) + "\n"


def guessed_manifest(name: str, file: str, language: str, decl: KernelDecl) -> str:
    """Return a manifest with values for all that the source leaves open, and one case."""
    axes: dict[str, str | int] = {
        p.name: TILE for p in decl.params if p.kind == "constant" and p.default is None
    }
    step = next(iter(axes.values()), 1)
    axes |= {use.name: '"f32"' if use.dtype else TILE for use in decl.axes}
    lines = [f"matrix.{axis} = [{value}]" for axis, value in axes.items()]
    params = [param for param in decl.params if param.kind != "constant"]
    ranks = {p.name: p.rank if p.rank >= 0 else 1 for p in params if _is_array(p)}
    for param in params:
        if not param.type:
            rank = f", rank = {ranks[param.name]}" if param.name in ranks else ""
            dtype = _dtype(param, axes, array=bool(rank))
            lines.append(f'params.{param.name} = {{ dtype = "{dtype}"{rank} }}')
    threads = language in ("cuda", "simt")
    if not decl.grid:
        lines.append(f'launch.grid = ["{_grid(params, ranks, THREADS if threads else step)}"]')
    if threads:
        lines.append(f"launch.block = [{THREADS}]")
    inputs = ", ".join(f"{param} = {value}" for param, value in _inputs(params, ranks, axes))
    lines.append(f"case.{CASE}.inputs = {{ {inputs} }}")
    return bare_manifest(name, file, language) + "\n".join(lines) + "\n"


def _grid(params: Sequence[ParamDecl], ranks: Mapping[str, int], step: str | int) -> str:
    """Return one block for each `step` elements of the first written array, or of the first."""
    written = [param.name for param in params if param.name in ranks and param.out]
    first = next(iter((*written, *ranks)), "")
    return f"cdiv({first}.size, {step})" if first else "1"


def _inputs(
    params: Sequence[ParamDecl], ranks: Mapping[str, int], axes: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """Yield each parameter that needs an input, with its extents or its value."""
    extent = SQUARE if max(ranks.values(), default=0) > 1 else ALONE
    for param in params:
        if param.name in ranks:
            yield param.name, str([extent] * ranks[param.name])
        elif param.default is None:
            dtype = _dtype(param, axes, array=False)
            counts = dtype in DTYPES and DTYPES[dtype].kind in ("int", "uint")
            yield param.name, str(extent if counts else 2.0)


def _dtype(param: ParamDecl, axes: Mapping[str, object], *, array: bool) -> str:
    """Return the dtype that a source gives a parameter, or a guess by the parameter's name."""
    if param.dtype in DTYPES or param.dtype in axes:
        return param.dtype
    return "i32" if not array and _COUNT.fullmatch(param.name) else param.dtype or "f32"


def _is_array(param: ParamDecl) -> bool:
    """Return whether a parameter is, or is best taken for, an array."""
    count = not param.type and not param.out and _COUNT.fullmatch(param.name)
    return param.kind == "tensor" and not count
