"""Values of the model as JSON and back, for cache entries: typed, strict, and never executing what
it reads.
"""

from __future__ import annotations

from typing import Any, TypeVar

from tilec_runtime.model.digest import canonical_json

T = TypeVar("T")


def encode(value: Any) -> Any:
    """Return `value` (dataclasses, tuples, enums, scalars) as what JSON holds."""
    import msgspec

    return msgspec.to_builtins(value)


def decode(kind: type[T], plain: Any) -> T:
    """Return the value of class `kind` that `encode` made `plain` from.

    Raises:
        ValueError: `plain` is nothing that `encode` makes of a `kind`.
    """
    import msgspec

    try:
        value = msgspec.convert(plain, kind)
    except (msgspec.ValidationError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc
    if canonical_json(encode(value)) != canonical_json(
        plain
    ):  # a field is missing, or there is another one
        raise ValueError(f"not a whole {kind}: {plain!r:.80}")
    return value
