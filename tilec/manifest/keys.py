"""Every key of tilec.toml with its shape and its documentation.

The loader and the JSON Schema share this one description.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from tilec.manifest import types, values
from tilec.manifest.shapes import (
    Either,
    Flag,
    Formula,
    Integer,
    Key,
    ListOf,
    Names,
    Number,
    Plain,
    Scalar,
    Table,
    Text,
)
from tilec_runtime.model.dtype import BY_NUMPY, DTYPES, short_name
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.signature import ParamKind

EDITION = 1
EMIT = ("bundle", "package", "wheel", "sbom", "provenance", "hub", "fatbin", "cubin", "ptx")
DISTS = (
    "normal",
    "uniform",
    "integers",
    "sorted",
    "permutation",
    "arange",
    "constant",
    "zeros",
    "ones",
    "empty",
)

_TARGET = Text("target", known=values.target_names, convert=values.target)
_TARGETS = ListOf(_TARGET, least=1, unique=True)
_DTYPE = Text("dtype or axis", pattern=values.IDENTIFIER, convert=short_name)
_PATH = Text("a path", convert=values.project_path)
_LINE = Text("one line of text", convert=values.one_line, empty=True)
_BYTES = Either(
    (Integer(0), Text("a size such as 90 MiB", pattern=values.SIZE, convert=values.size))
)
_MOST_BYTES = Either(
    (Integer(1), Text("a size such as 90 MiB", pattern=values.SIZE, convert=values.some_size))
)
_HINT = Integer()
_SHA256 = Text("a SHA-256 (64 hexadecimal digits)", pattern="[0-9a-fA-F]{64}")
_DIVISORS = ListOf(Integer(1), least=1, most=8)
_AXIS_OR_DIVISOR = Either((Integer(1), Text("an axis of the matrix", pattern=values.IDENTIFIER)))
_EXTENTS = ListOf(
    Either((Integer(0), Text('an extent: write a number, or "?" for a free one', pattern=r"\?"))),
    least=1,
    most=8,
)
_ALIGNED = Integer(1, 2**20, power=True)


def _parameters(shape: Table | Either | ListOf | Integer | Text, doc: str = "") -> Names:
    return Names(values.IDENTIFIER, "a parameter's name", shape, doc)


def _axes(doc: str = "") -> Names:
    return Names(values.IDENTIFIER, "an axis's name", Plain(), doc)


PACKAGE = Table(
    made=types.Package,
    keys=(
        Key(
            "name",
            Text(
                "a package name (letters, digits, . - _ inside)",
                pattern=values.NAME,
                most=values.NAME_LIMIT,
            ),
            "Name of the distribution.",
            required='name = "acme-kernels"',
        ),
        Key(
            "version",
            Text(
                "a version such as 1.2.0 or 2.0rc1", pattern=values.VERSION, most=values.NAME_LIMIT
            ),
            "Version of the distribution.",
        ),
        Key("description", _LINE, "One line on what it is."),
        Key(
            "license",
            Text(
                "an SPDX expression such as Apache-2.0",
                pattern=values.LICENCE,
                convert=values.licence,
            ),
            "Licence, as SPDX.",
        ),
        Key(
            "license-files",
            ListOf(_PATH, unique=True),
            "Licence files that are shipped in the wheel.",
        ),
        Key(
            "module",
            Text(
                "an importable name",
                pattern=values.IDENTIFIER,
                convert=values.module_name,
                most=values.NAME_LIMIT,
            ),
            "Import name of the generated package; by default the package's name with underscores.",
        ),
    ),
)
TARGETS = Table(
    made=types.Targets,
    keys=(
        Key(
            "default",
            _TARGETS,
            "What `tilec build` builds for: sm_NN (cubin), compute_NN (PTX), lto_NN (LTO-IR), tileir; see `tilec targets`.",
        ),
        Key(
            "groups",
            Table(names=Names(values.WORD, "a group's name", _TARGETS)),
            "Lists of targets by name, for `--targets NAME`.",
        ),
        Key(
            "min-driver",
            Either(
                (Integer(100, 9999), Text("a driver's version such as 580", pattern=values.DRIVER))
            ),
            "Oldest driver branch that must load what is built; PTX is lowered to an ISA that it reads.",
        ),
        Key(
            "jit-fallback",
            Text("policy", choices=tuple(policy.value for policy in JitFallback)),
            "Whether GPUs without machine code in the bundle may compile its PTX, LTO-IR and Tile IR when it is loaded; by default not.",
        ),
    ),
)
PROFILE = Table(
    made=types.Profile,
    keys=(
        Key(
            "inherits",
            Text("a profile's name", pattern=values.WORD),
            "Profile whose values hold where this one says nothing.",
        ),
        Key("opt", Integer(0, 3), "Optimisation level of the compilers."),
        Key("lineinfo", Flag(), "Keep source lines in the code, for profilers."),
        Key(
            "debug",
            Flag(),
            "Make code for a debugger: with variables where the language has them, and not optimized whatever opt says.",
        ),
        Key(
            "bounds",
            Flag(),
            "Check the indices of SIMT Python kernels, and stop a kernel that leaves an array.",
        ),
    ),
)
TOOLCHAIN = Table(
    made=types.Toolchain,
    keys=(
        Key(
            "cuda",
            Text("a version range such as >=13.2,<13.5", pattern=values.RANGE),
            "CUDA toolkits that may be used.",
        ),
        Key(
            "prefer",
            Text("place", choices=("wheels", "system")),
            "Where tools are looked for first: installed wheels, or CUDA_HOME and PATH.",
        ),
        Key("timeout", Number(above=0, most=86400), "Seconds that one compile may take."),
    ),
)
_CPP = (
    Key("std", Text("C++ standard", choices=("c++14", "c++17", "c++20", "c++23")), "C++ standard."),
    Key("include", ListOf(_PATH, unique=True), "Include directories, relative to the project."),
    Key(
        "define",
        Table(
            names=Names(
                values.IDENTIFIER,
                "a macro's name",
                Either((Text(convert=values.one_line, empty=True), Integer())),
            )
        ),
        "Preprocessor macros and their values.",
    ),
    Key("flags", ListOf(Text()), "More compiler flags: those that tilec knows."),
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
    ListOf(_PATH, least=1, unique=True),
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
            "Most variants of a source that are compiled in one go; 1 compiles each alone.",
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
            Table(names=Names(".+", "a path", _SHA256), least=1),
            "More files of the same kernel, for other targets: each with its SHA-256.",
        ),
    ),
    "tile": (*_CPP, READ),
    "triton": (READ,),
    "simt": (_LINK, READ),
}
FRONTENDS = Table(
    keys=(
        # Digests are of one kernel's files.
        *(
            Key(
                language,
                Table(keys=() if language == "prebuilt" else keys),
                f"Options of the {language} language.",
            )
            for language, keys in OPTIONS.items()
        ),
    ),
    names=Names(
        values.WORD,
        "a language",
        Table(
            names=Names(
                values.WORD,
                "an option",
                Either(
                    (Plain(), ListOf(Text()), Table(names=Names(".+", "a name", Text(empty=True))))
                ),
            )
        ),
        "Options of a language that a plug-in brings.",
    ),
)
_VALUES = ListOf(Plain(), least=1, unique=True)
MATRIX = Table(
    keys=(
        Key(
            "exclude",
            ListOf(
                Table(
                    keys=(Key("when", Text("an expression"), "Expression over the axes."),),
                    names=_axes(),
                    least=1,
                )
            ),
            "Points to leave out: by an expression over the axes, or by axis values that all match.",
        ),
        Key(
            "include",
            ListOf(Table(names=_axes(), least=1)),
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
                    made=types.AssumeSet,
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
                            Table(names=_parameters(ListOf(_AXIS_OR_DIVISOR, least=1, most=8))),
                            "Divisors of the extents, one per dimension: numbers, and axes of the matrix.",
                        ),
                        Key(
                            "stride",
                            Table(names=_parameters(_DIVISORS)),
                            "Divisors of the strides in elements, one per dimension.",
                        ),
                        Key(
                            "aligned",
                            Either((_ALIGNED, Table(names=_parameters(_ALIGNED)))),
                            "Alignment of base addresses in bytes, of every tensor or by parameter.",
                        ),
                        Key(
                            "extent",
                            Table(names=_parameters(_EXTENTS)),
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
    made=types.ParamTable,
    keys=(
        Key(
            "kind",
            Text("kind", choices=(*(kind.value for kind in ParamKind), "slice")),
            "How the parameter is passed.",
        ),
        Key("dtype", _DTYPE, "A dtype, or the axis that holds it."),
        Key("rank", Integer(-1, 8), "Number of dimensions; -1 takes any."),
        Key("out", Flag(), "The kernel writes it."),
        Key(
            "list",
            Either((Integer(1, 64), Text("an axis", pattern=values.IDENTIFIER))),
            "A tuple of so many arrays, each a parameter of its own: NAME_0, NAME_1, … .",
        ),
        Key(
            "stride",
            ListOf(
                Either(
                    (
                        Integer(0),
                        Text('a stride: write a number, or "?" for a free one', pattern=r"\?"),
                    )
                ),
                least=1,
                most=8,
            ),
            'Required stride per dimension in elements, "?" where it is free.',
        ),
        Key("contiguous", Flag(), "Must be C-contiguous."),
        Key("optional", Flag(), "May be None: there are variants with it, and without."),
        Key("divisible", _DIVISORS, "Divisors of the extents, one per dimension: always demanded."),
        Key("aligned", _ALIGNED, "Alignment of the base address in bytes: always demanded."),
        Key("default", Scalar(), "Default of a scalar in the launcher."),
        Key("size", Integer(1, 4096), "Bytes of a struct."),
        Key("doc", _LINE, "One line for the launcher's docstring."),
    ),
)
LAUNCH = Table(
    made=types.Launch,
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
            "What each launch says by `config`.",
        ),
    ),
)
DISPATCH = Table(
    keys=(
        Key("default", Table(names=_axes()), "Values of the axes that the caller may leave out."),
        Key(
            "table",
            _PATH,
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
                    keys=(
                        Key(
                            "when",
                            Formula(),
                            "Condition on the arguments; without it, the rule is for all launches.",
                        ),
                        Key(
                            "take",
                            Table(names=_axes()),
                            "Axis values that those launches take.",
                            required="take = { BM = 64 }",
                        ),
                    ),
                    made=types.Rule,
                ),
                least=1,
                most=64,
            ),
            "What launches take by their arguments: the first rule whose condition holds, and whose variant fits them.",
        ),
    ),
)
BUDGET = Table(
    made=types.Budget,
    keys=(
        Key("registers", Integer(0, 255), "Registers per thread."),
        Key("spills", _BYTES, "Bytes spilled per thread."),
        Key("shared", _BYTES, "Static shared memory per block."),
        Key("stack", _BYTES, "Stack frame per thread."),
        Key("constant", _BYTES, "Constant memory, parameters included."),
    ),
)
INPUT = Table(
    made=types.Input,
    keys=(
        Key(
            "shape",
            ListOf(Formula(0), most=8),
            "Extents: numbers, or expressions over axes and earlier inputs.",
        ),
        Key(
            "small",
            ListOf(Formula(0), most=8),
            "Extents of runs that are held against the reference, where `shape` is for measuring.",
        ),
        Key("dtype", _DTYPE, "A dtype, or an axis that holds dtypes: the case then runs for each."),
        Key(
            "dist",
            Text("distribution", choices=DISTS),
            "What the tensor is filled with; empty is poisoned before the run.",
        ),
        Key("seed", Integer(0), "Seed of the random numbers; by default the name gives one."),
        Key("low", Number(), "Least value of uniform, integers and sorted."),
        Key("high", Number(), "Upper bound of uniform, integers and sorted."),
        Key("value", Scalar(), "Of constant: every element."),
        Key(
            "file",
            Text(
                "a file such as x.npy or x.npz:key", pattern=values.ARRAY, convert=values.inner_path
            ),
            "File of the project that holds the array: .npy, .npz or .safetensors.",
        ),
        Key(
            "make",
            Text(
                "a file and a function such as inputs.py:sorted_ids",
                pattern=values.FUNCTION,
                convert=values.inner_path,
            ),
            "Function that returns the array, given shape, dtype, seed, axes and earlier inputs by name.",
        ),
    ),
)
_RTOL = Key("rtol", Number(least=0), "Relative tolerance.")
_ATOL = Key("atol", Number(least=0), "Absolute tolerance.")
_ULP = Key(
    "ulp",
    Integer(0, 2**24),
    "Results fit too that are so few numbers of the output's dtype from the reference.",
)
TOLERANCE = Table(
    keys=(_RTOL, _ATOL, _ULP),
    names=Names(
        "|".join(dict.fromkeys((*DTYPES, *BY_NUMPY))),
        "a dtype",
        Table(made=types.Tolerance, keys=(_RTOL, _ATOL, _ULP)),
        "Tolerance of one dtype.",
        choices=tuple(dict.fromkeys((*DTYPES, *BY_NUMPY))),
    ),
)
_DTYPE_OF = Text(
    "a dtype, an axis or a tensor's dtype such as x.dtype",
    pattern=rf"(?:{values.IDENTIFIER})(?:\.dtype)?",
    convert=short_name,
)
_NAME = Text("a parameter's name", pattern=values.IDENTIFIER)
_KERNEL_NAME = Text("a kernel's name", pattern=values.IDENTIFIER)
OP = Table(
    keys=(
        Key(
            "outputs",
            Table(
                names=_parameters(
                    Table(
                        made=types.OpOutput,
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
                                "Its dtype, where neither the parameter nor an input of the same axis says it.",
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
                    _KERNEL_NAME,
                    Table(
                        keys=(
                            Key(
                                "kernel",
                                _KERNEL_NAME,
                                "Kernel that computes the gradients: an operator too.",
                                required='kernel = "NAME"',
                            ),
                            Key(
                                "args",
                                Table(names=_parameters(_NAME)),
                                "What its parameters stand for where their names do not say it: one of this kernel's, or grad_ and its name.",
                            ),
                        )
                    ),
                )
            ),
            "Kernel that computes the gradients of the inputs.",
        ),
    ),
)
BENCH = Table(
    made=types.Bench,
    keys=(
        Key("flops", Formula(0), "Floating-point operations of one launch."),
        Key("bytes", Formula(0), "Bytes moved by one launch."),
        Key(
            "against",
            ListOf(Text("a library and a call such as torch:matmul(a, b)", pattern=values.AGAINST)),
            "What to hold it against.",
        ),
    ),
)
_INPUTS = Key(
    "inputs",
    Table(names=_parameters(Either((Scalar(), ListOf(Formula(0), most=8), INPUT)))),
    "Arguments by parameter: a tensor to make (its shape, or a table), or a scalar's value.",
)
_REFERENCE = Key(
    "reference",
    Text(
        "a file and a function such as ref.py:gemm",
        pattern=values.FUNCTION,
        convert=values.path_and_function,
    ),
    "A plain function over NumPy arrays.",
)
_TOLERANCE = Key(
    "tolerance", TOLERANCE, "How far results may be from the reference, for all dtypes or by dtype."
)
_BENCH = Key("bench", BENCH, "Work done by one launch, and what to hold it against.")
_OF_ALL_CASES = tuple(
    dataclasses.replace(key, doc=f"{key.doc[:-1]}, for every case that does not say otherwise.")
    for key in (_INPUTS, _REFERENCE, _TOLERANCE, _BENCH)
)
CASE = Table(
    made=types.Case,
    keys=(
        _INPUTS,
        _REFERENCE,
        _TOLERANCE,
        Key("axes", Table(names=_axes()), "Axis values that choose the variant."),
        _BENCH,
    ),
)
HINTS = Table(
    names=Names(
        values.IDENTIFIER,
        "a hint or a target",
        Either((_HINT, Table(names=Names(values.IDENTIFIER, "a hint", _HINT)))),
    ),
)
KERNEL = Table(
    made=types.Kernel,
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
            Table(names=Names(values.IDENTIFIER, "a derived axis's name", Formula(0))),
            "Derived axes: expressions over the axes, evaluated at each point.",
        ),
        Key("assume", ASSUME, "Facts that the compiler may use."),
        Key("hints", HINTS, "Compiler hints, for all targets or in a table named by a target."),
        Key(
            "params",
            Table(names=_parameters(PARAM)),
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
            Table(names=Names(values.WORD, "a case's name", CASE)),
            "Named inputs and a reference.",
        ),
        *_OF_ALL_CASES,
        *OPTIONS["cuda"],
        *OPTIONS["prebuilt"],
        READ,
    ),
)
CHAIN = Table(
    made=types.Chain,
    keys=(
        Key(
            "steps",
            ListOf(Text("a launch such as gemm(c, a, b, BM=64)"), least=1, most=64),
            "Launches in order, on one stream: kernels, called with names of the case's inputs and numbers.",
            required='steps = ["add(z, x, y)"]',
        ),
        Key(
            "case",
            Table(
                names=Names(
                    values.WORD,
                    "a case's name",
                    Table(keys=(_INPUTS, _REFERENCE, _TOLERANCE, _BENCH)),
                )
            ),
            "Named inputs of all steps together, a reference, and the work of all steps.",
        ),
        *_OF_ALL_CASES,
    ),
)
OVERRIDE = Table(
    made=types.Override,
    keys=(
        Key(
            "select",
            Text("a glob", convert=values.glob),
            "Glob over job ids such as gemm-*-sm_80.",
            required='select = "gemm-*-sm_80"',
        ),
        Key(
            "hints",
            Table(names=Names(values.IDENTIFIER, "a hint", _HINT)),
            "Compiler hints of the jobs that match.",
        ),
        Key("targets", _TARGETS, "The only targets that what matches is built for."),
    ),
)
WHEEL = Table(
    made=types.Wheel,
    keys=(
        Key(
            "split",
            Text("way to split", choices=("arch",)),
            'With "arch", machine code is in wheels of its own, one for each compute capability.',
        ),
        Key("max-size", _MOST_BYTES, "Most that a wheel may weigh."),
    ),
)
OUTPUT = Table(
    made=types.Output,
    keys=(
        Key(
            "dir",
            Text("a path", convert=values.inner_path),
            "Directory of the results, relative to the project.",
        ),
        Key("emit", ListOf(Text("output", choices=EMIT), least=1, unique=True), "What is written."),
        Key(
            "max-size",
            _MOST_BYTES,
            "Most that the bundle may weigh.",
        ),
        Key(
            "wheel",
            WHEEL,
            "How wheels are made.",
        ),
    ),
)
CACHE = Table(
    made=types.RemoteTable,
    keys=(
        Key(
            "remote",
            Text("a URL such as https://cache.example/tilec", convert=values.remote_url),
            "URL of a remote cache: https://, s3://, gs://, az:// or file://. It gives what tilec.lock pins.",
        ),
        Key(
            "remote-mode",
            Text("mode", choices=("off", "read", "write")),
            "Whether builds read from it, also write to it, or leave it alone; by default they read.",
        ),
    ),
)
MANIFEST = Table(
    made=types.Manifest,
    keys=(
        Key(
            "edition",
            Integer(EDITION, EDITION),
            "Version of this format.",
            required="edition = 1 in the first line",
        ),
        Key("package", PACKAGE, "What is built.", required='package.name = "acme-kernels"'),
        Key("targets", TARGETS, "What it is built for."),
        Key(
            "profile",
            Table(names=Names(values.WORD, "a profile's name", PROFILE)),
            "Compile profiles; release and debug are built in.",
        ),
        Key("toolchain", TOOLCHAIN, "Tools that may be used."),
        Key("frontend", FRONTENDS, "Options by language, for all kernels."),
        Key(
            "kernel",
            Table(
                names=Names(values.IDENTIFIER, "a kernel's name (a Python identifier)", KERNEL),
                least=1,
            ),
            "Kernels by name: each becomes a launcher.",
            required="a table [kernel.NAME] with its source",
        ),
        Key(
            "chain",
            Table(names=Names(values.IDENTIFIER, "a chain's name (a Python identifier)", CHAIN)),
            "Chains by name: kernels that `tilec run NAME` launches one behind the other over the same arrays.",
        ),
        Key(
            "override",
            ListOf(OVERRIDE),
            "Changes for the jobs whose id matches; the last match wins.",
        ),
        Key("output", OUTPUT, "What is written, and where."),
        Key("cache", CACHE, "A remote cache of compiled images."),
    ),
)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12).

    What concerns several values, such as whether an axis exists, `tilec check` reports.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tilec.toml",
        "description": f"Manifest of a tilec project, edition {EDITION}.",
        **MANIFEST.schema(),
    }
