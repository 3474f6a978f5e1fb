"""Chains of thousands of launches on a GPU: what comes of them, whether their functions are called
at each step or not.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tilec_runtime import Stream, api

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
SIZE = 4096
FUNCTIONS = {
    "the same": lambda add: lambda found: add(*found),
    "two places": lambda add: lambda found: add(found[1], found[0], found[2]),
    "two places, by name": lambda add: lambda found: add(z=found[1], x=found[0], y=found[2]),
    "two places, called": lambda add: (
        lambda found: add(found[1], found[0], found[2]) if found else None
    ),
    "three places": lambda add: lambda found: add(found[1], found[2], found[0]),
}
TURNS = {"the same": (0, 1, 2), "three places": (1, 2, 0)}


def expected(name: str, launches: int) -> list[int]:
    """What z, x and y hold that begin as 0, 0 and 1, by memory; whole numbers, which f32 has
    exactly up to 2**24.
    """
    held, order = [0, 0, 1], [0, 1, 2]
    for _ in range(launches):
        held[order[0]] = held[order[1]] + held[order[2]]
        order = [order[place] for place in TURNS.get(name, (1, 0, 2))]
    return held


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("steps", [7, 600, 3000])
def test_what_comes_of_a_chain(package, name, steps):
    if name == "three places":
        steps = min(steps, 20)  # its numbers grow as Fibonacci's do
    step = FUNCTIONS[name](package.ops.vector_add)
    stream = Stream(0)
    for round_ in range(2):
        z, x, y = (
            api.zeros(SIZE).sync_on(stream),
            api.zeros(SIZE).sync_on(stream),
            api.ones(SIZE).sync_on(stream),
        )
        places = {one.storage.address: number for number, one in enumerate((z, x, y))}
        op = package.ops.vector_add(z, x, y)
        for _ in range(steps):
            op = op.then(step)
        found = op.sync_on(stream)
        wanted = expected(name, steps + 1)
        assert sorted(places[one.storage.address] for one in found) == [0, 1, 2], round_
        for one in found:
            np.testing.assert_array_equal(
                one.to_host(), np.full(SIZE, wanted[places[one.storage.address]], np.float32)
            )
        assert {id(one) for one in found} == {id(z), id(x), id(y)}


def test_threads_run_chains_of_one_kernel_at_once(package):
    found = {}

    def run(number: int) -> None:
        stream = Stream(0)
        z, x, y = (make(SIZE).sync_on(stream) for make in (api.zeros, api.zeros, api.ones))
        step = FUNCTIONS["two places" if number % 2 else "two places, called"](
            package.ops.vector_add
        )
        for _ in range(3):
            op = package.ops.vector_add(z, x, y)
            for _ in range(1999):
                op = op.then(step)
            x, z, y = op.sync_on(
                stream
            )  # the last launch wrote the first, which the next one reads
        found[number] = x.to_host()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(found) == [0, 1, 2, 3]
    for host in found.values():
        np.testing.assert_array_equal(host, np.full(SIZE, 6000, np.float32))
