"""Sources that are whole programs: their host code needs nvcc, which reads past it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from tilec.model.job import Source

_MAIN = re.compile(rb"^[ \t]*(?:static[ \t]+)?(?:int|void|auto)\s+main\s*\(", re.MULTILINE)
_GUARD = b"__CUDACC_RTC__"  # the source hides its host code itself


def with_compiler(source: Source) -> Source:
    """Return a source with nvcc as its compiler where it is a program and nothing names one."""
    if "compiler" in dict(source.options) or not is_program(source):
        return source
    options = tuple(sorted((*source.options, ("compiler", "nvcc"))))
    return dataclasses.replace(source, options=options)


def is_program(source: Source) -> bool:
    """Return whether a source has a main() that NVRTC would read."""
    try:
        text = Path(source.root, source.path).read_bytes()
    except OSError:
        return False  # reading it for its kernels says why
    return _GUARD not in text and _MAIN.search(text) is not None
