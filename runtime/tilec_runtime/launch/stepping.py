"""Steps through a launch on the cpu device, in the calling thread."""

from __future__ import annotations

from collections.abc import Sequence

from tilec_runtime.cpu.launch import QueuedCall
from tilec_runtime.cpu.tileir.trace import Coordinates, Stepper
from tilec_runtime.errors import CallError
from tilec_runtime.launch.checks import Call
from tilec_runtime.launch.prepare import prepare
from tilec_runtime.tensors.facts import is_leased


def step_launch(call: Call, block: Coordinates | Sequence[Coordinates]) -> Stepper:
    """Check a call as a launch does; return the stepper through its blocks.

    Nothing is enqueued.

    Raises:
        LaunchError: the call would be refused.
        CallError: the device is not a cpu device, or the grid has no such block.
    """
    contract, values, site = call.contract, call.values, call.site
    name = contract.name
    if site.device.interprets is None:
        fix = f'load the package on "cpu" too, and step through {name} there'
        raise CallError(
            f"{name} is loaded on {site.device}, and only the cpu device can stop at each operation",
            fix=fix,
            kernel=name,
        )
    plan = prepare(call)
    outputs = plan.outputs(call.facts.slots)
    assert outputs is not None  # a plan applies to its own call
    queued = plan.call(0, outputs)
    if not isinstance(queued, QueuedCall):
        raise CallError(f"{name}: the grid of this call has no blocks to step through", kernel=name)
    addresses = call.facts.addresses
    arguments = plan.packing.pack(addresses, outputs, values)
    for index in contract.tensors:  # the steps run at once: wait for uses of tilec's own tensors
        if is_leased(values[index]):
            values[index].storage.sync(write=contract.params[index].out)
    run = queued.run(arguments.address, (addresses, values))
    return Stepper(run.program, run.arguments, run.grid, run.memory, block, run.options)
