"""Steps of a chain that do nothing but pass on what they are given to one kernel: `lambda zxy: add(zxy[1], zxy[0], zxy[2])`. What comes of
them is known from those before, so that their launches can be made without calling them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from opcode import opname
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, final

from tilec.runtime.epoch import EPOCH
from tilec.runtime.ops.codes import by_code
from tilec.runtime.ops.op import LATER
from tilec.runtime.package import Package
from tilec.runtime.references import followed

# What a launch takes: function, its first two arguments, address of its arguments, parts. A turn is that, and what its step gives.
Launched = tuple[Any, Any, Any, int, Any]
Turn = tuple[Any, Any, Any, int, Any, tuple[Any, ...]]
# Steps in a row that nobody calls; even, since two turns follow each other. Behind them come some that are called: another thread may have
# given a name that the function reads another meaning, or have begun to follow this one, and that is seen so many steps later.
MOST = 510
# Steps that are called without coming to anything that is known, until their function is left alone.
_TRIALS = 16
# Flags of functions that take any number of arguments.
_ANY_NUMBER = 0x04 | 0x08


class Name(NamedTuple):
    """Where a function finds what it calls: in a cell of its closure, else in its globals; or an attribute of the module that is there."""

    cell: int
    name: str
    attribute: str


class _Seen(NamedTuple):
    """What was true of a step that was called, and what it came to: identities of what it gave, and the launch."""

    callee: object
    epoch: object
    gave: tuple[int, ...]
    launch: Launched


@final
class Passing:
    """What is known of the last steps of one function that passes on.

    Attributes:
        most: how many steps may follow without a call.
        trials: how many steps that are called may still come to nothing: to learn of each costs more than to call it.
    """

    most = MOST
    __slots__ = ("_code", "_name", "_seen", "_step", "trials")

    def __init__(self, step: FunctionType, name: Name) -> None:
        """Made by `passing`."""
        self._step = step
        self._code = step.__code__
        self._name = name
        self._seen: tuple[_Seen | None, _Seen | None] = (None, None)
        self.trials = _TRIALS

    def forget(self) -> None:
        """Steps that nothing was learned of came between the last ones and the next."""
        self._seen = (None, None)

    def met(self, launch: Launched, values: tuple[Any, ...]) -> tuple[Turn, Turn, object] | None:
        """Learn what a step came to that was called.

        Args:
            launch: what it was.
            values: what the step gave, in objects that nobody else has.

        Returns:
            What the next two steps come to, and all further ones by turns, in the epoch that is given too; None where that is not known.
        """
        self.trials -= 1
        step, epoch = self._step, EPOCH.now
        callee = found(step, self._name) if step.__code__ is self._code else None
        now = _Seen(callee, epoch, tuple(map(id, values)), launch) if callee is not None and not followed() else None
        first, last = self._seen
        self._seen = (last, now)
        if first is None or last is None or now is None or first.gave != now.gave or not first[:2] == last[:2] == now[:2]:
            return None
        # The step before the last one gave the same objects as this one: so the next gives what the last one gave. Objects that are alive
        # have had their identities all the time, since no tensor got a new owner in this epoch.
        given = {id(value): value for value in values}
        if not given.keys() >= set(last.gave):
            return None
        self._seen = (None, None)
        self.trials = _TRIALS
        return (*last.launch, tuple([given[number] for number in last.gave])), (*launch, values), epoch


def passing(step: object) -> Passing | None:
    """What follows the steps of a function that does nothing but pass on; None for another one."""
    if type(step) is not FunctionType or type(step.__globals__) is not dict:
        return None
    name = _called(step.__code__)
    return None if name is None else Passing(step, name)


def found(step: FunctionType, name: Name) -> object | None:
    """What a function calls now, if that makes launches of a kernel and does nothing else."""
    try:
        value: Any = step.__closure__[name.cell].cell_contents if name.cell >= 0 and step.__closure__ else step.__globals__.get(name.name)
    except ValueError:  # an empty cell
        return None
    if name.attribute:
        value = value.__dict__.get(name.attribute) if type(value) is ModuleType else None
    if type(value) is FunctionType:
        return value if type(value.__globals__.get("_tilec_package_")) is Package else None
    return value if "_tilec_passes_on" in vars(type(value)) else None  # a class that is made of it may do more


@by_code
def _called(code: CodeType) -> Name | None:
    """What some code calls, if it does nothing else than to call that with its argument, elements of it, constants and names."""
    if code.co_flags & (_ANY_NUMBER | LATER) or code.co_argcount != 1 or code.co_kwonlyargcount or code.co_cellvars:
        return None
    reader = _Reader(code)
    for name, argument in _instructions(code):
        if reader.called is not None:
            return reader.called if name == "RETURN_VALUE" else None
        step = getattr(reader, name.lower(), None)
        if step is None or not step(argument):
            return None
    return None


def _instructions(code: CodeType) -> Iterator[tuple[str, int]]:
    """Instructions and their arguments, but for those that do nothing."""
    units, high = code.co_code, 0
    for place in range(0, len(units), 2):
        name, argument = opname[units[place]], units[place + 1] | high
        high = argument << 8 if name == "EXTENDED_ARG" else 0
        if name not in _NOTHING:
            yield name, argument


_NOTHING = frozenset({"CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "KW_NAMES", "NOP", "PRECALL", "PUSH_NULL", "RESUME"})
# On the stack of a reader: the argument, and what may be passed on but is not looked into. Whole numbers are themselves, names are names.
_GIVEN, _ANY = object(), object()


class _Reader:
    """Goes through code without running it. Methods are instructions, and say whether a function that passes on may have them so.

    Attributes:
        called: what was called, once something is.
    """

    def __init__(self, code: CodeType) -> None:
        self.called: Name | None = None
        self._code = code
        self._stack: list[object] = []
        self._variables: dict[int, object] = {0: _GIVEN}

    def load_fast(self, argument: int) -> bool:
        self._stack.append(self._variables.get(argument))
        return argument in self._variables

    load_fast_check = load_fast

    def load_fast_load_fast(self, argument: int) -> bool:
        return self.load_fast(argument >> 4) and self.load_fast(argument & 15)

    def store_fast(self, argument: int) -> bool:
        self._variables[argument] = self._stack.pop()
        return True

    def store_fast_store_fast(self, argument: int) -> bool:
        return self.store_fast(argument >> 4) and self.store_fast(argument & 15)

    def store_fast_load_fast(self, argument: int) -> bool:
        return self.store_fast(argument >> 4) and self.load_fast(argument & 15)

    def load_const(self, argument: int) -> bool:
        value = self._code.co_consts[argument]
        self._stack.append(value if type(value) is int else _ANY)
        return True

    def load_global(self, argument: int) -> bool:
        place = argument >> 1 if sys.version_info >= (3, 11) else argument
        self._stack.append(Name(-1, self._code.co_names[place], ""))
        return True

    def load_deref(self, argument: int) -> bool:
        place = argument - self._code.co_nlocals if sys.version_info >= (3, 11) else argument
        self._stack.append(Name(place, self._code.co_freevars[place], ""))
        return True

    def load_attr(self, argument: int) -> bool:
        place = argument >> 1 if sys.version_info >= (3, 12) else argument
        return self._attribute(place)

    def load_method(self, argument: int) -> bool:
        return self._attribute(argument)

    def binary_subscr(self, _: int) -> bool:
        index, values = self._stack.pop(), self._stack.pop()
        self._stack.append(_ANY)
        return values is _GIVEN and isinstance(index, int)

    def unpack_sequence(self, argument: int) -> bool:
        values = self._stack.pop()
        self._stack += [_ANY] * argument
        return values is _GIVEN

    def call(self, argument: int) -> bool:
        return self._calls(argument)

    call_function = call_method = call

    def call_kw(self, argument: int) -> bool:
        self._stack.pop()  # the names
        return self._calls(argument)

    call_function_kw = call_kw

    def call_function_ex(self, argument: int) -> bool:
        return argument == 0 and self._stack[-1] is _GIVEN and self._calls(1)

    def _attribute(self, place: int) -> bool:
        module = self._stack.pop()
        if not isinstance(module, Name) or module.attribute:
            return False
        self._stack.append(module._replace(attribute=self._code.co_names[place]))
        return True

    def _calls(self, count: int) -> bool:
        """A call with so many arguments. An attribute may be anything but of what is called, which is looked at again."""
        arguments = [self._stack.pop() for _ in range(count)]
        callee = self._stack.pop()
        if not isinstance(callee, Name) or any(isinstance(one, Name) and one.attribute for one in arguments):
            return False
        self.called = callee
        return True
