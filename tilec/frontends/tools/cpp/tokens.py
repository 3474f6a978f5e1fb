"""Split C++ text into tokens with locations, nested by brackets; expand object-like macros."""

from __future__ import annotations

import bisect
import dataclasses
import re
from collections.abc import Iterable, Iterator

_TOKEN = re.compile(
    r"""
      (?P<space>(?:[ \t\r\f\v]|\\\r?\n)+)
    | (?P<newline>\n)
    | (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))
    | (?P<raw>(?:u8|[uUL])?R"(?P<delim>[^()\\\s]{0,16})\(.*?(?:\)(?P=delim)"|\Z))
    | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"?)
    | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
    | (?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)
    | (?P<name>[^\W\d]\w*)
    | (?P<punct>::|->|\.\.\.|&&|\[\[|\]\]|.)
    """,
    re.VERBOSE | re.DOTALL,
)
# A comment or a backslash may continue a directive on the next line.
_DIRECTIVE = re.compile(
    r"""(?P<directive>\#(?:
      /\*.*?(?:\*/|\Z)
    | //(?:\\\r?\n|[^\n])*
    | "(?:\\.|[^"\\\n])*"?
    | \\\r?\n
    | [^\n\\/"]+
    | [^\n]
    )*)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSE = {"(": ")", "[": "]", "{": "}", "[[": "]]"}
_MAX_BODY = 64
_MAX_EXPANDED = 1 << 18


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """A token: its kind, text, line and column (from 1).

    Kinds are name, number, string, char, punct, comment and directive. An opening bracket has the
    tokens up to its closing one `inside`, once they are nested.
    """

    kind: str
    text: str
    line: int
    column: int
    inside: tuple[Token, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Lexed:
    """A file's nested tokens (without comments and directives), comments, object-like macros.

    Attributes:
        lines: numbers of the lines that have tokens.
    """

    tokens: tuple[Token, ...]
    comments: tuple[Token, ...]
    macros: dict[str, tuple[Token, ...]]
    lines: frozenset[int]


def lex(text: str) -> Lexed:
    """Return the tokens of a C++ file.

    Blocks under `#if 0` are left out. All branches of other conditionals are kept if the braces of
    each are balanced; otherwise only the first non-empty branch is. Object-like macros that the
    file defines are expanded.
    """
    comments: list[Token] = []
    stream: list[Token] = []
    macros: dict[str, tuple[Token, ...]] = {}
    for token in _scan(text):
        if token.kind == "comment":
            comments.append(token)
            continue
        if token.kind == "directive":
            _define(token, macros)
        stream.append(token)
    kept, _ = _branches(stream, 0)
    tokens = _expand(kept, macros, frozenset(), [_MAX_EXPANDED])
    return Lexed(
        tokens=_nested(tokens),
        comments=tuple(comments),
        macros=macros,
        lines=frozenset(token.line for token in tokens),
    )


def flat(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield tokens with those inside of brackets, and the closing brackets."""
    waiting = list(tokens)[::-1]
    while waiting:
        token = waiting.pop()
        yield token
        if token.kind == "punct" and token.text in _CLOSE:
            waiting.append(Token("punct", _CLOSE[token.text], token.line, token.column))
            waiting += token.inside[::-1]


def _nested(tokens: Iterable[Token]) -> tuple[Token, ...]:
    """Put tokens inside of the brackets around them; an unclosed bracket encloses the rest."""
    opened: list[Token] = []
    levels: list[list[Token]] = [[]]

    def close() -> None:
        inside = tuple(levels.pop())
        levels[-1].append(dataclasses.replace(opened.pop(), inside=inside))

    for token in tokens:
        text = token.text if token.kind == "punct" else ""
        if text in _CLOSE:
            opened.append(token)
            levels.append([])
            continue
        if text == "]]" and [each.text for each in opened[-2:]] == ["[", "["]:
            close()
            text = "]"
        if text == "}" and any(each.text == "{" for each in opened):
            while opened[-1].text != "{":  # brackets in it that nothing closes
                close()
        if opened and text == _CLOSE[opened[-1].text]:
            close()
        else:
            levels[-1].append(token)
    while opened:
        close()
    return tuple(levels[0])


def _scan(text: str) -> Iterator[Token]:
    starts = [0, *(m.end() for m in re.finditer(r"\n", text))]
    position, fresh = 0, True  # fresh: only white space so far on this line
    while position < len(text):
        pattern = _DIRECTIVE if fresh and text[position] == "#" else _TOKEN
        match = pattern.match(text, position)
        assert match is not None  # the last alternative takes any character
        kind = match.lastgroup or "punct"
        if kind not in ("space", "newline"):
            line = bisect.bisect_right(starts, position)
            column = position - starts[line - 1] + 1
            yield Token("string" if kind == "raw" else kind, match.group(), line, column)
        fresh = kind == "newline" or (fresh and kind in ("space", "comment", "directive"))
        position = match.end()


def _define(token: Token, macros: dict[str, tuple[Token, ...]]) -> None:
    match = re.match(r"#[ \t]*define[ \t]+(\w+)(?:[ \t]+|$)(.*)", token.text, re.DOTALL)
    if match is None:
        return
    body = tuple(
        Token(t.kind, t.text, token.line, token.column)
        for t in _scan(match[2])
        if t.kind not in ("comment", "directive")
    )
    if len(body) <= _MAX_BODY:
        macros[match[1]] = body


def _branches(stream: list[Token], start: int) -> tuple[list[Token], int]:
    """Return the tokens of the branch that starts at `start`, and the index of its end.

    An `#endif`, `#else` or `#elif` ends it.
    """
    out: list[Token] = []
    index = start
    while index < len(stream):
        token = stream[index]
        word = _word(token)
        if word in ("if", "ifdef", "ifndef"):
            parts: list[list[Token]] = []
            dead = re.fullmatch(r"#[ \t]*if[ \t]+0[ \t]*", token.text) is not None
            while True:
                part, index = _branches(stream, index + 1)
                parts.append([] if dead else part)
                dead = False
                if index >= len(stream) or _word(stream[index]) == "endif":
                    break
            out.extend(_merged(parts))
        elif word in ("else", "elif", "elifdef", "elifndef", "endif"):
            return out, index
        elif token.kind != "directive":
            out.append(token)
        index += 1
    return out, index


def _merged(parts: list[list[Token]]) -> list[Token]:
    if all(sum((t.text == "{") - (t.text == "}") for t in part) == 0 for part in parts):
        return [t for part in parts for t in part]
    return next((part for part in parts if part), [])


def _word(token: Token) -> str:
    if token.kind != "directive":
        return ""
    match = re.match(r"#[ \t]*(\w*)", token.text)
    return match[1] if match else ""


def _expand(
    tokens: Iterable[Token],
    macros: dict[str, tuple[Token, ...]],
    seen: frozenset[str],
    budget: list[int],
) -> list[Token]:
    out: list[Token] = []
    for token in tokens:
        body = macros.get(token.text) if token.kind == "name" and token.text not in seen else None
        if body is None or budget[0] < len(body):
            out.append(token)
            continue
        budget[0] -= len(body)
        # Tokens of a macro get the location of its use.
        placed = (Token(t.kind, t.text, token.line, token.column) for t in body)
        out.extend(_expand(placed, macros, seen | {token.text}, budget))
    return out
