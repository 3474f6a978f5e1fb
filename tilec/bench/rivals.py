"""Reads rivals of cases: `torch:matmul(a, b)` or `torch:bench/mine.py:matmul`."""

from __future__ import annotations

import ast
import dataclasses
import functools
import operator
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tilec.case.cases import BoundCase
from tilec.case.functions import Functions
from tilec_runtime.errors import CaseError
from tilec_runtime.model.suggest import did_you_mean

Call = Callable[[Mapping[str, Any]], Any]

# The library of a rival's tensors, by the word before the colon: Triton launches on torch's.
LIBRARIES = {"torch": "torch", "triton": "torch", "cupy": "cupy", "numpy": "numpy"}
_FILE = re.compile(r"(?P<file>[^():]+\.py):(?P<function>[A-Za-z_]\w*)")
# Modules of a library that functions are looked up in after its top level.
_MODULES: dict[str, tuple[str, ...]] = {
    "torch": ("nn.functional", "special", "linalg"),
    "cupy": ("linalg",),
    "numpy": ("linalg",),
}
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.MatMult: operator.matmul,
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """One entry of `against`.

    Attributes:
        text: the entry as written in the manifest.
        key: key path of the entry in its case.
        library: library of its tensors: `torch`, `cupy` or `numpy`.
        call: an expression over the case's inputs; None for a function of a file.
        function: `file.py:function`.
    """

    text: str
    key: tuple[str | int, ...]
    library: str
    call: ast.expr | None = None
    function: str = ""


def rivals_of(case: BoundCase) -> tuple[Rival, ...]:
    """Read the entries of `against` of a case, each `LIBRARY:CALL` or `LIBRARY:FILE.py:FUNCTION`.

    Raises:
        CaseError: the library is unknown, or the call has an expression that is not allowed.
    """
    against = case.bench.against if case.bench and case.params else ()
    return tuple(_rival(case, text, ("bench", "against", at)) for at, text in enumerate(against))


def _rival(case: BoundCase, text: str, key: tuple[str | int, ...]) -> Rival:
    word, _, rest = text.partition(":")
    library, rest = LIBRARIES.get(word), rest.strip()
    if library is None:
        hint = did_you_mean(word, LIBRARIES) or f"; there are {', '.join(LIBRARIES)}"
        raise CaseError(
            f"{case.name}: against {text!r}: unknown library {word!r}{hint}",
            location=case.location_of(*key),
            fix='name your own function with the library of its tensors: "torch:bench/rivals.py:mine"',
        )
    if _FILE.fullmatch(rest):
        return Rival(text=text, key=key, library=library, function=rest)
    inputs = [param.name for param in case.params]
    try:
        call = _parsed(rest, inputs)
    except (SyntaxError, ValueError) as error:
        problem = f"not valid Python: {error.msg}" if isinstance(error, SyntaxError) else error
        raise CaseError(
            f"{case.name}: against {text!r}: {problem}",
            location=case.location_of(*key),
            fix=f'write one call over the inputs {", ".join(inputs)}, such as "torch:matmul(a, b)", or "torch:FILE.py:FUNCTION"',
        ) from error
    return Rival(text=text, key=key, library=library, call=call)


def function_of(case: BoundCase, rival: Rival, library: Any, functions: Functions) -> Call:
    """Return a function that calls a rival with inputs by name.

    Args:
        case: the rival's case.
        rival: the rival.
        library: the module of its library.
        functions: functions of the project.

    Raises:
        CaseError: there is no such function, or it does not fit the inputs.
    """
    inputs = [param.name for param in case.params]
    if rival.call is None:
        function = functions.load(case, rival.function, rival.key)
        names = {name: name for name in inputs}
        taken = functions.arguments(case, rival.function, rival.key, names, {})
        return lambda values: function(**{param: values[name] for param, name in taken.items()})

    def find(name: str) -> Any:
        for module in ("", *_MODULES[rival.library]):
            path = [*filter(None, module.split(".")), name]
            try:
                return functools.reduce(getattr, path, library)
            except AttributeError:
                continue
        public = [word for word in dir(library) if not word.startswith("_")]
        hint = did_you_mean(name, inputs) or did_you_mean(name, public)
        title = " ".join(filter(None, (rival.library, getattr(library, "__version__", ""))))
        message = f"{case.name}: against {rival.text!r}: {title} has no {name!r}{hint}"
        raise CaseError(message, location=case.location_of(*rival.key))

    return _evaluator(rival.call, inputs, find)


def _parsed(text: str, inputs: Collection[str]) -> ast.expr:
    """Parse and check a call.

    Raises:
        SyntaxError, ValueError: it is not a valid call.
    """
    tree = ast.parse(text, mode="eval").body
    if not isinstance(tree, ast.Call | ast.BinOp | ast.UnaryOp):
        raise ValueError("it calls nothing")  # noqa: TRY004 - of text
    _evaluator(tree, inputs, str)  # any function stands for the library's
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if inputs and not names.intersection(inputs):
        raise ValueError(f"it uses none of the case's inputs ({', '.join(inputs)})")
    return tree


def _evaluator(node: ast.expr, inputs: Collection[str], find: Callable[[str], Any]) -> Call:
    """Return a function of the inputs' values; `find` looks up names of the library.

    Nothing is passed to `eval`: what is not listed here cannot run.

    Raises:
        ValueError: a call may not contain this expression.
    """
    rest = functools.partial(_evaluator, inputs=inputs, find=find)
    match node:
        case ast.Constant(value=constant):
            return lambda _: constant
        case ast.Name(id=name) if name in inputs:
            return operator.itemgetter(name)
        case ast.Name(id=name) | ast.Attribute(attr=name) if name.startswith("_"):
            raise ValueError(f"{name!r} is private")
        case ast.Name(id=name):
            known = find(name)
            return lambda _: known
        case ast.Attribute(value=owner, attr=name):
            of = rest(owner)
            return lambda values: getattr(of(values), name)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            items = [rest(element) for element in elements]
            kind: type[tuple[Any, ...] | list[Any]] = tuple if isinstance(node, ast.Tuple) else list
            return lambda values: kind(item(values) for item in items)
        case ast.Subscript(value=owner, slice=index):
            of, at = rest(owner), rest(index)
            return lambda values: of(values)[at(values)]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            of = rest(operand)
            return lambda values: -of(values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            apply, one, other = _OPERATORS[type(op)], rest(left), rest(right)
            return lambda values: apply(one(values), other(values))
        case ast.Call(func=ast.Name(id=name)) if name in inputs:
            raise ValueError(f"{name!r} is an input, and cannot be called")
        case ast.Call(func=func, args=args, keywords=keywords):
            function, given = rest(func), [rest(argument) for argument in args]
            named = {keyword.arg or "": rest(keyword.value) for keyword in keywords}
            return lambda values: function(values)(
                *(argument(values) for argument in given),
                **{name: argument(values) for name, argument in named.items()},
            )
    raise ValueError(f"{ast.unparse(node)} is not allowed in it")
