"""Arguments of a kernel's entry point: their texts in a manifest, and those of two images."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from tilec_runtime.errors import ExpressionError
from tilec_runtime.model.dtype import DTYPES, short_name
from tilec_runtime.model.expr import Expr, build, parse
from tilec_runtime.model.expr_tree import column_of, parse_tree
from tilec_runtime.model.signature import AbiSlot

# The function that passes a tensor as a tensor descriptor, allowed in `args`.
DESCRIPTOR = "descriptor"


def parse_abi(text: str, *, names: Collection[str] | None = None) -> tuple[str, Expr]:
    """Parse one argument of a kernel's entry point into (type, value).

    `y.ptr` gives `("ptr", y.ptr)`, and `i32(x.shape[1])` gives `("i32", x.shape[1])`. A bare
    parameter `eps` gives `("", eps)`, with the parameter's type. `descriptor(x, BM, BK)` gives
    `("descriptor", x.ptr)`; `parse_box` returns its extents.

    Raises:
        ExpressionError: the text is not an expression of the language, or has no definite type.
    """
    node = parse_tree(text)
    if isinstance(node, ast.Name):
        return "", build(node, text, text, names)
    if isinstance(node, ast.Attribute) and node.attr == "ptr":
        return "ptr", build(node, text, text, names)
    called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    if isinstance(node, ast.Call) and short_name(called) in DTYPES:
        if len(node.args) != 1 or node.keywords:
            raise ExpressionError(
                f"the cast {called}() takes one value",
                column=column_of(node, text),
            )
        inner = node.args[0]
        start, end = (
            column_of(inner, text) - 1,
            len(text.encode()[: inner.end_col_offset or 0].decode()),
        )
        return short_name(called), build(inner, text, text[start:end], names)
    if isinstance(node, ast.Call) and called == DESCRIPTOR:
        return DESCRIPTOR, _described(node, text, names)
    build(node, text, text, names)  # errors of the expression go before the missing cast
    message = f"the argument has no definite type: write a cast, such as i32({text.strip()})"
    raise ExpressionError(message, column=column_of(node, text))


def parse_box(text: str) -> tuple[str, tuple[Expr, ...]]:
    """Return tensor and box extents of `descriptor(x, BM, BK)`; `parse_abi` checks it."""
    node = parse_tree(text)
    assert isinstance(node, ast.Call)
    tensor, *box = map(ast.unparse, node.args)
    return tensor, tuple(map(parse, box))


def _described(node: ast.Call, text: str, names: Collection[str] | None) -> Expr:
    """Build the address of a tensor that is passed as a descriptor.

    Its names are all names in the descriptor.
    """
    if len(node.args) < 2 or node.keywords or not isinstance(node.args[0], ast.Name):
        message = f"{DESCRIPTOR}() takes a tensor and the extents of a box, such as {DESCRIPTOR}(x, BM, BK)"
        raise ExpressionError(message, column=column_of(node, text))
    tensor = node.args[0].id
    inner = [build(arg, text, ast.unparse(arg), names) for arg in node.args[1:]]
    build(node.args[0], text, tensor, names)
    address = parse(f"{tensor}.ptr")
    whole = address.names.union(*(part.names for part in inner))
    uses = address.uses.union({(tensor, "stride")}, *(part.uses for part in inner))
    extents = frozenset[tuple[str, str, int]]().union(*(part.extents for part in inner))
    return Expr(address.text, whole, uses, extents, address.kind, address.run)


def joined_abi(one: Sequence[AbiSlot], other: Sequence[AbiSlot]) -> tuple[AbiSlot, ...] | None:
    """Return arguments for two images of one variant, or None if they differ.

    They may differ in the size of scratch memory. An image that needs none has a null there, which
    it ignores.
    """
    if len(one) != len(other):
        return None
    joined = []
    for a, b in zip(one, other, strict=True):
        unused = all(slot.scratch or (slot.type, slot.expr) == ("u64", "0") for slot in (a, b))
        if a != b and not unused:
            return None
        joined.append(max(a, b, key=lambda slot: slot.scratch))
    return tuple(joined)
