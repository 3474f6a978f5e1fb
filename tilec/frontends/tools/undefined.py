"""Find undefined names and attributes in the body of a Python kernel, without compiling it."""

from __future__ import annotations

import ast
import builtins
import functools
import symtable
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import FunctionType, ModuleType

from tilec.frontends.tools.python_errors import function_node, located, node_location
from tilec_runtime.errors import Diagnostic
from tilec_runtime.model.suggest import suggestion


def undefined_names(function: FunctionType, texts: Mapping[str, str]) -> tuple[Diagnostic, ...]:
    """Return a diagnostic at the first use of each undefined name."""
    file = function.__code__.co_filename
    node, table = _read(function, texts)
    if node is None:
        return ()
    scope = {**vars(builtins), **function.__globals__}
    free = set() if table is None else {name for name in _globals(table) if name not in scope}
    local = set() if table is None else set(table.get_locals())
    uses = [
        each
        for statement in (node.body if free else ())
        for each in ast.walk(statement)
        if isinstance(each, ast.Name) and each.id in free
    ]
    diagnostics: dict[str, Diagnostic] = {}
    for use in sorted(uses, key=lambda use: (use.lineno, use.col_offset)):
        location, line = node_location(texts, file, use)
        hint = suggestion(use.id, (*local, *function.__globals__))
        message = f"{use.id} is not defined"
        problem = Diagnostic(message=message, location=location, excerpt=line, hint=hint)
        diagnostics.setdefault(use.id, problem)
    return tuple(diagnostics.values())


def missing_attributes(
    function: FunctionType,
    texts: Mapping[str, str],
    modules: Collection[str],
    hint: Callable[[str, str], str],
) -> tuple[Diagnostic, ...]:
    """Return a diagnostic at each use of an attribute that one of the modules does not have.

    Code under a condition is left to the compiler, which may leave it out.

    Args:
        function: the kernel's.
        texts: text of the project's files.
        modules: names of the modules.
        hint: takes the names of the module and of the attribute.
    """
    file = function.__code__.co_filename
    node, table = _read(function, texts)
    if node is None:
        return ()
    local = {*(_locals(table) if table is not None else ()), *function.__code__.co_freevars}
    scope = {name: value for name, value in function.__globals__.items() if name not in local}
    diagnostics = []
    for use in _attributes(node.body):
        module = _module(use.value, scope)
        if module is None or module.__name__ not in modules or hasattr(module, use.attr):
            continue
        message = f"Module {module.__name__!r} has no attribute {use.attr!r}"
        location = node_location(texts, file, use)[0]
        diagnostics.append(located(texts, location, message, hint=hint(module.__name__, use.attr)))
    return tuple(diagnostics)


def _read(
    function: FunctionType, texts: Mapping[str, str]
) -> tuple[ast.FunctionDef | None, symtable.Function | None]:
    """Return the node and the symbol table of a function, None for each without a source."""
    file = function.__code__.co_filename
    text = texts.get(file, "")
    node = function_node(text, function.__code__.co_firstlineno)
    return node, None if node is None else _table(_symbols(text, file), node)


@functools.lru_cache(maxsize=32)
def _symbols(text: str, file: str) -> symtable.SymbolTable:
    return symtable.symtable(text, file, "exec")


def _attributes(nodes: Iterable[ast.AST]) -> Iterator[ast.Attribute]:
    """Yield the attributes that nodes read in any case, without those of annotations."""
    for node in nodes:
        if isinstance(node, (ast.If, ast.IfExp, ast.Try, ast.BoolOp, ast.FunctionDef)):
            continue
        if isinstance(node, ast.AnnAssign):
            yield from _attributes(filter(None, (node.value,)))
            continue
        if isinstance(node, ast.Attribute):
            yield node
        yield from _attributes(ast.iter_child_nodes(node))


def _module(node: ast.expr, scope: Mapping[str, object]) -> ModuleType | None:
    """Return the module that an expression names, or None."""
    value = None
    if isinstance(node, ast.Name):
        value = scope.get(node.id)
    elif isinstance(node, ast.Attribute):
        value = getattr(_module(node.value, scope), node.attr, None)
    return value if isinstance(value, ModuleType) else None


def _table(table: symtable.SymbolTable, node: ast.FunctionDef) -> symtable.Function | None:
    lines = {node.lineno, *(decorator.lineno for decorator in node.decorator_list)}
    for child in table.get_children():
        named = child.get_name() == node.name and child.get_lineno() in lines
        if named and isinstance(child, symtable.Function):
            return child
        deeper = _table(child, node)
        if deeper is not None:
            return deeper
    return None


def _locals(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names that a function and its nested functions bind."""
    for symbol in table.get_symbols():
        if symbol.is_local():
            yield symbol.get_name()
    for child in table.get_children():
        yield from _locals(child)


def _globals(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the global names that a function and its nested functions read."""
    for symbol in table.get_symbols():
        if symbol.is_global() and symbol.is_referenced():
            yield symbol.get_name()
    for child in table.get_children():
        yield from _globals(child)
