"""Steps of a chain whose tensors nobody else has: the same objects go through, and whoever keeps one sees what became of it."""

from __future__ import annotations

import dis
import gc
import random
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.runtime.ops.chain_samples import Gpu, chained, on, owned
from tests.waiting import at_once, joined
from tilec.errors import BorrowError, DriverError, UseAfterMoveError, UsedOpError
from tilec.runtime import DeviceOp, use_device, value, with_context, zip_ops
from tilec.runtime.references import EXACT, TURNS
from tilec.runtime.tensors.tensor import Tensor


@pytest.mark.skipif(not EXACT, reason="this interpreter does not say who has an object")
def test_tensors_and_ops_that_nobody_else_has_are_not_made_anew(gpu: Gpu) -> None:
    module, driver = gpu
    tensors: list[tuple[int, ...]] = []
    ops: list[int] = []

    def again(found: tuple[Any, ...]) -> Any:
        tensors.append(tuple(sorted(id(one) for one in found[:3])))
        op = module.lazy.add(found[1], found[0], found[2])
        ops.append(id(op))
        return op

    z, x, y = on(driver, 512, 512, 512)
    found = chained(module.lazy.add(z, x, y), 20, again).sync()
    assert len(set(tensors)) == 1
    assert len(set(ops[1:])) == 1  # but for the first, which was taken as any other op
    assert tensors[0] == tuple(sorted(id(one) for one in found[:3]))
    assert not {id(one) for one in (z, x, y)} & set(tensors[0])  # these were ours
    assert owned(*found[:3])


@pytest.mark.parametrize("keep", [lambda found: found, lambda found: found[:3], lambda found: found[0], lambda found: lambda: found[1]])
def test_who_keeps_what_a_step_got_cannot_use_it_any_more(gpu: Gpu, keep: Callable[[Any], Any]) -> None:
    module, driver = gpu
    kept: list[Any] = []
    lines: list[int] = []

    def again(found: tuple[Any, ...]) -> Any:
        kept.append(keep(found))
        lines.append(sys._getframe().f_lineno + 1)
        return module.lazy.add(*found)

    result = chained(module.lazy.add(*on(driver, 512, 512, 512)), 6, again).sync()
    for one, line in zip(kept, lines, strict=True):
        got = one if isinstance(one, tuple) else (one.__closure__[0].cell_contents[1],) if callable(one) else (one,)
        for tensor in got[:3]:
            with pytest.raises(
                UseAfterMoveError,
                match=rf"the launch of add .* cannot use the tensor: it was moved into the launch of add \({__file__}:{line}\)",
            ):
                module.lazy.add(tensor, *on(driver, 512, 512))
    assert owned(*result[:3])
    assert len({one.storage.address for one in result[:3]}) == 3


def test_use_between_the_op_and_its_return(gpu: Gpu) -> None:
    module, driver = gpu

    def uses(found: tuple[Any, ...]) -> Any:
        op = module.lazy.add(*found)
        with pytest.raises(UseAfterMoveError):
            found[0].share()
        with pytest.raises(UseAfterMoveError):
            module.lazy.add(*found)
        return op

    z, x, y, _ = chained(module.lazy.add(*on(driver, 512, 512, 512)), 5, uses).sync()
    assert owned(z, x, y)
    assert len(driver.launches) == 6


def test_ops_that_a_step_makes_and_drops(gpu: Gpu) -> None:
    module, driver = gpu

    def twice(found: tuple[Any, ...]) -> Any:
        module.lazy.add(*found)  # dropped: it gives its tensors back
        return module.lazy.add(*found)

    z, x, y, _ = chained(module.lazy.add(*on(driver, 512, 512, 512)), 5, twice).sync()
    assert owned(z, x, y)
    assert len(driver.launches) == 6


def test_ops_of_a_chain_are_made_of_those_that_nobody_has_any_more() -> None:
    """Of whoever keeps an op nothing is taken; and each says where it went."""
    kept: list[DeviceOp[Any]] = []
    op = value(0).then(value)
    for place in range(12):
        if place % 3 == 0:
            kept.append(op)
        op = op.then(value)
    line = sys._getframe().f_lineno - 1
    assert len({id(one) for one in [*kept, op]}) == 5
    for one in kept:
        with pytest.raises(UsedOpError, match=rf"moved into then at {__file__}:{line}"):
            one.then(value)
    with use_device("cpu"):
        assert op.sync() == 0
    ids = set()
    for _ in range(9):
        op = op.then(value) if ids else value(0).then(value)
        ids.add(id(op))
    assert len(ids) == 2 or not EXACT


