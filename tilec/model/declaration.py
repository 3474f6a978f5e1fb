"""Kernels as a frontend finds them in a source."""

from __future__ import annotations

from collections.abc import Sequence

from tilec.model.alike import Alike
from tilec_runtime.errors import Diagnostic, Location
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.safety import Safety
from tilec_runtime.values import value_class


@value_class(frozen=True, kw_only=True)
class ParamDecl:
    """A parameter as the source declares it.

    Attributes:
        name: its name in the source.
        type: its type as written, for messages (`const T*`, `ct.Constant[int]`); may be empty.
        kind: `tensor` (a pointer or array), `scalar`, `struct`, `empty` (a tag without a value) or
            `constant` (a compile-time constant, bound by a matrix axis).
        dtype: a dtype's name, the name of a template parameter, or empty if the source does not
            declare it.
        out: True if the source declares it as written, False as read-only, None if unknown.
        size: bytes of a struct, 0 if unknown.
        default: default value of a scalar or constant, if the source gives one.
        location: where it is declared.
        rank: dimensions of a tensor, -1 if unknown.
        read: the kernel reads this output before it writes it.
        reads: of a constant that the source computes, the parameters and constants that it is
            computed from; `formula` is how, as an expression of these, empty if unknown.
        address: the source loads or stores through it.
    """

    name: str
    type: str = ""
    kind: str
    dtype: str = ""
    out: bool | None = None
    size: int = 0
    default: AxisValue | None = None
    location: Location | None = None
    rank: int = -1
    read: bool = False
    reads: tuple[str, ...] = ()
    formula: str = ""
    address: bool = False

    @property
    def given(self) -> bool:
        """Whether a launch gives it a value."""
        return self.kind not in ("constant", "empty")


@value_class(frozen=True, kw_only=True)
class AxisUse:
    """An axis of the matrix that a source names.

    Attributes:
        name: name of the axis.
        dtype: whether its values are dtypes; otherwise they are sizes.
        where: the text that names it, such as `z: tl.Mut[T, (BM, BN)]`.
    """

    name: str
    dtype: bool
    where: str


@value_class(frozen=True, kw_only=True)
class KernelDecl:
    """A kernel as its source declares it.

    Attributes:
        name: function name, without namespace or template arguments.
        qualified: the name to compile by (`ns::name`).
        location: where it is defined.
        doc: its docstring or leading comment.
        params: in ABI order, compile-time constants included.
        template: names of its template parameters, in order (C++); that of a pack ends in `...`.
        max_threads: bound of threads per block in the source, 0 for none or not a literal.
        cluster: cluster dimensions fixed in the source.
        together: most variants of the source per compile; 1 if each is compiled alone.
        axes: axes of the matrix that the source names besides its constants.
        grid: number of blocks that the source fixes; the manifest may change it only with
            `grid_free`.
        requires: preconditions in the source.
        alike: extents that must be equal unless a requirement overrides it.
        safety: its safety properties, None if the language has none.
        unproven: accesses that need a check in the kernel, each with a condition that would prove
            it, and notes on the calls that lead to it.
        unfollowed: loads of tiles of unknown extents, so that no extent is compared: the array and
            the location.
        refused: errors that prevent its compile, each with its location.
        named: its parameters have names; otherwise the manifest's `params` name them in order.
        simt: the manifest gives the threads of a block; None for the language's rule.
        block: block that the code was compiled for (`reqntid`), empty for any.
        kinds: kinds of targets it can be compiled for (`cubin`, `ptx`, `tileir`); empty for all of
            the language.
        captures: variables around the kernel that it reads. Those of kind `scalar` are numbers,
            which the manifest may make launch parameters; `type` describes the others.
        configs: values of constants and hints that the source lists, each for one variant
            (`@triton.autotune`).
        note: a note that a build prints once.
        typed: the compiled entry's name encodes the types of its parameters, so that dtypes may be
            omitted.
    """

    name: str
    qualified: str = ""
    location: Location
    doc: str = ""
    params: tuple[ParamDecl, ...] = ()
    template: tuple[str, ...] = ()
    max_threads: int = 0
    cluster: tuple[int, ...] = ()
    together: int = 1
    axes: tuple[AxisUse, ...] = ()
    grid: tuple[str, ...] = ()
    grid_free: bool = False
    requires: tuple[str, ...] = ()
    alike: tuple[Alike, ...] = ()
    safety: Safety | None = None
    unproven: tuple[Diagnostic, ...] = ()
    unfollowed: tuple[tuple[str, str], ...] = ()
    refused: tuple[Diagnostic, ...] = ()
    named: bool = True
    simt: bool | None = None
    block: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    captures: tuple[ParamDecl, ...] = ()
    typed: bool = False
    note: str = ""
    configs: tuple[tuple[tuple[str, AxisValue], ...], ...] = ()

    @classmethod
    def refuse(cls, name: str, file: str, problems: tuple[Diagnostic, ...]) -> KernelDecl:
        """Return the declaration of a kernel of which only its problems are known."""
        location = problems[0].location if problems else None
        return cls(
            name=name, qualified=name, location=location or Location(file=file), refused=problems
        )

    @property
    def variadic(self) -> bool:
        """Whether it takes any number of template arguments."""
        return any(name.endswith("...") for name in self.template)

    @property
    def places(self) -> str:
        """Template arguments that axes of the same names give, as messages show them."""
        return ", ".join(
            "…" if not name or name.endswith("...") else f"{{{name}}}" for name in self.template
        )

    def bound(self, arguments: Sequence[str]) -> dict[str, str]:
        """Return each template parameter's argument; a pack's only if it has exactly one."""
        pairs = zip(self.template, arguments, strict=False)
        several = len(arguments) > len(self.template)
        return {
            name.removesuffix("..."): argument
            for name, argument in pairs
            if not (several and name.endswith("..."))
        }
