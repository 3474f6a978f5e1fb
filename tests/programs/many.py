"""Random programs, drawn by a plain generator: Hypothesis remembers all that it tried, and programs
collect garbage often.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

# A step by its name, and the number that it chooses by.
Program = list[tuple[str, int]]
# Carries out a program at a pace; raises where something is wrong.
Try = Callable[[Program, int], object]
# Seconds for which a program that fails is made shorter.
_SHRINK = 60.0


def carry_out_many(attempt: Try, names: list[str], count: int, seed: int) -> None:
    """Carry out so many programs of a seed; of the first that fails, what is left of it that still
    does.
    """
    for number in range(count):
        program, pace = drawn(names, seed, number)
        if failed := _failure(attempt, program, pace):
            short = shorter(program, lambda part: _failure(attempt, part, pace) == failed)  # noqa: B023 - used at once
            raise AssertionError(
                f"program {number} of seed {seed} fails at pace {pace}, and so does {short!r}: {failed}"
            )


def drawn(names: list[str], seed: int, number: int) -> tuple[Program, int]:
    """A program of a seed, and the pace of its device: always the same, whatever others there are."""
    chance = random.Random(f"{seed} {number}")
    return [
        (chance.choice(names), chance.randrange(8**4)) for _ in range(chance.randint(10, 70))
    ], chance.randint(0, 1000)


def shorter(program: Program, fails: Callable[[Program], bool]) -> Program:
    """What is left of a program that fails once steps are taken out, many at a time and then one by
    one, without which it fails still.
    """
    end, size = time.monotonic() + _SHRINK, len(program) // 2
    while size:
        place = 0
        while place < len(program) and time.monotonic() < end:
            part = program[:place] + program[place + size :]
            if fails(part):
                program = part
            else:
                place += size
        size //= 2
    return program


def _failure(attempt: Try, program: Program, pace: int) -> str:
    """What a program fails with, and why; "" where it does not. The error itself is gone: its frames
    keep objects of the program, which the next one would find.
    """
    try:
        attempt(program, pace)
    except Exception as error:  # noqa: BLE001 - any will do
        return f"{error!r}, of {error.__cause__!r}"
    return ""