def test_an_op_that_somebody_keeps_stays_used(gpu: Gpu) -> None:
    module, driver = gpu
    kept: list[Any] = []
    seen: list[int] = []

    def keeps(found: tuple[Any, ...]) -> Any:
        op = module.lazy.add(*found)
        seen.append(id(op))
        if len(seen) % 2:
            kept.append(op)
        return op

    chained(module.lazy.add(*on(driver, 512, 512, 512)), 8, keeps).sync()
    assert len({id(op) for op in kept}) == 4
    for op in kept:
        with pytest.raises(UsedOpError, match="executed as a part of another op"):
            op.sync()


def test_ops_that_become_others_know_no_weak_references(gpu: Gpu) -> None:
    """Such a reference would not show that somebody has the op."""
    module, driver = gpu
    for op in (value(0).then(value), module.lazy.add(*on(driver, 512, 512, 512))):
        with pytest.raises(TypeError, match="weak reference"):
            weakref.ref(op)


def test_a_used_op_that_a_step_gives_is_refused(gpu: Gpu) -> None:
    module, driver = gpu

    def spent(found: tuple[Any, ...]) -> Any:
        op = module.lazy.add(*found)
        op.then(value)
        return op

    z, x, y = on(driver, 512, 512, 512)
    with pytest.raises(UsedOpError, match="moved into then"):
        chained(module.lazy.add(z, x, y), 3, lambda found: module.lazy.add(*found)).then(spent).sync()
    assert len(driver.launches) == 4


def test_borrows_are_in_the_way_of_a_step(gpu: Gpu) -> None:
    module, driver = gpu

    def borrows(found: tuple[Any, ...]) -> Any:
        with found[1].borrow(), pytest.raises(BorrowError):
            module.lazy.add(*found)
        with pytest.raises(UseAfterMoveError, match="twice"):
            module.lazy.add(found[0], found[1], found[1])
        return module.lazy.add(*found)

    z, x, y, _ = chained(module.lazy.add(*on(driver, 512, 512, 512)), 5, borrows).sync()
    assert owned(z, x, y)


