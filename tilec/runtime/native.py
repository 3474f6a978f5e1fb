"""The compiled launch core (`_core/`) for launchers: where it was built, and unless TILEC_NATIVE=0 turns it off."""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tilec.model.dtype import DTYPES
from tilec.runtime.arguments import _is_torch as is_torch, tensor_facts
from tilec.runtime.layout import is_of_jax
from tilec.runtime.once import Once
from tilec.runtime.packing import encoded
from tilec.runtime.tensors.recording import _RECORDINGS

if TYPE_CHECKING:
    from tilec.runtime._core import Table
    from tilec.runtime.contract import Contract
    from tilec.runtime.seam import DeviceDriver

# How the core reads arrays of a type (`enum reading_kind` in _core/array.h).
BY_PYTHON, BY_TORCH_EXCHANGE, BY_EXCHANGE, BY_LAUNCHER = range(4)


@Once
def core() -> ModuleType | None:
    """Return the launch core, ready for use; None where launches take Python's path."""
    if os.environ.get("TILEC_NATIVE") == "0":
        return None
    try:
        from tilec.runtime._core import configure
    except ImportError:  # no extension was built
        return None
    from tilec.runtime import _core

    configure(tuple((row.name, *row.dlpack) for row in DTYPES.values()), reading_of, encoded)
    return _core


def reading_of(cls: type) -> int:
    """Return how the core reads arrays of a type; it asks once for each."""
    if hasattr(cls, "_tilec_facts_") or hasattr(cls, "grid_wish"):
        return BY_LAUNCHER
    if is_torch(cls):
        return BY_TORCH_EXCHANGE
    # JAX's arrays are read-only, and no protocol of theirs says so.
    return BY_PYTHON if is_of_jax(cls) else BY_EXCHANGE


def table_of(contract: Contract, driver: DeviceDriver, ordinal: int) -> Table | None:
    """Return an empty table of plans for a launcher; None where its launches take Python's path."""
    module = core()
    target = None if module is None else driver.launch_target(ordinal)
    if module is None or target is None:
        return None
    try:
        table: Table = module.Table(
            parameters=len(contract.params),
            tensors=contract.tensors,
            others=contract.others,
            keyed=contract.keyed,
            read=functools.partial(_facts, driver),
            recordings=_RECORDINGS,
            target=target,
            adopts=ordinal == 0,  # see `Driver.adopt`
        )
    except (OSError, ValueError):  # an old driver; a kernel of more parameters than the core takes
        return None
    return table


def _facts(driver: DeviceDriver, value: Any) -> Any:
    return tensor_facts(value, driver.pointer_device)
