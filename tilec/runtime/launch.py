"""The launcher of one kernel: checks a call once, then finds its plan by the facts that the call brings."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tilec.errors import VariantError
from tilec.model.kernel import AxisValue, KernelInfo
from tilec.runtime.arguments import READERS, Look
from tilec.runtime.binding import bind, check_axes, check_count, given_axes
from tilec.runtime.contract import Contract
from tilec.runtime.grid import GridWish
from tilec.runtime.handles import stream_handle
from tilec.runtime.packing import Block
from tilec.runtime.prepare import Explanation, Plan, Site, explain, prepare
from tilec.runtime.reading import KeyOf, key_path
from tilec.runtime.scalars import is_number
from tilec.runtime.seam_types import LaunchCall
from tilec.runtime.select import narrowed, require_built, require_options
from tilec.runtime.tensors.recording import Recording, recording_of
from tilec.runtime.uncopied import Uncopied

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tilec.runtime.bound import BoundLaunch
    from tilec.runtime.fastpath import Launch
    from tilec.runtime.occupancy import Residency
    from tilec.runtime.protocols import StreamLike
    from tilec.tileir.trace import Coordinates, Stepper

# Plans that one launcher remembers; with more shapes in turn than this it starts over.
MOST_PLANS = 1024


class Launcher(Uncopied):
    """A kernel on a device, ready to be called.

    Calls are checked before the driver is asked, and enqueue at once: they return when the launch is in the stream. A launcher may be
    called from any thread.

    Attributes:
        pinned: the axes that it is restricted to.
        make: makes ops of its launches; None until the first of them.
        launch: of (stream, every argument in order, choices): checks the arguments, and enqueues the kernel; generated code calls it.
            Choices are the values of every axis that a caller chooses, in the manifest's order, None for one that is left open; empty for
            none. It raises as a call of the launcher does.
        owned: of (context of an execution, op): enqueues a `LazyLaunch` into which tensors moved, none of them twice, and that has looks
            at them; what the op gives. It raises likewise.
        along: does so for the steps of a chain, see `Paths`.
    """

    def __init__(
        self, info: KernelInfo | str, site: Site, pinned: dict[str, AxisValue] | None = None, grid: tuple[GridWish, ...] = ()
    ) -> None:
        """Use `Module.kernels` or `Module.NAME`. Of a kernel that is given by name, the bundle is asked when it is first needed."""
        self._info = info
        self._site = site
        self.pinned = dict(pinned or {})
        self.make: Callable[..., Any] | None = None
        # No methods: what takes their place in time would cost as much as some of the checks, were there a method of the same name.
        self.launch: Launch = self._launch
        self.owned: Callable[[Any, Any], tuple[Any, ...]] = self._owned
        self.along: Callable[..., tuple[Any, Any]] = self._along
        self._grid = grid
        self._gridded: dict[tuple[GridWish, ...], Launcher] = {}
        self._lock = threading.Lock()
        self._contract: Contract | None = None
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._restricted: dict[tuple[Any, ...], Launcher] = {}
        self._optioned: dict[tuple[Any, ...], Launcher] = {}
        self._paths: dict[tuple[Any, ...], Launch] = {}
        self._fast: Launch | None = None
        self._begun = False
        self._key_of: KeyOf
        self._meet: Callable[[type | None], None]

    @property
    def info(self) -> KernelInfo:
        """The kernel's row of the index.

        Raises:
            BundleError: it is damaged.
        """
        if isinstance(self._info, str):
            self._info = self._site.bundle.kernel(self._info)
        return self._info

    def __repr__(self) -> str:
        """Kernel, device, and the axes it is restricted to."""
        pins = "".join(f", {name}={value!r}" for name, value in self.pinned.items())
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
        contract = self._contract or self._ready()
        if kwargs or len(args) < contract.required or len(args) > len(contract.params):
            args, chosen = bind(contract, args, kwargs)
            if chosen:
                self._restrict(chosen).launch(stream, args)
                return
        else:
            args += contract.defaults[len(args) :]
        self.launch(stream, args)

    def _launch(self, stream: StreamLike, values: tuple[Any, ...], choices: tuple[AxisValue | None, ...] = ()) -> None:
        """`launch`, until it is known which function does that."""
        if self._fast is not None or self._begun or choices:
            (self._fast or self.path())(stream, values, choices)
        else:  # what is made for the kernel knows launches that were made before: the first one of a process need not wait for it
            self._begun = True
            self.slow(stream, values)

    def _owned(self, ctx: Any, op: Any) -> tuple[Any, ...]:
        """`owned`, likewise."""
        self.path()
        return self.owned(ctx, op)

    def _along(self, *arguments: Any) -> tuple[Any, Any]:
        """`along`, likewise."""
        self.path()
        return self.along(*arguments)

    def chosen(self, stream: StreamLike, values: tuple[Any, ...], choices: tuple[AxisValue | None, ...]) -> None:
        """`launch` of calls that choose axes."""
        # True equals 1 and 64.0 equals 64, and they are no values of the same axis: types are part of the key.
        key = (choices[0], type(choices[0])) if len(choices) == 1 else (*choices, *map(type, choices))
        try:
            path = self._paths.get(key)
        except TypeError:  # a value that cannot be hashed is none of an axis
            path = None
        if path is None:
            named = zip(self._ready().choices, choices, strict=True)
            path = self._restrict({name: value for name, value in named if value is not None}).path()
            self._paths[key] = path
        path(stream, values)

    def path(self) -> Launch:
        """The function that `launch` comes down to, of (stream, values)."""
        if self._fast is None:
            from tilec.runtime.fastpath import fast_path  # no first launch needs it

            contract = self._ready()
            with self._lock:
                holds, device = self._site.driver.holds_arguments, self._site.device.ordinal
                made = fast_path(contract, self._plans, self, holds=holds, device=device)
                self._meet = made.meet
                self.launch, self.owned, self.along = made.launch, made.owned, made.along
                self._fast = made.launch  # last: who sees it may use the rest
        return self._fast

    def variant(self, **axes: AxisValue | None) -> Launcher:
        """This launcher, restricted to some values of its axes; one that is None is left as it is.

        Raises:
            VariantError: an axis or a value that was not built, or no variant with these values together.
        """
        contract = self._ready()
        chosen = given_axes(contract, axes)
        require_built(contract, self.pinned, chosen)
        return self._restrict(chosen)

    def options(self, **hints: int) -> Launcher:
        """This launcher, restricted to variants whose image for this device was built with these compiler hints.

        Raises:
            VariantError: there is none; the message names what was built.
        """
        contract = self._ready()
        fitting = require_options(contract, self.pinned, hints, self._site.facts(self.info))
        key = tuple(sorted(hints.items()))
        launcher = self._optioned.get(key)
        if launcher is None:
            launcher = self._optioned[key] = Launcher(narrowed(self.info, fitting), self._site, self.pinned, self._grid)
        return launcher

    @property
    def contract(self) -> Contract:
        """What every launch is held against."""
        return self._ready()

    @property
    def site(self) -> Site:
        """Where it launches."""
        return self._site

    def on_grid(self, wishes: tuple[GridWish, ...]) -> Launcher:
        """This launcher, held to what a caller says of the grid."""
        launcher = self._gridded.get(wishes)
        if launcher is None:
            if len(self._gridded) >= MOST_PLANS:
                self._gridded.clear()
            launcher = self._gridded[wishes] = Launcher(self.info, self._site, self.pinned, wishes)
        return launcher

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Why a call with these arguments (without the stream) takes the variant and the image it takes; nothing is enqueued.

        Raises:
            LaunchError: the call would be refused.
        """
        contract = self._ready()
        values, chosen = bind(contract, args, kwargs)
        return explain(contract, values, self._restrict(chosen).pinned, self._site, self._grid)

    def residency(self, *args: Any, **kwargs: Any) -> Residency:
        """What the device holds at once of a launch with these arguments (without the stream): `max_active_blocks`, `max_cooperative_grid`
        and `suggest_block_size`. The image is loaded, nothing is enqueued.

        Raises:
            LaunchError: the call would be refused for another reason.
            NoImageError: the bundle has no image for this device.
            DriverError: the driver refused the image.
        """
        from tilec.runtime.occupancy import residency  # no launch needs it

        contract = self._ready()
        values, chosen = bind(contract, args, kwargs)
        return residency(contract, values, self._restrict(chosen).pinned, self._site, self._grid)

    def bind(self, /, *args: Any, **kwargs: Any) -> BoundLaunch:
        """A launch with these arguments (without the stream), to be enqueued many times: each takes less time than a call of the launcher.

        They are checked now, and held by what this gives; nothing is enqueued.

        Raises:
            LaunchError: a launch would be refused.
            NoImageError: the bundle has no image for this device.
            DriverError: the driver refused the image.
        """
        from tilec.runtime.bound import BoundLaunch  # whoever binds nothing need not load it

        contract = self._ready()
        values, chosen = bind(contract, args, kwargs)
        launcher = self._restrict(chosen) if chosen else self
        launcher.prepare(values)
        return BoundLaunch(launcher, values)

    def prepare(self, values: tuple[Any, ...]) -> None:
        """Make all checks of a launch with these values, and all that it needs.

        Raises:
            LaunchError: it would be refused.
            NoImageError: the bundle has no image for this device.
            DriverError: the driver refused the image.
        """
        contract = self._ready()
        self._leased(contract, values)
        plan, packed = self._prepared(contract, values, self._key(values))
        plan.refill(plan.new_block(), packed, values)

    def ready_plan(self, values: tuple[Any, ...]) -> tuple[Plan, tuple[Any, ...], list[Look]] | None:
        """The plan that is known for these values, what is packed of them, and the looks at their tensors; None where none is known."""
        contract = self._ready()
        looks = [READERS[type(values[place])](values[place]) for place in contract.tensors]
        key = self._key(values)
        plan = None if key is None else self._plans.get(key)
        free = [values[place] for place in contract.others if place not in contract.keyed]
        return None if plan is None else (plan, (*(look[0] for look in looks), *free), looks)

    def step(self, *args: Any, block: Coordinates | Sequence[Coordinates] = (0, 0, 0), **kwargs: Any) -> Stepper:
        """Go through what a launch with these arguments (without the stream) would run, one operation after another.

        Only on the cpu device. Nothing is enqueued, and no stream is waited for: the blocks run in the calling thread, as far as the
        stepper is asked to go, and what they write is in the arguments at once.

        Args:
            args: the kernel's arguments in order.
            block: place in the grid of the block that runs, or of several.
            kwargs: arguments by name, and axes.

        Raises:
            LaunchError: a launch would be refused.
            UsageError: the device is a GPU, or has no such block.
        """
        # Imported here: launching on a GPU needs no interpreter.
        from tilec.runtime.stepping import step_launch

        contract = self._ready()
        values, chosen = bind(contract, args, kwargs)
        self._check_leases(contract, values, [place for place in contract.tensors if READERS.leased(values[place])])
        return step_launch(contract, values, self._restrict(chosen).pinned, self._site, block)

    def _ready(self) -> Contract:
        contract = self._contract
        if contract is None:
            with self._lock:
                contract = Contract(self.info)
                self._key_of = key_path(contract)
                self._contract = contract  # last: who sees it may use the rest
        return contract

    def _restrict(self, axes: dict[str, AxisValue]) -> Launcher:
        """The launcher with these axes pinned, made once."""
        if not axes:
            return self
        key = tuple((name, type(axes[name]), axes[name]) for name in sorted(axes))
        try:
            launcher = self._restricted.get(key)
        except TypeError:
            launcher = None
        if launcher is None:
            check_axes(self._ready(), axes)
            for name, value in self.pinned.items():
                if axes.get(name, value) != value:
                    what = f"{self.info.name}: {name} is {value!r} for this launcher, got {axes[name]!r}"
                    raise VariantError(what, kernel=self.info.name)
            launcher = self._restricted[key] = Launcher(self.info, self._site, {**self.pinned, **axes}, self._grid)
        return launcher

    def slow(self, stream: Any, values: tuple[Any, ...]) -> None:
        """Every call that the fast path does not know: all checks, then a plan that later calls with these facts find."""
        contract = self._ready()
        check_count(contract, values)
        handle = stream_handle(stream, self.info.name)
        leased = self._leased(contract, values)
        recording = recording_of(self._site.driver, self._site.device.ordinal, handle)
        if recording is not None:
            return self._captured(recording, handle, values, leased)
        key = self._key(values)
        known = self._plans.get(key) if leased and key is not None else None
        if known is not None:  # only the order of streams was new
            known.bound(handle)
            order(contract, values, leased, handle)
            return self.path()(stream, values)
        self._first(handle, key, values, leased)
        return None

    def _leased(self, contract: Contract, values: tuple[Any, ...]) -> list[int]:
        """Places of tilec's own tensors, all of which may be used so."""
        leased = [place for place in contract.tensors if READERS.leased(values[place])]
        if leased:
            if self._fast is not None:
                self._meet(READERS.plain_type)
            self._check_leases(contract, values, leased)
        return leased

    def _key(self, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """What a plan for these arguments is remembered by; None where it cannot be."""
        try:
            return self._key_of(values)
        except Exception:  # noqa: BLE001 - foreign tensors raise what they like, and a plan need not be remembered
            return None

    def _first(self, handle: int, key: tuple[Any, ...] | None, values: tuple[Any, ...], leased: list[int]) -> Plan:
        """Make and remember the plan of a launch, and enqueue it."""
        contract = self._ready()
        plan, packed = self._prepared(contract, values, key)
        call = plan.bound(handle)
        block = plan.new_block()
        plan.refill(block, packed, values)
        order(contract, values, leased, handle)
        driver = self._site.driver
        driver.adopt(self._site.device.ordinal)
        result = call(block.address, (packed, values) if driver.holds_arguments else 0)[0]
        if result:
            self.failed(plan, call, block, handle, result)
        plan.blocks.append(block)
        return plan

    def _captured(self, recording: Recording, handle: int, values: tuple[Any, ...], leased: list[int]) -> None:
        """A launch on a stream that is captured: the graph learns of tensors instead of streams, and keeps what it uses."""
        for place in leased:
            recording.touch(values[place].storage, write=self._ready().params[place].out)
        values = tuple(value.raw() if place in leased else value for place, value in enumerate(values))
        recording.keep(*(value for place, value in enumerate(values) if place not in leased and not is_number(value)))
        key, calls = self._key(values), recording.calls
        plan = self._plans.get(key) if key is not None else None
        try:
            if plan is None:
                with self._site.driver.outside_captures(self._site.device.ordinal):  # the first launch loads the image
                    plan = self._first(handle, key, values, [])
            else:
                plan.calls[handle] = (calls or {}).get(plan) or plan.bound(handle)
                self.path()(handle, values)
        finally:
            if plan is None and key is not None:
                plan = self._plans.get(key)
            if calls is not None and plan is not None:  # also where it was refused: no launch may find it there
                calls[plan] = plan.calls.pop(handle, None)

    def _prepared(self, contract: Contract, values: tuple[Any, ...], key: tuple[Any, ...] | None) -> tuple[Plan, tuple[Any, ...]]:
        """The plan of a call that has none, which is remembered, and the addresses of its tensors."""
        plan, packed = prepare(contract, values, self.pinned, self._site, self._grid)
        if key is not None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            plan = self._plans.setdefault(key, plan)
        return plan, packed

    def _check_leases(self, contract: Contract, values: tuple[Any, ...], leased: list[int]) -> None:
        """See that tilec's own tensors may be used as the kernel uses them; errors name both sides."""
        if not leased:
            return
        from tilec.runtime.tensors.lease import holder  # there is one of tilec's tensors, so it is loaded

        who = holder(f"the launch of {self.info.name}")
        for place in leased:
            tensor = values[place]
            (tensor.require_writable if contract.params[place].out else tensor.require_readable)(who)

    def failed(self, plan: Plan, call: LaunchCall, block: Block, stream: Any, result: Any) -> None:
        """Let the driver deal with a launch that it refused; returns where a second try was accepted."""
        name = self.info.name
        handle = stream_handle(stream, name)
        try:
            self._site.driver.launch_failed(self._site.device.ordinal, result, handle, lambda: call(block.address, 0)[0], name)
        except BaseException:
            plan.calls.pop(handle, None)
            raise


def order(contract: Contract, values: tuple[Any, ...], leased: list[int], stream: int) -> None:
    """Let a stream wait for the uses of tilec's own tensors that a launch on it has to come after; it is the next use."""
    for place in leased:
        values[place].storage.pass_through(stream, write=contract.params[place].out)
