"""Values of the model as JSON and back, for cache entries: typed, strict, and never executing what it reads. It follows the dataclasses,
since entries live no longer than their shape; what a bundle holds is written out field by field, with bounds, in `bundle/`.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Callable, Collection
from typing import Any, TypeVar, Union

from tilec_runtime.model.arch import Target

T = TypeVar("T")
Decode = Callable[[Any], Any]
_SCALARS = (str, int, float, bool, type(None))


def encode(value: Any) -> Any:
    """`value` (dataclasses, tuples, enums, targets, scalars) as what JSON holds."""
    if isinstance(value, Target):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value


def decode(kind: type[T], plain: Any) -> T:
    """The value of class `kind` that `encode` made `plain` from.

    Raises:
        ValueError: `plain` is nothing that `encode` makes of a `kind`.
    """
    find: Callable[[Any], Decode] = decoder
    result: T = find(kind)(plain)
    return result


@functools.cache
def decoder(kind: Any) -> Decode:
    """What decodes a `kind`; for use in loops."""
    if kind is Target:
        return _target
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind
    if dataclasses.is_dataclass(kind):
        return _record(kind)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return _many(decoder(args[0])) if args[1:] == (Ellipsis,) else _fixed(tuple(decoder(a) for a in args))
    if origin in (Union, types.UnionType):
        return _union(args)
    return _scalar((kind,))


def _record(kind: Any) -> Decode:
    hints = typing.get_type_hints(kind)
    # Scalars are checked in the loop: a call for each would be half of the time that a cache look-up takes.
    parts = [(field.name, _types(*_members(hints[field.name])), decoder(hints[field.name])) for field in dataclasses.fields(kind)]

    def build(plain: Any) -> Any:
        if not isinstance(plain, dict) or len(plain) != len(parts):
            raise _wrong(f"a {kind.__name__}", plain)
        made = {}
        for name, allowed, part in parts:
            if name not in plain:
                raise ValueError(f"a {kind.__name__} without {name!r}")
            value = plain[name]
            if not allowed:
                value = part(value)
            elif type(value) not in allowed:
                raise _mistyped(allowed, value)
            made[name] = value
        return kind(**made)

    return build


def _many(part: Decode) -> Decode:
    def build(plain: Any) -> Any:
        if not isinstance(plain, list):
            raise _wrong("a list", plain)
        return tuple([part(item) for item in plain])

    return build


def _fixed(parts: tuple[Decode, ...]) -> Decode:
    def build(plain: Any) -> Any:
        if not isinstance(plain, list) or len(plain) != len(parts):
            raise _wrong(f"a list of {len(parts)}", plain)
        return tuple([part(item) for part, item in zip(parts, plain, strict=True)])

    return build


def _union(args: tuple[Any, ...]) -> Decode:
    rest = tuple(a for a in args if a is not type(None))
    if all(a in _SCALARS for a in rest):
        return _scalar(args)
    if len(rest) != 1:
        raise TypeError(f"no rule to decode a union of {rest}")
    part = decoder(rest[0])
    return lambda plain: None if plain is None else part(plain)


def _scalar(kinds: tuple[Any, ...]) -> Decode:
    allowed = _types(*kinds)
    if not allowed:
        raise TypeError(f"no rule to decode {kinds}")

    def check(plain: Any) -> Any:
        if type(plain) not in allowed:
            raise _mistyped(allowed, plain)
        return plain

    return check


def _types(*kinds: Any) -> frozenset[Any]:
    """The types that a value of one of these scalar kinds has; empty where one of them is no scalar."""
    if not all(kind in _SCALARS for kind in kinds):
        return frozenset()
    # JSON keeps 1 and 1.0 apart, but a float field may well have been given an int.
    return frozenset(kinds) | ({int} if float in kinds else set())


def _target(plain: Any) -> Target:
    if not isinstance(plain, str):
        raise _wrong("a target", plain)
    return Target.parse(plain)


def _members(kind: Any) -> tuple[Any, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) in (Union, types.UnionType) else (kind,)


def _mistyped(allowed: Collection[Any], plain: Any) -> ValueError:
    return _wrong(" or ".join(sorted(k.__name__ for k in allowed)), plain)


def _wrong(wanted: str, plain: Any) -> ValueError:
    return ValueError(f"not {wanted}: {plain!r:.80}")
