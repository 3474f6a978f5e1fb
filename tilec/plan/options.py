"""Options of C++ sources that no compiler is to be given, with their places in the manifest."""

from __future__ import annotations

from tilec.frontends.tools.cpp.flags import OptionError
from tilec.frontends.tools.cpp.options import of_tiles, read_options
from tilec.manifest.locate import render
from tilec.manifest.types import Kernel, Manifest
from tilec.model.job import Options
from tilec_runtime.errors import Diagnostic, UsageError


def option_problem(manifest: Manifest, kernel: Kernel, options: Options) -> Diagnostic | None:
    """What is wrong with a kernel's options, its language's included: flags that run programs or
    write files above all.
    """
    if kernel.language not in ("cuda", "tile") or not kernel.source.endswith((".cu", ".cuh")):
        return None
    try:
        read_options(options if kernel.language == "cuda" else of_tiles(options))
    except OptionError as exc:
        table = (
            ("kernel", kernel.name)
            if exc.path[0] in dict(kernel.options)
            else ("frontend", kernel.language)
        )
        place = manifest.locate((*table, *exc.path))
        return Diagnostic(
            message=f"{render(table)}: {exc.what}",
            location=place,
            excerpt=manifest.locate.excerpt(place),
            hint=exc.fix,
        )
    except UsageError:
        return None  # which the frontend says of the source
    return None
