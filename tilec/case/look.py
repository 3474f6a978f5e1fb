"""A manifest for a kernel of a file that has none: what its source leaves open is guessed."""

from __future__ import annotations

import json
import re

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
    axes = {p.name: TILE for p in decl.params if p.kind == "constant" and p.default is None}
    lines = [f"matrix.{axis} = [{value}]" for axis, value in axes.items()]
    named = {use.name: '"f32"' if use.dtype else TILE for use in decl.axes}
    lines += [f"matrix.{axis} = [{value}]" for axis, value in named.items()]
    given = [param for param in decl.params if param.kind != "constant"]
    arrays = [param for param in given if _is_array(param)]
    ranks = {param.name: param.rank if param.rank >= 0 else 1 for param in arrays}
    extent = SQUARE if max(ranks.values(), default=0) > 1 else ALONE
    inputs = []
    for param in given:
        if not param.type:
            rank = f", rank = {ranks[param.name]}" if param.name in ranks else ""
            dtype = param.dtype or (
                "f32" if rank else "i32" if _COUNT.fullmatch(param.name) else "f32"
            )
            lines.append(f'params.{param.name} = {{ dtype = "{dtype}"{rank} }}')
        if param.name in ranks:
            inputs.append(f"{param.name} = {[extent] * ranks[param.name]}")
        elif param.default is None:
            counts = (
                DTYPES[param.dtype].kind in ("int", "uint")
                if param.dtype in DTYPES
                else (param.dtype not in named and bool(_COUNT.fullmatch(param.name)))
            )
            inputs.append(f"{param.name} = {extent if counts else 2.0}")
    threads = language in ("cuda", "simt")
    if not decl.grid:
        first = next((p.name for p in arrays if p.out), next(iter(ranks), ""))
        step = THREADS if threads else next(iter(axes.values()), 1)
        lines.append(f'launch.grid = ["{f"cdiv({first}.size, {step})" if first else 1}"]')
    if threads:
        lines.append(f"launch.block = [{THREADS}]")
    lines.append(f"case.{CASE}.inputs = {{ {', '.join(inputs)} }}")
    return bare_manifest(name, file, language) + "\n".join(lines) + "\n"


def _is_array(param: ParamDecl) -> bool:
    """Return whether a parameter is, or is best taken for, an array."""
    count = not param.type and not param.out and _COUNT.fullmatch(param.name)
    return param.kind == "tensor" and not count
