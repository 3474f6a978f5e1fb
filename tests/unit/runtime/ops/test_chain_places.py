"""Where the ops of a chain's steps are made, as messages say: also where nobody looks, since the
step before was made on the same line.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.runtime.ops.chain_samples import Gpu, on
from tests.waiting import at_once
from tilec_runtime import Device, DeviceOp, LazyLaunch, use_device
from tilec_runtime.errors import DriverError
from tilec_runtime.tensors.tensor import Tensor

Step = Callable[[Any], Any]


def chained(first: DeviceOp[Any], *functions: Step) -> DeviceOp[Any]:
    """A chain that gets the functions one by one; `then` is called at one place."""
    for function in functions:
        first = first.then(function)
    return first


def noted(op: LazyLaunch[Any], lines: list[int], *others: Callable[[], object]) -> LazyLaunch[Any]:
    """The op, whose line is written down; nobody has it but the caller. The others are called
    first.
    """
    for other in others:
        other()
    assert op.created.file == __file__
    lines.append(op.created.line)
    return op


def line_of(function: Callable[..., Any]) -> int:
    return function.__code__.co_firstlineno


def starts(*functions: Step) -> list[int]:
    """Lines where functions of one line begin."""
    return [line_of(function) for function in functions]


def test_a_function_of_many_lines_has_each_of_its_places(gpu: Gpu) -> None:
    module, driver = gpu
    add, lines, count = module.lazy.add, list[int](), iter(range(100))

    def step(found: tuple[Any, ...]) -> Any:
        if next(count) % 5 < 3:
            return noted(add(*found), lines)
        return noted(add(*found), lines)

    wrapped: Step = lambda found: (  # noqa: E731
        noted(add(*found), lines)
        if next(count) % 5 < 3 else
        noted(add(*found[:]), lines)
    )  # fmt: skip
    for function, first, second in ((step, 2, 3), (wrapped, 1, 3)):
        lines.clear()
        count = iter(range(100))
        chained(add(*on(driver, 512, 512, 512)), *[function] * 20).sync()
        assert lines == [
            line_of(function) + (first if number % 5 < 3 else second) for number in range(20)
        ]


def test_ops_that_helpers_make_are_theirs(gpu: Gpu) -> None:
    module, driver = gpu
    lines: list[int] = []
    count = iter(range(100))

    def one(found: tuple[Any, ...]) -> Any:
        return noted(module.lazy.add(*found), lines)

    def two(found: tuple[Any, ...]) -> Any:
        return noted(module.lazy.add(*found), lines)

    chained(
        module.lazy.add(*on(driver, 512, 512, 512)),
        *[lambda found: (one if next(count) % 5 < 3 else two)(found)] * 20,
    ).sync()
    assert lines == [line_of(one if number % 5 < 3 else two) + 1 for number in range(20)]


def test_messages_name_the_line_of_the_step(gpu: Gpu) -> None:
    module, driver = gpu
    add, kept = module.lazy.add, list[Tensor]()
    step: Step = lambda found: add(*found) if len(kept) < 3 and keep(found[0]) else fail(found)  # noqa: E731
    again: Step = lambda found: add(*found)  # noqa: E731

    def keep(one: Tensor) -> bool:
        kept.append(one)
        return True

    def fail(found: tuple[Any, ...]) -> Any:
        driver.fail["launch"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
        return add(*found)

    def breaks() -> bool:
        driver.fail["launch"] = "CUDA_ERROR_INVALID_VALUE"
        return True

    done = chained(
        add(*on(driver, 512, 512, 512)), *[again] * 12, *[step] * 3, *[again] * 12
    ).sync()
    with pytest.raises(DriverError) as caught:
        chained(add(*done), *[again] * 12, step).sync()
    assert str(caught.value.op) == f"launch of add, created at {__file__}:{line_of(fail) + 2}"
    driver.fail.clear()
    count = iter(range(100))
    late: Step = lambda found: add(*found) if next(count) < 9 or breaks() else None  # noqa: E731
    with pytest.raises(DriverError) as caught:
        chained(add(*done), *[late] * 12).sync()
    assert str(caught.value.op) == f"launch of add, created at {__file__}:{line_of(late)}"


def test_nothing_is_left_of_a_step_that_is_done(gpu: Gpu) -> None:
    """Whoever goes on with the tensors of a chain is looked for, be it a later step of it or
    somebody else.
    """
    module, driver = gpu
    add, lines = module.lazy.add, list[int]()

    def elsewhere(found: Any) -> LazyLaunch[Any]:
        return noted(add(*found), lines)

    step: Step = lambda found: add(*found)  # noqa: E731
    ends: list[Callable[[DeviceOp[Any]], DeviceOp[Any]]] = [
        lambda op: op,
        lambda op: op.map(tuple),
        lambda op: op.then(elsewhere),
    ]
    for last in ends:
        lines.clear()
        found = last(chained(add(*on(driver, 512, 512, 512)), *[step] * 9)).sync()
        assert lines in ([], [line_of(elsewhere) + 1])
        elsewhere(found)
        assert set(lines) == {line_of(elsewhere) + 1}


@pytest.mark.parametrize("turn", [(1, 2, 0), (2, 0, 1), (0, 2, 1)])
def test_more_sets_of_tensors_than_are_expected_are_looked_at_by_themselves(
    gpu: Gpu, turn: tuple[int, ...]
) -> None:
    module, driver = gpu
    add, lines = module.lazy.add, list[int]()
    tensors = on(driver, 512, 512, 512)
    step: Step = lambda found: noted(add(*(found[place] for place in turn)), lines)  # noqa: E731
    wanted = [tensor.storage.address for tensor in tensors]
    found = chained(add(*tensors), *[step] * 20).sync()
    assert lines == [line_of(step)] * 20
    for launch in driver.launches:
        assert list(launch.arguments[:3]) == wanted
        wanted = [wanted[place] for place in turn]
    assert len(driver.launches) == 21
    assert len({one.storage.address for one in found[:3]}) == 3


def test_threads_do_not_meet_each_others_places(gpu: Gpu) -> None:
    module, driver = gpu
    add = module.lazy.add
    lines: list[list[int]] = [[], [], []]
    steps: list[Step] = [
        lambda found: noted(add(*found), lines[0]),
        lambda found: noted(add(found[1], found[0], *found[2:]), lines[1]),
        lambda found: noted(add(*found), lines[2]),
    ]
    device = Device(0, driver=driver)

    def run(step: Step) -> None:
        with use_device(device):
            for _ in range(4):
                chained(add(*on(driver, 512, 512, 512)), *[step] * 100).sync()

    at_once(*(functools.partial(run, step) for step in steps))
    assert lines == [[line_of(step)] * 400 for step in steps]
