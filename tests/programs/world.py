"""A program's tensors, ops and futures beside what the model says of them: carries out a step on
both, and compares.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from tests.programs.deferred import Copy, Deferred, Launch, handles_of, reached
from tests.programs.model import Handle, Kind, Mem, RefusedError, Wrong, unreadable
from tilec_runtime import Device, MemPool, Stream, Tensor
from tilec_runtime.device.completion import COMPLETIONS
from tilec_runtime.device.seam import DeviceDriver
from tilec_runtime.errors import OwnershipError

SIZES = (16, 8)
# Seconds after which something that was let go of has to be gone.
PATIENCE = 10.0
# Most tensors, ops and futures at a time: the oldest goes.
_MOST_TENSORS, _MOST_OPS, _MOST_FUTURES = 10, 6, 4


class Site(Protocol):
    """A device, and a kernel z = x + y on it.

    Attributes:
        kernel: its name. streams: of the program; those that are closed are replaced. extra: what
            ops give back behind z, x and y.
    """

    kernel: str
    device: Device
    streams: list[Stream]
    extra: tuple[Any, ...]

    @property
    def driver(self) -> DeviceDriver: ...

    def launch(self, stream: Any, z: Any, x: Any, y: Any) -> None: ...

    def lazy(self, z: Any, x: Any, y: Any) -> Any: ...

    def broken(self, z: Any, x: Any, y: Any) -> Any:
        """An op of the same arguments whose kernel fails; None where a device does not survive one."""

    def read(self, tensor: Any) -> np.ndarray: ...

    def adopt(self, array: np.ndarray) -> Tensor: ...


class Numbers(NamedTuple):
    """What a step chooses by."""

    a: int
    b: int
    c: int
    d: int


@dataclasses.dataclass(eq=False)
class Pending:
    """A future, with what it comes to."""

    real: Any
    result: Any
    wrong: list[Wrong]


class World:
    """What a program has made by now."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.who = f"the launch of {site.kernel}"
        self.pool = MemPool(site.device, release_threshold=1 << 20, driver=site.driver)
        self.slots: list[Handle] = []
        self.ops: list[Deferred] = []
        self.futures: list[Pending] = []
        self.policy: Any = None
        self.launches: list[Launch] = []
        self.results: list[Any] = []  # of the ops that this step runs
        self.refusals = 0

    # What steps do

    def attempt(
        self, wrong: list[Wrong], action: Callable[[], Any], *, settled: bool = True
    ) -> Any:
        """Do something that is refused exactly where something is wrong with it."""
        if not wrong and not settled:
            return action()
        if not wrong:
            try:
                return action()
            except OwnershipError:  # another thread may be in the middle of letting something go
                self.settle()
                return action()
        try:
            action()
        except Exception as error:
            self.refusals += 1
            if not any(reason.fits(error) for reason in wrong):
                raise AssertionError(f"refused with other words than {wrong}") from error
            if (
                settled
            ):  # also while somebody looks at the error, nothing that was refused has a claim
                self.sweep()
                self.compare_claims(launches_only=True)
            return None
        raise AssertionError(f"accepted, although {wrong}")

    def keep(
        self, wrong: list[Wrong], action: Callable[[], Any], made: Callable[[], Handle]
    ) -> None:
        """Do something that gives a tensor unless something is wrong with it, and keep the tensor."""
        real = self.attempt(wrong, action)
        if not wrong:
            self.add(made(), real)

    def run_model(self, op: Deferred) -> tuple[Any, list[Wrong]]:
        """Run an op in the model alone: its result, or what is wrong."""
        if op.alone or any(handle.mem.loose for handle in reached(self.roots)[0]):
            self.settle()  # not in the middle of it
        op.take("executed")
        try:
            result, wrong = op.run(), []
            self.results.append(result)
        except RefusedError as error:
            result, wrong = None, error.wrong
        return result, wrong

    def give(self, result: Any, real: Any, *, keep: bool = True) -> None:
        """Hold an op's result against what it should be, and keep its tensors."""
        if isinstance(result, tuple):
            assert isinstance(real, tuple), f"{real!r} for {result!r}"
            assert len(real) == len(result)
            for part, real_part in zip(result, real, strict=True):
                self.give(part, real_part, keep=keep)
        elif isinstance(result, Handle):
            assert type(real).__name__.removeprefix("Mapped") == result.kind.value.strip(), (
                f"{real!r} for {result.kind}"
            )
            assert real.shape == (result.size,)
            assert result.real in (None, real)
            result.real = real
            if keep:
                self.add(result)
        elif isinstance(result, Copy):
            assert real.tolist() == result.array.tolist()
        else:
            assert real == result

    def add(self, handle: Handle, real: Any = None) -> None:
        """Keep a tensor."""
        handle.real = handle.real if real is None else real
        if handle not in self.slots:
            self.slots.append(handle)
        if len(self.slots) > _MOST_TENSORS:
            del self.slots[0]

    def add_op(self, op: Deferred) -> None:
        self.ops.append(op)
        if len(self.ops) > _MOST_OPS:
            del self.ops[0]

    def add_future(self, pending: Pending) -> None:
        self.futures.append(pending)
        if len(self.futures) > _MOST_FUTURES:
            self.lose(self.futures.pop(0).result)

    def lose(self, result: Any) -> None:
        """Nobody has a result any more but the device, for as long as it takes."""
        for handle in handles_of(result):
            handle.mem.loose = True

    def memory(self, contents: np.ndarray) -> Mem:
        return Mem(contents, self.settle)

    # The model and the device

    @property
    def roots(self) -> list[Any]:
        """What keeps everything else alive."""
        pending = [pending.result for pending in self.futures]
        return [self.slots, self.ops, pending, self.results]

    def sweep(self) -> None:
        """Let go, in the model, what nothing keeps alive."""
        launches = reached(self.roots)[2]
        for launch in self.launches:
            if launch not in launches:
                launch.discard()
        self.launches = launches
        handles, claims, _ = reached(self.roots)
        there = {handle.claim for handle in handles}
        for claim in claims:
            if claim.inner is not None and claim not in there:
                claim.let_go()  # nobody has the borrow but its parts
        left = [part for claim in claims if claim.inner is not None for part in claim.inner.claims]
        for handle in handles:
            left += handle.scope.claims
        for mem in {handle.mem for handle in handles}:
            mem.owners[:] = [owner for owner in mem.owners if owner in handles and not owner.gone]
            left += mem.root.claims
        for claim in left:
            if claim not in claims:
                claim.close()

    def compare_claims(self, *, launches_only: bool = False) -> None:
        """The leases of all tensors have the claims that the model knows; shared ones the owners."""
        for handle in self.slots:
            if not handle.mem.loose:
                model, real = self.claims(handle, launches_only=launches_only)
                assert model == real, f"{handle.real!r}: {real}, and not {model}"
                if handle.kind is Kind.SHARED and not handle.gone and not launches_only:
                    assert handle.real.owners == len(handle.mem.owners)

    def claims(
        self, handle: Handle, *, launches_only: bool = False
    ) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
        model = [(claim.what, claim.writes) for claim in handle.scope.claims]
        real = [(claim.holder.name, claim.writes) for claim in handle.real.lease.claims]
        found = [
            sorted(part for part in side if part[0] == self.who or not launches_only)
            for side in (model, real)
        ]
        return found[0], found[1]

    def settle(self) -> None:
        """Wait until the device has given back what it alone had."""
        assert COMPLETIONS.drain(30), "a completion thread hangs"
        gc.collect()
        self.sweep()
        loose = [handle for handle in self.slots if handle.mem.loose]

        def settled() -> bool:
            even = all(model == real for model, real in map(self.claims, loose))
            return even and all(
                handle.real.owners == len(handle.mem.owners)
                for handle in loose
                if handle.kind is Kind.SHARED and not handle.gone
            )

        end = time.monotonic() + PATIENCE
        while not settled() and time.monotonic() < end:
            time.sleep(0.001)
            gc.collect()
        for handle in reached(self.roots)[0]:
            handle.mem.loose = False
        self.compare_claims()

    def check(self) -> None:
        """After every step."""
        self.results.clear()
        self.sweep()
        try:
            self.compare_claims()
        except AssertionError:  # another thread may be in the middle of letting something go
            for handle in self.slots:
                handle.mem.loose = True
            self.settle()
        for handle in self.slots:
            assert repr(handle.real).startswith("<")

    def compare_contents(self) -> None:
        """All tensors that can be read have the contents that the model knows."""
        for handle in self.slots:
            if not unreadable(handle, ""):
                assert self.site.read(handle.real).tolist() == handle.data.tolist()

    def close(self) -> None:
        """The end of a program: everything is right, and once all is dropped, nothing is left."""
        self.compare_contents()
        self.ops.clear()
        self.futures.clear()
        self.slots.clear()
        self.sweep()
        end = time.monotonic() + PATIENCE
        while True:
            gc.collect()
            assert COMPLETIONS.drain(30), "a completion thread hangs"
            self.site.device.sync()
            if not self.pool.stats.used or time.monotonic() > end:
                break
            time.sleep(0.001)
        assert self.pool.stats.used == 0, f"{self.pool.stats.used} bytes are left"
        self.pool.close()
