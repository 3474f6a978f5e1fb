"""The keys of kernels and of languages' options, with their shapes and documentation."""

from __future__ import annotations

from tilec.manifest import types, values
from tilec.manifest.case_keys import CASE, OF_ALL_CASES
from tilec.manifest.key_shapes import BYTES, DTYPE, HINTS, LINE, PATH, POINT, parameters
from tilec.manifest.shapes import (
    Either,
    Flag,
    Formula,
    Integer,
    ListOf,
    Plain,
    Scalar,
    Text,
)
from tilec.manifest.tables import Key, Named, Names, Pairs, Parts, Table
from tilec_runtime.model.dtype import short_name
from tilec_runtime.model.operator import BackwardInfo
from tilec_runtime.model.signature import ParamKind
from tilec_runtime.model.table import DispatchRule

_SHA256 = Text("a SHA-256 (64 hexadecimal digits)", pattern="[0-9a-fA-F]{64}")
_DIVISORS = ListOf(Integer(1), least=1, most=8)
_AXIS_OR_DIVISOR = Either((Integer(1), Text("an axis of the matrix", pattern=values.IDENTIFIER)))
_ALIGNED = Integer(1, 2**20, power=True)


def _extents(noun: str) -> ListOf:
    """Return a shape of a list of numbers and `"?"`, which becomes None."""
    free = Text(
        f'{noun}: write a number, or "?" for a free one', pattern=r"\?", convert=values.free_extent
    )
    return ListOf(Either((Integer(0), free)), least=1, most=8)


