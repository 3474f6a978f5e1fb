"""Tile IR on the CPU: reads its bytecode, executes it with NumPy and checks what it does to memory."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilec_runtime.cpu.tileir.execute import Options, prepare
    from tilec_runtime.cpu.tileir.memory import Memory, Region
    from tilec_runtime.cpu.tileir.program import Program
    from tilec_runtime.cpu.tileir.read import read_module
    from tilec_runtime.cpu.tileir.trace import Executed, Stepper, step, trace_lines

__all__ = [
    "Executed",
    "Memory",
    "Options",
    "Program",
    "Region",
    "Stepper",
    "prepare",
    "read_module",
    "step",
    "trace_lines",
]

# What is called like its module (`execute`) is not here.
# Imported when first asked for: who only reads Tile IR does not wait for the interpreter.
_HOMES = {
    **dict.fromkeys(("Options", "prepare"), "execute"),
    **dict.fromkeys(("Memory", "Region"), "memory"),
    **dict.fromkeys(("Executed", "Stepper", "step", "trace_lines"), "trace"),
    "Program": "program",
    "read_module": "read",
}


def __getattr__(name: str) -> Any:
    """A public name from the module that has it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
