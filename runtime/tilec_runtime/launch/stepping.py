"""Steps through a launch on the cpu device, in the calling thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilec_runtime.cpu.launch import QueuedCall
from tilec_runtime.cpu.tileir.trace import Coordinates, Stepper, step
from tilec_runtime.errors import CallError
from tilec_runtime.launch.contract import Contract
from tilec_runtime.launch.keys import facts_of
from tilec_runtime.launch.prepare import Site, prepare
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.tensors.facts import is_leased


def step_launch(
    contract: Contract,
    values: tuple[Any, ...],
    axes: dict[str, AxisValue],
    site: Site,
    block: Coordinates | Sequence[Coordinates],
) -> Stepper:
    """Check a call as a launch does; return the stepper through its blocks.

    Nothing is enqueued.

    Raises:
        LaunchError: the call would be refused.
        CallError: the device is not a cpu device, or the grid has no such block.
    """
    name = contract.name
    if site.device.interprets is None:
        fix = f'load the package on "cpu" too, and step through {name} there'
        raise CallError(
            f"{name} is loaded on {site.device}, and only the cpu device can stop at each operation",
            fix=fix,
            kernel=name,
        )
    facts = facts_of(contract, values, site.driver)
    plan = prepare(contract, values, axes, site, facts)
    outputs = plan.outputs(facts.slots)
    assert outputs is not None  # a plan applies to its own call
    call = plan.call(0, outputs)
    if not isinstance(call, QueuedCall):
        raise CallError(f"{name}: the grid of this call has no blocks to step through", kernel=name)
    addresses = facts.addresses
    arguments = plan.packing.pack(addresses, outputs, values)
    for index in contract.tensors:  # the steps run at once: wait for uses of tilec's own tensors
        if is_leased(values[index]):
            values[index].storage.sync(write=contract.params[index].out)
    run = call.run(arguments.address, (addresses, values))
    return step(run.program, run.arguments, run.grid, run.memory, block, run.options)
