"""Find `__global__` functions of a CUDA C++ file, without a compiler."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tilec.frontends.tools.cpp.params import Scope, parameters, split, template_parameter
from tilec.frontends.tools.cpp.tokens import Lexed, Token, lex
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec_runtime.errors import CompileError, Diagnostic, Location

SIMT, TILE = "__global__", "__tile_global__"
"""Keywords of kernels in CUDA C++ and in CUDA Tile C++."""

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


def find_kernels(text: str, file: str, keyword: str = SIMT) -> list[KernelDecl]:
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
        self._lexed = lexed
        self._file = file
        self._scope = Scope(file=file)
        self._constants = {
            name: body[0].text for name, body in lexed.macros.items() if len(body) == 1
        }
        self._kernels: dict[tuple[str, tuple[str, ...]], KernelDecl] = {}
        self._defined: set[tuple[str, tuple[str, ...]]] = set()  # others are mere declarations

    def read(self) -> list[KernelDecl]:
        self._walk(self._lexed.tokens, (), plain=False)
        return list(self._kernels.values())

    def _walk(self, tokens: Sequence[Token], namespaces: tuple[str, ...], *, plain: bool) -> None:
        # `plain`: inside of `extern "C"`, where names are not mangled.
        for part in _declarations(tokens):
            words = [token.text for token in part]
            extern = plain or words[:2] == ["extern", '"C"']
            inner = _namespace(part[:-1]) if words[-1] == "{" else None
            alias = next((i for i, word in enumerate(words) if word in ("using", "typedef")), None)
            if self._keyword in words:
                self._kernel(part, words.index(self._keyword), namespaces, plain=extern)
            elif alias is not None:
                self._scope.learn(part[alias:-1])
            elif inner is not None:
                self._walk(part[-1].inside, (*namespaces, *inner), plain=extern)
            elif words[-3:-2] == ["="] and part[-2].kind == "number" and len(part) > 3:
                self._constants[words[-4]] = words[-2]  # `constexpr int N = 256;`

    def _kernel(
        self, tokens: Sequence[Token], index: int, namespaces: tuple[str, ...], *, plain: bool
    ) -> None:
        """Add the kernel of a declaration with the keyword at `index`."""
        last = len(tokens) - 1
        for at in range(index + 1, last if tokens[last].text != "}" else 0):
            if (
                tokens[at].text == "("
                and tokens[at - 1].kind == "name"
                and _behind(tokens, at + 1) == last
            ):
                self._add(tokens, at, namespaces, plain=plain)
                return

    def _add(
        self, tokens: Sequence[Token], at: int, namespaces: tuple[str, ...], *, plain: bool
    ) -> None:
        """Add a kernel, whose parameters are inside of token `at`."""
        name, head = tokens[at - 1], tokens[: at - 1]
        names = _template(head)
        if names is None:
            return
        around = (*head, *tokens[at + 1 : -1])
        qualified = "::".join((*namespaces, name.text))
        taken, refused = self._parameters(tokens[at], names)
        decl = KernelDecl(
            name=name.text,
            qualified=qualified,
            location=Location(file=self._file, line=name.line, column=name.column),
            doc=self._doc(tokens[0].line),
            params=taken,
            refused=refused,
            template=names,
            max_threads=self._bounds(around),
            cluster=self._cluster(around),
            typed=self._keyword == SIMT and not plain,
        )
        key, defined = (qualified, names), tokens[-1].text == "{"
        if key not in self._kernels or (defined and key not in self._defined):
            self._kernels[key] = decl
        if defined:
            self._defined.add(key)

    def _parameters(
        self, brackets: Token, names: tuple[str, ...]
    ) -> tuple[tuple[ParamDecl, ...], tuple[Diagnostic, ...]]:
        """Return the parameters, or diagnostics if a parameter is refused."""
        template = tuple(n.removesuffix("...") for n in names)
        try:
            return parameters(split(brackets.inside), self._scope, template), ()
        except CompileError as exc:
            return (), exc.diagnostics

    def _bounds(self, head: Sequence[Token]) -> int:
        arguments = _attribute(head, "__launch_bounds__")
        return (self._number(arguments[0]) or 0) if arguments else 0

    def _cluster(self, head: Sequence[Token]) -> tuple[int, ...]:
        arguments = _attribute(head, "__cluster_dims__")
        numbers = [self._number(a) for a in arguments]
        if not numbers or not all(numbers):
            return ()
        return tuple([n or 1 for n in numbers] + [1] * (3 - len(numbers)))

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
        for comment in reversed(self._lexed.comments):
            last = comment.line + comment.text.count("\n")
            if last >= line:
                continue
            if last != line - 1 or comment.line in self._lexed.lines:
                break
            parts.insert(0, comment.text)
            line = comment.line
            if comment.text.startswith("/*"):
                break
        return clean_comment("\n".join(parts))


def _declarations(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the tokens of each declaration, up to its semicolon or brace."""
    start = 0
    for index, token in enumerate(tokens, 1):
        if token.text in (";", "{", "}"):
            yield tokens[start:index]
            start = index


def _namespace(head: Sequence[Token]) -> tuple[str, ...] | None:
    """Return the names of the namespace that a brace after `head` opens, or None."""
    words = [token.text for token in head]
    if "namespace" in words:
        names = [t.text for t in head[words.index("namespace") + 1 :] if t.kind == "name"]
        return tuple(n for n in names if n != "inline" and not n.startswith("__attribute"))
    return () if words[:1] == ["extern"] and [t.kind for t in head[1:]] == ["string"] else None


def _behind(tokens: Sequence[Token], at: int) -> int:
    """Skip attributes and qualifiers between the parameters and the body."""
    while at < len(tokens) and tokens[at].text in _AFTER:
        at += 1
        if at < len(tokens) and tokens[at].text == "(":
            at += 1
    return at


def _template(head: Sequence[Token]) -> tuple[str, ...] | None:
    """Return the names of template parameters; that of a pack ends in `...`.

    The last template header counts. The result is None for explicit instantiations and
    specializations.
    """
    names: tuple[str, ...] = ()
    for index, token in enumerate(head):
        if token.text == "template":
            names = tuple(map(template_parameter, split(_arguments(head[index + 1 :]))))
            if not names:
                return None
    return names


def _arguments(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens in the angle brackets that begin here; empty without any."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.text == "<") - (token.text == ">")
        if depth == 0:
            return tokens[1:index]
    return tokens[1:]


def _attribute(head: Sequence[Token], name: str) -> list[list[Token]]:
    """Return the arguments of `name(…)`, or an empty list."""
    for token, after in itertools.pairwise(head):
        if token.text == name and after.text == "(":
            return split(after.inside)
    return []


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
