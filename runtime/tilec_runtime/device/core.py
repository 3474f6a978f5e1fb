"""Imports the launch core (`_core/`) if it was built; TILEC_NATIVE=0 turns it off."""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any


def _loaded() -> ModuleType | None:
    if os.environ.get("TILEC_NATIVE") == "0":
        return None
    try:
        from tilec_runtime import _core
    except ImportError:
        return None
    # Without a built extension, the import finds the directory of the C sources.
    return _core if hasattr(_core, "configure") else None


def absence() -> str:
    """Return why Python makes the launches, or an empty string if the core does."""
    if CORE is not None:
        return ""
    if os.environ.get("TILEC_NATIVE") == "0":
        return "TILEC_NATIVE=0 turns the launch core off"
    return "the launch core was not built"


# The launch core, or None if Python makes the launches.
CORE = _loaded()


def _fields(name: str, *slots: str) -> Any:
    """Return the base type of a class whose fields the launch core reads."""
    return type(name, (), {"__slots__": slots}) if CORE is None else getattr(CORE, name)


if TYPE_CHECKING:

    class Fields: ...

    LineFields = Fields
    UsesFields = Fields
    LeaseFields = Fields
    DescribedFields = Fields
else:
    LineFields = _fields("LineFields", "count", "done", "handle", "open", "ordinal", "own")
    UsesFields = _fields("UsesFields", "at", "reads", "written")
    LeaseFields = _fields("LeaseFields", "held", "parent", "taken")
    DescribedFields = _fields("DescribedFields", "facts", "lease", "shared", "usable", "uses")
