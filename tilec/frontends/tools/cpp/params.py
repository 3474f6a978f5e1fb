"""Read parameter lists of kernels and templates: names, types, defaults, stores allowed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from tilec.frontends.tools.cpp import types
from tilec.frontends.tools.cpp.tokens import Token, flat
from tilec.model.cpp import dtype_of
from tilec.model.declaration import ParamDecl
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.kernel import AxisValue

_ALIGNED = ("alignas", "__align__", "__attribute__")
_DROPPED = {
    "volatile",
    "__restrict__",
    "__restrict",
    "restrict",
    "__grid_constant__",
    "struct",
    "class",
    "union",
    "typename",
    "register",
    "__const__",
    "[[",
    *_ALIGNED,
}
_MAX_ALIASES = 8


@dataclasses.dataclass(slots=True)
class Scope:
    """The type aliases of a file (`using T = float;`), and its name for messages."""

    file: str
    aliases: dict[str, list[Token]] = dataclasses.field(default_factory=dict)

    def learn(self, tokens: Sequence[Token]) -> None:
        """Record a simple `using A = …` or `typedef … A`; ignore other declarations."""
        texts = [t.text for t in tokens]
        if texts[:1] == ["using"] and len(texts) >= 4 and texts[2] == "=":
            self.aliases[texts[1]] = list(tokens[3:])
        elif (
            texts[:1] == ["typedef"]
            and len(texts) >= 3
            and tokens[-1].kind == "name"
            and not {"(", "{", "["} & set(texts)
        ):
            self.aliases[texts[-1]] = list(tokens[1:-1])

    def resolve(self, tokens: Sequence[Token]) -> list[Token]:
        """Return `tokens` with aliases replaced by their types."""
        out = list(tokens)
        for _ in range(_MAX_ALIASES):
            hit = next(
                (
                    i
                    for i, t in enumerate(out)
                    if t.text in self.aliases and not (i and out[i - 1].text == "::")
                ),
                None,
            )
            if hit is None:
                return out
            out[hit : hit + 1] = self.aliases[out[hit].text]
        return out


def outside_templates(tokens: Iterable[Token]) -> Iterator[tuple[int, Token]]:
    """Yield the tokens outside of template arguments, with their indices."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.text == "<":
            depth += 1
        elif token.text == ">" and depth:
            depth -= 1
        elif depth == 0:
            yield index, token


