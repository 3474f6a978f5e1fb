"""Value classes that cost next to nothing to define: what a frozen dataclass with slots does, by
methods that all of them share.
"""

# A dataclass writes the source of its methods and compiles it at each import: that is most of what
# importing the launch path would cost.
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

__all__ = ["Uncopied", "replace", "value_class"]

T = TypeVar("T")


def _value_class(*, frozen: bool, slots: bool, kw_only: bool = False) -> Any:  # noqa: ARG001 - type checkers read them
    """Decorate a class without base classes, as `dataclasses.dataclass` does."""
    return _defined


# Type checkers are told the truth that they know to check: it behaves as a dataclass.
if TYPE_CHECKING:
    from dataclasses import dataclass as value_class
else:
    value_class = _value_class


class _Fields:
    """`__dataclass_fields__` of a value class: `dataclasses.fields`, `replace` and `asdict` take its
    instances.
    """

    def __get__(self, instance: object, owner: Any) -> Any:
        return _dataclass_of(owner).__dataclass_fields__


class _Signature:
    """`__signature__` of a value class: `help` and documentation show its fields."""

    def __get__(self, instance: object, owner: Any) -> Any:
        import inspect

        return inspect.signature(_dataclass_of(owner))


class _Value:
    """The methods of value classes."""

    __slots__ = ()
    __signature__ = _Signature()
    __dataclass_fields__ = _Fields()
    __names__: ClassVar[tuple[str, ...]]
    __defaults__: ClassVar[dict[str, Any]]

    def __init__(self, /, *args: Any, **values: Any) -> None:
        names = self.__names__
        given = dict(zip(names, args, strict=False)) if args else values
        if args or len(values) != len(names):
            given = {**self.__defaults__, **given, **values}
        if len(args) > len(names) or given.keys() != set(names):
            _mismatch(type(self).__qualname__, names, given, len(args))
        for name in names:
            object.__setattr__(self, name, given[name])

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__names__)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), _values(self)


def _defined(cls: type[Any]) -> type[Any]:
    body = dict(cls.__dict__)
    kinds: dict[str, Any] = cls.__annotations__
    names = tuple(name for name, kind in kinds.items() if not str(kind).startswith("ClassVar"))
    if cls.__bases__ != (object,):
        raise TypeError(f"{cls.__name__} is no value class: it has base classes")
    defaults = {name: body.pop(name) for name in names if name in body}
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    body.update(__slots__=names, __match_args__=names, __annotations__=kinds)
    body.update(__names__=names, __defaults__=defaults)
    defined: type[Any] = type(cls.__name__, (_Value,), body)
    defined.__qualname__ = cls.__qualname__
    return defined


def _values(value: Any) -> tuple[Any, ...]:
    return tuple([getattr(value, name) for name in value.__names__])


def _mismatch(owner: str, names: tuple[str, ...], given: dict[str, Any], count: int) -> NoReturn:
    if count > len(names):
        raise TypeError(f"{owner} takes {len(names)} values, got {count}")
    for name in given:
        if name not in names:
            raise TypeError(f"{owner} has no field {name!r}")
    missing = ", ".join(repr(name) for name in names if name not in given)
    raise TypeError(f"{owner} lacks the values of {missing}")


@functools.cache
def _dataclass_of(owner: Any) -> Any:
    from dataclasses import dataclass

    body = {"__annotations__": owner.__annotations__, "__module__": owner.__module__}
    body |= owner.__defaults__
    return dataclass(frozen=True, kw_only=True)(type(owner.__name__, (), body))


def replace(value: T, /, **changes: Any) -> T:
    """Return a value with other fields; `dataclasses.replace` imports `inspect` first."""
    names: tuple[str, ...] = getattr(value, "__names__", ())
    return type(value)(**{name: getattr(value, name) for name in names} | changes)


class Uncopied:
    """Base of objects that can be neither pickled nor copied: there would be two of one thing."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        """Refuse `pickle`, `copy.copy` and `copy.deepcopy`.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"a {type(self).__name__} can be neither pickled nor copied: pass it on, or make another one"
        )
