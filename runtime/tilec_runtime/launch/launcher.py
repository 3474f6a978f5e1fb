"""The launcher of one kernel: finds a call's plan, or prepares one on a miss."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tilec_runtime.device.handles import current_stream, stream_handle
from tilec_runtime.device.lines import Line
from tilec_runtime.device.recording import RECORDINGS, own_recording, recording_of
from tilec_runtime.device.scalars import MISFITS, is_number
from tilec_runtime.device.seam import GridWish
from tilec_runtime.errors import ArgumentError
from tilec_runtime.launch.binding import bind, check_axes
from tilec_runtime.launch.checks import Call
from tilec_runtime.launch.contract import Contract
from tilec_runtime.launch.images import Site
from tilec_runtime.launch.keys import CallFacts, facts_of
from tilec_runtime.launch.native import LauncherBase, table_of
from tilec_runtime.launch.packing import ArgumentBlock
from tilec_runtime.launch.plans import MOST_PLANS, LaunchPlan, Plans
from tilec_runtime.launch.prepare import Explanation, explain, prepare
from tilec_runtime.launch.select import for_device, narrowed, require_built, require_options
from tilec_runtime.model.kernel import AxisValue, KernelInfo
from tilec_runtime.tensors.facts import is_foreign, is_leased
from tilec_runtime.values import Uncopied

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tilec_runtime.cpu.tileir.trace import Coordinates, Stepper
    from tilec_runtime.launch.config import LaunchConfig
    from tilec_runtime.launch.occupancy import Residency
    from tilec_runtime.launch.outputs import Outputs
    from tilec_runtime.protocols import StreamLike

    # Makes a stream wait; returns its line, or None if a graph that captures it records the uses.
    Order = Callable[[], Line | None]


class Launcher(Uncopied, LauncherBase):
    """A kernel on a device; call it as `launcher(*args, stream=None, **kwargs)`.

    A call checks its arguments before it calls the driver, and returns once the launch is in the
    stream. On the cpu device, a call with an array of another library returns when the launch is
    done. Any thread may call a launcher.

    The launch core (C) makes a call whose plan is cached. For all other calls it calls a method of
    this class.

    Attributes:
        pinned: the axis values that the launcher is restricted to.
        plans: the cached launch plans.
        site: the bundle, device and driver of its launches.
    """

    def __init__(
        self,
        info: KernelInfo | str,
        site: Site,
        pinned: dict[str, AxisValue] | None = None,
        grid: tuple[GridWish, ...] = (),
    ) -> None:
        """Use `Module.kernels` or `Module.NAME`.

        If `info` is a name, the kernel's index entry is read at its first use.
        """
        self._info = info
        self.site = site
        self.pinned = dict(pinned or {})
        self.plans = Plans()
        self._grid = grid
        self._contract: Contract | None = None
        self._derived: dict[tuple[Any, ...], Launcher] = {}

    @property
    def info(self) -> KernelInfo:
        """The kernel's entry in the bundle index, read at its first use.

        Raises:
            BundleError: the entry is damaged.
        """
        if isinstance(self._info, str):
            self._info = self.site.bundle.kernel(self._info)
        return self._info

    @property
    def contract(self) -> Contract:
        """The kernel's launch contract, read at its first use.

        Threads that use it first at the same time may each read it.
        """
        contract = self._contract
        if contract is None:
            info = for_device(self.info, self.site.facts(self.info))
            contract = self._contract = Contract(info)
        return contract

    def __repr__(self) -> str:
        """Show the kernel, the device and the pinned axes."""
        pins = "".join(f", {name}={value!r}" for name, value in self.pinned.items())
        return f"<Launcher {self.info.name}{pins} on {self.site.device}>"

    def _call(self, /, *args: Any, stream: StreamLike | None = None, **kwargs: Any) -> Any:
        """Make a call that the launch core did not make.

        Return the outputs that the call leaves out.
        """
        contract = self.contract
        if contract.outputs is not None and contract.outputs.left_out(args, kwargs):
            return self._allocating(contract.outputs, stream, args, kwargs)
        if kwargs or contract.lists or not contract.required <= len(args) <= len(contract.params):
            launcher, values = self._bound(args, kwargs)
            launcher.launch(stream, values)
        elif defaults := contract.defaults[len(args) :]:
            self.launch(stream, args + defaults)
        else:
            self._launch(stream, args)
        return None

    def launch_lists(
        self,
        stream: StreamLike | None,
        values: tuple[Any, ...],
        choices: tuple[AxisValue | None, ...] = (),
    ) -> None:
        """Launch a kernel whose calls take lists of arrays; generated code calls this.

        Arguments and errors are those of `launch`.
        """
        lists = self.contract.lists
        self.launch(stream, values if lists is None else lists.spread(values), choices)

    def _allocating(
        self,
        outputs: Outputs,
        stream: StreamLike | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Allocate the outputs that a call leaves out, launch, and return them."""
        given = {**dict(zip(outputs.given, args, strict=False)), **kwargs}
        inputs = tuple([given.get(name, default) for name, default in outputs.inputs.items()])
        allocated = outputs.allocate(inputs)
        if given.keys() <= outputs.inputs.keys():
            self.launch(stream, outputs.values(allocated, inputs))
        else:
            by_name = dict(zip(outputs.names, allocated, strict=True))
            launcher, values = self._bound((), {**given, **by_name})
            launcher.launch(stream, values)
        return allocated[0] if len(allocated) == 1 else allocated

    def _bound(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Launcher, tuple[Any, ...]]:
        """Return the launcher for a call's axes and configuration, and all values."""
        values, chosen, config = bind(self.contract, args, kwargs)
        return self._restrict(chosen).configured(config), values

    def _launch(
        self,
        stream: StreamLike | None,
        values: tuple[Any, ...],
        choices: tuple[AxisValue | None, ...] = (),
    ) -> None:
        """Make a launch that the launch core did not make."""
        if choices:
            axes = dict(zip(self.contract.choices, choices, strict=True))
            self._restrict(axes).launch(stream, values)
            return
        stream = current_stream(values) if stream is None else stream
        self.enqueue(stream, values)
        if self.site.driver.holds_arguments:
            self._complete(stream, values)

    def enqueue(self, stream: StreamLike, values: tuple[Any, ...]) -> None:
        """Launch as `launch` does, and never wait for the device.

        Errors are those of a call.
        """
        handle = stream_handle(stream, self.contract.name)
        self._check_leases(values)
        self._run(handle, values)

    def launch_claimed(self, line: Line, values: tuple[Any, ...]) -> None:
        """Launch for an op, which already holds the leases of the tensors.

        Errors are those of a call.
        """
        if not self._run_in_core(line.handle, values, line):
            self._run(line.handle, values)

    def _run(self, handle: int, values: tuple[Any, ...]) -> None:
        """Launch by a cached plan or a new one; the leases were checked before."""
        order = functools.partial(self._order, handle, values)
        if self._run_in_core(handle, values, order):
            return
        facts = facts_of(self.contract, values, self.site.driver)
        plan, outputs = self.plans.find(facts) or self._prepared(values, facts)
        # This may fail, so it comes before `order` makes the stream wait.
        call = plan.call(handle, outputs)
        if self._teach(values, facts, plan) and self._run_in_core(handle, values, order):
            return
        block = self._packed(plan, outputs, facts, values)
        line = order()
        kept = (facts.addresses, values) if self.site.driver.holds_arguments else 0
        if result := call(block.address, kept)[0]:
            self._refused(result, handle, values)
        elif line is not None:
            for index in self._leased(values):
                write = self.contract.params[index].out
                values[index].storage.uses.note(line, write=write)

    def _run_in_core(self, handle: int, values: tuple[Any, ...], order: Order | Line) -> bool:
        """Launch in the launch core if it can; return whether it did. Leases were checked."""
        answer = None if self._table is None else self._table.launch(handle, values, order)
        if answer is None or isinstance(answer, bool):
            return answer is True
        self._refused(answer, handle, values)
        return True

    def _order(self, handle: int, values: tuple[Any, ...]) -> Line | None:
        """Make a stream wait for earlier uses of the tensors; return its line.

        The launch then becomes the tensors' next use on that line. If a graph captures the stream,
        return None: the graph records the uses and keeps all other arguments alive.
        """
        driver, ordinal, leased = self.site.driver, self.site.device.ordinal, self._leased(values)
        recording = recording_of(driver, ordinal, handle) if leased or RECORDINGS else None
        line = None
        for index in leased:
            storage, write = values[index].storage, self.contract.params[index].out
            if recording is None:
                line = storage.line(handle, ordinal)
                storage.wait_for_uses(line, write=write)
            else:
                recording.touch(storage, write=write)
        if recording is not None:
            others = [value for index, value in enumerate(values) if index not in leased]
            recording.keep(*(value for value in others if not is_number(value)))
        return line

    def _leased(self, values: tuple[Any, ...]) -> list[int]:
        """Return the places of the arguments that are tensors of tilec's own."""
        return [index for index in self.contract.tensors if is_leased(values[index])]

    def _teach(self, values: tuple[Any, ...], facts: CallFacts, plan: LaunchPlan) -> bool:
        """Let the launch core make calls like this one; return whether it takes them."""
        if not plan.repeats:
            return False
        if self._table is None:  # the table needs the device's context, which exists by now
            self._table = table_of(self.contract, self.site.driver, self.site.device.ordinal)
        if self._table is None:
            return False
        try:
            return self._table.add(values, plan, facts.tensors)
        except (ValueError, TypeError, OverflowError):  # beyond the limits of the core
            return False

    def _refused(self, result: Any, stream: StreamLike | None, values: tuple[Any, ...]) -> None:
        """Let the driver handle a launch that it refused."""
        handle = stream_handle(current_stream(values) if stream is None else stream, self.info.name)

        def again() -> int:
            self._run(handle, values)
            return 0

        driver, ordinal = self.site.driver, self.site.device.ordinal
        driver.launch_failed(ordinal, result, handle, again, self.info.name)

    def _complete(self, stream: StreamLike, values: tuple[Any, ...]) -> None:
        """Wait for a launch on the cpu device that takes an array of another library.

        Do not wait during a capture, or if an op of this stream will wait.
        """
        from tilec_runtime.running import RUNNING  # launches on a GPU do not need it

        if any(is_foreign(values[index]) for index in self.contract.tensors):
            driver, ordinal, handle = (
                self.site.driver,
                self.site.device.ordinal,
                stream_handle(stream, self.info.name),
            )
            waited = RUNNING.op is not None and RUNNING.stream == handle
            if not waited and own_recording(driver, ordinal, handle) is None:
                driver.synchronize(ordinal, handle)

    def _prepared(self, values: tuple[Any, ...], facts: CallFacts) -> tuple[LaunchPlan, list[int]]:
        """Prepare the plan of a call after a miss, and cache it; return also its outputs."""
        driver, ordinal = self.site.driver, self.site.device.ordinal
        # The first launch loads the image, which a capture in any thread may forbid.
        with driver.outside_captures(ordinal):
            plan = prepare(self.call_of(values, facts))
        driver.adopt(ordinal)
        self.plans.add(facts, plan)
        outputs = plan.outputs(facts.slots)
        assert outputs is not None  # a plan applies to its own call
        return plan, outputs

    def _call_with(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return a call with these arguments, axes and configuration."""
        launcher, values = self._bound(args, kwargs)
        return launcher.call_of(values)

    def call_of(self, values: tuple[Any, ...], facts: CallFacts | None = None) -> Call:
        """Return a call to be checked."""
        facts = facts or facts_of(self.contract, values, self.site.driver)
        return Call(self.contract, values, self.site, self.pinned, facts, self._grid)

    def _packed(
        self, plan: LaunchPlan, outputs: list[int], facts: CallFacts, values: tuple[Any, ...]
    ) -> ArgumentBlock:
        """Return the argument block of a call.

        Raises:
            ArgumentError: a number does not fit its dtype, or the type of the entry point's
                argument.
        """
        try:
            return plan.packing.pack(facts.addresses, outputs, values)
        except MISFITS as error:
            name = self.info.name
            # Raises first if the number does not fit its parameter either: a better message.
            prepare(self.call_of(values, facts))
            message = f"{name}: a number does not fit the type in which the kernel's entry point takes it: {error}"
            fix = "pass a number that fits, or build the kernel with a wider type of that argument"
            raise ArgumentError(
                message,
                cause="the entry point takes another type than the parameter has",
                fix=fix,
                kernel=name,
            ) from error

    def variant(self, **axes: AxisValue | None) -> Launcher:
        """Return this launcher, restricted to axis values. None leaves an axis open.

        Raises:
            VariantError: an axis does not exist, a value was not built, or no variant has all the
                values.
        """
        return self._restrict(require_built(self.contract, self.pinned, axes))

    def options(self, **hints: int) -> Launcher:
        """Return this launcher, restricted to variants built with these compiler hints.

        Only the image that this device would take counts.

        Raises:
            VariantError: there is no such variant; the message names the hints that were built.
        """
        contract = self.contract
        fitting = require_options(contract, self.pinned, hints, self.site.facts(self.info))
        return self._derive(("hints", *sorted(hints.items())), info=narrowed(self.info, fitting))

    def configured(self, config: LaunchConfig | None) -> Launcher:
        """Return this launcher with a configuration for the open keys of the manifest.

        With None, return the launcher itself.

        Raises:
            ArgumentError: `config` is not a `LaunchConfig`, the kernel takes none, or it
                contradicts the manifest.
        """
        from tilec_runtime.launch.config import configured  # few kernels take one

        if config is None:
            return self
        info = configured(self.info, config)
        return self._derive(("config", config.shape), info=info)

    def on_grid(self, wishes: tuple[GridWish, ...]) -> Launcher:
        """Return this launcher with a caller's wishes for the grid."""
        return self._derive(("grid", *wishes), grid=wishes)

    def _derive(self, key: tuple[Any, ...], **changed: Any) -> Launcher:
        """Return a launcher that differs from this one in `changed`; cached by `key`."""
        launcher = self._derived.get(key)
        if launcher is None:
            if len(self._derived) >= MOST_PLANS:
                self._derived.clear()
            same = {
                "info": self._info,
                "site": self.site,
                "pinned": self.pinned,
                "grid": self._grid,
            }
            launcher = self._derived[key] = Launcher(**same | changed)
        return launcher

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Explain which variant and image a call with these arguments takes.

        The arguments are those of a call, without the stream. Nothing is enqueued.

        Raises:
            LaunchError: the call would be refused.
        """
        return explain(self._call_with(args, kwargs))

    def residency(self, *args: Any, **kwargs: Any) -> Residency:
        """Count the blocks and clusters of a launch that the device holds at once.

        The arguments are those of a call, without the stream. The image is loaded; nothing is
        enqueued.

        Raises:
            LaunchError: the call would be refused for another reason than residency.
            NoImageError: the bundle has no image for this device.
            DriverError: the driver refused the image.
        """
        from tilec_runtime.launch.occupancy import residency  # no launch needs it

        return residency(self._call_with(args, kwargs))

    def step(
        self, *args: Any, block: Coordinates | Sequence[Coordinates] = (0, 0, 0), **kwargs: Any
    ) -> Stepper:
        """Step through a launch on the cpu device, one operation at a time.

        Nothing is enqueued, and no stream is waited for. The blocks run in the calling thread as
        far as the stepper is advanced, and their writes reach the arguments at once.

        Args:
            args: the kernel's arguments in order, without the stream.
            block: coordinates in the grid of the block to run, or of several blocks.
            kwargs: arguments by name, and axes.

        Raises:
            LaunchError: a launch would be refused.
            CallError: the device is a GPU, or the grid has no such block.
        """
        # Imported here: launching on a GPU needs no interpreter.
        from tilec_runtime.launch.stepping import step_launch

        call = self._call_with(args, kwargs)
        self._check_leases(call.values)
        return step_launch(call, block)

    def _restrict(self, axes: Mapping[str, AxisValue | None]) -> Launcher:
        """Return the launcher with these axes pinned too; None leaves an axis open."""
        chosen = check_axes(self.contract, axes, self.pinned)
        if not chosen:
            return self
        return self._derive(
            tuple((name, type(chosen[name]), chosen[name]) for name in sorted(chosen)),
            pinned={**self.pinned, **chosen},
        )

    def _check_leases(self, values: tuple[Any, ...]) -> None:
        """Check that tilec's own tensors may be used now; an error names both users."""
        leased = self._leased(values)
        if not leased:
            return
        from tilec_runtime.tensors.lease import holder_here  # already imported by the tensors

        holder = holder_here(f"the launch of {self.info.name}")
        for index in leased:
            tensor, write = values[index], self.contract.params[index].out
            (tensor.require_writable if write else tensor.require_readable)(holder)
