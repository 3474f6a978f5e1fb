"""Text of the expression language to a syntax tree: refuses what Python would read and this
language has not.
"""

from __future__ import annotations

import ast
import re

from tilec_runtime.errors import ExpressionError

MAX_LENGTH = 1000

_PIECE = r"""[ \t\r\n]+ | (?:0[xX][0-9a-fA-F]+ | (?:0|[1-9][0-9]*(?:_[0-9]+)*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)(?![A-Za-z0-9_])
    | [A-Za-z_][A-Za-z0-9_]*(?!["']) | "[^"\\\x00-\x1f]*" | '[^'\\\x00-\x1f]*' | // | [=!<>]= | [-+*%<>()\[\],.:]"""
_STRANGE = r"\w+|\*\*|&&|\|\|"
# Two signs that are one operator, then signs that are one by themselves: an attribute's dot is one
# only in front of its name.
_PAIRS = ("<=", ">=", "!=", "==", "//", ".shape", ".stride", ".size", ".ptr", ".dtype")
_SINGLES = str.maketrans(dict.fromkeys("()[],:+-*%<> \t\r\n", " "))
_BLANKS = str.maketrans("\t\r\n", "   ")
_WAITING = tuple("-+*/%<>=([,.")
_FOREIGN = {
    "&&": "write 'and'",
    "||": "write 'or'",
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write 'not'",
    "/": "write '//' for integer division",
    "=": "write '==' to compare",
    "**": "there is no power: write the product",
}


def parse_tree(text: str) -> ast.expr:
    """The syntax tree, with columns as in `text`.

    Raises:
        ExpressionError: the text is too long, empty, or not of the language's tokens and grammar.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(
            f"the expression has {len(text)} characters, the most is {MAX_LENGTH}",
            text=text,
            column=1,
        )
    if not text.strip(" \t\r\n"):
        raise ExpressionError("the expression is empty", text=text, column=1)
    if not _plain_words(text):
        _scan(text)
    if _unfinished(text.rstrip()):
        raise ExpressionError(
            "the expression ends too early", text=text, column=len(text.rstrip()) + 1
        )
    # To Python's parser the text is one line: tabs and line ends become blanks, so that columns
    # stay.
    body = text.translate(_BLANKS)
    start = len(body) - len(body.lstrip(" "))
    try:
        node = ast.parse(body.strip(" "), mode="eval").body
    except SyntaxError as error:
        column = min((error.offset or 1) + start, len(text.rstrip()) + 1)
        raise ExpressionError(_plain(error, text, column), text=text, column=column) from None
    except (ValueError, MemoryError, RecursionError):
        raise ExpressionError("the expression is nested too deeply", text=text, column=1) from None
    if start:
        for part in ast.walk(node):
            if isinstance(part, ast.expr):
                part.col_offset += start
                part.end_col_offset = (part.end_col_offset or 0) + start
    return node


def _plain_words(text: str) -> bool:
    """Whether the text is names, whole numbers and operators that the scan passes: nearly all are,
    and its pattern takes longer to compile than they take to read.
    """
    if "**" in text:
        return False
    for operator in _PAIRS:
        text = text.replace(operator, " ")
    for word in text.translate(_SINGLES).split(" "):
        if word and not (
            word.isascii()
            and (word.isidentifier() or (word.isdecimal() and (word[0] != "0" or word == "0")))
        ):
            return False
    return True


def _scan(text: str) -> None:
    """Refuse what Python would read and this language has not, and everything that makes Python's
    parser warn.
    """
    pattern = re.compile(_PIECE, re.VERBOSE)
    at = 0
    while at < len(text):
        token = pattern.match(text, at)
        if token is None or text.startswith("**", at):
            strange = re.match(_STRANGE, text[at:])
            word = strange.group() if strange else text[at]
            hint = f": {_FOREIGN[word]}" if word in _FOREIGN else ""
            raise ExpressionError(f"unexpected {word!r}{hint}", text=text, column=at + 1)
        at = token.end()


def _unfinished(text: str) -> bool:
    """Whether something has to follow. It is asked of every expression, and a pattern would be
    compiled for it in every process.
    """
    last = next((word for word in ("and", "or", "not") if text.endswith(word)), "")
    before = text[: -len(last)][-1:] if last else "_"
    return text.endswith(_WAITING) or not (before.isalnum() or before == "_")


def _plain(error: SyntaxError, text: str, column: int) -> str:
    """What Python's parser says where it names a bracket; its other words differ between versions."""
    if error.msg.startswith(("'", "unmatched", "closing")):
        return error.msg
    if error.msg.startswith("too many"):
        return "the expression is nested too deeply"
    word = re.match(r"\w+|\S|", text[column - 1 :])
    return (
        f"the expression cannot be read at {word.group()!r}"
        if word and word.group()
        else "the expression ends too early"
    )


def column_of(node: ast.expr, text: str) -> int:
    """Column of a node in the text, from 1; `ast` counts bytes."""
    return (
        node.col_offset + 1
        if text.isascii()
        else len(text.encode()[: node.col_offset].decode()) + 1
    )
