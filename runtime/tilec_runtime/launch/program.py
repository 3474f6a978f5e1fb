"""Programs of plans: flat postfix code over 64-bit integers.

`prepare` runs on traced numbers, and a trace writes the program meanwhile. A decision on a traced
number becomes a guard of the program: the plan applies to another call if all guards hold, because
`prepare` would then decide the same. Arithmetic on traced numbers is traced too, and its results
become the outputs of the program.
"""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tilec_runtime.model.expr_build import Symbol

# Operations. Those below 32 are arithmetic, comparisons and stack operations; others are tilec's.
CONST, SLOT, ADD, SUB, MUL, FLOORDIV, MOD, NEG = range(1, 9)
EQ, NE, LT, LE, GT, GE, NOT, BOTH, EITHER, CHECK, OUT = range(9, 20)
POW2, GET, FITS, DIVISIBLE = range(32, 36)

BOUND = 2**63  # numbers lie between -BOUND and BOUND, both excluded, as in the expression language
# Grid, block and dynamic shared memory come first among the outputs; then computed kernel
# arguments.
SHAPE_OUTPUTS = 7

Step = tuple[int, int]
Code = tuple[Step, ...]

_NEGATED = {EQ: NE, NE: EQ, LT: GE, GE: LT, LE: GT, GT: LE}
# The right operand with which an operation returns the left one.
_NEUTRAL = {ADD: 0, SUB: 0, MUL: 1, FLOORDIV: 1}


def _pow2(value: int) -> int:
    if value < 0:
        raise OverflowError
    return 1 << (value - 1).bit_length() if value > 1 else 1


_BINARY: dict[int, Callable[[Any, Any], Any]] = {
    ADD: operator.add,
    SUB: operator.sub,
    MUL: operator.mul,
    FLOORDIV: operator.floordiv,
    MOD: operator.mod,
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
    BOTH: lambda a, b: bool(a) and bool(b),
    EITHER: lambda a, b: bool(a) or bool(b),
}
_UNARY: dict[int, Callable[[int], int]] = {NEG: operator.neg, NOT: operator.not_, POW2: _pow2}


def fits(value: int, bits: int) -> bool:
    """Whether a number fits `bits` bits (signed), or `-bits` bits (unsigned)."""
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1) if bits > 0 else 0 <= value < 1 << -bits


def run(steps: Sequence[Step], slots: Sequence[int], outputs: int) -> list[int] | None:
    """Evaluate a program.

    Args:
        steps: the program.
        slots: addresses, extents, strides and scalars of a call, in the order of its contract.
        outputs: the number of outputs of the program.

    Returns:
        The outputs, or None if a guard fails, a number exceeds 64 bits, or a divisor is zero.
    """
    stack: list[int] = []
    push, pop = stack.append, stack.pop
    results = [0] * outputs
    try:
        for op, operand in steps:
            if op == SLOT:
                push(slots[operand])
            elif op == CONST:
                push(operand)
            elif op == GET:
                push(results[operand])
            elif op == OUT:
                results[operand] = pop()
            elif op == DIVISIBLE:
                if pop() % operand:
                    return None
            elif op == CHECK:
                if not pop():
                    return None
            elif op == FITS:
                if not fits(stack[-1], operand):
                    return None
            else:
                value = _BINARY[op](pop(-2), pop()) if op in _BINARY else _UNARY[op](pop())
                if not -BOUND < value < BOUND:
                    return None
                push(value)
    except (ZeroDivisionError, OverflowError):
        return None
    return results


def packed(steps: Sequence[Step]) -> bytes:
    """Return a program as bytes: two 64-bit numbers for each step."""
    return struct.pack(f"<{2 * len(steps)}q", *(number for step in steps for number in step))


class Trace:
    """Writes the program of a plan while its call is prepared."""

    def __init__(self) -> None:
        """Start an empty program."""
        self._pins: dict[Code, int] = {}
        self._steps: list[Step] = []
        self._guarded: set[Code] = set()
        self._divisors: dict[Code, int] = {}

    @property
    def steps(self) -> tuple[Step, ...]:
        """The program. Pinned slots come first: they reject other calls soonest."""
        pins = ((*code, (CONST, value), (EQ, 0), (CHECK, 0)) for code, value in self._pins.items())
        return (*(step for pin in pins for step in pin), *self._steps)

    def slot(self, index: int, value: int) -> int:
        """Return the traced number of a slot, typed as the int that it represents."""
        number: int = _traced(self, ((SLOT, index),), value)
        return number

    def guard(self, number: TracedInt) -> None:
        """Let the program apply only if a number has the truth value that it has now."""
        code = number.code if number.value else _negated(number.code)
        if code in self._guarded:
            return
        self._guarded.add(code)
        if code[-2:] == ((MOD, 0), (NOT, 0)) and code[-3][0] == CONST and code[-3][1] > 0:
            term, divisor = code[:-3], code[-3][1]
            if self._divisors.get(term, 1) % divisor:
                self._divisors[term] = divisor
                self._steps += (*term, (DIVISIBLE, divisor))
        else:
            self._steps += (*code, (CHECK, 0))

    def pin(self, number: TracedInt) -> int:
        """Let the program apply only if a number has the value that it has now."""
        if len(number.code) == 1 and number.code[0][0] == SLOT:
            self._pins[number.code] = number.value
        else:
            bool(number == number.value)
        return number.value

    def output(self, index: int, number: int | TracedInt, bits: int = 0) -> int:
        """Assign a number to an output; return the traced number that reads it back.

        The number has to fit `bits` bits (negative: unsigned; 0: any).
        """
        code = _code(number)
        if code != ((GET, index),):
            self._steps += (*code, (FITS, bits), (OUT, index)) if bits else (*code, (OUT, index))
        read: int = _traced(self, ((GET, index),), concrete(number))
        return read


