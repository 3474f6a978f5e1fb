"""Find the outer variables of a kernel, and the device functions that it calls."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

import numpy as np

from tilec.frontends.simt import api
from tilec.frontends.tools.kernels import captured
from tilec.frontends.tools.modules import LoadedModule
from tilec.model.declaration import ParamDecl
from tilec.simt import Axis
from tilec_runtime.errors import Location


def captures(function: FunctionType, module: LoadedModule, at: Location) -> Iterator[ParamDecl]:
    """Yield every variable that a kernel reads from enclosing functions and its module.

    A number that a device function reads too is a constant, since that function would not see the
    value passed at a launch.
    """
    helpers = [
        _variables(helper)
        for helper in _reached(function, module)
        if helper.__globals__ is function.__globals__
    ]
    for name, value in sorted(_variables(function).items()):
        if isinstance(value, ModuleType) or (callable(value) and not isinstance(value, Axis)):
            continue
        dtype, shown = _dtype_of_number(value), _shown(value)
        if any(name in helper for helper in helpers):
            dtype, shown = "", "also read by a device function, as a constant"
        yield ParamDecl(
            name=name,
            type=shown,
            kind="scalar" if dtype else "constant",
            dtype=dtype,
            location=at,
        )


def names_read(function: FunctionType, module: LoadedModule) -> set[str]:
    """Return all names, also of attributes, in a kernel and its device functions."""
    reached = (function, *_reached(function, module))
    return set().union(*(_names_of(each.__code__) for each in reached))


def _reached(function: FunctionType, module: LoadedModule) -> list[FunctionType]:
    """Return the project's device functions that a kernel names or captures, at any depth."""
    helpers: dict[str, list[FunctionType]] = {}
    for loaded in module.modules.values():
        for name, value in vars(loaded).items():
            made = api.dispatcher_of(value)
            if made is not None:
                helpers.setdefault(name, []).append(made.py_func)
    reached: dict[FunctionType, None] = {}
    waiting = [function]
    while waiting:
        caller = waiting.pop()
        called = [helper for name in _names_of(caller.__code__) for helper in helpers.get(name, ())]
        held = [api.dispatcher_of(value) for value in captured(caller).values()]
        called += [made.py_func for made in held if made is not None]
        new = [helper for helper in called if helper not in reached and helper is not function]
        reached.update(dict.fromkeys(new))
        waiting += new
    return list(reached)


def _variables(function: FunctionType) -> dict[str, object]:
    """Return the outer variables that a function, or one nested in it, may read."""
    scope = function.__globals__
    return {name: scope[name] for name in _names_of(function.__code__) if name in scope} | captured(
        function
    )


def _names_of(code: CodeType) -> set[str]:
    inner = [_names_of(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(code.co_freevars, *inner)


def _dtype_of_number(value: object) -> str:
    """Return the dtype that numba gives a captured number, or "" for other values."""
    for kind, dtype in ((bool, "bool"), (int, "i64"), (float, "f64")):
        if type(value) is kind:
            return dtype
    return api.dtype_named(value.dtype) if isinstance(value, np.generic) else ""


def _shown(value: object) -> str:
    if isinstance(value, Axis):
        return f"the axis {value.name} of the matrix"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
