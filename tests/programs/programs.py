"""Random programs: what they are made of, how many there are, and how one is carried out under a
watchdog.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from tests.amount import part
from tests.programs import op_steps, running, tensor_steps
from tests.programs.many import Program, Try, carry_out_many
from tests.programs.world import Numbers, Site, World
from tilec_runtime import use_device

# Seconds after which a program hangs.
PATIENCE = 120.0
Step = Callable[[World, Numbers], None]
T = TypeVar("T")
# With how often each is drawn.
WEIGHTS: dict[Step, int] = {
    tensor_steps.nothing: 1,
    tensor_steps.make: 4,
    tensor_steps.adopt: 1,
    tensor_steps.launch: 5,
    tensor_steps.view: 3,
    tensor_steps.borrow_mut: 2,
    tensor_steps.part: 2,
    tensor_steps.partition: 2,
    tensor_steps.unpartition: 1,
    tensor_steps.deal: 1,
    tensor_steps.share: 2,
    tensor_steps.clone: 1,
    tensor_steps.unwrap: 2,
    tensor_steps.reshape: 1,
    tensor_steps.release: 3,
    tensor_steps.read: 2,
    tensor_steps.drop: 3,
    tensor_steps.drop_op: 1,
    tensor_steps.drop_future: 1,
    tensor_steps.collect: 1,
    tensor_steps.close_stream: 1,
    op_steps.lazy: 6,
    op_steps.make_later: 3,
    op_steps.values: 1,
    op_steps.together: 2,
    op_steps.chain: 3,
    op_steps.then: 4,
    op_steps.unchecked: 2,
    op_steps.share_op: 2,
    op_steps.unzip: 2,
    op_steps.broken: 1,
    running.run: 6,
    running.enqueue: 2,
    running.future: 3,
    running.finish: 2,
    running.together: 3,
    running.closed: 1,
    running.policy: 1,
}
STEPS = {f"{step.__module__.rpartition('.')[2]}.{step.__name__}": step for step in WEIGHTS}
NAMES = [name for name, step in STEPS.items() for _ in range(WEIGHTS[step])]


def follow(attempt: Try, count: int = 2000) -> None:
    """Try random programs: so many in the full gate, fewer in that of a change, always the same
    ones. TILEC_PROGRAMS in the environment says how many others to try, and TILEC_PROGRAMS_SEED
    which.
    """
    wanted = int(os.environ.get("TILEC_PROGRAMS", part(count)))
    carry_out_many(attempt, NAMES, wanted, int(os.environ.get("TILEC_PROGRAMS_SEED", 0)))


def carry_out(program: Program, site: Site) -> World:
    """Carry out a program; AssertionError where the device and the model part."""
    return watched(lambda: _steps(program, site))


def watched(work: Callable[[], T]) -> T:
    """What a function gives, which runs in a thread of its own; AssertionError where it hangs."""
    box: list[Any] = []

    def run() -> None:
        try:
            box.append(work())
        except BaseException as error:  # noqa: BLE001 - raised by who waits
            box.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if thread.is_alive():
        faulthandler.dump_traceback(file=sys.__stderr__ or sys.stderr, all_threads=True)
        raise AssertionError(
            f"a program hangs after {PATIENCE} s: all threads are on standard error"
        )
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]  # type: ignore[no-any-return]


def _steps(program: Program, site: Site) -> World:
    with use_device(site.device):
        world = World(site)
        for number in range(3):
            tensor_steps.make(world, Numbers(0, number, number, 0))
        for name, number in program:
            one_step(world, STEPS[name], number)
        end(world)
    return world


def one_step(world: World, step: Step, number: int) -> None:
    """Carry out a step, which chooses by a number, on the device and in the model."""
    with running.within(world):
        step(world, Numbers(number % 8, number // 8 % 8, number // 64 % 8, number // 512))
    world.check()


def end(world: World) -> None:
    """See that all contents are right, and that nothing is left once all is dropped."""
    world.close()
    running.policy(world, Numbers(0, 0, 0, 0))
