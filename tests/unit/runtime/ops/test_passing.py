"""Steps of a chain that nobody calls, since they do nothing but pass on what they are given: what comes of them is the same."""

from __future__ import annotations

import functools
import gc
import itertools
import math
import random
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.runtime.ops.chain_samples import Gpu, chained, on, owned
from tests.waiting import at_once
from tilec.errors import DriverError, UseAfterMoveError
from tilec.runtime import Stream, value
from tilec.runtime.ops import chain, passing
from tilec.runtime.ops.lazy import LazyLauncher
from tilec.runtime.references import EXACT
from tilec.runtime.tensors.tensor import Tensor

pytestmark = pytest.mark.skipif(not EXACT, reason="this interpreter does not say who has an object, and every step is called")
Step = Callable[[Any], Any]
Hooks = dict[int, Callable[[], object]]
# Steps that are called before others are not, and again behind those.
FIRST = 8
LONG = 3 * passing.MOST


class Launches(list[Any]):
    """The launches of a driver, and what is done at one of a number."""

    def __init__(self) -> None:
        super().__init__()
        self.at: Hooks = {}

    def append(self, launch: Any) -> None:
        super().append(launch)
        self.at.pop(len(self), bool)()


@pytest.fixture
def at(gpu: Gpu) -> Hooks:
    """What is done at a launch, by its number."""
    launches = gpu[1].launches = Launches()
    return launches.at


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """As many as there were calls of a kernel's function."""
    made: list[None] = []
    call = LazyLauncher.__call__

    def counted(self: LazyLauncher, *args: Any, **kwargs: Any) -> Any:
        made.append(None)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(LazyLauncher, "__call__", counted)
    return made


def steps_of(add: LazyLauncher) -> dict[str, tuple[Step, tuple[int, ...]]]:
    """Functions that pass on, and where they take what they give from."""
    namespace: dict[str, Any] = {"add": add}
    exec("def known(t):\n    z, x, y, alpha = t\n    return add(x, z, y, alpha)", namespace)  # `add` is a global of it

    def unpacked(found: Any) -> Any:
        z, x, y, _ = found
        return add(z, x, y)

    return {
        "all": (lambda found: add(*found), (0, 1, 2)),
        "two places": (lambda found: add(found[1], found[0], found[2]), (1, 0, 2)),
        "by name": (lambda found: add(z=found[0], x=found[2], y=found[1], alpha=2.0), (0, 2, 1)),
        "unpacked": (unpacked, (0, 1, 2)),
        "of a global": (namespace["known"], (1, 0, 2)),
        "from behind": (lambda found: add(found[-4], found[-3], found[-2]), (0, 1, 2)),
        "three places": (lambda found: add(found[1], found[2], found[0]), (1, 2, 0)),
    }


@pytest.mark.parametrize("name", ["all", "two places", "by name", "unpacked", "of a global", "from behind", "three places"])
@pytest.mark.parametrize("length", [FIRST, 40, passing.MOST + 3, passing.MOST + 4, LONG])
def test_launches_are_those_of_functions_that_are_called(gpu: Gpu, calls: list[None], name: str, length: int) -> None:
    module, driver = gpu
    step, turn = steps_of(module.lazy.add)[name]
    tensors = on(driver, 512, 512, 512)
    found = chained(module.lazy.add(*tensors), length, step).sync()
    expected, last = list(tensors), tensors
    for launch in driver.launches:
        assert list(launch.arguments[:3]) == [one.storage.address for one in expected]
        last, expected = expected, [expected[place] for place in turn]
    assert len(driver.launches) == length + 1
    assert [one.storage for one in found[:3]] == [one.storage for one in last]
    assert owned(*found[:3])
    assert len(calls) == length + 1 if name == "three places" else len(calls) <= FIRST + (length - FIRST) // (passing.MOST + 3) * 3
    with pytest.raises(UseAfterMoveError):
        tensors[0].borrow_mut()


