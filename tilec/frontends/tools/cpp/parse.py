"""Find `__global__` functions of a CUDA C++ file, without a compiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilec.frontends.tools.cpp.params import Scope, parameters, split, template_parameter
from tilec.frontends.tools.cpp.tokens import Lexed, Token, lex
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.errors import CompileError, Diagnostic, Location

SIMT, TILE = "__global__", "__tile_global__"
"""Keywords of kernels in CUDA C++ and in CUDA Tile C++."""

_CLOSE = {"(": ")", "[": "]", "{": "}", "[[": "]]"}
_AFTER = {
    "noexcept",
    "->",
    "void",
    "__attribute__",
    "[[",
    "__launch_bounds__",
    "__cluster_dims__",
    "requires",
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CppKernel:
    """A kernel, with facts that only the compile step needs.

    Attributes:
        decl: the declaration.
        required: number of template parameters without a default.
        variadic: whether it takes a template parameter pack.
        defined: whether it has a body; False for a mere declaration.
    """

    decl: KernelDecl
    required: int = 0
    variadic: bool = False
    defined: bool = True


def find_kernels(text: str, file: str, keyword: str = SIMT) -> list[CppKernel]:
    """Return the kernels of a file in the order of their definitions.

    The parser skips code that it does not understand; the compiler reports errors in it.

    Args:
        text: the source.
        file: its name in locations.
        keyword: the keyword in front of a kernel.

    Raises:
        CompileError: a kernel takes a reference, which no launch can pass.
    """
    if keyword not in text:
        return []
    return _Reader(lex(text), file, keyword).read()


class _Reader:
    """One walk over a file's tokens at namespace scope."""

    def __init__(self, lexed: Lexed, file: str, keyword: str) -> None:
        self._keyword = keyword
        self._tokens = lexed.tokens
        self._comments = lexed.comments
        self._lines = {t.line for t in lexed.tokens}
        self._file = file
        self._scope = Scope(file=file)
        self._constants = {
            name: body[0].text for name, body in lexed.macros.items() if len(body) == 1
        }
        self._kernels: dict[tuple[str, tuple[str, ...]], CppKernel] = {}

    def read(self) -> list[CppKernel]:
        self._walk(0, len(self._tokens), (), plain=False)
        return list(self._kernels.values())

    def _walk(self, index: int, end: int, namespaces: tuple[str, ...], *, plain: bool) -> None:
        # `plain`: inside of `extern "C"`, where names are not mangled.
        start = index  # of the current declaration
        while index < end:
            token = self._tokens[index]
            if token.text in (";", "}"):
                index += 1
                start = index
            elif token.text == self._keyword:
                index = start = self._kernel(
                    start, index, namespaces, plain=plain or self._is_extern(start)
                )
            elif token.text in ("using", "typedef"):
                index = start = self._alias(index, end)
            elif token.text == "{":
                close = self._match(index)
                inner = self._namespace(start, index)
                if inner is not None:
                    self._walk(
                        index + 1,
                        close,
                        (*namespaces, *inner),
                        plain=plain or self._is_extern(start),
                    )
                index = close + 1
                start = index
            elif token.text in ("(", "[", "[["):
                index = self._match(index) + 1
            elif token.text == "=" and index:
                self._constant(index)
                index += 1
            else:
                index += 1

    def _namespace(self, start: int, brace: int) -> tuple[str, ...] | None:
        """Return the names of the namespace that a brace opens, or None."""
        head = self._tokens[start:brace]
        words = [t.text for t in head]
        if "namespace" in words:
            names = [t.text for t in head[words.index("namespace") + 1 :] if t.kind == "name"]
            return tuple(n for n in names if n != "inline" and not n.startswith("__attribute"))
        if words[:1] == ["extern"] and len(words) == 2 and head[1].kind == "string":
            return ()
        return None

    def _is_extern(self, start: int) -> bool:
        return [token.text for token in self._tokens[start : start + 2]] == ["extern", '"C"']

    def _kernel(self, start: int, index: int, namespaces: tuple[str, ...], *, plain: bool) -> int:
        """Read a kernel whose declaration starts at `start`, with the keyword at `index`.

        Returns the index after it.
        """
        at = index + 1
        while at < len(self._tokens) and self._tokens[at].text not in (";", "{", "}"):
            if self._tokens[at].text == "(":
                close = self._match(at)
                after = self._behind(close + 1)
                if (
                    after < len(self._tokens)
                    and self._tokens[after].text in ("{", ";")
                    and self._tokens[at - 1].kind == "name"
                ):
                    self._add(start, at, close, after, namespaces, plain=plain)
                    return self._match(after) + 1 if self._tokens[after].text == "{" else after + 1
                at = close
            at += 1
        if at < len(self._tokens) and self._tokens[at].text == "{":
            return self._match(at) + 1
        return at + 1

    def _behind(self, at: int) -> int:
        """Skip attributes and qualifiers between the parameters and the body."""
        while at < len(self._tokens) and self._tokens[at].text in _AFTER:
            at = self._match(at) + 1 if self._tokens[at].text == "[[" else at + 1
            if at < len(self._tokens) and self._tokens[at].text == "(":
                at = self._match(at) + 1
        return at

    def _add(
        self,
        start: int,
        open_: int,
        close: int,
        after: int,
        namespaces: tuple[str, ...],
        *,
        plain: bool,
    ) -> None:
        name = self._tokens[open_ - 1]
        template = self._template(start, open_)
        if template is None:
            return
        names, required, variadic = template
        head = self._tokens[start : open_ - 1]
        tail = self._tokens[close + 1 : after]
        qualified = "::".join((*namespaces, name.text))
        taken, refused = self._parameters(open_, close, names)
        decl = KernelDecl(
            name=name.text,
            qualified=qualified,
            location=Location(file=self._file, line=name.line, column=name.column),
            doc=self._doc(self._tokens[start].line),
            params=taken,
            refused=refused,
            template=names,
            max_threads=self._bounds((*head, *tail)),
            cluster=self._cluster((*head, *tail)),
            typed=self._keyword == SIMT and not plain,
        )
        kernel = CppKernel(
            decl=decl, required=required, variadic=variadic, defined=self._tokens[after].text == "{"
        )
        key = (decl.qualified, names)
        before = self._kernels.get(key)
        if before is None or (kernel.defined and not before.defined):
            self._kernels[key] = kernel

    def _parameters(
        self, open_: int, close: int, names: tuple[str, ...]
    ) -> tuple[tuple[ParamDecl, ...], tuple[Diagnostic, ...]]:
        """Return the parameters, or diagnostics if a parameter is refused."""
        template = tuple(n.removesuffix("...") for n in names)
        try:
            return parameters(self._tokens[open_ + 1 : close], self._scope, template), ()
        except CompileError as exc:
            return (), exc.diagnostics

    def _template(self, start: int, end: int) -> tuple[tuple[str, ...], int, bool] | None:
        """Return names, number of required arguments and whether there is a pack.

        The last template header counts. The result is None for explicit instantiations and
        specializations.
        """
        result: tuple[tuple[str, ...], int, bool] = ((), 0, False)
        index = start
        while index < end:
            if self._tokens[index].text == "template":
                if index + 1 >= end or self._tokens[index + 1].text != "<":
                    return None
                close = self._angle(index + 1)
                parts = [template_parameter(p) for p in split(self._tokens[index + 2 : close])]
                if not parts:
                    return None
                result = (
                    tuple(f"{name}..." if pack else name for name, _, pack in parts),
                    sum(not default and not pack for _, default, pack in parts),
                    any(pack for _, _, pack in parts),
                )
                index = close
            index += 1
        return result

    def _alias(self, index: int, end: int) -> int:
        stop = index
        while stop < end and self._tokens[stop].text != ";":
            stop = self._match(stop) + 1 if self._tokens[stop].text in _CLOSE else stop + 1
        self._scope.learn(self._tokens[index:stop])
        return stop + 1

    def _constant(self, index: int) -> None:
        # `constexpr int N = 256;`
        if (
            index + 2 < len(self._tokens)
            and self._tokens[index + 2].text == ";"
            and self._tokens[index + 1].kind == "number"
        ):
            self._constants[self._tokens[index - 1].text] = self._tokens[index + 1].text

    def _bounds(self, head: Sequence[Token]) -> int:
        arguments = self._attribute(head, "__launch_bounds__")
        return (self._number(arguments[0]) or 0) if arguments else 0

    def _cluster(self, head: Sequence[Token]) -> tuple[int, ...]:
        arguments = self._attribute(head, "__cluster_dims__")
        numbers = [self._number(a) for a in arguments]
        if not numbers or not all(numbers):
            return ()
        return tuple([n or 1 for n in numbers] + [1] * (3 - len(numbers)))

    def _attribute(self, head: Sequence[Token], name: str) -> list[list[Token]]:
        for index, token in enumerate(head[:-1]):
            if token.text == name and head[index + 1].text == "(":
                depth, inner = 0, []
                for each in head[index + 1 :]:
                    depth += (each.text == "(") - (each.text == ")")
                    if depth == 0:
                        break
                    inner.append(each)
                return split(inner[1:])
        return []

    def _number(self, tokens: Sequence[Token]) -> int | None:
        """Return the value of an integer literal or a known constant, or None."""
        if len(tokens) != 1:
            return None
        text = self._constants.get(tokens[0].text, tokens[0].text)
        try:
            return int(text.replace("'", "").rstrip("uUlL"), 0)
        except ValueError:
            return None

    def _doc(self, line: int) -> str:
        """Return the text of the comment that ends on the line before."""
        parts: list[str] = []
        for comment in reversed(self._comments):
            last = comment.line + comment.text.count("\n")
            if last >= line:
                continue
            if last != line - 1 or comment.line in self._lines:
                break
            parts.insert(0, comment.text)
            line = comment.line
            if comment.text.startswith("/*"):
                break
        return clean_comment("\n".join(parts))

    def _match(self, index: int) -> int:
        """Return the index of the closing bracket, or of the last token."""
        closers: list[str] = []
        for at in range(index, len(self._tokens)):
            text = self._tokens[at].text
            if text in _CLOSE:
                closers.append(_CLOSE[text])
            elif closers and text == closers[-1]:
                closers.pop()
                if not closers:
                    return at
            elif text == "]]" and closers[-2:] == ["]", "]"]:
                del closers[-2:]
                if not closers:
                    return at
        return len(self._tokens) - 1

    def _angle(self, index: int) -> int:
        depth = 0
        at = index
        while at < len(self._tokens):
            text = self._tokens[at].text
            if text in _CLOSE:
                at = self._match(at)
            elif text in (";", "{"):
                break
            else:
                depth += (text == "<") - (text == ">")
                if depth == 0:
                    return at
            at += 1
        return at


def clean_comment(text: str) -> str:
    """Return the text of a comment without `//`, `/*` and `*`."""
    lines = []
    for raw in text.split("\n"):
        line = raw.strip()
        for opener in ("/**", "/*!", "/*", "///<", "///", "//!", "//", "*/"):
            if line.startswith(opener):
                line = line[len(opener) :]
                break
        else:
            line = line.removeprefix("*")
        lines.append(line.removesuffix("*/").removeprefix(" ").rstrip())
    return "\n".join(lines).strip()
