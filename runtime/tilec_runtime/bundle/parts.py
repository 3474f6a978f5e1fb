"""Bundles in parts: a package holds the index and portable code, and provider modules, which are
installed from wheels of their own, hold the machine code of one compute capability each.
"""

from __future__ import annotations

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
    """Write which module has the machine code of which compute capability."""
    return canonical_json({str(Target(TargetKind.CUBIN, cc)): modules[cc] for cc in modules})


def read_providers(data: bytes) -> dict[Version, str]:
    """Read what `write_providers` wrote.

    Raises:
        BundleError: it is something else.
    """
    found: dict[Version, str] = {}
    try:
        plain = json.loads(data)
        found = {Target.parse(name).cc: module for name, module in plain.items()}
        modules = all(type(name) is str and name.isidentifier() for name in found.values())
        sound = modules and len(found) <= _MOST and write_providers(found) == data
    except (ValueError, AttributeError, RecursionError):
        sound = False
    if not sound:
        damaged(f"has a {PROVIDERS_NAME} that names no modules by target")
    return found


def installed_part(module: str) -> Path | bytes | None:
    """The part of a bundle in a provider's module: a path, or bytes where it has none, as in a zip
    file; None if no such module is installed. It is not imported.
    """
    from importlib.util import find_spec  # packages that are whole go without it

    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name(PART_NAME)
    loader = spec.loader
    if not Path(spec.origin).exists() and loader is not None and hasattr(loader, "get_data"):
        data: bytes = loader.get_data(str(path))
        return data
    return path
