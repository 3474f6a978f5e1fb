"""Epochs: a launch that is remembered is looked into again where anybody may have claimed a tensor, or brought it into another order."""

from __future__ import annotations

import dis
import functools
import gc
from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime_samples import ADD, bundle_of, fake_driver
from tilec.errors import BorrowError
from tilec.runtime import Stream, Tensor, bound, fastpath, load
from tilec.runtime.epoch import EPOCH
from tilec.runtime.ops.taking import owner_of
from tilec.runtime.tensors import lease, storage

FIRST, SECOND = 5, 6


@pytest.fixture(autouse=True)
def _nobody_else() -> None:
    """What other tests left to the collector ends no epoch meanwhile."""
    gc.collect()


class Sample:
    """Three tensors in the order of one stream, and the two ways to launch with them that remember a launch."""

    def __init__(self) -> None:
        self.driver: Any = fake_driver(ADD)
        self.module = load(bundle_of(ADD), driver=self.driver)
        self.tensors = z, x, y = [self.tensor() for _ in range(3)]
        once = self.module.add.bind(z, x, y)
        self.ways: dict[str, Callable[[int], None]] = {"direct": lambda s: self.module.add(s, z, x, y), "bound": lambda s: once.launch(s)}

    def tensor(self) -> Tensor:
        return Tensor.uninitialized((1024,), "f32", driver=self.driver, ordinal=0, stream=FIRST)

    def launched(self) -> list[int]:
        streams = [launch.stream for launch in self.driver.launches]
        self.driver.launches.clear()
        return streams


