"""The base of all ops: their names in messages, and single use."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from tilec_runtime.device.core import CORE
from tilec_runtime.errors import CallError, Location, TilecError, UsedOpError
from tilec_runtime.forks import ForkLock
from tilec_runtime.sites import created, hinted, recorded, site
from tilec_runtime.values import Uncopied

if TYPE_CHECKING:
    from typing_extensions import Self

T_co = TypeVar("T_co", covariant=True)


_set = object.__setattr__  # works for ops that are frozen dataclasses, too
_LOCK = ForkLock()


class _PlainBase:
    """The base of ops without a launch core."""

    __slots__ = ("_gone",)
    _gone: str | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:  # noqa: ARG004 - arguments of __init__
        self = object.__new__(cls)
        _set(self, "_gone", None)
        return self

    def _take(self, where: str) -> None:
        """Use the op up. Of several threads that try at the same time, one succeeds.

        Args:
            where: the op's new owner, for messages.

        Raises:
            UsedOpError: it was used before.
        """
        with _LOCK:
            if self._gone is not None:
                raise self._used()
            _set(self, "_gone", where)

    def _used(self) -> UsedOpError:
        raise NotImplementedError


if TYPE_CHECKING:
    _Base = _PlainBase
else:
    _Base = _PlainBase if CORE is None else CORE.Op


class _Noted(_Base):
    """An op that records in debug mode which call sites make it and use it up."""

    __slots__ = ("_gone_at", "_site")
    _gone_at: Location | None
    _site: Location | None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:  # noqa: ARG004 - arguments of __init__
        self = super().__new__(cls)
        _set(self, "_site", site())
        return self

    def _take(self, where: str) -> None:
        super()._take(where)
        _set(self, "_gone_at", site())


if TYPE_CHECKING:
    OpBase = _PlainBase
else:
    OpBase = _Noted if recorded() else _Base


class Op(OpBase, Uncopied, ABC, Generic[T_co]):
    """An op for the modules that run ops; `DeviceOp` is the class of all ops."""

    __slots__ = ()

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        """Refuse: NumPy would make an array of one object.

        Raises:
            CallError: always.
        """
        del dtype, copy
        raise CallError(
            "an op is not an array: it describes work that is still to be done",
            fix="run it: op.to_host().sync() is a NumPy array, op.sync() what the op gives",
        )

    @abstractmethod
    def _execute(self, ctx: Any) -> T_co:
        """See `DeviceOp`."""

    def _arity(self) -> int | None:
        """Return the number of elements of its tuple, or None if only running it tells."""
        return None

    @property
    def created(self) -> Location | None:
        """Its call site; None outside of debug mode (`TILEC_DEBUG=1`, or `python -X dev`)."""
        return getattr(self, "_site", None)

    @property
    def name(self) -> str:
        """Its name in messages."""
        kind = type(self)
        ours = kind.__module__.startswith(("tilec_runtime.", "tilec."))
        return kind.__name__.lstrip("_").lower() if ours else kind.__name__

    @property
    def label(self) -> str:
        """Name and call site, for messages."""
        return created(self.name, self.created)

    def __repr__(self) -> str:
        """Return, for example, `<DeviceOp zip, created at app.py:12>`."""
        return f"<DeviceOp {self.label}>"

    # Single use

    def _used(self) -> UsedOpError:
        """Return the error of a second use, which `_take` raises."""
        location = getattr(self, "_gone_at", None)
        return UsedOpError(
            f"<DeviceOp {self.label}> was used before: {self._gone}{f' at {location}' if location else ''}",
            cause="an op is single use: it moves into what is made of it, and runs once",
            fix=hinted("make a new one, or let all users share it: op.shared()"),
        )

    def _run_in(self, ctx: Any) -> T_co:
        """Execute it after `_take`; add its label to errors."""
        try:
            return self._execute(ctx)
        except BaseException as error:
            label(error, self.label)
            raise

    def _discard(self) -> None:
        """Release the tensors that it holds: it was used up and will never run."""


def take_all(ops: Sequence[Op[Any]], where: str) -> None:
    """Use several ops up, or none of them.

    Raises:
        UsedOpError: an op was used before, or occurs twice.
    """
    taken: list[Op[Any]] = []
    try:
        for op in ops:
            op._take(where)  # noqa: SLF001 - same module
            taken.append(op)
    except UsedOpError:
        for op in taken:
            _set(op, "_gone", None)
        raise


def label(error: BaseException, op: str, step: str = "") -> None:
    """Add an op's name to its error, unless the error names an inner op already.

    Args:
        error: the error, while it passes through the op.
        op: name of the op, with its call site if recorded.
        step: the step of the op's chain, if no call site identifies it.
    """
    if isinstance(error, TilecError):
        error.op = error.op or op
        if ", step " not in error.op:
            error.op += step
    elif isinstance(error, Exception):
        with contextlib.suppress(Exception):  # an error of another library may refuse a note
            add = getattr(error, "add_note", None)  # Python 3.11
            if add is not None and not getattr(error, "__notes__", None):
                add(f"in the DeviceOp {op}{step}")


def require_op(given: object, demand: str, fix: str) -> None:
    """Check that an object is an op.

    Args:
        given: the object.
        demand: the start of the message, such as `update takes an op`.
        fix: the next step.

    Raises:
        CallError: it is not.
    """
    if not isinstance(given, Op):
        raise CallError(f"{demand}, and this is a {type(given).__qualname__}", fix=fix)
