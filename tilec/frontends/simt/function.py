"""Bind compile-time constants of a kernel's function as captured variables.

numba compiles captured variables as constants.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

from tilec.frontends.tools.kernels import captured


def with_constants(
    function: FunctionType,
    node: ast.FunctionDef,
    constants: Mapping[str, Any],
    passed: Sequence[str] = (),
) -> FunctionType:
    """Return the function with some parameters as constants and some captures as parameters.

    Line numbers and module stay the same.

    Args:
        function: the kernel's function.
        node: its definition in the file's syntax tree.
        constants: values of parameters that become captured constants, and of captured variables.
        passed: names of outer variables that become parameters, after its own.
    """
    given = {**captured(function), **constants}
    for name in passed:
        given.pop(name, None)
    inner = copy.deepcopy(node)
    inner.decorator_list, inner.returns = [], None
    arguments = inner.args
    for group in (arguments.posonlyargs, arguments.args):
        group[:] = [argument for argument in group if argument.arg not in constants]
        for argument in group:
            argument.annotation = None
    arguments.defaults = []
    arguments.args += [ast.arg(arg=name) for name in passed]
    maker: Any = ast.FunctionDef(
        name="make",
        args=ast.arguments(
            posonlyargs=[],
            args=[ast.arg(arg=name) for name in given],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[],
        ),
        body=[inner, ast.Return(value=ast.Name(id=inner.name, ctx=ast.Load()))],
        decorator_list=[],
    )
    if "type_params" in ast.FunctionDef._fields:
        maker.type_params = []
    ast.copy_location(maker, node)
    module = ast.fix_missing_locations(ast.Module(body=[maker], type_ignores=[]))
    compiled = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
    code = next(part for part in compiled.co_consts if isinstance(part, CodeType))
    clone: FunctionType = FunctionType(code, function.__globals__)(**given)
    clone.__module__, clone.__qualname__ = function.__module__, function.__qualname__
    return clone
