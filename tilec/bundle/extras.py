"""Parts of a kernel's row that most kernels do not have: its safety, its tuning, what it allows. Loaded for those that do."""

from __future__ import annotations

import dataclasses
from typing import Any

from tilec.bundle.codec import Codec, Misfit, enumeration, flag
from tilec.bundle.safety import SAFETY
from tilec.bundle.tables import RULES, TABLE
from tilec.model.jit import JitFallback
from tilec.model.kernel import KernelInfo

_CODECS: dict[str, Codec] = {"safety": SAFETY, "table": TABLE, "jit": enumeration(JitFallback), "rules": RULES}


def write_extras(kernel: KernelInfo) -> dict[str, Any]:
    """What there is of them, by key."""
    found = {key: getattr(kernel, key) for key in _CODECS}
    plain = {key: _CODECS[key].write(value) for key, value in found.items() if value not in (None, ())}
    return {**plain, "programmatic": True} if kernel.launch.programmatic else plain


def read_extras(value: dict[str, Any], fields: dict[str, Any]) -> None:
    """Add the fields that a row has of them. Raises Misfit."""
    for key, codec in {**_CODECS, "programmatic": flag}.items():
        if key not in value:
            continue
        try:
            found = codec.read(value[key])
        except Misfit as misfit:
            misfit.path.append(f".{key}")
            raise
        if key != "programmatic":
            fields[key] = found
        elif found:
            fields["launch"] = dataclasses.replace(fields["launch"], programmatic=True)
        else:
            raise Misfit("key 'programmatic' is there and false: it is left out where it is")
