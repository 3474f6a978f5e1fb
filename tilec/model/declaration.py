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
        type: its type as written, for messages (`const T*`, `ct.Constant[int]`); empty where the
            language has none.
        kind: `tensor` (a pointer or array), `scalar`, `struct`, `empty` (a tag without a value) or
            `constant` (a compile-time constant, bound by a matrix axis).
        dtype: a dtype's name, or the name of a template parameter, or empty where the source does
            not say.
        out: True where the source says that it is written, False where it says that it is only
            read, None where it does not say.
        size: bytes of a struct, 0 where the source does not say.
        default: default value of a scalar or constant, if the source gives one.
        location: where it is declared.
        rank: dimensions of a tensor, -1 where the source does not say.
        read: the kernel writes it, and the source says that it reads it before.
        computed_from: of a constant, the parameter that the source computes it from.
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
    computed_from: str = ""

    @property
    def given(self) -> bool:
        """Whether a launch gives it a value."""
        return self.kind not in ("constant", "empty")


@value_class(frozen=True, kw_only=True)
class AxisUse:
    """An axis of the matrix that a source names: its values are dtypes, or sizes; `where` it does
    (`z: tl.Mut[T, (BM, BN)]`).
    """

    name: str
    dtype: bool
    where: str


@value_class(frozen=True, kw_only=True)
class KernelDecl:
    """A kernel as a frontend finds it in a source.

    Attributes:
        name: function name, without namespace or template arguments.
        qualified: the name to compile by (`ns::name`).
        location: where it is defined.
        doc: its docstring or leading comment.
        params: in ABI order, compile-time constants included.
        template: names of its template parameters, in order (C++); that of a pack ends in `...`.
        max_threads: threads per block that the source bounds it to, 0 for none or not a literal.
        cluster: cluster dimensions fixed in the source.
        together: most variants of the source that the frontend compiles in one go; 1 where each is
            compiled alone.
        axes: axes of the matrix that the source names besides its constants.
        grid: how many blocks the source says there are; then the manifest says nothing else, unless
            `grid_free`.
        requires: conditions on the arguments that the source demands.
        alike: extents that have to be equal unless a requirement says otherwise.
        safety: what is known of its safety, None where the language does not say.
        unproven: accesses that need a check inside of the kernel, each with what would prove it,
            and notes of the calls on the way to it.
        unfollowed: loads whose tile is not followed, so that extents of the array meet no others:
            the array, and the place.
        refused: why it cannot be compiled, each at its place; other kernels of the source can be.
        named: its parameters have names of their own; where not, the manifest's `params` name them
            in order.
        simt: the manifest says how many threads a block has; None as the language has it.
        block: block that the code was compiled for (`reqntid`), empty for any.
        kinds: kinds of targets that can be made of it (`cubin`, `ptx`, `tileir`); empty for all
            that the language makes.
        captures: variables around the kernel that it reads. Those of kind `scalar` are numbers,
            which the manifest may make parameters of the launch; of the others, `type` says what
            they are.
        configs: values of constants and hints that the source lists to be tried, each for one
            variant (`@triton.autotune`).
        note: what a build says once of how the source is compiled.
        typed: the compiled entry's name holds the types of its parameters, so that dtypes may be
            left to it.
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
        place = problems[0].location if problems else None
        return cls(
            name=name, qualified=name, location=place or Location(file=file), refused=problems
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
        """Each template parameter's argument; that of a pack where it has just one."""
        pairs = zip(self.template, arguments, strict=False)
        several = len(arguments) > len(self.template)
        return {
            name.removesuffix("..."): argument
            for name, argument in pairs
            if not (several and name.endswith("..."))
        }
