"""Value classes that are cheap to define: frozen dataclasses with shared methods."""

# A dataclass generates and compiles the source of its methods at each import. That would be most of
# the import time of the launch path.
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

__all__ = ["Uncopied", "replace", "value_class"]

T = TypeVar("T")


def _value_class(*, frozen: bool, kw_only: bool = False) -> Any:  # noqa: ARG001 - type checkers read them
    """Decorate a class without base classes, as `dataclasses.dataclass` does."""
    return _defined


if TYPE_CHECKING:
    from dataclasses import dataclass as value_class
else:
    value_class = _value_class


class _Fields:
    """`__dataclass_fields__` of a value class, for `dataclasses.asdict` and `fields`."""

    def __get__(self, instance: object, owner: Any) -> Any:
        return _dataclass_of(owner).__dataclass_fields__


@functools.cache
def _dataclass_of(owner: Any) -> Any:
    from dataclasses import dataclass

    body = {"__annotations__": owner.__annotations__, "__module__": owner.__module__}
    return dataclass(kw_only=True)(type(owner.__name__, (), body | owner.__defaults__))


def _init(self: Any, /, *args: Any, **values: Any) -> None:
    names = self.__match_args__
    values.update(zip(names, args, strict=False))
    given = values if len(values) == len(names) else self.__defaults__ | values
    fields = self.__dict__
    for name in names:
        if name not in given:
            break
        fields[name] = given[name]
    if not len(fields) == len(given) == len(names) or len(args) > len(names):
        shown = ", ".join(names)
        raise TypeError(
            f"{type(self).__qualname__} has the fields {shown}; got {args} and {sorted(values)}"
        )


def _eq(self: object, other: object) -> bool:
    return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented


def _hash(self: object) -> int:
    return hash(tuple(self.__dict__.values()))


def _repr(self: object) -> str:
    shown = (f"{name}={value!r}" for name, value in self.__dict__.items())
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _frozen(self: object, name: str, *_value: object) -> NoReturn:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot change field {name!r} of {type(self).__qualname__}")


_METHODS = {
    "__init__": _init,
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _frozen,
    "__delattr__": _frozen,
    "__dataclass_fields__": _Fields(),
}


def _defined(cls: Any) -> Any:
    body, kinds = cls.__dict__, cls.__annotations__
    names = tuple([name for name, kind in kinds.items() if not kind.startswith("ClassVar")])
    defaults = {name: body[name] for name in names if name in body}
    own = {**_METHODS, "__match_args__": names, "__defaults__": defaults}
    for name, value in own.items():
        if name not in body:
            setattr(cls, name, value)
    return cls


def replace(value: T, /, **changes: Any) -> T:
    """Return a value with some fields changed.

    `dataclasses.replace` would import `inspect`.
    """
    return type(value)(**value.__dict__ | changes)


class Uncopied:
    """Base of objects that can be neither pickled nor copied.

    Such an object stands for one resource.
    """

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        """Refuse `pickle`, `copy.copy` and `copy.deepcopy`.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"a {type(self).__name__} can be neither pickled nor copied: pass it on, or make another one"
        )
