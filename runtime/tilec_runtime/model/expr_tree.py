"""Parse text of the expression language to a syntax tree.

Python's parser does most of the work; this module refuses Python that the language lacks.
"""

from __future__ import annotations

import ast
import re

from tilec_runtime.errors import ExpressionError

MAX_LENGTH = 1000

_PIECE = r"""[ \t\r\n]+ | (?:0[xX][0-9a-fA-F]+ | (?:0|[1-9][0-9]*(?:_[0-9]+)*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)(?![A-Za-z0-9_])
    | [A-Za-z_][A-Za-z0-9_]*(?!["']) | "[^"\\\x00-\x1f]*" | '[^'\\\x00-\x1f]*' | // | [=!<>]= | [-+*%<>()\[\],.:]"""
_STRANGE = r"\w+|\*\*|&&|\|\|"
_BLANKS = str.maketrans("\t\r\n", "   ")
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
    """Return the syntax tree, with columns of `text`.

    Raises:
        ExpressionError: the text is too long, empty, or violates the language's grammar.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(
            f"the expression has {len(text)} characters, the most is {MAX_LENGTH}",
            column=1,
        )
    if not text.strip(" \t\r\n"):
        raise ExpressionError("the expression is empty", column=1)
    if not text.isascii() or "#" in text or "\\" in text:  # Python's parser accepts these
        refuse_foreign(text)
    # Python's parser gets one line: tabs and line ends become blanks, which keeps columns.
    body = text.translate(_BLANKS)
    start = len(body) - len(body.lstrip(" "))
    try:
        node = ast.parse(body.strip(" "), mode="eval").body
    except SyntaxError as error:
        refuse_foreign(text)
        end = len(text.rstrip()) + 1
        column = min(error.offset + start, end) if error.offset else end  # 0 is the end
        raise ExpressionError(_plain(error, text, column), column=column) from None
    except (ValueError, MemoryError, RecursionError):
        refuse_foreign(text)
        raise ExpressionError("the expression is nested too deeply", column=1) from None
    if start:
        for part in ast.walk(node):
            if isinstance(part, ast.expr):
                part.col_offset += start
                part.end_col_offset = (part.end_col_offset or 0) + start
    return node


def refuse_foreign(text: str) -> None:
    """Raise an error for the first token that the language lacks, if there is one.

    Refused texts alone are scanned: compiling the pattern takes longer than parsing expressions.
    """
    pattern = re.compile(_PIECE, re.VERBOSE)
    at = 0
    while at < len(text):
        token = pattern.match(text, at)
        if token is None or text.startswith("**", at):
            strange = re.match(_STRANGE, text[at:])
            word = strange.group() if strange else text[at]
            hint = f": {_FOREIGN[word]}" if word in _FOREIGN else ""
            raise ExpressionError(f"unexpected {word!r}{hint}", column=at + 1)
        at = token.end()


def _plain(error: SyntaxError, text: str, column: int) -> str:
    """Return the message of Python's parser about a bracket, or tilec's own message.

    Other messages of the parser differ between Python versions.
    """
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
    """Return the column of a node in characters, counted from 1; `ast` counts bytes."""
    return (
        node.col_offset + 1
        if text.isascii()
        else len(text.encode()[: node.col_offset].decode()) + 1
    )
