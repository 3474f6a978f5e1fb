"""The launcher of one kernel: looks a call's plan up by its facts, and prepares one on a miss."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tilec_runtime.device.handles import current_stream, stream_handle
from tilec_runtime.device.marks import Line
from tilec_runtime.device.recording import RECORDINGS, own_recording, recording_of
from tilec_runtime.device.scalars import MISFITS, is_number
from tilec_runtime.device.seam_types import GridWish
from tilec_runtime.errors import ArgumentError
from tilec_runtime.launch.binding import bind, check_axes, check_count, given_axes
from tilec_runtime.launch.contract import Contract
from tilec_runtime.launch.keys import CallFacts, facts_of
from tilec_runtime.launch.native import LauncherBase, table_of
from tilec_runtime.launch.packing import ArgumentBlock
from tilec_runtime.launch.plans import MOST_PLANS, LaunchPlan, Plans, Ready
from tilec_runtime.launch.prepare import Explanation, Site, explain, prepare
from tilec_runtime.launch.select import for_device, narrowed, require_built, require_options
from tilec_runtime.model.kernel import AxisValue, KernelInfo
from tilec_runtime.tensors.facts import is_foreign, is_leased, tensor_facts
from tilec_runtime.values import Uncopied

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tilec_runtime.cpu.tileir.trace import Coordinates, Stepper
    from tilec_runtime.launch.config import LaunchConfig
    from tilec_runtime.launch.occupancy import Residency
    from tilec_runtime.launch.outputs import Outputs
    from tilec_runtime.protocols import StreamLike

    # Orders a stream, and gives its line; None where the graph that captures it notes the uses.
    Order = Callable[[], Line | None]


class Launcher(Uncopied, LauncherBase):
    """A kernel on a device, ready to be called: `launcher(*args, stream=None, **kwargs)`.

    Calls are checked before the driver is asked, and enqueue at once: they return when the launch
    is in the stream. On the cpu device a call with an array that is no tensor of tilec's returns
    when the launch is done. A launcher may be called from any thread.

    A call whose plan is cached runs in the launch core, which calls a method of this class for
    every other one.

    Attributes:
        pinned: the axes that it is restricted to.
        plans: of calls that were prepared.
        site: where it launches.
    """

    def __init__(
        self,
        info: KernelInfo | str,
        site: Site,
        pinned: dict[str, AxisValue] | None = None,
        grid: tuple[GridWish, ...] = (),
    ) -> None:
        """Use `Module.kernels` or `Module.NAME`. Of a kernel that is given by name, the bundle is
        asked when it is first needed.
        """
        self._info = info
        self.site = site
        self.pinned = dict(pinned or {})
        self.plans = Plans()
        self._tabled = False  # whether the launch core was asked for a table
        self._grid = grid
        self._contract: Contract | None = None
        self._derived: dict[tuple[Any, ...], Launcher] = {}

    @property
    def info(self) -> KernelInfo:
        """The kernel's row of the index.

        Raises:
            BundleError: it is damaged.
        """
        if isinstance(self._info, str):
            self._info = self.site.bundle.kernel(self._info)
        return self._info

    @property
    def contract(self) -> Contract:
        """The kernel's launch contract. Threads that ask at once may each read it."""
        contract = self._contract
        if contract is None:
            info = for_device(self.info, self.site.facts(self.info))
            contract = self._contract = Contract(info)
        return contract

    def __repr__(self) -> str:
        """Kernel, device, and the axes it is restricted to."""
        pins = "".join(f", {name}={value!r}" for name, value in self.pinned.items())
        return f"<Launcher {self.info.name}{pins} on {self.site.device}>"

    def _call(self, /, *args: Any, stream: StreamLike | None = None, **kwargs: Any) -> Any:
        """Make a call that the launch core did not; return the outputs that it leaves out."""
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
        """Do as `launch`, for a kernel whose calls take lists of arrays; generated code calls this.

        Raises:
            As for a call.
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
        """Allocate what a call leaves out, launch, and return it: one array, or a tuple."""
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
        """The launcher of a call's configuration and axes, and the values of all parameters."""
        values, chosen, config = bind(self.contract, args, kwargs)
        return self._restrict(chosen).configured(config), values

    def _launch(
        self,
        stream: StreamLike | None,
        values: tuple[Any, ...],
        choices: tuple[AxisValue | None, ...] = (),
    ) -> None:
        """Make a launch that the launch core did not."""
        if choices:
            named = zip(self.contract.choices, choices, strict=True)
            chosen = {name: value for name, value in named if value is not None}
            self._restrict(chosen).launch(stream, values)
            return
        stream = current_stream(values) if stream is None else stream
        self.enqueue(stream, values)
        if self.site.driver.holds_arguments:
            self._complete(stream, values)

    def enqueue(self, stream: StreamLike, values: tuple[Any, ...]) -> None:
        """Do as `launch` does, and wait on no device.

        Raises:
            As for a call.
        """
        check_count(self.contract, values)
        handle = stream_handle(stream, self.contract.name)
        self._check_leases(values)
        self._run(handle, values)

    def launch_claimed(self, line: Line, values: tuple[Any, ...]) -> None:
        """Make a launch of an op, which holds the leases of its tensors.

        Raises:
            As for a call.
        """
        if not self._run_in_core(line.handle, values, line):
            check_count(self.contract, values)
            self._run(line.handle, values)

    def _run(self, handle: int, values: tuple[Any, ...]) -> None:
        """Make a launch whose leases were checked: by a cached plan, or by a new one."""
        order = functools.partial(self._order, handle, values)
        if self._run_in_core(handle, values, order):
            return
        facts = self._facts(values)
        ready = None if facts is None else self.plans.find(facts)
        if ready is None or facts is None:
            ready, facts = self._prepared(values, facts)
        call = ready.plan.call(handle, ready.outputs)  # the driver notes what may fail
        if self._teach(values, facts, ready.plan) and self._run_in_core(handle, values, order):
            return
        block = self._filled(ready, values)
        line = order()
        kept = (ready.addresses, values) if self.site.driver.holds_arguments else 0
        if result := call(block.address, kept)[0]:
            self._refused(result, handle, values)
        elif line is not None:
            for place in self._leased(values):
                write = self.contract.params[place].out
                values[place].storage.uses.note(line, write=write)

    def _run_in_core(self, handle: int, values: tuple[Any, ...], order: Order | Line) -> bool:
        """Let the launch core make a launch whose leases were checked; return whether it did."""
        answer = None if self._table is None else self._table.launch(handle, values, order)
        if answer is None or isinstance(answer, bool):
            return answer is True
        self._refused(answer, handle, values)
        return True

    def _order(self, handle: int, values: tuple[Any, ...]) -> Line | None:
        """Let a stream wait for the uses of tilec's own tensors that a launch on it comes after.
        Return the stream's line, on which the launch is their next use.

        Of a stream that is captured, the graph learns of the tensors instead, and keeps what else
        the launch uses.
        """
        driver, ordinal, leased = self.site.driver, self.site.device.ordinal, self._leased(values)
        recording = recording_of(driver, ordinal, handle) if leased or RECORDINGS else None
        line = None
        for place in leased:
            storage, write = values[place].storage, self.contract.params[place].out
            if recording is None:
                line = storage.line(handle, ordinal)
                storage.wait_for_uses(line, write=write)
            else:
                recording.touch(storage, write=write)
        if recording is not None:
            others = [value for place, value in enumerate(values) if place not in leased]
            recording.keep(*(value for value in others if not is_number(value)))
        return line

    def _leased(self, values: tuple[Any, ...]) -> list[int]:
        """Return the places of tilec's own tensors."""
        return [place for place in self.contract.tensors if is_leased(values[place])]

    def _teach(self, values: tuple[Any, ...], facts: CallFacts, plan: LaunchPlan) -> bool:
        """Let the launch core make calls like this one; return whether it takes them. Its table is
        made when the device has its context.
        """
        if not plan.native:
            return False
        if not self._tabled:
            self._tabled = True
            self._table = table_of(self.contract, self.site.driver, self.site.device.ordinal)
        if self._table is None:
            return False
        try:
            return self._table.add(values, plan, facts.tensors)
        except (ValueError, TypeError, OverflowError):  # beyond the limits of the core
            plan.native = False
            return False

    def _refused(self, result: Any, stream: StreamLike | None, values: tuple[Any, ...]) -> None:
        """Let the driver deal with a launch that it refused."""
        handle = stream_handle(current_stream(values) if stream is None else stream, self.info.name)

        def again() -> int:
            self._run(handle, values)
            return 0

        driver, ordinal = self.site.driver, self.site.device.ordinal
        driver.launch_failed(ordinal, result, handle, again, self.info.name)

    def _complete(self, stream: StreamLike, values: tuple[Any, ...]) -> None:
        """Wait for a launch on the cpu device that takes an array of another library, unless a
        capture or the op of this stream does.
        """
        from tilec_runtime.running import RUNNING  # launches on a GPU do not ask

        if any(is_foreign(values[place]) for place in self.contract.tensors):
            driver, ordinal, handle = (
                self.site.driver,
                self.site.device.ordinal,
                stream_handle(stream, self.info.name),
            )
            waited = RUNNING.op is not None and RUNNING.stream == handle
            if not waited and own_recording(driver, ordinal, handle) is None:
                driver.synchronize(ordinal, handle)

    def _facts(self, values: tuple[Any, ...]) -> CallFacts | None:
        """The facts of a call; None where an argument cannot be read, which `prepare` then
        explains.
        """
        contract, ask = self.contract, self.site.driver.pointer_device
        given = [values[place] for place in contract.tensors]
        try:
            return facts_of(
                contract,
                values,
                [None if value is None else tensor_facts(value, ask) for value in given],
            )
        except Exception:  # noqa: BLE001 - tensors of other libraries raise what they like
            return None

    def _prepared(
        self, values: tuple[Any, ...], facts: CallFacts | None
    ) -> tuple[Ready, CallFacts]:
        """Make the plan of a call on a miss, and cache it."""
        driver, ordinal = self.site.driver, self.site.device.ordinal
        # The first launch loads the image, which a capture of whatever thread may forbid.
        with driver.outside_captures(ordinal):
            plan, facts = prepare(self.contract, values, self.pinned, self.site, self._grid, facts)
        driver.adopt(ordinal)
        self.plans.add(facts, plan)
        ready = plan.ready(facts.slots)
        assert ready is not None  # a plan applies to its own call
        return ready, facts

    def _filled(self, ready: Ready, values: tuple[Any, ...]) -> ArgumentBlock:
        """An argument block for a call.

        Raises:
            ArgumentError: a number does not fit its dtype, or the type of the entry point's
                argument.
        """
        try:
            return ready.plan.fill(ready, values)
        except MISFITS as error:
            name = self.info.name
            # Raises for a number that does not fit its parameter.
            prepare(self.contract, values, self.pinned, self.site, self._grid)
            what = f"{name}: a number does not fit the type in which the kernel's entry point takes it: {error}"
            fix = "pass a number that fits, or build the kernel with a wider type of that argument"
            raise ArgumentError(
                what,
                cause="the entry point takes another type than the parameter has",
                fix=fix,
                kernel=name,
            ) from error

    def variant(self, **axes: AxisValue | None) -> Launcher:
        """This launcher, restricted to some values of its axes; one that is None is left as it is.

        Raises:
            VariantError: an axis or a value that was not built, or no variant with these values
                together.
        """
        contract = self.contract
        chosen = given_axes(contract, axes)
        require_built(contract, self.pinned, chosen)
        return self._restrict(chosen)

    def options(self, **hints: int) -> Launcher:
        """This launcher, restricted to variants whose image for this device was built with these
        compiler hints.

        Raises:
            VariantError: there is none; the message names what was built.
        """
        contract = self.contract
        fitting = require_options(contract, self.pinned, hints, self.site.facts(self.info))
        return self._derive(("hints", *sorted(hints.items())), info=narrowed(self.info, fitting))

    def configured(self, config: LaunchConfig | None) -> Launcher:
        """This launcher, launched as a configuration says where the manifest leaves that open.

        Without one, it is launched as the manifest says.

        Raises:
            ArgumentError: it is no configuration, the kernel takes none, or it says otherwise than
                the manifest.
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
        """A launcher that differs from this one, made once."""
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
        """Why a call with these arguments (without the stream) takes the variant and the image it
        takes; nothing is enqueued.

        Raises:
            LaunchError: the call would be refused.
        """
        launcher, values = self._bound(args, kwargs)
        return explain(launcher.contract, values, launcher.pinned, self.site, self._grid)

    def residency(self, *args: Any, **kwargs: Any) -> Residency:
        """Count what the device holds at once of a launch with these arguments (without the stream):
        `max_active_blocks`, `max_cooperative_grid` and `suggest_block_size`. The image is loaded,
        nothing is enqueued.

        Raises:
            LaunchError: the call would be refused for another reason.
            NoImageError: the bundle has no image for this device.
            DriverError: the driver refused the image.
        """
        from tilec_runtime.launch.occupancy import residency  # no launch needs it

        launcher, values = self._bound(args, kwargs)
        return residency(launcher.contract, values, launcher.pinned, self.site, self._grid)

    def step(
        self, *args: Any, block: Coordinates | Sequence[Coordinates] = (0, 0, 0), **kwargs: Any
    ) -> Stepper:
        """Go through what a launch with these arguments (without the stream) would run, one
        operation after another.

        Only on the cpu device. Nothing is enqueued, and no stream is waited for: the blocks run in
        the calling thread, as far as the stepper is asked to go, and what they write is in the
        arguments at once.

        Args:
            args: the kernel's arguments in order.
            block: place in the grid of the block that runs, or of several.
            kwargs: arguments by name, and axes.

        Raises:
            LaunchError: a launch would be refused.
            CallError: the device is a GPU, or has no such block.
        """
        # Imported here: launching on a GPU needs no interpreter.
        from tilec_runtime.launch.stepping import step_launch

        launcher, values = self._bound(args, kwargs)
        self._check_leases(values)
        return step_launch(launcher.contract, values, launcher.pinned, self.site, block)

    def _restrict(self, axes: dict[str, AxisValue]) -> Launcher:
        """The launcher with these axes pinned."""
        if not axes:
            return self
        check_axes(self.contract, axes, self.pinned)
        return self._derive(
            tuple((name, type(axes[name]), axes[name]) for name in sorted(axes)),
            pinned={**self.pinned, **axes},
        )

    def _check_leases(self, values: tuple[Any, ...]) -> None:
        """See that tilec's own tensors may be used as the kernel uses them; errors name both sides."""
        leased = self._leased(values)
        if not leased:
            return
        from tilec_runtime.tensors.lease import holder  # a tensor of tilec's has loaded it

        who = holder(f"the launch of {self.info.name}")
        for place in leased:
            tensor, write = values[place], self.contract.params[place].out
            (tensor.require_writable if write else tensor.require_readable)(who)