def _traced(trace: Trace, code: Code, value: int) -> Any:
    return TracedInt(trace, code, value)


def concrete(number: int | TracedInt) -> int:
    """Return the value of a number without a guard.

    Use it for messages, or if a guard exists already.
    """
    return number.value if isinstance(number, TracedInt) else number


def all_hold(conditions: Iterable[int | TracedInt]) -> bool:
    """Decide whether all conditions hold.

    If some fail, the plan does not depend on which.
    """
    deciding = [each for each in conditions if isinstance(each, TracedInt) or not each]
    if all(map(concrete, deciding)):
        return all(map(bool, deciding))
    return bool(functools.reduce(operator.and_, deciding))


def at_most(number: int | TracedInt) -> int:
    """Return the value of a number, and let the plan apply to smaller values too."""
    most = concrete(number)
    _ = bool(number <= most)
    return most


def _combined(op: int, left: Any, right: Any) -> Any:
    """Return the result of an operation on two numbers, one of which is traced."""
    trace = left.trace if isinstance(left, TracedInt) else right.trace
    if op in (FLOORDIV, MOD) and isinstance(right, TracedInt):
        bool(right)  # guard: a call that divides by zero is an error, and needs another plan
    value = _BINARY[op](concrete(left), concrete(right))
    if not all(
        isinstance(each, int | TracedInt) and -BOUND < concrete(each) < BOUND
        for each in (left, right, value)
    ):  # programs have no floats, and no integers beyond 64 bits: pin the operands
        left, right = (int(each) if isinstance(each, TracedInt) else each for each in (left, right))
        return _BINARY[op](left, right)
    if right.__class__ is int and _NEUTRAL.get(op) == right:
        return left
    if left.__class__ is int and op in (ADD, MUL) and _NEUTRAL[op] == left:
        return right
    if op == MOD and right.__class__ is int and right == 1:
        return 0
    return TracedInt(trace, (*_code(left), *_code(right), (op, 0)), int(value))


def _operation(op: int, *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def apply(self: TracedInt, other: Any) -> Any:
        return _combined(op, other, self) if swapped else _combined(op, self, other)

    return apply


def _code(number: int | TracedInt) -> Code:
    return number.code if isinstance(number, TracedInt) else ((CONST, int(number)),)


def _negated(code: Code) -> Code:
    """Return code with the opposite truth value."""
    op = code[-1][0]
    if op == NOT:
        return code[:-1]
    return (*code[:-1], (_NEGATED[op], 0)) if op in _NEGATED else (*code, (NOT, 0))


class TracedInt(Symbol):
    """A number of a call during `prepare`: its value, and the code that computes it.

    Its truth value is a decision, which becomes a guard. Code that uses it as a plain int (a range,
    a dict, a call of the driver) pins it: the plan then applies to this value alone.
    """

    __slots__ = ("code", "trace", "value")

    def __init__(self, trace: Trace, code: Code, value: int) -> None:
        """Use `Trace.slot`."""
        self.trace = trace
        self.code = code
        self.value = value

    def __bool__(self) -> bool:
        """Return its truth value, and guard it."""
        self.trace.guard(self)
        return bool(self.value)

    def __index__(self) -> int:
        """Return its value, and pin it."""
        return self.trace.pin(self)

    __int__ = __index__

    def __hash__(self) -> int:
        """Hash its value, and pin it."""
        return hash(int(self))

    def __repr__(self) -> str:
        """Show its value, for messages."""
        return repr(self.value)

    def __format__(self, spec: str) -> str:
        """Format its value, for messages."""
        return format(self.value, spec)

    def __neg__(self) -> TracedInt:
        return TracedInt(self.trace, (*self.code, (NEG, 0)), -self.value)

    def next_pow2(self) -> TracedInt | int:
        """Return the smallest power of two that is at least this number."""
        value = _pow2(self.value)
        if value >= BOUND:
            return _pow2(int(self))
        return TracedInt(self.trace, (*self.code, (POW2, 0)), value)

    def __eq__(self, other: object) -> Any:
        """Return whether two numbers are equal, as a traced number."""
        if other.__class__ is int and other == 0:
            return TracedInt(self.trace, (*self.code, (NOT, 0)), int(not self.value))
        return _combined(EQ, self, other)

    __ne__ = _operation(NE)
    __lt__ = _operation(LT)
    __le__ = _operation(LE)
    __gt__ = _operation(GT)
    __ge__ = _operation(GE)
    __add__, __radd__ = _operation(ADD), _operation(ADD, swapped=True)
    __sub__, __rsub__ = _operation(SUB), _operation(SUB, swapped=True)
    __mul__, __rmul__ = _operation(MUL), _operation(MUL, swapped=True)
    __floordiv__, __rfloordiv__ = _operation(FLOORDIV), _operation(FLOORDIV, swapped=True)
    __mod__, __rmod__ = _operation(MOD), _operation(MOD, swapped=True)
    # Operands are truth values. Both are computed, and the result is one decision.
    __and__, __rand__ = _operation(BOTH), _operation(BOTH, swapped=True)
    __or__, __ror__ = _operation(EITHER), _operation(EITHER, swapped=True)