def test_what_passes_on_and_what_does_not(gpu: Gpu) -> None:
    add, number = gpu[0].lazy.add, 2.0

    def conditional(found: Any) -> Any:
        return add(*found) if found else None

    def helped(found: Any) -> Any:
        return conditional(found)

    def walrus(found: Any) -> Any:
        return add(z := found[0], found[1], z)

    def captured(found: Any) -> Any:
        return (lambda: add(*found))()

    def wrapped(found: Any) -> Any:
        return add(*(one for one in found))

    def later(found: Any) -> Iterator[Any]:
        yield add(*found)

    def tried(found: Any) -> Any:
        try:
            return add(*found)
        finally:
            gpu[1].launches.clear()

    other = [add]
    for function in (step for step, _ in steps_of(add).values()):
        made = passing.passing(function)
        assert made is not None, function
        assert passing.found(function, made._name) is add
    assert passing.passing(lambda found: add(found[0], found[1], found[2], number)) is not None
    for function in (
        conditional,
        helped,
        walrus,
        captured,
        wrapped,
        later,
        tried,
        lambda found: add(*found[:3]),
        lambda found: add(*found, number),
        lambda found: add(*other),
        lambda found: other[0](*found),
        lambda found: add(found[0], found[1], found[2], found[3] * 2),
        lambda found: add(found[0], found[1], other[0]),
        lambda found: add(found[0], found[1], found[2], sys.flags),
        lambda found: add(*found).variant(),
        lambda found: (add(*found), add(*found))[1],
        lambda *found: add(*found[0]),
        lambda found, more=number: add(*found),
        lambda found: add(**found),
        lambda found: found,
        functools.partial(add),
        add,
    ):
        made = passing.passing(function)
        assert made is None or passing.found(function, made._name) is None, function  # type: ignore[arg-type]


def test_numbers_are_those_that_were_passed(gpu: Gpu) -> None:
    module, driver = gpu
    add = module.lazy.add

    def passes(number: float) -> Step:
        return lambda found: add(found[0], found[1], found[2], number)

    for number in (0.0, -0.0, math.nan, 1, 2.5, True):
        driver.launches.clear()
        chained(add(*on(driver, 512, 512, 512), 7.0), 40, passes(number)).sync()
        assert driver.launches[0].arguments[-1] == 7.0
        assert {repr(launch.arguments[-1]) for launch in driver.launches[1:]} == {repr(float(number))}
        assert len(driver.launches) == 41