def remembered(sample: Sample, way: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """The way to launch, once its launch is remembered: neither the launcher's slow way nor a tensor is asked any more."""
    launch = sample.ways[way]
    for _ in range(4):
        launch(FIRST)
    sample.launched()

    def asked(*_: object) -> Any:
        raise AssertionError("the launch is not remembered")

    monkeypatch.setattr(Tensor, "_tilec_read_", asked)
    monkeypatch.setattr(Tensor, "_tilec_write_", asked)
    return launch


WAYS = pytest.mark.parametrize("way", ["direct", "bound"])


@WAYS
def test_epochs_of_others_end_and_the_launch_is_still_known(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = Sample()
    other = sample.tensor()
    launch = remembered(sample, way, monkeypatch)
    for _ in range(3):
        before = EPOCH.now
        with other.borrow_mut():
            assert EPOCH.now is not before
            launch(FIRST)
        launch(FIRST)
    assert sample.launched() == [FIRST] * 6


@WAYS
def test_what_ends_the_epoch_of_a_launch_is_seen(way: str) -> None:
    """Claims, and uses on other streams: each time, and not only the first."""
    sample = Sample()
    z, x, _ = sample.tensors
    launch = sample.ways[way]
    for _ in range(3):
        for _ in range(4):
            launch(FIRST)
        for tensor, verb in ((z, "reads"), (x, "writes")):
            with tensor.borrow() if verb == "reads" else tensor.borrow_mut(), pytest.raises(BorrowError, match=f"still {verb} it"):
                launch(FIRST)
        sample.launched()
        for stream, waits in ((SECOND, True), (FIRST, True), (FIRST, False)):  # the last one is in order with the one before
            sample.driver.steps.clear()
            launch(stream)
            assert any(step.call == "wait" for step in sample.driver.steps) is waits
        assert sample.launched() == [SECOND, FIRST, FIRST]


class Watched:
    """Epochs, how often they were asked for, and what comes just before the answer, as other threads do."""

    def __init__(self) -> None:
        self.between: Callable[[], object] | None = None
        self.current = object()
        self.asked = 0

    @property
    def now(self) -> object:
        between, self.between = self.between, None
        if between is not None:
            between()
        self.asked += 1
        return self.current

    @now.setter
    def now(self, epoch: object) -> None:
        self.current = epoch

    def end(self) -> None:
        self.current = object()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    made = Watched()
    for module in (fastpath, lease, storage, bound):
        monkeypatch.setattr(module, "EPOCH", made)
    return made


@WAYS
def test_a_claim_while_a_launch_is_looked_into_is_seen_by_the_next(way: str, watched: Watched) -> None:
    """At the worst time, at each of the places where a launch asks for the epoch."""
    sample = Sample()
    launch = sample.ways[way]
    claims: list[Any] = []

    def claimed_at(place: int) -> None:
        if place:
            watched.between = lambda: claimed_at(place - 1)
        else:
            claims.append(sample.tensors[0].borrow_mut())

    for place in range(2):
        for _ in range(4):
            launch(FIRST)
        watched.end()  # so that it is looked into again
        watched.between = functools.partial(claimed_at, place)
        for _ in range(2):
            with pytest.raises(BorrowError):
                launch(FIRST)
        assert len(claims) == 1
        claims.pop().release()


def test_a_claim_while_tensors_are_read_is_seen_by_the_next_launch(watched: Watched) -> None:
    """The tensors of the launch before were others, so that these are read, and remembered."""
    sample = Sample()
    claims: list[Any] = []
    z, x, y = others = [sample.tensor() for _ in range(3)]
    for _ in range(4):
        sample.module.add(FIRST, *others)
    for _ in range(4):
        sample.ways["direct"](FIRST)
    sample.module.add(FIRST, z, x, y)
    watched.between = lambda: claims.append(z.borrow_mut())
    for _ in range(2):
        with pytest.raises(BorrowError):
            sample.module.add(FIRST, z, x, y)
    assert len(claims) == 1


@WAYS
def test_a_launch_is_looked_into_once_for_an_epoch(way: str, watched: Watched) -> None:
    sample = Sample()
    launch = sample.ways[way]
    for _ in range(4):
        launch(FIRST)
    watched.end()
    asked = []
    for _ in range(3):
        before = watched.asked
        launch(FIRST)
        asked.append(watched.asked - before)
    assert asked == [2, 1, 1]


def test_what_ends_no_epoch() -> None:
    """What everybody does all the time: new tensors, further launches in the same order, claims that end."""
    sample = Sample()
    z, x, y = sample.tensors
    sample.module.add(FIRST, z, x, y)
    claim = z.borrow()
    stream = Stream(0, driver=sample.driver)
    before = EPOCH.now
    claim.release()
    sample.module.add(FIRST, z, x, y)
    sample.module.add(FIRST, z, x, y)
    assert sample.tensor().shape == (1024,)
    stream.close()  # nothing was used on it
    assert EPOCH.now is before


def test_what_ends_one() -> None:
    """A read elsewhere, a write elsewhere, a mark behind a use, and the end of a stream that was used."""
    sample = Sample()
    (z,) = sample.tensors[:1]
    memory = z.storage
    stream = Stream(0, driver=sample.driver)
    ends: list[str] = []

    def ending(what: str, change: Callable[[], object]) -> None:
        before = EPOCH.now
        change()
        if EPOCH.now is not before:
            ends.append(what)

    ending("the same stream writes again", lambda: memory.pass_through(FIRST, write=True))
    ending("another one reads", lambda: memory.pass_through(SECOND, write=False))
    ending("and again", lambda: memory.pass_through(SECOND, write=False))
    ending("a third one reads", lambda: memory.pass_through(stream.handle, write=False))
    ending("which is closed", stream.close)
    ending("the first one writes", lambda: memory.pass_through(FIRST, write=True))
    assert ends == ["another one reads", "which is closed", "the first one writes"]


def test_a_new_owner_of_what_launches_know_a_tensor_by_ends_one() -> None:
    sample = Sample()
    z, x, y = sample.tensors
    look = z._look
    op = sample.module.lazy.add(z, x, y)  # from here on it is the op that has them
    before = EPOCH.now
    made = owner_of(z, op._looks[0])
    assert made._look is look
    assert EPOCH.now is not before
    before = EPOCH.now
    part = made.partition(1024)
    assert EPOCH.now is not before
    assert part.unpartition()._look is look


def test_nothing_comes_between_a_claim_and_the_end_of_its_epoch() -> None:
    """Other threads have their turn at calls and jumps back: one that finds the epoch as it was has to find no claim either."""
    steps = list(dis.get_instructions(lease.Lease._take))
    (end,) = (place for place, step in enumerate(steps) if step.opname == "STORE_ATTR" and step.argval == "now")
    begin = max(place for place in range(end) if steps[place].opname == "STORE_SUBSCR")
    between = {step.opname for step in steps[begin + 1 : end]}
    assert between <= {"LOAD_FAST", "LOAD_GLOBAL", "CACHE", "NOP", "EXTENDED_ARG"}
