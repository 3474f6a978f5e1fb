"""Values of the model as JSON and back, for cache entries: typed and strict."""

from __future__ import annotations

from typing import Any, TypeVar

from tilec_runtime.model.digest import canonical_json

T = TypeVar("T")


def encode(value: Any) -> Any:
    """Return a value of dataclasses, tuples, enums and scalars as JSON values."""
    import msgspec

    return msgspec.to_builtins(value)


def decode(kind: type[T], plain: Any) -> T:
    """Return the value of class `kind` that `encode` turned into `plain`.

    Raises:
        ValueError: `encode` does not return `plain` for any value of `kind`.
    """
    import msgspec

    try:
        value = msgspec.convert(plain, kind)
    except (msgspec.ValidationError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc
    # msgspec accepts missing and additional fields.
    if canonical_json(encode(value)) != canonical_json(plain):
        raise ValueError(f"not a whole {kind}: {plain!r:.80}")
    return value
