"""Bundles split into parts.

The package holds the index and portable code. Each provider module, installed from its own wheel,
holds the machine code of one compute capability.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from tilec_runtime.bundle.archive import damaged
from tilec_runtime.model.arch import Target, TargetKind, Version
from tilec_runtime.model.digest import canonical_json

PROVIDERS_NAME = "providers.json"  # the bundle's member that names the modules of its providers
PART_NAME = "images.tilec"  # the file in a provider's module
_MOST = 64


def write_providers(modules: Mapping[Version, str]) -> bytes:
    """Encode the module that holds the machine code of each compute capability."""
    return canonical_json({str(Target(TargetKind.CUBIN, cc)): modules[cc] for cc in modules})


def read_providers(data: bytes) -> dict[Version, str]:
    """Decode the output of `write_providers`.

    Raises:
        BundleError: `write_providers` cannot have written these bytes.
    """
    providers: dict[Version, str] = {}
    try:
        plain = json.loads(data)
        providers = {Target.parse(name).cc: module for name, module in plain.items()}
        modules = all(type(name) is str and name.isidentifier() for name in providers.values())
        sound = modules and len(providers) <= _MOST and write_providers(providers) == data
    except (ValueError, AttributeError, RecursionError):
        sound = False
    if not sound:
        damaged(f"has a {PROVIDERS_NAME} that names no modules by target")
    return providers


def extra_of(cc: Version) -> str:
    """Return the name of a compute capability in wheels, such as `sm90`."""
    return f"sm{cc[0]}{cc[1]}"


def installed_part(module: str) -> Path | bytes | None:
    """Find the part in a provider module without importing it, or return None.

    The result is a path, or bytes if the module is not on disk (in a zip file, for example).
    """
    from importlib.util import find_spec  # whole bundles do not need it

    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name(PART_NAME)
    loader = spec.loader
    if not Path(spec.origin).exists() and loader is not None and hasattr(loader, "get_data"):
        with contextlib.suppress(OSError):  # opening the path then reports the missing part
            data: bytes = loader.get_data(str(path))
            return data
    return path
