"""What a case is held against: `torch:matmul(a, b)` or `torch:bench/mine.py:matmul`, read against a
white list and made a function.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tilec_runtime.errors import CaseError, Location
from tilec_runtime.model.suggest import did_you_mean

# What tensors a rival takes, by the word in front of the colon: kernels of Triton are launched with
# those of torch.
LIBRARIES = {"torch": "torch", "triton": "torch", "cupy": "cupy", "numpy": "numpy"}
_FILE = re.compile(r"(?P<file>[^():]+\.py):(?P<function>[A-Za-z_]\w*)")
# Where a library keeps functions beside its top.
_PLACES: dict[str, tuple[str, ...]] = {
    "torch": ("", "nn.functional", "special", "linalg"),
    "cupy": ("", "linalg"),
    "numpy": ("", "linalg"),
}
_ALLOWED = (
    *(
        ast.Expression,
        ast.Call,
        ast.keyword,
        ast.Name,
        ast.Load,
        ast.Attribute,
        ast.Constant,
        ast.Tuple,
        ast.List,
        ast.Subscript,
    ),
    *(ast.Slice, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Compare, ast.cmpop),
)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Rival:
    """One entry of `against`.

    Attributes:
        text: as the manifest has it.
        library: whose tensors it takes: `torch`, `cupy` or `numpy`.
        call: an expression over the case's inputs; empty where a file's function is called.
        reference: `file.py:function`.
    """

    text: str
    library: str
    call: str = ""
    reference: str = ""


def read_rival(
    text: str, inputs: Collection[str], *, case: str, location: Location | None = None
) -> Rival:
    """Read an entry of `against`.

    Args:
        text: `LIBRARY:CALL` or `LIBRARY:FILE.py:FUNCTION`.
        inputs: names that a call may use.
        case: its name, for messages.
        location: where it is written.

    Raises:
        CaseError: an unknown library, or a call that is more than one.
    """
    word, _, rest = text.partition(":")
    library, rest = LIBRARIES.get(word), rest.strip()
    if library is None:
        hint = did_you_mean(word, LIBRARIES) or f"; there are {', '.join(LIBRARIES)}"
        fix = 'a function of your own is named with the library of its tensors: "torch:bench/rivals.py:mine"'
        raise CaseError(
            f"{case}: against {text!r}: unknown library {word!r}{hint}", location=location, fix=fix
        )
    found = _FILE.fullmatch(rest)
    if found:
        return Rival(text=text, library=library, reference=rest)
    problem = _problem(rest, inputs)
    if problem:
        fix = f'write one call over the inputs {", ".join(inputs)}, such as "torch:matmul(a, b)", or "torch:FILE.py:FUNCTION"'
        raise CaseError(f"{case}: against {text!r}: {problem}", location=location, fix=fix)
    return Rival(text=text, library=library, call=rest)


def function_of(
    rival: Rival,
    library: Any,
    inputs: Sequence[str],
    *,
    case: str,
    location: Location | None = None,
) -> Callable[[Mapping[str, Any]], Any]:
    """What calls a rival that is an expression, with inputs by name.

    Args:
        rival: the rival.
        library: the module that its functions are in.
        inputs: names of what is given.
        case: its name, for messages.
        location: where it is written.

    Raises:
        CaseError: the library has no such function.
    """
    tree = ast.parse(rival.call, mode="eval")
    # None of its names is a builtin's: all are inputs or the library's. But compiled functions
    # import by the builtins of their caller.
    names: dict[str, Any] = {"__builtins__": builtins}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in inputs:
            names[node.id] = _found(library, rival, node.id, inputs, case, location)
    code = compile(tree, f"<against {rival.text}>", "eval")
    return lambda values: eval(code, names, dict(values))  # noqa: S307 - what it may hold is checked by `read_rival`


def _found(
    library: Any,
    rival: Rival,
    name: str,
    inputs: Sequence[str],
    case: str,
    location: Location | None,
) -> Any:
    for place in _PLACES[rival.library]:
        try:
            return getattr(
                functools.reduce(getattr, place.split(".") if place else (), library), name
            )
        except AttributeError:
            continue
    hint = did_you_mean(name, inputs) or did_you_mean(
        name, [word for word in dir(library) if not word.startswith("_")]
    )
    what = f"{case}: against {rival.text!r}: {rival.library} {getattr(library, '__version__', '')} has no {name!r}{hint}"
    raise CaseError(what.replace("  ", " "), location=location)


def _problem(text: str, inputs: Collection[str]) -> str:
    """Why a text is no call over the inputs; empty where it is one."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError) as error:
        return f"not valid Python: {getattr(error, 'msg', error)}"
    if not isinstance(tree.body, ast.Call | ast.BinOp | ast.UnaryOp):
        return "it calls nothing"
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            return f"{type(node).__name__} has no place in it"
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            return f"{node.attr!r} is private"
        if isinstance(node, ast.Name) and node.id.startswith("_"):
            return f"{node.id!r} is private"
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Pow | ast.LShift)
            and not _names(node.left)
        ):
            return f"{ast.unparse(node)} is a power of plain numbers, which may take for ever: write the number"
    if inputs and not _names(tree).intersection(inputs):
        return f"it uses none of the case's inputs ({', '.join(inputs)})"
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    clash = sorted(called.intersection(inputs))
    return f"{clash[0]!r} is an input, and cannot be called" if clash else ""


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
