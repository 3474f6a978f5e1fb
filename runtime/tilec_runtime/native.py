"""The compiled launch core (`_core/`) for launchers: where it was built, and unless TILEC_NATIVE=0 turns it off."""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tilec_runtime.arguments import is_torch, tensor_facts
from tilec_runtime.layout import is_of_jax
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.packing import encoded
from tilec_runtime.tensors.recording import RECORDINGS

if TYPE_CHECKING:
    from tilec_runtime._core import Table
    from tilec_runtime.contract import Contract
    from tilec_runtime.seam import DeviceDriver

# How the core reads arrays of a type (`enum reading_kind` in _core/array.h).
BY_PYTHON, BY_TORCH_EXCHANGE, BY_EXCHANGE, BY_LAUNCHER, BY_OWNER = range(5)


def reading_of(cls: type) -> int:
    """Return how the core reads arrays of a type; it asks once for each."""
    if hasattr(cls, "grid_wish"):
        return BY_LAUNCHER
    if hasattr(cls, "_tilec_facts_"):
        return BY_OWNER if hasattr(cls, "_tilec_leased_") else BY_PYTHON
    if is_torch(cls):
        return BY_TORCH_EXCHANGE
    # JAX's arrays are read-only, and no protocol of theirs says so.
    return BY_PYTHON if is_of_jax(cls) else BY_EXCHANGE


class NoTable:
    """Stands for a table where launches take Python's path."""

    def launch(self, _stream: int, _values: tuple[Any, ...], _order: Any = None) -> None:
        """Say that the call is Python's."""

    def add(self, _values: tuple[Any, ...], _plan: Any) -> bool:
        """Keep nothing."""
        return False

    def clear(self) -> None:
        """Drop nothing."""


def table_of(contract: Contract, driver: DeviceDriver, ordinal: int) -> Table | NoTable:
    """Return an empty table of plans for a launcher."""
    target = None if CORE is None else driver.launch_target(ordinal)
    if CORE is None or target is None:
        return NoTable()
    try:
        table: Table = CORE.Table(
            parameters=len(contract.params),
            tensors=contract.tensors,
            others=contract.others,
            keyed=contract.keyed,
            read=functools.partial(_facts, driver),
            recordings=RECORDINGS,
            target=target,
            adopts=ordinal == 0,  # see `Driver.adopt`
        )
    except (OSError, ValueError):  # an old driver; a kernel of more parameters than the core takes
        return NoTable()
    return table


def _facts(driver: DeviceDriver, value: Any) -> Any:
    return tensor_facts(value, driver.pointer_device)


def _loaded() -> ModuleType | None:
    """Return the launch core, ready for use."""
    if os.environ.get("TILEC_NATIVE") == "0":
        return None
    try:
        from tilec_runtime import _core

        configure = _core.configure
    except (ImportError, AttributeError):  # no extension was built: the directory of its sources may be found in its place
        return None
    configure(tuple((row.name, *row.dlpack) for row in DTYPES.values()), reading_of, encoded)
    return _core


def absence() -> str:
    """Why launches take Python's path; empty where the launch core makes them."""
    if CORE is not None:
        return ""
    return "TILEC_NATIVE=0 turns the launch core off" if os.environ.get("TILEC_NATIVE") == "0" else "the launch core was not built"


# The launch core; None where launches take Python's path.
CORE = _loaded()
