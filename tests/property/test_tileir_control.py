"""Random structured programs: a batch of blocks does what each block alone does, and what plain
Python does.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from tests.amount import examples
from tests.unit.runtime.cpu.tileir.build import I32, Builder, program
from tilec_runtime.cpu.tileir.execute import execute
from tilec_runtime.cpu.tileir.frame import Options
from tilec_runtime.cpu.tileir.ir import Overflow, Predicate, Signedness, Value
from tilec_runtime.cpu.tileir.memory import Memory
from tilec_runtime.cpu.tileir.program import Program

NAMES = ("a", "b", "c")
BLOCKS = 7
Statement = tuple[Any, ...]


def statements(loops: int, ifs: int) -> st.SearchStrategy[list[Statement]]:
    """Bodies of at most three statements. A body may end in a jump: a bare one leaves the code
    behind it out.
    """
    name, small = st.sampled_from(NAMES), st.integers(0, 4)
    options: list[st.SearchStrategy[Statement]] = [
        st.tuples(st.just("add"), name, name, small),
        st.tuples(st.just("print"), name),
    ]
    if ifs:
        jump = st.sampled_from([None, "return", "continue", "break"])
        body = statements(loops, ifs - 1)
        options.append(st.tuples(st.just("if"), name, small, body, jump, body, jump))
    if loops:
        body = statements(loops - 1, ifs)
        options.append(st.tuples(st.just("for"), name, small, body))
        options.append(st.tuples(st.just("loop"), name, small, body))
    return st.lists(st.one_of(options), max_size=3)


class Jump(Exception):  # noqa: N818 - no error
    """`break`, `continue` or `return`."""


def usable(jump: str | None, loop: str) -> str | None:
    """A jump where it is allowed: `for` cannot be broken, and outside of loops there is only
    `return`.
    """
    if (jump == "break" and loop != "loop") or (jump == "continue" and not loop):
        return "return"
    return jump


def interpret(body: list[Statement], env: dict[str, int], out: list[int], loop: str = "") -> None:
    for kind, *rest in body:
        if kind == "add":
            into, source, by = rest
            env[into] = (env[into] + env[source] * by + 1) % 64
        elif kind == "print":
            out.append(env[rest[0]])
        elif kind == "if":
            name, bound, then, then_jump, other, other_jump = rest
            part, jump = (then, then_jump) if env[name] % 5 < bound else (other, other_jump)
            interpret(part, env, out, loop)
            way = usable(jump, loop)
            if way:
                raise Jump(way)
        else:
            name, bound, part = rest
            counts = range(1, env[name] % 4 + bound, 2)
            for _ in counts if kind == "for" else range(env[name] % 3 + bound):
                try:
                    interpret(part, env, out, kind)
                except Jump as jump:
                    if jump.args == ("break",):
                        break
                    if jump.args == ("return",):
                        raise


class Emitter:
    """Writes a program as Tile IR: variables are values that every region takes and gives."""

    def __init__(self, b: Builder) -> None:
        self.b = b

    def multiply(self, lhs: Value, rhs: Value) -> Value:
        plain = {"overflow": Overflow.NONE}
        value: Value = self.b.op("muli", {"lhs": lhs, "rhs": rhs}, I32, plain)
        return value

    def remainder(self, value: Value, by: int) -> Value:
        found: Value = self.b.op(
            "remi",
            {"lhs": value, "rhs": self.b.constant(by)},
            I32,
            {"signedness": Signedness.SIGNED},
        )
        return found

    def body(
        self, body: list[Statement], env: list[Value], loop: str = "", left: tuple[Value, ...] = ()
    ) -> list[Value]:
        for kind, *rest in body:
            at = NAMES.index
            if kind == "add":
                into, source, by = rest
                scaled = self.multiply(env[at(source)], self.b.constant(by))
                total = self.b.add(self.b.add(env[at(into)], scaled), self.b.constant(1))
                env[at(into)] = self.remainder(total, 64)
            elif kind == "print":
                self.b.show(env[at(rest[0])])
            elif kind == "if":
                env = self.branch(rest, env, loop, left)
            elif kind == "for":
                env = self.counted(rest, env)
            else:
                env = self.endless(rest, env)
        return env

    def jump(self, jump: str | None, env: list[Value], left: tuple[Value, ...]) -> None:
        given = {"return": [], "continue": [*env, *left], "break": env, None: env}[jump]
        self.b.op(jump or "yield", {"values": given})

    def branch(
        self, rest: list[Any], env: list[Value], loop: str, left: tuple[Value, ...]
    ) -> list[Value]:
        name, bound, then, then_jump, other, other_jump = rest
        condition = self.b.compare(
            self.remainder(env[NAMES.index(name)], 5), self.b.constant(bound)
        )
        regions = [
            self.b.region(
                (),
                lambda part=part, jump=jump: self.jump(
                    usable(jump, loop), self.body(part, list(env), loop, left), left
                ),
            )
            for part, jump in ((then, then_jump), (other, other_jump))
        ]
        return list(self.b.op("if", {"condition": condition}, [I32] * 3, {}, regions))

    def counted(self, rest: list[Any], env: list[Value]) -> list[Value]:
        name, bound, part = rest
        upper = self.b.add(self.remainder(env[NAMES.index(name)], 4), self.b.constant(bound))
        region = self.b.region(
            [I32] * 4,
            lambda _, *args: self.jump("continue", self.body(part, list(args), "for"), ()),
        )
        ends = {
            "lower": self.b.constant(1),
            "upper": upper,
            "step": self.b.constant(2),
            "init": env,
        }
        return list(self.b.op("for", ends, [I32] * 3, {}, [region]))

    def endless(self, rest: list[Any], env: list[Value]) -> list[Value]:
        name, bound, part = rest
        count = self.b.add(self.remainder(env[NAMES.index(name)], 3), self.b.constant(bound))

        def fill(*args: Value) -> None:
            *inner, left = args
            ended = self.b.compare(left, self.b.constant(0), Predicate.EQUAL)
            regions = [
                self.b.region((), lambda: self.b.op("break", {"values": [*inner]})),
                self.b.region((), lambda: self.b.op("yield", {"values": []})),
            ]
            self.b.op("if", {"condition": ended}, (), {}, regions)
            fewer = self.b.add(left, self.b.constant(-1))
            self.jump("continue", self.body(part, list(inner), "loop", (fewer,)), (fewer,))

        # The count is carried too, but only `continue` passes it on: `break` gives what the loop
        # gives.
        region = self.b.region([I32] * 4, fill)
        padded = [*env, count]
        results = self.b.op("loop", {"init": padded}, [I32] * 3, {}, [region])
        return list(results)


def compiled(body: list[Statement]) -> Program:
    def fill(b: Builder) -> None:
        x = b.block()
        emitter = Emitter(b)
        env = emitter.body(body, [x, b.constant(1), emitter.multiply(x, b.constant(3))])
        for value in env:
            b.show(value)
        b.ret()

    return program((), fill)


def expected(body: list[Statement], block: int) -> str:
    env = {"a": block, "b": 1, "c": 3 * block}
    out: list[int] = []
    try:
        interpret(body, env, out)
        out += env.values()
    except Jump:
        pass
    return "".join(f"{number};" for number in out)


@examples(150)
@given(statements(2, 2))
def test_a_batch_does_what_each_block_does(body: list[Statement]) -> None:
    made = compiled(body)
    wanted = "".join(expected(body, block) for block in range(BLOCKS))
    for batch in (BLOCKS, 1, 3):
        texts: list[str] = []
        execute(made, [], (BLOCKS, 1, 1), Memory(), Options(batch=batch, output=texts.append))
        assert "".join(texts) == wanted
