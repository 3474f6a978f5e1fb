"""A launch whose arguments are given once: `launcher.bind(z, x, y)`. Like fast paths, its function is unrolled over the parameters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from tilec.runtime.arguments import READERS
from tilec.runtime.epoch import EPOCH
from tilec.runtime.fastpath import unrolled
from tilec.runtime.handles import HANDLES, stream_handle
from tilec.runtime.memory import DeviceBuffer
from tilec.runtime.prepare import MOST_STREAMS
from tilec.runtime.tensors.recording import recording_of
from tilec.runtime.torch_guard import torch_guard
from tilec.runtime.uncopied import Uncopied

if TYPE_CHECKING:
    from tilec.runtime.launch import Launcher
    from tilec.runtime.protocols import StreamLike

_TEMPLATE = """
def launch(stream):
    try:
        s = stream if type(stream) is int else stream._handle if type(stream) is Stream else handles[type(stream)](stream)
        function, first, second, address, kept, guard, looked, {told}= records[s]
        known = {known}
        if known and looked is not epoch.now:
            now = epoch.now
            known = {free}
            if known:
                records[s] = function, first, second, address, kept, guard, now, {told}
    except Exception:
        known = False
    if known:
        result = function(first, second, address, {held})[0]
        if result:
            records.clear()
            failed(kept[0], kept[1], kept[2], stream, result)
    else:
        renew(stream)
"""


@final
class BoundLaunch(Uncopied):
    """A launch that holds its arguments. Each call of `launch` does what the launcher would do with them, and takes less time for it.

    Numbers and structs are those of `bind`. Tensors are held, and looked at each time: who uses them, whether they were moved, and, for
    those of other libraries, whether address, shape, strides or dtype are others now. What has changed is checked as in any launch.

    Attributes:
        launch: enqueues the kernel on a stream; raises as the launcher does.
    """

    __slots__ = ("_held", "launch")

    def __init__(self, launcher: Launcher, values: tuple[Any, ...]) -> None:
        """Use `Launcher.bind`."""
        contract, site = launcher.contract, launcher.site
        held = self._held = _Held(launcher, tuple(bytes(value) if i in contract.structs else value for i, value in enumerate(values)))
        names: dict[str, Any] = {
            "__name__": __name__,  # frames of tilec are no place that messages name
            "Stream": getattr(sys.modules.get("tilec.runtime.streams"), "Stream", None),  # None for the handle of one that is closed
            "device": site.device.ordinal,
            "epoch": EPOCH,
            "failed": launcher.failed,
            "handles": HANDLES,
            "records": held.records,
            "renew": held.renew,
            "values": held.values,
        }
        known = [f"guard({', '.join(f'a{i}' for i in held.torch)})"] if held.torch else []
        free = []
        for i in contract.tensors:
            names[f"a{i}"] = held.values[i]
            known.append(_unchanged(i, held.values[i], names, write=contract.params[i].out))
            if type(held.values[i]) is READERS.plain_type:
                free.append(_free(i, held.values[i], names, write=contract.params[i].out))
        source = _TEMPLATE.format(
            told="".join(f"q{i}, " for i in contract.tensors),
            known=" and ".join(known) or "True",
            free=" and ".join(free) or "True",
            held="(kept[3], values)" if site.driver.holds_arguments else "0",
        )
        exec(compile(source, "<tilec bound launch>", "exec"), names)  # noqa: S102 - built from numbers alone
        # Nothing here refers to itself: tensors go with this object, and do not wait for the collector.
        self.launch: Callable[[StreamLike], None] = names.pop("launch")

    def __repr__(self) -> str:
        """`<BoundLaunch add on device 0 (NVIDIA H200)>`."""
        return f"<BoundLaunch {repr(self._held.launcher).removeprefix('<Launcher ')}"


class _Held:
    """What a bound launch has.

    Attributes:
        launcher: whose launch it is. values: of all parameters. torch: places of tensors of torch.
        records: by stream, what the next launch there needs if nothing changes.
    """

    __slots__ = ("launcher", "records", "torch", "values")

    def __init__(self, launcher: Launcher, values: tuple[Any, ...]) -> None:
        self.launcher = launcher
        self.values = values
        self.torch = [i for i in launcher.contract.tensors if type(values[i]) in READERS.torch_types]
        self.records: dict[int, tuple[Any, ...]] = {}

    def renew(self, stream: StreamLike) -> None:
        """Launch with all checks, and remember what that has found."""
        launcher, values = self.launcher, self.values
        launcher.path()(stream, values)
        found, handle = launcher.ready_plan(values), stream_handle(stream, launcher.info.name)
        if found is None or recording_of(launcher.site.driver, launcher.site.device.ordinal, handle) is not None:
            return  # each launch that is captured is told to its graph
        plan, packed, looks = found
        block = plan.new_block()
        plan.refill(block, packed, values)  # never again: threads may share it
        if len(self.records) >= MOST_STREAMS:
            self.records.clear()
        call = plan.bound(handle)
        self.records[handle] = (*unrolled(call), block.address, (plan, call, block, packed), self._guard(), None, *looks)

    def _guard(self) -> Callable[..., bool] | None:
        """The test whether the torch tensors are, but for their addresses, what they are now."""
        if not self.torch:
            return None
        tensors = tuple(self.values[i] for i in self.torch)
        guard = torch_guard(tensors)
        if guard is None:
            looks = [READERS[type(tensor)](tensor)[1] for tensor in tensors]
            return lambda *now: [READERS[type(tensor)](tensor)[1] for tensor in now] == looks
        return guard


def _unchanged(i: int, value: Any, names: dict[str, Any], *, write: bool) -> str:
    """The test whether a tensor is as it was; `q` is what was looked at then."""
    kind = type(value)
    if kind is READERS.plain_type or kind is DeviceBuffer:
        return f"a{i}.{'_look' if kind is READERS.plain_type else '_tilec_look_'} is q{i}"
    if kind in READERS.leased_types:
        return f"a{i}._tilec_{'write' if write else 'read'}_(s, device) is q{i}"
    if kind in READERS.torch_types:  # behind the guard
        return f"a{i}.data_ptr() == q{i}[0]"
    names[f"t{i}"] = READERS[kind]
    return f"t{i}(a{i}) == q{i}"


def _free(i: int, value: Any, names: dict[str, Any], *, write: bool) -> str:
    """The test whether a plain tensor may be used so: asked where an epoch has ended."""
    storage = names[f"m{i}"] = value.storage
    names[f"r{i}"], names[f"h{i}"] = storage.readers, value.lease._held  # noqa: SLF001 - both stay the same objects
    ordered = f"m{i}.sole == s" if write else f"(m{i}.sole == s or s in r{i})"
    return f"{ordered} and not h{i}"
