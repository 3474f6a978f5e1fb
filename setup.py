"""Build the launch core: `python setup.py build_ext --inplace`. All else of the package is in pyproject.toml.

TILEC_NATIVE_STRICT=1 makes warnings errors, and a failed build one too: the project's own checks set it. Otherwise a machine without a C
compiler installs tilec without the core, and launches take Python's path.
"""

from __future__ import annotations

import os
import sys
import tempfile

from setuptools import Extension, setup

CORE = "runtime/tilec_runtime/_core"
SOURCES = ("array", "cache", "call", "driver", "expr", "module", "plan", "scalar", "table")
HEADERS = ("array", "cache", "call", "core", "driver", "expr", "plan", "scalar", "table", "dlpack/dlpack")
# Designated and {0} initializers are meant as they are.
WARNINGS = ("-Wall", "-Wextra", "-Wno-missing-field-initializers")


def extension() -> Extension:
    """Describe the launch core to setuptools."""
    strict = os.environ.get("TILEC_NATIVE_STRICT", "0") not in ("", "0")
    return Extension(
        "tilec_runtime._core",
        sources=[f"{CORE}/{name}.c" for name in SOURCES],
        depends=[f"{CORE}/{name}.h" for name in HEADERS],
        extra_compile_args=["-std=c11", "-fvisibility=hidden", *WARNINGS, *(["-Werror"] if strict else [])],
        libraries=["dl"],
        optional=not strict,
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:  # objects do not stay in the checkout
        setup(
            name="tilec-core",
            packages=[],
            ext_modules=[extension()],
            options={"build": {"build_base": place}},
            script_args=sys.argv[1:] or ["build_ext", "--inplace"],
        )
