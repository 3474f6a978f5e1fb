"""Parts of a kernel's row that most kernels do not have: what is known of its safety, what tuning found. Loaded for those that do."""

from __future__ import annotations

from typing import Any

from tilec.bundle.codec import Codec, Misfit
from tilec.bundle.safety import SAFETY
from tilec.bundle.tables import TABLE
from tilec.model.kernel import KernelInfo

_CODECS: dict[str, Codec] = {"safety": SAFETY, "table": TABLE}


def write_extras(kernel: KernelInfo) -> dict[str, Any]:
    """What there is of them, by key."""
    found = {key: getattr(kernel, key) for key in _CODECS}
    return {key: _CODECS[key].write(value) for key, value in found.items() if value is not None}


def read_extras(value: dict[str, Any]) -> dict[str, Any]:
    """The fields that a row has of them. Raises Misfit."""
    found = {}
    for key, codec in _CODECS.items():
        if key in value:
            try:
                found[key] = codec.read(value[key])
            except Misfit as misfit:
                misfit.path.append(f".{key}")
                raise
    return found