_CPP = (
    Key("std", Text("C++ standard", choices=("c++14", "c++17", "c++20", "c++23")), "C++ standard."),
    Key("include", ListOf(PATH, unique=True), "Include directories, relative to the project."),
    Key(
        "define",
        Pairs(
            names=Names(
                values.IDENTIFIER,
                "a macro's name",
                Either((Text(convert=values.one_line, empty=True), Integer(convert=str))),
            )
        ),
        "Preprocessor macros and their values.",
    ),
    Key("flags", ListOf(Text()), "More compiler flags, of those that tilec knows."),
    Key(
        "unchecked-flags",
        Flag(),
        "Let flags through that tilec does not know; kernels with such flags are never cached.",
    ),
)
_LINK = Key(
    "link",
    ListOf(
        Text("a file such as act.cu or libact.a", convert=values.link_entry), least=1, unique=True
    ),
    "Files of device functions that the kernel is linked with.",
)
READ = Key(
    "reads",
    ListOf(PATH, least=1, unique=True),
    "Files, or directories of files, of the project that a Python source reads when it is executed.",
)
OPTIONS: dict[str, tuple[Key, ...]] = {
    "cuda": (
        Key(
            "compiler",
            Text("compiler", choices=("nvrtc", "nvcc")),
            "NVRTC in process (default), or nvcc for code that needs host headers.",
        ),
        *_CPP,
        Key(
            "group",
            Integer(1, 64),
            "Most variants of a source per compile; 1 compiles each alone.",
        ),
        _LINK,
    ),
    "prebuilt": (
        Key(
            "sha256",
            _SHA256,
            "SHA-256 of `source`, which is required: nothing else of a compiled file can be told from its name.",
        ),
        Key(
            "files",
            Pairs(names=Names(".+", "a path", _SHA256), least=1),
            "More files of the same kernel, for other targets: each with its SHA-256.",
        ),
    ),
    "tile": (*_CPP, READ),
    "triton": (READ,),
    "simt": (_LINK, READ),
}
_POINT = Pairs(names=POINT.names, least=1)
_VALUES = ListOf(Plain(), least=1, unique=True)
MATRIX = Table(
    keys=(
        Key(
            "exclude",
            ListOf(
                Table(
                    keys=(Key("when", Text("an expression"), "Expression over the axes."),),
                    names=POINT.names,
                    least=1,
                )
            ),
            "Points to leave out: by an expression over the axes, or by axis values that all match.",
        ),
        Key(
            "include",
            ListOf(_POINT),
            "Points to add; each gives every axis.",
        ),
        Key(
            "autotune",
            Flag(),
            "Take the configurations of the source's @triton.autotune as points, too.",
        ),
        Key("max-variants", Integer(1, 100_000), "Most variants that the matrix may give."),
    ),
    names=Names(
        values.IDENTIFIER,
        "an axis's name",
        Either(
            (
                _VALUES,
                Table(
                    names=Names(
                        r"\*|" + values.IDENTIFIER, 'a target, or "*" for all others', _VALUES
                    ),
                    least=1,
                ),
            )
        ),
        'An axis: its values, all of one type; or a list of values by target, "*" for all others.',
    ),
)
ASSUME = Table(
    keys=(
        Key(
            "sets",
            ListOf(
                Table(
                    keys=(
                        Key(
                            "name",
                            Text(
                                "a name of letters, digits and underscores", pattern="[A-Za-z0-9_]+"
                            ),
                            "Name in the variant's id.",
                        ),
                        Key(
                            "divisible",
                            Pairs(names=parameters(ListOf(_AXIS_OR_DIVISOR, least=1, most=8))),
                            "Divisors of the extents, one per dimension: numbers, and axes of the matrix.",
                        ),
                        Key(
                            "stride",
                            Pairs(names=parameters(_DIVISORS)),
                            "Divisors of the strides in elements, one per dimension.",
                        ),
                        Key(
                            "aligned",
                            Either((_ALIGNED, Pairs(names=parameters(_ALIGNED)))),
                            "Alignment of base addresses in bytes, of every tensor or by parameter.",
                        ),
                        Key(
                            "extent",
                            Pairs(names=parameters(_extents("an extent"))),
                            'Extents that are compiled in, one per dimension, "?" where it is free.',
                        ),
                        Key(
                            "contiguous",
                            Either(
                                (
                                    Flag(),
                                    ListOf(
                                        Text("a parameter's name", pattern=values.IDENTIFIER),
                                        least=1,
                                        unique=True,
                                    ),
                                )
                            ),
                            "Strides are those of a C-contiguous tensor: of every tensor, or of those named.",
                        ),
                    ),
                ),
                least=1,
                most=16,
            ),
            "Sets of facts that the compiler may use: each is one more variant, tried in this order; the empty set is the fallback.",
        ),
    ),
)
PARAM = Table(
    into=types.ParamTable,
    keys=(
        Key(
            "kind",
            Text("kind", choices=(*(kind.value for kind in ParamKind), "slice")),
            "How the parameter is passed.",
        ),
        Key("dtype", DTYPE, "A dtype, or the axis that holds it."),
        Key("rank", Integer(-1, 8), "Number of dimensions; -1 takes any."),
        Key("out", Flag(), "The kernel writes this tensor."),
        Key(
            "list",
            Either((Integer(1, 64), Text("an axis", pattern=values.IDENTIFIER))),
            "Number of arrays in a tuple, each a parameter of its own: NAME_0, NAME_1, ….",
        ),
        Key(
            "stride",
            _extents("a stride"),
            'Required stride per dimension in elements, "?" where it is free.',
        ),
        Key("contiguous", Flag(), "Must be C-contiguous."),
        Key("optional", Flag(), "May be None: there are variants with it, and without."),
        Key("divisible", _DIVISORS, "Divisors of the extents, one per dimension: always demanded."),
        Key("aligned", _ALIGNED, "Alignment of the base address in bytes: always demanded."),
        Key("default", Scalar(), "Default of a scalar in the launcher."),
        Key("size", Integer(1, 4096), "Bytes of a struct."),
        Key("doc", LINE, "One line for the launcher's docstring."),
    ),
)
LAUNCH = Table(
    into=types.Launch,
    keys=(
        Key(
            "requires",
            ListOf(Formula()),
            "Conditions on the arguments, each checked before a launch.",
        ),
        Key("grid", ListOf(Formula(1), least=1, most=3), "Blocks per dimension."),
        Key(
            "block",
            ListOf(Formula(1), least=1, most=3),
            "Threads per dimension (not for tile kernels).",
        ),
        Key("shared", Formula(0), "Dynamic shared memory in bytes."),
        Key("cooperative", Flag(), "All blocks are resident at once."),
        Key(
            "programmatic",
            Flag(),
            "May begin before the launch in front of it in its stream is done (programmatic dependent launch).",
        ),
        Key("cluster", ListOf(Integer(1, 16), least=1, most=3), "Cluster dimensions."),
        Key(
            "open",
            ListOf(Text("part of a launch", choices=("grid", "block", "shared")), most=3),
            "Parts that each launch gives by `config`.",
        ),
    ),
)
DISPATCH = Table(
    keys=(
        Key(
            "default",
            POINT,
            "Values of the axes that the caller may leave out.",
        ),
        Key(
            "table",
            PATH,
            "Tuning file, which `tilec tune` writes: the variants that were fastest, by device and sizes.",
        ),
        Key(
            "sizes",
            ListOf(Formula(), least=1, most=16),
            "Sizes that tell launches apart in the table, in place of all extents.",
        ),
        Key(
            "keep",
            Text("variants", choices=("all", "winners")),
            "Variants that are shipped: all (default), or the points that win somewhere in the table and the default.",
        ),
        Key(
            "rules",
            ListOf(
                Table(
                    into=DispatchRule,
                    keys=(
                        Key(
                            "when",
                            Formula(),
                            "Condition on the arguments; without it, the rule is for all launches.",
                        ),
                        Key(
                            "take",
                            _POINT,
                            "Axis values that those launches take.",
                            required="take = { BM = 64 }",
                        ),
                    ),
                ),
                least=1,
                most=64,
            ),
            "What launches take by their arguments: the first rule whose condition holds, and whose variant fits them.",
        ),
    ),
)
BUDGET = Table(
    into=types.Budget,
    keys=(
        Key("registers", Integer(0, 255), "Registers per thread."),
        Key("spills", BYTES, "Bytes spilled per thread."),
        Key("shared", BYTES, "Static shared memory per block."),
        Key("stack", BYTES, "Stack frame per thread."),
        Key("constant", BYTES, "Constant memory, parameters included."),
    ),
)
_DTYPE_OF = Text(
    "a dtype, an axis or a tensor's dtype such as x.dtype",
    pattern=rf"(?:{values.IDENTIFIER})(?:\.dtype)?",
    convert=short_name,
)
_NAME = Text("a parameter's name", pattern=values.IDENTIFIER)
OP = Table(
    into=types.Op,
    keys=(
        Key(
            "outputs",
            Named(
                names=parameters(
                    Table(
                        into=types.OpOutput,
                        keys=(
                            Key("like", _NAME, "Input whose shape it has."),
                            Key(
                                "shape",
                                ListOf(Formula(0), most=8),
                                "Extents: numbers, or expressions over the inputs.",
                            ),
                            Key(
                                "dtype",
                                _DTYPE_OF,
                                "Its dtype, if neither the parameter nor an input of the same axis gives it.",
                            ),
                        ),
                    ),
                )
            ),
            "Outputs that calls may leave out, and how they are allocated then.",
        ),
        Key(
            "backward",
            Either(
                (
                    Text("a kernel's name", pattern=values.IDENTIFIER, convert=values.backward),
                    Table(
                        into=BackwardInfo,
                        keys=(
                            Key(
                                "kernel",
                                Text("a kernel's name", pattern=values.IDENTIFIER),
                                "Kernel that computes the gradients: an operator too.",
                                required='kernel = "NAME"',
                            ),
                            Key(
                                "args",
                                Pairs(names=parameters(_NAME)),
                                "Value of each of its parameters with another name: a parameter of this kernel, or grad_ and its name.",
                            ),
                        ),
                    ),
                )
            ),
            "Kernel that computes the gradients of the inputs.",
        ),
    ),
)
_HINTS = Table(
    names=Names(
        values.IDENTIFIER,
        "a hint or a target",
        Either((Integer(), HINTS)),
    ),
)
KERNEL = Parts(
    keys=(
        Key(
            "source",
            Text(
                "a file, or a file and a function such as k.py:gemm",
                pattern=values.SOURCE,
                convert=values.path_and_function,
            ),
            "File of the kernel, and its function after a colon.",
            required='source = "kernels.py"',
        ),
        Key(
            "symbol",
            Text("a symbol such as gemm or ns::gemm<{T}, 4>", pattern=values.SYMBOL),
            "C++ name or template instance; {axis} stands for a value.",
        ),
        Key(
            "language",
            Text("a language", pattern=values.WORD),
            "Language of the source, where its suffix does not say.",
        ),
        Key(
            "matrix",
            Either((MATRIX, Text("matrix", choices=("autotune",)))),
            "Axes whose product gives the variants; names match the kernel's constants and dtype variables.",
        ),
        Key(
            "let",
            Pairs(names=Names(values.IDENTIFIER, "a derived axis's name", Formula(0))),
            "Derived axes: expressions over the axes, evaluated at each point.",
        ),
        Key("assume", ASSUME, "Facts that the compiler may use."),
        Key("hints", _HINTS, "Compiler hints, for all targets or in a table named by a target."),
        Key(
            "params",
            Named(names=parameters(PARAM)),
            "Parameters of the launcher: refines what the source says.",
        ),
        Key(
            "args",
            ListOf(Formula(abi=True)),
            "Arguments of the entry point from the launcher's parameters, in order.",
        ),
        Key("launch", LAUNCH, "How the kernel is launched."),
        Key("dispatch", DISPATCH, "How a variant is chosen."),
        Key("op", OP, "The kernel as an operator of torch and array libraries."),
        Key(
            "budget",
            BUDGET,
            "Most of each resource that any image may use; read from the image, no GPU needed.",
        ),
        Key(
            "checks",
            Text("checks", choices=("on", "deny", "off")),
            "Checks inside of a kernel in the safe tile language: on (default), deny refuses a kernel that needs any, off leaves them out.",
        ),
        Key(
            "case",
            Parts(names=Names(values.WORD, "a case's name", CASE)),
            "Named inputs and a reference.",
        ),
        *OF_ALL_CASES,
        *OPTIONS["cuda"],
        *OPTIONS["prebuilt"],
        READ,
    ),
)
