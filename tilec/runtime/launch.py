"""The launcher of one kernel: reads what a call brings, finds its plan by these facts, packs and enqueues."""

from __future__ import annotations

import threading
from typing import Any

from tilec.errors import InternalError, LaunchError, VariantError
from tilec.model.kernel import AxisValue, KernelInfo
from tilec.runtime.arguments import Readers
from tilec.runtime.binding import bind, check_axes, check_count
from tilec.runtime.contract import Contract
from tilec.runtime.prepare import Explanation, Plan, Site, explain, prepare
from tilec.runtime.protocols import StreamLike
from tilec.runtime.seam import LaunchCall
from tilec.runtime.select import no_variant
from tilec.runtime.streams import HANDLES, stream_handle

# Plans that one launcher remembers; with more shapes in turn than this it starts over.
MOST_PLANS = 1024
_MOST_HANDLE = 2**64 - 1

_READERS = Readers()


class Launcher:
    """A kernel on a device, ready to be called.

    Calls are checked before the driver is asked, and enqueue at once: they return when the launch is in the stream. A launcher may be
    called from any thread.
    """

    def __init__(self, info: KernelInfo, site: Site, pinned: dict[str, AxisValue] | None = None) -> None:
        """Use `Module.kernels` or `Module.NAME`."""
        self.info = info
        self._site = site
        self._pinned = pinned or {}
        self._contract: Contract | None = None
        self._lock = threading.Lock()
        self._plans: dict[Any, Plan] = {}
        self._tensors: tuple[tuple[int, int], ...] = ()
        self._others: tuple[int, ...] = ()
        self._keyed: tuple[int, ...] = ()
        self._pointed: tuple[int, ...] = ()
        self._count = -1  # no call fits until the contract is read

    def __repr__(self) -> str:
        """Kernel, device, and the axes it is restricted to."""
        pins = "".join(f", {name}={value!r}" for name, value in self._pinned.items())
        return f"<Launcher {self.info.name}{pins} on {self._site.device}>"

    def __call__(self, stream: StreamLike, /, *args: Any, **kwargs: Any) -> None:
        """Check the arguments and enqueue the kernel.

        Args:
            stream: where to enqueue: a stream of torch, CuPy or cuda.core, or a handle as an int.
            args: the kernel's arguments in order.
            kwargs: arguments by name, and axes (`BM=128`).

        Raises:
            LaunchError: the call was refused; nothing was enqueued.
            NoImageError: the bundle has no image for this device.
            DriverError: the driver refused the image or the launch.
        """
        values, chosen = bind(self._ready(), args, kwargs)
        self.launch(stream, values, tuple(chosen.items()))

    def launch(self, stream: StreamLike, values: tuple[Any, ...], choices: tuple[Any, ...] = ()) -> None:
        """Check the arguments and enqueue the kernel: what generated code calls.

        Args:
            stream: where to enqueue.
            values: every argument, in order.
            choices: the value of every axis that a caller chooses, in the manifest's order; empty for the defaults.

        Raises:
            LaunchError: the call was refused; nothing was enqueued.
            NoImageError: the bundle has no image for this device.
            DriverError: the driver refused the image or the launch.
        """
        if len(values) != self._count:
            self._settle(values)
        # Every fact that a check or an expression reads is in the key, so an equal key means an equal plan. Nothing here says what is
        # wrong with an argument: whatever does not fit falls through to the slow path, which reads it all again and reports.
        addresses: list[int] = []
        facts: list[Any] = [choices]
        key: tuple[Any, ...] | None
        try:
            for place, modulus in self._tensors:
                value = values[place]
                address, fact = _READERS[type(value)](value)
                addresses.append(address)
                facts.append(fact)
                if address % modulus:
                    facts.append(address % modulus)
            if self._others:
                facts += [type(values[place]) for place in self._others]
                facts += [values[place] for place in self._keyed]
            if self._pointed:
                facts += [addresses[place] for place in self._pointed]
            key = tuple(facts)
            plan = self._plans.get(key)
        except Exception:  # noqa: BLE001 - foreign tensors raise what they like
            key = plan = None
        if plan is None:
            plan, addresses = self._prepare(values, choices, key)
        if plan.pairs and addresses != plan.apart:
            self._check_apart(plan, addresses, values, choices)
        try:
            handle = HANDLES[type(stream)](stream)
        except Exception:  # noqa: BLE001 - as above
            handle = -1
        if not 0 <= handle <= _MOST_HANDLE:
            stream_handle(stream, self.info.name)
        if plan.call is None:
            return
        try:
            block = plan.blocks.pop()
        except IndexError:
            block = plan.new_block()
        try:
            if plan.free:
                numbers = [values[place] for place in plan.free]
                if plan.encode is not None:
                    numbers = [n if e is None else e(n) for n, e in zip(numbers, plan.encode, strict=True)]
                plan.pack(block.values, 0, *addresses, *numbers)
            else:
                plan.pack(block.values, 0, *addresses)
        except Exception as error:  # a number does not fit, or is of another library and fails
            raise self._unpackable(values, choices) from error
        result = plan.call(handle, block.address, 0)[0]
        if result:
            self._failed(plan.call, block.address, handle, result)
        plan.blocks.append(block)

    def variant(self, **axes: AxisValue) -> Launcher:
        """This launcher, restricted to some values of its axes.

        Raises:
            VariantError: an axis or a value that was not built, or no variant with these values together.
        """
        contract = self._ready()
        check_axes(contract, axes)
        pinned = {**self._pinned, **axes}
        if not any(all(dict(v.axes).get(name) == value for name, value in pinned.items()) for v in self.info.variants):
            raise no_variant(contract, pinned)
        return Launcher(self.info, self._site, pinned)

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Why a call with these arguments (without the stream) takes the variant and the image it takes; nothing is enqueued.

        Raises:
            LaunchError: the call would be refused.
        """
        contract = self._ready()
        values, chosen = bind(contract, args, kwargs)
        return explain(contract, values, self._axes(tuple(chosen.items())), self._site)

    def _settle(self, values: tuple[Any, ...]) -> None:
        """Read the contract before the first launch; refuse another number of arguments than it has."""
        check_count(self._ready(), values)

    def _ready(self) -> Contract:
        contract = self._contract
        if contract is None:
            with self._lock:
                contract = Contract(self.info)
                self._tensors = tuple(zip(contract.tensors, contract.moduli, strict=True))
                self._others = contract.others
                self._keyed = contract.keyed
                self._pointed = tuple(contract.tensors.index(place) for place in contract.pointed)
                self._contract = contract
                self._count = len(contract.params)
        return contract

    def _axes(self, choices: tuple[Any, ...]) -> dict[str, AxisValue]:
        """Axes by name: those of this launcher, then those of the call, which come by name or all in order."""
        contract = self._ready()
        by_name = not choices or isinstance(choices[0], tuple)
        named: dict[str, AxisValue] = dict(choices if by_name else zip(contract.choices, choices, strict=True))
        check_axes(contract, named)
        for name, value in self._pinned.items():
            if named.setdefault(name, value) != value:
                what = f"{self.info.name}: {name} is {value!r} for this launcher, got {named[name]!r}"
                raise VariantError(what, kernel=self.info.name)
        return named

    def _prepare(self, values: tuple[Any, ...], choices: tuple[Any, ...], key: tuple[Any, ...] | None) -> tuple[Plan, list[int]]:
        """The slow path: every check, then a plan, remembered by the call's facts."""
        contract = self._ready()
        plan, addresses = prepare(contract, values, self._axes(choices), self._site)
        if key is not None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan, addresses

    def _check_apart(self, plan: Plan, addresses: list[int], values: tuple[Any, ...], choices: tuple[Any, ...]) -> None:
        """Outputs against other arguments by address ranges; where ranges meet, the slow path looks closer."""
        for out, low, high, other, other_low, other_high in plan.pairs:
            a, b = addresses[out], addresses[other]
            if a + low < b + other_high and b + other_low < a + high:
                prepare(self._ready(), values, self._axes(choices), self._site)
                break
        plan.apart = addresses

    def _unpackable(self, values: tuple[Any, ...], choices: tuple[Any, ...]) -> Exception:
        """The error for arguments that could not be packed: the checks find the value that does not fit."""
        try:
            prepare(self._ready(), values, self._axes(choices), self._site)
        except LaunchError as error:
            return error
        return InternalError(f"{self.info.name}: arguments passed every check and cannot be packed", kernel=self.info.name)

    def _failed(self, call: LaunchCall, parameters: int, handle: int, result: Any) -> None:
        site = self._site
        site.driver.launch_failed(site.device.ordinal, result, handle, lambda: call(handle, parameters, 0)[0], self.info.name)
