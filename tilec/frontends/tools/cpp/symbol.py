"""Make C++ names of kernel instances from symbols such as `rmsnorm<{T}, {VEC}>`."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence

from tilec.frontends.tools.cpp.params import Scope, parameters, split
from tilec.frontends.tools.cpp.tokens import Token, lex
from tilec.model.cpp import cut
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.errors import CompileError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.suggest import did_you_mean

_PLACE = re.compile(r"\{\s*(\w+)\s*\}")
_DOUBLE = re.compile(r"-?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?")


def spell_value(value: AxisValue) -> str:
    """Return an axis value in C++: a dtype by its C++ name, a boolean as true or false.

    Other strings stay as they are.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return DTYPES[value].c if value in DTYPES else value
    return repr(value)


def expand(symbol: str, axes: Mapping[str, AxisValue]) -> str:
    """Return the symbol with every `{axis}` replaced by the axis' value."""
    return _PLACE.sub(lambda match: spell_value(axes[match[1]]), symbol)


def name_expression(symbol: str, axes: Mapping[str, AxisValue], decl: KernelDecl) -> str:
    """Return the C++ expression that names the kernel's instance, with namespaces.

    Args:
        symbol: symbol of the manifest; empty for the kernel's own name.
        axes: axis values of the variant.
        decl: the kernel in its source.
    """
    text = expand(symbol or decl.qualified or decl.name, axes)
    base, arguments = cut(text)
    if base == decl.name and decl.qualified:
        base = decl.qualified
    return base if arguments is None else f"{base}<{', '.join(arguments)}>"


def demangled(symbol: str) -> str:
    """Return the C++ name with parameters of a mangled symbol, or an empty string.

    The C++ runtime library demangles. It is always there: the bindings of CUDA need it too.
    """
    if not symbol.startswith("_Z"):
        return ""
    runtime, libc = ctypes.CDLL("libstdc++.so.6"), ctypes.CDLL(None)
    demangle = runtime["__cxa_demangle"]
    demangle.restype, demangle.argtypes = ctypes.c_void_p, [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
    libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
    address = demangle(symbol.encode(), None, None, None)
    if not address:
        return ""
    try:
        return ctypes.string_at(address).decode()
    finally:
        libc.free(address)


@functools.lru_cache(maxsize=1024)
def parameter_types(symbol: str) -> tuple[ParamDecl, ...] | None:
    """Return the types of an entry's parameters, or None if its symbol has none."""
    tokens = lex(demangled(symbol)).tokens
    if not tokens or tokens[-1].text != "(":
        return None
    # Give each type a name: else `long` in `unsigned long` would be taken for one.
    named = [[*part, Token("name", "unnamed", 1, 1)] for part in split(tokens[-1].inside)]
    try:
        return parameters(named, Scope(file=""), ())
    except CompileError:  # a reference in the type of a lambda
        return None


def compiled_params(decl: KernelDecl, symbol: str) -> Sequence[ParamDecl]:
    """Return a kernel's parameters, numbers of template types with the dtypes in its symbol."""
    types = parameter_types(symbol) or ()
    if len(types) != len(decl.params):
        return decl.params
    return [
        dataclasses.replace(param, dtype=type_.dtype)
        if param.kind == type_.kind == "scalar"
        else param
        for param, type_ in zip(decl.params, types, strict=True)
    ]


def readable(symbol: str) -> str:
    """Return the name in a mangled symbol: `ns::act` for `_ZN2ns3actEf`.

    Other symbols stay as they are.
    """
    text = demangled(symbol).replace("(anonymous namespace)::", "")
    while "<" in text and (outer := re.sub(r"<[^<>]*>", "", text)) != text:
        text = outer
    return text.partition("(")[0].rpartition(" ")[2] or symbol


def symbol_advice(words: str, expression: str, decl: KernelDecl, candidates: Sequence[str]) -> str:
    """Return a hint at the fix for a compiler's messages (`words`) about the symbol.

    `candidates` are the names of the source's kernels.
    """
    if "overloaded function" in words:
        return f"give each overload of {decl.name} a name of its own: a kernel is found by its function's name"
    base, arguments = cut(expression)
    if base not in (decl.qualified, decl.name):
        return f"the source has {', '.join(candidates) or 'no __global__ function'}{did_you_mean(base, candidates)}"
    if decl.template:
        doubles = [each for each in arguments or () if _DOUBLE.fullmatch(each)]
        fits = "see that every argument fits its parameter"
        if doubles:
            fits = f"{doubles[0]} is a double, and a parameter of type float takes {doubles[0]}f: write {{NAME}}f for its axis in symbol"
        return f"{decl.name} takes <{', '.join(decl.template)}>: {fits}"
    return f"name it as the source does: {decl.qualified or decl.name}"
