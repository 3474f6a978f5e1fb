"""What Python does for one step of a chain of `then`, without a GPU: the driver's launches do nothing, so what is left is tilec's.

usage: python benchmarks/chain_host.py [OUT.json] [--dist dist] [--rounds 40]. Needs the built package, no device. Nanoseconds of CPU time
for one step, the least of all rounds; parts take turns.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LINKS, ELEMENTS = 1000, 256


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, nargs="?", help="where to write the JSON")
    parser.add_argument("--dist", type=Path, default=Path(__file__).resolve().parents[1] / "dist", help="where tilec_examples lies")
    parser.add_argument("--rounds", type=int, default=40, help="how often each is measured")
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.dist.resolve()))
    package = importlib.import_module("tilec_examples")
    found = {name: round(value, 1) for name, value in measured(package, arguments.rounds).items()}
    document = {"schema_version": 1, "benchmark": "chain_host", "python": platform.python_version(), "ns_per_step": found}
    if arguments.out is not None:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for name, value in found.items():
        print(f"{name:60} {value:8.1f}")
    return 0


def idle_driver() -> Any:
    """A driver whose launches cost one call of a function that does nothing."""
    from tilec.testing.fake_driver import FakeDriver

    done = (0,)

    class Idle(FakeDriver):
        """Launches nothing."""

        def bind_launch(self, *_: Any, **__: Any) -> Any:
            """A call as the CUDA driver's is bound: two arguments given, two to come."""
            return functools.partial(lambda _config, _function, _parameters, _extra: done, None, None)

    return Idle()


def measured(package: Any, rounds: int) -> dict[str, float]:
    """Nanoseconds of each part, by name."""
    from tilec.runtime import Device, Stream, Tensor, use_device, value

    driver = idle_driver()
    add = package.vector_add
    with use_device(Device(0, driver=driver)), Stream(0, driver=driver) as stream:
        module = package._tilec_package_.on(driver, 0)
        tensors = tuple(Tensor.uninitialized((ELEMENTS,), "f32", driver=driver, ordinal=0, stream=stream.handle) for _ in range(3))
        direct = tuple(Tensor.uninitialized((ELEMENTS,), "f32", driver=driver, ordinal=0, stream=stream.handle) for _ in range(3))
        call = driver.bind_launch()

        def chain(first: Callable[[], Any], turn: Callable[[Any], Any]) -> tuple[float, float]:
            start = time.thread_time_ns()
            op = first()
            for _ in range(LINKS - 1):
                op = op.then(turn)
            built = time.thread_time_ns()
            made.append(op.enqueue_on(stream))
            return built - start, time.thread_time_ns() - built

        def loop(one: Callable[[], object]) -> float:
            start = time.thread_time_ns()
            for _ in range(LINKS):
                one()
            return time.thread_time_ns() - start

        least: dict[str, float] = {}
        made: list[Any] = []

        def note(name: str, taken: float) -> None:
            least[name] = min(least.get(name, taken), taken)

        for _ in range(rounds):
            for name, turn in (
                ("chain, same tensors", lambda zxy: add(*zxy)),
                ("chain, tensors change places", lambda zxy: add(zxy[1], zxy[0], zxy[2])),
                ("chain, each function called", lambda zxy: add(*zxy) if zxy else None),
            ):
                built, executed = chain(functools.partial(add, *tensors), turn)
                tensors = made.pop()
                note(f"{name}: build", built)
                note(f"{name}: execute", executed)
                note(f"{name}: together", built + executed)
            built, executed = chain(lambda: value(0), lambda _: value(0))
            note("chain of values: build", built)
            note("chain of values: execute", executed)
            note("op made and dropped", loop(functools.partial(add, *tensors)))
            note("direct launch", loop(lambda: module.vector_add(stream, *direct)))
            note("the driver's call", loop(lambda: call(0, 0)[0]))
            gc.collect()
    return {name: value / LINKS for name, value in least.items()}


if __name__ == "__main__":
    sys.exit(main())
