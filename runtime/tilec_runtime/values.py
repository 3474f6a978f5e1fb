"""Value classes that cost next to nothing to define: what a frozen dataclass with slots does, done
by functions that all of them share.
"""

# A dataclass writes the source of its methods and compiles it at each import: that is most of what
# importing the launch path would cost.
from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

__all__ = ["Uncopied", "replace", "value_class"]

T = TypeVar("T")


def _value_class(
    *, frozen: bool, slots: bool, kw_only: bool = False, eq: bool = True
) -> Callable[[type[Any]], type[Any]]:
    """`dataclasses.dataclass` for classes on the path of a first launch: without base classes,
    `__post_init__` and factories.

    `dataclasses.fields`, `replace` and `asdict` take their instances too; the dataclass behind that
    is made when first asked for.
    """
    if not (frozen and slots):
        raise TypeError("a value class is frozen and has slots")
    return lambda cls: _defined(cls, kw_only=kw_only, eq=eq)


# Type checkers are told the truth that they know to check: it behaves as a dataclass.
if TYPE_CHECKING:
    from dataclasses import dataclass as value_class
else:
    value_class = _value_class


def _defined(cls: type[Any], *, kw_only: bool, eq: bool) -> type[Any]:
    """The class with slots and the methods of a value."""
    body = dict(cls.__dict__)
    annotations: dict[str, Any] = cls.__annotations__
    names = tuple(
        name for name, kind in annotations.items() if not str(kind).startswith("ClassVar")
    )
    if cls.__bases__ != (object,) or "__post_init__" in body:
        raise TypeError(f"{cls.__name__} is no value class: it has base classes or __post_init__")
    given = {name: body.pop(name) for name in names if name in body}
    silent: dict[str, Any] = {
        name: field for name, field in given.items() if hasattr(field, "default_factory")
    }
    if any(
        field.default is not field.default_factory or not field.init for field in silent.values()
    ):
        raise TypeError(f"{cls.__name__} is no value class: its fields take compare and repr only")
    compared = [name for name in names if name not in silent or silent[name].compare]
    shown = [name for name in names if name not in silent or silent[name].repr]
    defaults = {name: default for name, default in given.items() if name not in silent}
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    twin = _Twin(annotations, given, {"kw_only": kw_only, "eq": eq})
    body.update(
        __slots__=names,
        __match_args__=() if kw_only else names,
        __setattr__=_set,
        __delattr__=_delete,
        __replace__=replace,
    )
    body.update(
        __dataclass_fields__=twin,
        __signature__=_Signature(twin),
        __getstate__=_state(names),
        __setstate__=_restore(names),
    )
    body.setdefault("__repr__", _shown(shown))
    if eq:
        values = _values(compared)
        body.setdefault("__eq__", _equal(values))
        if body.get("__hash__") is None:
            body["__hash__"] = _hash(values)
    made: type[Any] = type(cls.__name__, (), body)
    made.__qualname__ = cls.__qualname__
    puts = tuple((name, made.__dict__[name].__set__) for name in names)
    type.__setattr__(
        made, "__init__", _constructor(cls.__qualname__, puts, defaults, positional=not kw_only)
    )
    return made


def _constructor(
    owner: str,
    puts: tuple[tuple[str, Callable[[Any, Any], None]], ...],
    defaults: dict[str, Any],
    *,
    positional: bool,
) -> Callable[..., None]:
    count = len(puts)
    names = [name for name, _ in puts]

    def __init__(self: Any, /, *args: Any, **values: Any) -> None:  # noqa: N807 - it becomes the method
        if len(args) == count and positional and not values:
            for (_, put), value in zip(puts, args, strict=True):
                put(self, value)
            return
        if args:
            if not positional or len(args) > count:
                raise TypeError(
                    f"{owner}.__init__() takes {1 + positional * count} positional arguments but {1 + len(args)} were given"
                )
            for name, value in zip(names, args, strict=False):
                if name in values:
                    raise TypeError(f"{owner}.__init__() got multiple values for argument {name!r}")
                values[name] = value
        if len(values) != count and defaults:
            values = {**defaults, **values}
        if len(values) != count:
            _mismatch(owner, names, values)
        try:
            for name, put in puts:
                put(self, values[name])
        except KeyError:
            _mismatch(owner, names, values)

    return __init__


def _mismatch(owner: str, names: Iterable[str], values: dict[str, Any]) -> NoReturn:
    for name in values:
        if name not in names:
            raise TypeError(f"{owner}.__init__() got an unexpected keyword argument {name!r}")
    missing = ", ".join(repr(name) for name in names if name not in values)
    raise TypeError(f"{owner}.__init__() missing required arguments: {missing}")


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values of these attributes."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _equal(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], Any]:
    def __eq__(self: Any, other: object) -> Any:  # noqa: N807
        return (
            values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented
        )

    return __eq__


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values(self))

    return __hash__


def _shown(names: list[str]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _state(names: tuple[str, ...]) -> Callable[[Any], list[Any]]:
    def __getstate__(self: Any) -> list[Any]:  # noqa: N807
        return [getattr(self, name) for name in names]

    return __getstate__


def _restore(names: tuple[str, ...]) -> Callable[[Any, list[Any]], None]:
    def __setstate__(self: Any, state: list[Any]) -> None:  # noqa: N807
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return __setstate__


def _set(self: Any, name: str, value: Any) -> NoReturn:  # noqa: ARG001 - nothing is set, ever
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Any, name: str) -> NoReturn:  # noqa: ARG001
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def replace(value: T, /, **changes: Any) -> T:
    """Return a value with other fields; `dataclasses.replace` imports `inspect` first."""
    names: tuple[str, ...] = vars(type(value))["__slots__"]
    return type(value)(**{name: getattr(value, name) for name in names} | changes)


class _Twin:
    """`__dataclass_fields__` of a value class: the fields of a dataclass that says the same, made
    when they are first asked for.
    """

    def __init__(
        self, annotations: dict[str, Any], given: dict[str, Any], options: dict[str, bool]
    ) -> None:
        self.annotations, self.given, self.options = annotations, given, options
        self.made: Any = None

    def of(self, owner: type[Any]) -> Any:
        """The dataclass."""
        if self.made is None:
            from dataclasses import dataclass

            body = {
                "__annotations__": self.annotations,
                "__module__": owner.__module__,
                "__doc__": owner.__doc__,
                **self.given,
            }
            self.made = dataclass(frozen=True, **self.options)(type(owner.__name__, (), body))
        return self.made

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        """The fields, asked of the class or of an instance."""
        return self.of(owner).__dataclass_fields__


class _Signature:
    """`__signature__` of a value class, for help and tools."""

    def __init__(self, twin: _Twin) -> None:
        self.twin = twin

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        """The signature of the dataclass that says the same."""
        from inspect import signature

        return signature(self.twin.of(owner))


class Uncopied:
    """What can be neither pickled nor copied: there would be two of it."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        """What pickle, copy.copy and copy.deepcopy ask.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"a {type(self).__name__} can be neither pickled nor copied: pass it on, or make another one"
        )
