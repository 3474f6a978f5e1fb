"""A kernel's function with its compile-time constants bound: they become what it closes over, which numba reads as constants."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any


def with_constants(function: FunctionType, node: ast.FunctionDef, constants: Mapping[str, Any]) -> FunctionType:
    """The function without these parameters, with their values in the places; lines and module stay as they are.

    Args:
        function: the kernel's.
        node: its definition in the file's tree.
        constants: value by parameter.
    """
    closed = {name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)}
    given = {**closed, **constants}
    inner = copy.deepcopy(node)
    inner.decorator_list, inner.returns = [], None
    arguments = inner.args
    for group in (arguments.posonlyargs, arguments.args):
        group[:] = [argument for argument in group if argument.arg not in constants]
        for argument in group:
            argument.annotation = None
    arguments.defaults = []
    maker: Any = ast.FunctionDef(
        name="make",
        args=ast.arguments(posonlyargs=[], args=[ast.arg(arg=name) for name in given], kwonlyargs=[], kw_defaults=[], defaults=[]),
        body=[inner, ast.Return(value=ast.Name(id=inner.name, ctx=ast.Load()))],
        decorator_list=[],
    )
    if "type_params" in ast.FunctionDef._fields:
        maker.type_params = []
    ast.copy_location(maker, node)
    module = ast.fix_missing_locations(ast.Module(body=[maker], type_ignores=[]))
    compiled = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
    code = next(part for part in compiled.co_consts if isinstance(part, CodeType))
    made: FunctionType = FunctionType(code, function.__globals__)(**given)
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    return made