def test_a_launch_that_is_refused_in_the_middle_gives_everything_back(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)

    def fails(found: tuple[Any, ...]) -> Any:
        driver.fail["launch"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
        return module.lazy.add(*found)

    line = fails.__code__.co_firstlineno + 2
    for _ in range(3):
        op = chained(module.lazy.add(z, x, y), 6, lambda found: module.lazy.add(*found))
        with pytest.raises(DriverError, match=rf"launch of add, created at {__file__}:{line}"):
            op.then(fails).then(lambda found: module.lazy.add(*found)).sync()
        driver.fail.clear()
        assert owned(z, x, y)
    assert chained(module.lazy.add(z, x, y), 2, lambda found: module.lazy.add(*found)).sync()[0].storage is z.storage


def test_results_that_others_have_do_not_come_back(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    kept: list[Any] = []

    def parts(found: tuple[Any, ...]) -> Any:
        op: Any = module.lazy.add(*found)
        first, *rest = op.unzip(4)
        kept.extend(rest)
        return first

    def fails(_: object) -> Any:
        raise KeyError

    with pytest.raises(KeyError):
        chained(module.lazy.add(z, x, y), 3, lambda found: module.lazy.add(*found)).then(parts).then(fails).sync()
    theirs = kept[0].sync()
    assert owned(theirs)
    with pytest.raises(UseAfterMoveError):
        x.share()


def test_a_read_that_ends_early_orders_the_next_step_again(gpu: Gpu) -> None:
    """A launch that only borrows gives its claim up at once, and others may use the memory from then on."""
    module, driver = gpu
    out, other = on(driver, 512, 512)
    entered: list[bool] = []

    def reads(found: tuple[Any, ...]) -> Any:
        def both(ctx: Any) -> Any:
            ctx.run(module.lazy.add(out.borrow_mut(), found[0].view(512), other.view(512)))
            assert id(found[0].storage) not in ctx._touched
            return found

        return with_context(both)

    def writes(found: tuple[Any, ...]) -> DeviceOp[Any]:
        def look(ctx: Any) -> None:
            entered.append(ctx._touched[id(found[0].storage)][1])

        return with_context(look)

    op = chained(module.lazy.add(*on(driver, 512, 512, 512)), 3, lambda found: module.lazy.add(*found)).then(reads)
    op.then(lambda found: module.lazy.add(*found)).then(writes).sync()
    assert entered == [True]


def test_a_graph_of_a_chain(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    addresses = (z.ptr, x.ptr, y.ptr)
    warm = chained(module.lazy.add(z, x, y), 4, lambda found: module.lazy.add(*found)).sync()
    before = len(driver.launches)
    with chained(module.lazy.add(*warm[:3]), 4, lambda found: module.lazy.add(*found)).graph() as graph:
        assert (graph.nodes, len(driver.launches)) == (5, before)
        with pytest.raises(UseAfterMoveError):
            warm[0].share()
        graph.replay()
        assert [launch.arguments[:3] for launch in driver.launches[before:]] == [addresses] * 5
        assert owned(*graph.take_output()[:3])


def test_a_chain_gives_its_tensors_to_others(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)

    def both(found: tuple[Any, ...]) -> Any:
        return zip_ops(module.lazy.add(*found), value(1)).first()

    def cut(found: tuple[Any, ...]) -> Any:
        return module.lazy.add(found[0].reshape(512), found[1].reshape(2, 256).reshape(512), found[2])

    result = module.lazy.add(z, x, y)
    for step in (both, cut, both, cut):
        result = chained(result, 3, lambda found: module.lazy.add(*found)).then(step)  # type: ignore[assignment]
    found = result.sync()
    assert [one.storage for one in found[:3]] == [z.storage, x.storage, y.storage]
    assert owned(*found[:3])


@pytest.mark.parametrize("seed", range(20))
def test_whatever_steps_keep_there_is_one_owner(gpu: Gpu, seed: int) -> None:
    module, driver = gpu
    dice = random.Random(seed)
    pool = on(driver, *[512] * 5)
    mine: list[Tensor] = list(pool)
    kept: list[Any] = list(pool)

    def step(found: tuple[Any, ...]) -> Any:
        have = list(found[:3])
        if dice.random() < 0.4:
            kept.append(dice.choice([found, have[0], have[1], have]))
        if dice.random() < 0.2 and len(mine) > 3:
            have[dice.randrange(3)] = mine.pop()
        dice.shuffle(have)
        if dice.random() < 0.1:
            raise KeyError
        op = module.lazy.add(*have, dice.choice((1.0, 2.0)))
        if dice.random() < 0.2:
            kept.append(op)
        return op

    try:
        made: Any = chained(module.lazy.add(*(mine.pop() for _ in range(3))), 12, step).sync()
    except KeyError:
        made = ()
    everything = [one for one in gc.get_objects() if type(one) is Tensor and one.storage in {tensor.storage for tensor in pool}]
    owners = [one for one in everything if one._look is not None]
    assert len({one.storage for one in owners}) == len(owners)
    if not made:  # all of them are back with whom they came from
        assert owned(*pool)
    else:
        assert owned(*made[:3])


@pytest.mark.skipif(not TURNS, reason="there, arguments are taken under a lock")
def test_nothing_comes_between_while_tensors_are_taken(gpu: Gpu) -> None:
    """Other threads, and what a signal asks for, have their turn at calls and jumps back."""
    code = gpu[0].lazy.add.make.__code__
    assert code.co_filename == "<tilec taking>"
    steps = list(dis.get_instructions(code))
    stores = [place for place, step in enumerate(steps) if step.opname == "STORE_ATTR"]
    looks = [place for place in stores if steps[place].argval == "_look"]
    marks = [place for place in stores if steps[place].argval == "_moved"]
    assert len(marks) == 15  # of tensors that a hint is about, and that were taken before as well, twice each; then of all
    reads = [place for place, step in enumerate(steps) if step.opname == "LOAD_ATTR" and step.argval == "_look"]
    known = [([place for place in reads if place < last][-3], last) for last in marks[2:12:3]]
    read = min(place for place in reads if place > marks[11])
    refused = next(place for place in range(read, len(steps)) if steps[place].argval == "make_any")
    allowed = {
        "LOAD_FAST",
        "STORE_FAST",
        "LOAD_CONST",
        "LOAD_ATTR",
        "STORE_ATTR",
        "SWAP",
        "COPY",
        "IS_OP",
        "ROT_TWO",
        "DUP_TOP",
        "EXTENDED_ARG",
    }
    allowed |= {
        "STORE_FAST_STORE_FAST",
        "LOAD_FAST_LOAD_FAST",
        "STORE_FAST_LOAD_FAST",
        "CACHE",
        "NOP",
        "PUSH_NULL",
        "LOAD_GLOBAL",
        "TO_BOOL",
    }
    for first, last in known:
        assert [first < place < last for place in looks].count(True) == 3
    for step in [step for first, last in known for step in steps[first : last + 1]] + steps[read:refused]:
        assert step.opname in allowed or (step.opname.startswith("POP_JUMP") and step.argval > step.offset), step
    behind = next(place for place in range(refused, len(steps)) if steps[place].opname.startswith("RETURN"))
    for step in steps[behind + 1 : marks[-1] + 1]:
        assert step.opname in allowed, step


def test_ops_that_a_profiler_keeps_are_not_made_into_others(gpu: Gpu) -> None:
    module, driver = gpu
    seen: list[Any] = []

    def keep(frame: Any, event: str, _: object) -> None:
        if event in ("call", "c_call"):  # `along` has an op for some of its calls, one after the other
            seen.append(frame.f_locals.get({"_run_step": "self", "owned": "op", "along": "value"}.get(frame.f_code.co_name, "")))

    op = chained(value(tuple(on(driver, 512, 512, 512))), 6, lambda found: module.lazy.add(found[0], found[1], found[2]))
    sys.setprofile(keep)
    try:
        found = op.sync()
    finally:
        sys.setprofile(None)
    last = module.lazy.add(*found)
    ops = [one for one in seen if type(one) is type(last)]
    assert len({id(one) for one in [*ops, last]}) == 7


@pytest.mark.skipif(not TURNS, reason="there, arguments are taken under a lock")
@pytest.mark.parametrize(
    "use", [lambda module, *tensors: module.lazy.add(*tensors), lambda _, z, *__: z.borrow_mut(), lambda _, z, *__: z.view(512)]
)
def test_a_debugger_that_goes_line_by_line_lets_no_thread_take_what_is_taken(gpu: Gpu, use: Callable[..., Any]) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    got: list[Any] = []

    def other() -> None:
        try:
            got.append(use(module, z, *on(driver, 512, 512)))
        except UseAfterMoveError as error:
            got.append(str(error).splitlines()[0].partition(" cannot ")[2])

    def follow(frame: Any, event: str, _: object) -> Any:
        if event == "line" and frame.f_code.co_filename == "<tilec taking>" and z._look is None:
            thread = threading.Thread(target=other)
            thread.start()
            joined(thread)
        return follow

    module.lazy.add(*on(driver, 512, 512, 512))  # what does this is made
    before = sys.gettrace()
    sys.settrace(follow)
    try:
        op = module.lazy.add(z, x, y)
    finally:
        sys.settrace(before)
    assert got[0] == "use the tensor: a launch is taking it now"
    assert "was moved into the launch of add" in got[-1]
    assert owned(*op.sync()[:3])


def test_threads_that_take_the_same_tensors(gpu: Gpu) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    taken: list[Any] = []

    def take() -> None:
        for _ in range(200):
            try:
                taken.append(module.lazy.add(z, x, y))
            except UseAfterMoveError:
                continue

    at_once(*[take] * 4)
    assert len(taken) == 1
    taken.clear()
    assert owned(z, x, y)


def interrupted(at: int, files: tuple[str, ...], action: Callable[[], object]) -> bool:
    """Press Ctrl-C at a call in these files that comes after so many, or as it is back; whether there was one."""
    left = [at]

    def watch(frame: Any, event: str, _: object) -> None:
        if event in ("c_call", "c_return", "call") and frame.f_code.co_filename.endswith(files) and frame.f_code.co_name != "__del__":
            left[0] -= 1
            if left[0] == -1:
                raise KeyboardInterrupt

    sys.setprofile(watch)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


@pytest.mark.parametrize("steps", [0, 3])
def test_ctrl_c_at_every_call_of_a_launch_gives_everything_back(gpu: Gpu, steps: int) -> None:
    module, driver = gpu
    z, x, y = on(driver, 512, 512, 512)
    lazily = ("<tilec taking>", "lazy.py") if not steps else ()  # an op that a step has made, and not given, is not the chain's

    def work() -> None:
        op = chained(module.lazy.add(z, x, y), steps, lambda found: module.lazy.add(found[1], found[0], found[2]))
        op.enqueue_on(0)

    chained(module.lazy.add(*on(driver, 512, 512, 512)), 2, lambda found: module.lazy.add(*found)).sync()
    count = 0
    while interrupted(count, ("<tilec launch path>", "taking.py", *lazily), work):
        assert owned(z, x, y), count
        count += 1
        assert count < 1000
    assert count > 10
