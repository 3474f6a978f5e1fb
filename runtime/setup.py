"""The launch core, for setuptools: `python setup.py build_ext --inplace` builds it here. All else
of the package is in pyproject.toml.

TILEC_NATIVE_STRICT=1 makes warnings errors, and a failed build one too: the project's own checks
set it. Otherwise a machine without a C compiler installs tilec-runtime without the core, and
launches take Python's path. TILEC_NATIVE=0 leaves the core out: the wheel is pure.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from setuptools import Extension, setup

CORE = "tilec_runtime/_core"
SOURCES = (
    "array",
    "cache",
    "call",
    "claims",
    "driver",
    "expr",
    "launcher",
    "module",
    "op",
    "plan",
    "scalar",
    "table",
    "tensor",
)
HEADERS = (
    "array",
    "cache",
    "call",
    "claims",
    "core",
    "driver",
    "expr",
    "launcher",
    "op",
    "plan",
    "scalar",
    "table",
    "tensor",
    "dlpack/dlpack",
)
# Designated and {0} initializers are meant as they are.
WARNINGS = ("-Wall", "-Wextra", "-Wno-missing-field-initializers")


def digest() -> str:
    """Return the digest of the C sources, by which tests refuse an outdated core."""
    files = sorted(Path(CORE).rglob("*.[ch]"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def extension() -> Extension:
    """Describe the launch core to setuptools."""
    strict = os.environ.get("TILEC_NATIVE_STRICT", "0") not in ("", "0")
    return Extension(
        "tilec_runtime._core",
        sources=[f"{CORE}/{name}.c" for name in SOURCES],
        depends=[f"{CORE}/{name}.h" for name in HEADERS],
        define_macros=[("SOURCES", f'"{digest()}"')],
        extra_compile_args=[
            "-std=c11",
            "-fvisibility=hidden",
            *WARNINGS,
            *(["-Werror"] if strict else []),
        ],
        libraries=["dl"],
        optional=not strict,
    )


setup(ext_modules=[] if os.environ.get("TILEC_NATIVE") == "0" else [extension()])