def split(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split tokens at commas outside of template arguments."""
    if not tokens:
        return []
    commas = [index for index, token in outside_templates(tokens) if token.text == ","]
    starts = [0, *(comma + 1 for comma in commas)]
    ends = [*commas, len(tokens)]
    return [list(tokens[start:end]) for start, end in zip(starts, ends, strict=True)]


def template_parameter(tokens: Sequence[Token]) -> str:
    """Return the name of a template parameter, or an empty string; that of a pack ends in `...`."""
    texts = [t.text for t in tokens]
    head = tokens[: texts.index("=")] if "=" in texts else tokens
    last = head[-1] if len(head) > 1 else None
    named = last is not None and last.kind == "name" and last.text not in ("typename", "class")
    name = last.text if last and named else ""
    return f"{name}..." if any(t.text == "..." for t in head) else name


def parameters(
    parts: Sequence[list[Token]], scope: Scope, template: tuple[str, ...]
) -> tuple[ParamDecl, ...]:
    """Return the parameters of a kernel in order, from the tokens of each.

    Raises:
        CompileError: a parameter is a reference.
    """
    if len(parts) == 1 and [t.text for t in parts[0]] == ["void"]:
        return ()
    return tuple(
        _parameter(part, index, scope, template) for index, part in enumerate(parts) if part
    )


def _parameter(
    tokens: list[Token], index: int, scope: Scope, template: tuple[str, ...]
) -> ParamDecl:
    location = Location(file=scope.file, line=tokens[0].line, column=tokens[0].column)
    declared = _before(("=",), tokens)
    default = tokens[len(declared) + 1 :]
    body = _without_attributes(declared)
    if any(t.text in ("&", "&&") for _, t in outside_templates(flat(body))):
        raise CompileError(
            f"{location}: a kernel cannot take a reference",
            diagnostics=(
                Diagnostic(
                    message=f"a kernel cannot take a reference: {spell(body)}",
                    location=location,
                    hint=_REFERENCE,
                ),
            ),
            fix=_REFERENCE,
        )
    written, name, arrays = _cut_name(body)
    resolved = scope.resolve(written)
    stars = sum(t.text == "*" for _, t in outside_templates(flat(resolved))) + arrays
    kind, dtype, out, size = _meaning(resolved, stars, template)
    return ParamDecl(
        name=name.text if name else f"arg{index}",
        type=spell(written) + "[]" * arrays,
        kind=kind,
        dtype=dtype,
        out=out,
        size=size,
        default=_literal(default) if kind == "scalar" else None,
        location=Location(file=scope.file, line=name.line, column=name.column)
        if name
        else location,
    )


_REFERENCE = "take it by value, or as a pointer; large structs go as `const __grid_constant__ T x`"


def _meaning(
    tokens: list[Token], stars: int, template: tuple[str, ...]
) -> tuple[str, str, bool | None, int]:
    """Return kind, dtype, out and size of a type with `stars` levels of pointers."""
    before = _before(("*", "("), tokens)
    base = spell([t for t in before if t.text != "const"])
    if stars:
        written = not any(t.text == "const" for _, t in outside_templates(before))
        if stars > 1:
            # A pointer to pointers: the elements are addresses.
            return "tensor", "u64", written, 0
        dtype = base if base in template else types.element(base)
        return "tensor", dtype, written, 0
    if base in template:
        return "scalar", base, None, 0
    dtype = dtype_of(base)
    if dtype:
        return "scalar", dtype, None, 0
    if types.is_tag(base):
        return "empty", "", None, 1
    return "struct", "", None, types.struct_size(base)


def _before(texts: Sequence[str], tokens: list[Token]) -> list[Token]:
    """Return the tokens before the first of `texts` outside of template arguments."""
    end = next(
        (index for index, token in outside_templates(tokens) if token.text in texts), len(tokens)
    )
    return tokens[:end]


def _without_attributes(tokens: list[Token]) -> list[Token]:
    """Remove attributes, alignment and qualifiers that do not change the type."""
    before = ["", *(token.text for token in tokens)]
    return [
        token
        for token, last in zip(tokens, before, strict=False)
        if token.text not in _DROPPED and not (token.text == "(" and last in _ALIGNED)
    ]


def _cut_name(tokens: list[Token]) -> tuple[list[Token], Token | None, int]:
    """Return the type, the name and the number of array levels (0 or 1) of a declarator."""
    body = list(tokens)
    while body and body[-1].text == "[":
        body.pop()
    arrays = int(len(body) < len(tokens))
    first = next((i for i, t in enumerate(body) if t.text == "("), None)
    if first is not None and body[-1].text == "(":
        # `float (*x)[4]` or `void (*f)(int)`: both are pointers.
        inside = body[first].inside
        star = next((t for t in inside if t.text == "*"), body[first])
        name = next((t for t in inside if t.kind == "name"), None)
        return [*body[:first], star], name, 0
    if body and body[-1].kind == "name" and _has_type(body[:-1]):
        return body[:-1], body[-1], arrays
    return body, None, arrays


def _has_type(tokens: list[Token]) -> bool:
    """Whether the tokens before a name are a type, as in `unsigned x`.

    In `unsigned` and `std::size_t` alone, the last name belongs to the type itself.
    """
    if not tokens or tokens[-1].text == "::":
        return False
    return any(t.text != "const" for t in tokens)


def spell(tokens: Sequence[Token]) -> str:
    """Return tokens as C++ text: a space between words and after commas."""
    text = ""
    for token in flat(tokens):
        if (
            text
            and (text[-1].isalnum() or text[-1] in "_*>")
            and (token.text[0].isalnum() or token.text[0] == "_")
        ) or text.endswith(","):
            text += " "
        text += token.text
    return text


def _literal(tokens: list[Token]) -> AxisValue | None:
    sign = -1 if tokens and tokens[0].text == "-" else 1
    rest = tokens[1:] if sign < 0 else tokens
    if len(rest) != 1:
        return None
    text = rest[0].text.replace("'", "")
    if text in ("true", "false"):
        return text == "true"
    try:
        return sign * int(text.rstrip("uUlL"), 0)
    except ValueError:
        pass
    try:
        return sign * float(text.rstrip("fFlL"))
    except ValueError:
        return None