@pytest.mark.parametrize("name", ["all", "two places"])
@pytest.mark.parametrize("number", [*range(2, 12), 100, 101, passing.MOST + 5, passing.MOST + 6])
def test_a_launch_that_fails_is_told_as_that_of_a_function_that_was_called(gpu: Gpu, at: Hooks, name: str, number: int) -> None:
    module, driver = gpu
    step, _ = steps_of(module.lazy.add)[name]
    tensors = on(driver, 512, 512, 512)
    at[number] = lambda: driver.fail.update(launch="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
    with pytest.raises(DriverError) as caught:
        chained(module.lazy.add(*tensors), LONG, step).sync()
    assert len(driver.launches) == number
    assert str(caught.value.op) == f"launch of add, created at {__file__}:{step.__code__.co_firstlineno}"
    assert owned(*tensors)
    driver.fail.clear()
    assert owned(*module.lazy.add(*tensors).sync()[:3])


@pytest.mark.parametrize("number", [5, 100, 101])
def test_ctrl_c_between_launches_gives_everything_back(gpu: Gpu, at: Hooks, number: int) -> None:
    module, driver = gpu

    def interrupt() -> None:
        raise KeyboardInterrupt

    for name in ("all", "two places"):
        driver.launches.clear()
        step, _ = steps_of(module.lazy.add)[name]
        tensors = on(driver, 512, 512, 512)
        at[number] = interrupt
        with pytest.raises(KeyboardInterrupt):
            chained(module.lazy.add(*tensors), LONG, step).sync()
        assert len(driver.launches) == number
        assert owned(*tensors)


@pytest.mark.parametrize("name", ["all", "two places"])
@pytest.mark.parametrize("warm", ["", "g", "gf", "ggfg"])
@pytest.mark.parametrize("number", [*range(1, 14), 60, 61])
def test_a_launch_that_is_accepted_at_the_second_try_is_like_others(gpu: Gpu, at: Hooks, name: str, warm: str, number: int) -> None:
    """Another library takes the thread's context away: the next launch is refused, and then made where there is one."""
    module, driver = gpu
    add = module.lazy.add
    steps = {"g": lambda found: add(*found), "f": lambda found: add(found[1], found[0], found[2])}
    step, turn = steps_of(add)[name]
    turns = [*((0, 1, 2) if each == "g" else (1, 0, 2) for each in warm), *[turn] * 100]
    at[number] = lambda: setattr(driver._thread, "current", None)
    tensors = on(driver, 512, 512, 512)
    op = add(*tensors)
    for each in warm:
        op = op.then(steps[each])
    found = chained(op, 100, step).sync()
    wanted = [one.storage.address for one in tensors]
    for launch, turn in zip(driver.launches, [*turns, (0, 1, 2)], strict=True):
        assert list(launch.arguments[:3]) == wanted
        wanted = [wanted[place] for place in turn]
    assert owned(*found[:3])
    assert len(driver.errors) == 1  # it was refused


def test_functions_that_never_repeat_are_looked_at_for_a_while_alone(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    module, driver = gpu
    step, _ = steps_of(module.lazy.add)["three places"]
    met, known = list[None](), passing.Passing.met

    def counted(self: passing.Passing, *arguments: Any) -> Any:
        met.append(None)
        return known(self, *arguments)

    monkeypatch.setattr(passing.Passing, "met", counted)
    chained(module.lazy.add(*on(driver, 512, 512, 512)), 300, step).sync()
    assert len(met) == passing._TRIALS


def test_a_class_that_is_made_of_a_kernels_functions_is_called(gpu: Gpu) -> None:
    module, driver = gpu

    class Counting(LazyLauncher):  # type: ignore[misc]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            counted.append(None)
            return super().__call__(*args, **kwargs)

    counted: list[None] = []
    add = Counting(module.add)
    chained(add(*on(driver, 512, 512, 512)), 100, lambda found: add(*found)).sync()
    assert len(counted) == 101


def test_another_meaning_of_a_name_is_seen_in_the_end(gpu: Gpu, at: Hooks) -> None:
    """As other threads give it: between two launches."""
    module, driver = gpu
    kept: list[Any] = []

    def keeping(*found: Any) -> Any:
        kept.append(found[0])
        return given(*found)

    add = given = module.lazy.add
    step: Step = lambda found: add(*found)  # noqa: E731

    def rename() -> None:
        nonlocal add
        add = keeping  # type: ignore[assignment]

    at[100] = rename
    result = chained(given(*on(driver, 512, 512, 512)), LONG, step).sync()
    assert len(driver.launches) == LONG + 1
    assert LONG - passing.MOST - FIRST <= len(kept) < LONG - 100
    for one in kept:
        with pytest.raises(UseAfterMoveError):
            one.borrow_mut()
    assert owned(*result[:3])


def test_profilers_see_every_step(gpu: Gpu, at: Hooks) -> None:
    module, driver = gpu
    step, _ = steps_of(module.lazy.add)["all"]
    seen: list[str] = []

    def watch(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code is step.__code__:  # type: ignore[attr-defined]
            seen.append(event)

    op = chained(module.lazy.add(*on(driver, 512, 512, 512)), LONG, step)
    sys.setprofile(watch)
    try:
        found = op.sync()
    finally:
        sys.setprofile(None)
    assert len(seen) == LONG
    seen.clear()
    at[LONG + 1 + 100] = lambda: sys.setprofile(watch)  # while steps go by that nobody calls
    try:
        chained(module.lazy.add(*found), LONG, step).sync()
    finally:
        sys.setprofile(None)
    assert len(seen) >= LONG - passing.MOST - FIRST


def test_claims_elsewhere_end_no_chain(gpu: Gpu, at: Hooks, calls: list[None]) -> None:
    """They end the epoch: the next steps are called, and those behind them are not."""
    module, driver = gpu
    step, _ = steps_of(module.lazy.add)["two places"]
    (other,) = on(driver, 512)
    for number in range(50, 400, 50):
        at[number] = lambda: other.borrow_mut().release()
    tensors = on(driver, 512, 512, 512)
    chained(module.lazy.add(*tensors), 500, step).sync()
    assert FIRST + 3 * 7 - 3 <= len(calls) <= 60
    wanted = [one.storage.address for one in tensors]
    assert [list(launch.arguments[:3]) for launch in driver.launches] == [wanted, [wanted[1], wanted[0], wanted[2]]] * 250 + [wanted]


def test_nothing_is_kept_of_a_chain(gpu: Gpu, at: Hooks) -> None:
    module, driver = gpu
    step, _ = steps_of(module.lazy.add)["two places"]
    for fails in (False, True):
        driver.launches.clear()
        tensors = on(driver, 512, 512, 512)
        storages = [weakref.ref(one.storage) for one in tensors]
        if fails:
            at[100] = lambda: driver.fail.update(launch="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
        op: Any = chained(module.lazy.add(*tensors), 300, step)
        tensors.clear()
        if fails:
            with pytest.raises(DriverError):
                op.sync()
            driver.fail.clear()
        else:
            op.sync()
        del op
        gc.collect()
        assert [storage() for storage in storages] == [None] * 3, fails


def test_threads_that_run_such_chains_at_once(gpu: Gpu) -> None:
    module, driver = gpu
    results: dict[int, Any] = {}

    def run(number: int, name: str) -> None:
        stream = Stream(0, driver=driver)
        tensors = [Tensor.uninitialized((512,), "f32", driver=driver, ordinal=0, stream=stream.handle) for _ in range(3)]
        first = [one.storage.address for one in tensors]
        step, turn = steps_of(module.lazy.add)[name]
        for _ in range(3):
            tensors = list(chained(module.lazy.add(*tensors[:3]), 700, step).sync_on(stream))
        results[number] = stream.handle, first, turn

    names = ("all", "two places", "three places")
    at_once(*(functools.partial(run, number, name) for number, name in enumerate(names)))
    for handle, first, turn in results.values():
        own = [list(launch.arguments[:3]) for launch in driver.launches if launch.stream == handle]
        assert len(own) == 3 * 701
        wanted = list(first)
        for place, arguments in enumerate(own):
            assert arguments == wanted
            if place % 701 != 700:
                wanted = [wanted[number] for number in turn]
    assert len(results) == 3


def outcomes(module: Any, driver: Any, seed: int) -> list[Any]:
    """What comes of random chains, in which functions that pass on stand among others."""
    add, chance = module.lazy.add, random.Random(seed)
    kept: list[Any] = []
    count = itertools.count()
    steps = [step for step, _ in steps_of(add).values()]

    def keeps(found: Any) -> Any:
        if next(count) % 7 == 0:
            kept.append(found[next(count) % 3])
        return add(*found)

    def views(found: Any) -> Any:
        found[1].view(512)
        return add(*found)

    def anew(found: Any) -> Any:
        return add(found[0].partition(512).unpartition(), found[1], found[2], 3.0)

    steps += [keeps, views, anew, lambda found: value(found).then(steps[0]).then(steps[0])]
    op = add(*(tensors := on(driver, 512, 512, 512)))
    numbers = {one.storage.address: place for place, one in enumerate(tensors)}
    for _ in range(chance.randrange(1, 9)):
        op = chained(op, chance.randrange(1, 40), chance.choice(steps))
    if chance.random() < 0.3:
        driver.launches.at[chance.randrange(1, 200)] = lambda: driver.fail.update(launch="CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
    ended: list[Any] = []
    try:
        found: Any = op.sync()
        ended += [[numbers[one.storage.address] for one in found[:3]], found[3], owned(*found[:3])]
    except DriverError as error:
        ended.append(str(error))  # what a function moved elsewhere is left there
    for one in [*kept, *tensors]:
        try:
            ended.append(owned(one))
        except UseAfterMoveError as error:
            ended.append(str(error))
    driver.fail.clear()
    return [*ended, *((*(numbers[number] for number in launch.arguments[:3]), launch.arguments[4]) for launch in driver.launches)]


@pytest.mark.parametrize("seed", range(150))
def test_random_chains_come_to_the_same_whether_their_functions_are_called_or_not(
    monkeypatch: pytest.MonkeyPatch, at: Hooks, gpu: Gpu, seed: int
) -> None:
    module, driver = gpu
    monkeypatch.setattr(passing.Passing, "most", 6)
    ways = []
    for way in (passing.passing, lambda _: None):
        monkeypatch.setattr(chain, "passing", way)
        at.clear()
        driver.launches.clear()
        ways.append(outcomes(module, driver, seed))
    assert ways[0] == ways[1]
