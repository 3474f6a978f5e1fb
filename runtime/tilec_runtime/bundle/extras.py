"""Parts of a kernel's row that most kernels do not have: its safety, its tuning, what it allows. Loaded for those that do."""

from __future__ import annotations

import dataclasses
from typing import Any

from tilec_runtime.bundle import limits
from tilec_runtime.bundle.codec import Codec, Misfit, enumeration, flag, identifier, row, sequence
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.signature import Assumption, ParamKind

# Fields of kernels, in the order in which they are read and written.
_FIELDS = ("safety", "table", "jit", "rules")
# Tensors that may be None, and by variant those that are.
_NAMES = sequence(identifier, most=limits.PARAMS)
OPTIONAL = row(_NAMES, sequence(_NAMES, most=limits.IMAGES))


def write_extras(kernel: KernelInfo) -> dict[str, Any]:
    """What there is of them, by key."""
    found = {key: getattr(kernel, key) for key in _FIELDS}
    plain = {key: _codec(key).write(value) for key, value in found.items() if value not in (None, ())}
    if kernel.optionals:
        plain["optional"] = OPTIONAL.write(_optional(kernel))
    return {**plain, "programmatic": True} if kernel.launch.programmatic else plain


def read_extras(value: dict[str, Any], fields: dict[str, Any]) -> None:
    """Add the fields that a row has of them. Raises Misfit."""
    for key in (*_FIELDS, "optional", "programmatic"):
        if key not in value:
            continue
        try:
            found = _codec(key).read(value[key])
        except Misfit as misfit:
            misfit.path.append(f".{key}")
            raise
        if key == "optional":
            _read_optional(found, fields)
        elif key != "programmatic":
            fields[key] = found
        elif found:
            fields["launch"] = dataclasses.replace(fields["launch"], programmatic=True)
        else:
            raise Misfit("key 'programmatic' is there and false: it is left out where it is")


def _codec(key: str) -> Codec:
    """How a part is written. What few kernels have is not loaded for the others: a first launch waits for it."""
    match key:
        case "safety":
            from tilec_runtime.bundle.safety import SAFETY

            return SAFETY
        case "table" | "rules":
            from tilec_runtime.bundle.tables import RULES, TABLE

            return TABLE if key == "table" else RULES
        case "jit":
            return enumeration(JitFallback)
        case _:
            return OPTIONAL if key == "optional" else flag


def _optional(kernel: KernelInfo) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    absent = (tuple(fact.param for fact in variant.assume if fact.absent) for variant in kernel.variants)
    return tuple(param.name for param in kernel.params if param.optional), tuple(absent)


def _read_optional(found: tuple[tuple[str, ...], tuple[tuple[str, ...], ...]], fields: dict[str, Any]) -> None:
    """Mark parameters, and the assumptions that say nothing else. Raises Misfit."""
    names, absent = found
    tensors = [param.name for param in fields["params"] if param.kind is ParamKind.TENSOR]
    if not names or list(names) != [name for name in tensors if name in names]:
        raise Misfit("key 'optional' has to name tensors of the kernel, in their order")
    if len(absent) != len(fields["variants"]):
        raise Misfit(f"key 'optional' speaks of {len(absent)} variants, and there are {len(fields['variants'])}")
    fields["params"] = tuple(dataclasses.replace(p, optional=True) if p.name in names else p for p in fields["params"])
    marked = []
    for variant, missing in zip(fields["variants"], absent, strict=True):
        bare = [fact.param for fact in variant.assume if fact == Assumption(param=fact.param) and fact.param in missing]
        if list(missing) != bare or not set(missing) <= set(names):
            raise Misfit(f"key 'optional' says that {', '.join(missing)} may be None in {variant.id!r}, whose assumptions say otherwise")
        facts = (dataclasses.replace(fact, absent=True) if fact.param in missing else fact for fact in variant.assume)
        marked.append(dataclasses.replace(variant, assume=tuple(facts)))
    fields["variants"] = tuple(marked)
