"""Programs of plans: flat postfix code over 64-bit integers, whose checks say where a plan applies
and whose outputs are its launch.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# Operations. Those from 32 on are tilec's own; all others are what their names say.
CONST, SLOT, ADD, SUB, MUL, FLOORDIV, MOD, MIN, MAX, NEG = range(1, 11)
EQ, NE, LT, LE, GT, GE, NOT, BOTH, EITHER, CHECK, OUT = range(11, 22)
CDIV, POW2, GET, AND, OR, FITS, DIVISIBLE = range(32, 39)

BOUND = 2**63  # numbers lie between -BOUND and BOUND, both excluded, as in the expression language

Step = tuple[int, int]
# What pushes one number: the number itself where it is known, or code.
Term = int | tuple[Step, ...]
# A condition, and why it does not hold: a text with places for values. Over numbers it is known;
# over terms, a program checks it.
Demand = tuple[Term, str, tuple[Any, ...]]


class LoweringError(Exception):
    """A decision that cannot be written as a program; the text says why."""


def _pow2(value: int) -> int:
    if value < 0:
        raise OverflowError
    return 1 << (value - 1).bit_length() if value > 1 else 1


_BINARY: dict[int, Callable[[int, int], int]] = {
    ADD: operator.add,
    SUB: operator.sub,
    MUL: operator.mul,
    FLOORDIV: operator.floordiv,
    MOD: operator.mod,
    MIN: min,
    MAX: max,
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
    BOTH: lambda a, b: bool(a) and bool(b),
    EITHER: lambda a, b: bool(a) or bool(b),
    CDIV: lambda a, b: -(-a // b),
    AND: lambda a, b: b if a else a,
    OR: lambda a, b: a or b,
}
_UNARY: dict[int, Callable[[int], int]] = {NEG: operator.neg, NOT: operator.not_, POW2: _pow2}


def fits(value: int, bits: int) -> bool:
    """Whether a number fits a signed integer of so many bits; of an unsigned one where they are
    negative.
    """
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1) if bits > 0 else 0 <= value < 1 << -bits


def run(steps: Sequence[Step], slots: Sequence[int], outputs: int) -> list[int] | None:
    """Evaluate a program.

    Args:
        steps: the program.
        slots: addresses, extents, strides and scalars of a call, in the order of its contract.
        outputs: how many outputs the program has.

    Returns:
        Its outputs; None where a check does not hold, or a number is beyond 64 bits or divided by
        zero.
    """
    stack: list[int] = []
    push, pop = stack.append, stack.pop
    found = [0] * outputs
    try:
        for op, operand in steps:
            if op == SLOT:
                push(slots[operand])
            elif op == CONST:
                push(operand)
            elif op == GET:
                push(found[operand])
            elif op == OUT:
                found[operand] = pop()
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
    return found


def code(term: Term) -> tuple[Step, ...]:
    """What pushes a term."""
    if isinstance(term, tuple):
        return term
    if not -BOUND < term < BOUND:
        raise LoweringError("a number is beyond 64 bits")
    return ((CONST, int(term)),)


def unary(op: int, term: Term) -> Term:
    """An operation on one term; known where the term is."""
    return (*term, (op, 0)) if isinstance(term, tuple) else _folded(_UNARY[op], term)


def binary(op: int, left: Term, right: Term) -> Term:
    """An operation on two terms; known where both are."""
    if isinstance(left, tuple) or isinstance(right, tuple):
        if op == MUL and 1 in (left, right):
            return right if left == 1 else left
        if op in (ADD, SUB) and right == 0:
            return left
        return (*code(left), *code(right), (op, 0))
    return _folded(_BINARY[op], left, right)


def _folded(apply: Callable[..., int], *numbers: int) -> int:
    try:
        value = int(apply(*numbers))
    except (ZeroDivisionError, OverflowError) as error:
        raise LoweringError("a number has no value") from error
    if not -BOUND < value < BOUND:
        raise LoweringError("a number is beyond 64 bits")
    return value


def product(terms: Iterable[Term]) -> Term:
    """All terms, multiplied."""
    whole: Term = 1
    for term in terms:
        whole = binary(MUL, whole, term)
    return whole


def divides(divisor: int, term: Term) -> Term:
    """Whether a term is a multiple of a positive number."""
    return 1 if divisor == 1 else unary(NOT, binary(MOD, term, divisor))


def all_of(terms: Iterable[Term]) -> Term:
    """Whether all conditions hold."""
    whole: Term = 1
    for term in terms:
        if isinstance(term, tuple):
            whole = binary(BOTH, whole, term) if isinstance(whole, tuple) else term
        elif not term:
            return 0
    return whole


def any_of(terms: Iterable[Term]) -> Term:
    """Whether a condition holds."""
    return unary(NOT, all_of([unary(NOT, term) for term in terms]))


class Writer:
    """Collects the `steps` of a program."""

    def __init__(self) -> None:
        """Start an empty program."""
        self.steps: list[Step] = []
        self._checked: set[tuple[Step, ...]] = set()
        self._divisors: dict[tuple[Step, ...], int] = {}

    def check(self, condition: Term) -> None:
        """Let the plan apply only where a condition holds."""
        if not isinstance(condition, tuple):
            if not condition:
                raise LoweringError("a condition does not hold for the call itself")
            return
        if condition in self._checked:
            return
        self._checked.add(condition)
        if (
            len(condition) > 3
            and condition[-2:] == ((MOD, 0), (NOT, 0))
            and condition[-3][0] == CONST
            and condition[-3][1] > 0
        ):
            term, divisor = condition[:-3], condition[-3][1]
            if self._divisors.get(term, 1) % divisor:
                self._divisors[term] = divisor
                self.steps += (*term, (DIVISIBLE, divisor))
        else:
            self.steps += (*condition, (CHECK, 0))

    def out(self, number: int, term: Term, bits: int = 0) -> None:
        """Give an output a value, which has to fit so many bits (negative: unsigned; 0: any)."""
        self.steps += code(term)
        if bits:
            self.steps.append((FITS, bits))
        self.steps.append((OUT, number))


def packed(steps: Sequence[Step]) -> bytes:
    """A program as bytes: two 64-bit numbers for each step."""
    return struct.pack(f"<{2 * len(steps)}q", *(number for step in steps for number in step))
