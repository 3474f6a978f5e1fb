"""Detect sources with host code or host headers, which need nvcc."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from tilec.frontends.tools.cpp.includes import NVRTC, foreign, without_comments
from tilec.model.job import Source

_MAIN = re.compile(r"^[ \t]*(?:static[ \t]+)?(?:int|void|auto)\s+main\s*\(", re.MULTILINE)
# Headers of the C++ library have no suffix.
_HOST_HEADER = re.compile(
    r"[a-z_]+|(?:assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|"
    r"signal|stdalign|stdarg|stdbool|stddef|stdint|stdio|stdlib|string|tgmath|threads|time|uchar|"
    r"wchar|wctype)\.h"
    # POSIX
    r"|(?:dirent|fcntl|getopt|malloc|pthread|unistd|sys/[a-z]+)\.h"
)
# NVRTC compiles only the headers of Thrust without algorithms and containers.
_HOST_THRUST = re.compile(r"thrust/(?!(?:functional|pair|tuple|iterator/\w+)\.h)")
_ON_DEVICES = re.compile(
    r"c(?:assert|float|limits|math|stddef|stdint|stdlib|string|time)|algorithm|array|atomic|barrier|"
    r"bit|bitset|charconv|chrono|complex|concepts|execution|expected|functional|initializer_list|"
    r"iterator|latch|limits|mdspan|memory|numbers|numeric|optional|random|ranges|ratio|semaphore|"
    r"source_location|span|string_view|tuple|type_traits|utility|variant|version"
)


def is_host_header(name: str) -> bool:
    """Return whether a header belongs to the host's standard library, which NVRTC lacks."""
    return _HOST_HEADER.fullmatch(name) is not None


def device_header(name: str) -> str:
    """Return the CUDA header (`cuda/std/…`) that replaces a host header, or an empty string."""
    plain = f"c{name.removesuffix('.h')}" if name.endswith(".h") else name
    return f"cuda/std/{plain}" if _ON_DEVICES.fullmatch(plain) else ""


def with_compiler(source: Source) -> Source:
    """Return the source with `compiler = "nvcc"` if it needs nvcc and names no compiler."""
    if not host_part(source):
        return source
    options = tuple(sorted((*source.options, ("compiler", "nvcc"))))
    return dataclasses.replace(source, options=options)


def note(source: Source) -> str:
    """Return a build's note on a source that needs nvcc and names no compiler, or ""."""
    why = host_part(source)
    if not why:
        return ""
    return f'{source.path} {why}: it is compiled with nvcc, which needs a host C++ compiler; compiler = "nvrtc" or "nvcc" in the manifest decides'


def host_part(source: Source) -> str:
    """Return why NVRTC cannot compile a source (`has a main()`), or an empty string.

    The string is also empty if an option names the compiler.
    """
    options = dict(source.options)
    try:
        text = Path(source.root, source.path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # reading its kernels reports the error
    if "compiler" in options or NVRTC in text:
        return ""
    if _MAIN.search(text) and _MAIN.search(without_comments(text)):
        return "has a main()"
    include = options.get("include", ())
    folders = tuple(map(str, include)) if isinstance(include, tuple) else ()
    for name, file in foreign(source.root, source.path, folders):
        if is_host_header(name) or _HOST_THRUST.match(name):
            return f"includes <{name}>" + (f" in {file}" if file != source.path else "")
    return ""
