"""The keys of cases and chains, with their shapes and documentation."""

from __future__ import annotations

import dataclasses

from tilec.manifest import types, values
from tilec.manifest.key_shapes import DTYPE, FUNCTION, POINT, parameters
from tilec.manifest.shapes import (
    Either,
    Formula,
    Integer,
    ListOf,
    Number,
    Scalar,
    Text,
)
from tilec.manifest.tables import Key, Names, Parts, Table
from tilec_runtime.model.dtype import BY_NUMPY, DTYPES

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
INPUT = Table(
    into=types.Input,
    merged=True,
    keys=(
        Key(
            "shape",
            ListOf(Formula(0), most=8),
            "Extents: numbers, or expressions over axes and earlier inputs.",
        ),
        Key(
            "small",
            ListOf(Formula(0), most=8),
            "Extents of runs that are compared with the reference, if `shape` is for measuring.",
        ),
        Key("dtype", DTYPE, "A dtype, or an axis that holds dtypes: the case then runs for each."),
        Key(
            "dist",
            Text("distribution", choices=DISTS),
            "How the tensor is filled; empty is poisoned before the run.",
        ),
        Key("seed", Integer(0), "Seed of the random numbers; by default the name gives one."),
        Key("low", Number(), "Least value of uniform, integers and sorted."),
        Key("high", Number(), "Upper bound of uniform, integers and sorted."),
        Key("value", Scalar(), "Every element of constant."),
        Key(
            "file",
            Text(
                "a file such as x.npy or x.npz:key", pattern=values.ARRAY, convert=values.inner_path
            ),
            "File of the project that holds the array: .npy, .npz or .safetensors.",
        ),
        Key(
            "make",
            FUNCTION,
            "Function that returns the array, given shape, dtype, seed, axes and earlier inputs by name.",
        ),
    ),
)
_RTOL = Key("rtol", Number(least=0), "Relative tolerance.")
_ATOL = Key("atol", Number(least=0), "Absolute tolerance.")
_ULP = Key(
    "ulp",
    Integer(0, 2**24),
    "Tolerance in units in the last place of the output's dtype; results within it pass too.",
)
TOLERANCE = Table(
    keys=(_RTOL, _ATOL, _ULP),
    names=Names(
        "|".join(dict.fromkeys((*DTYPES, *BY_NUMPY))),
        "a dtype",
        Table(into=types.Tolerance, keys=(_RTOL, _ATOL, _ULP)),
        "Tolerance of one dtype.",
        choices=tuple(dict.fromkeys((*DTYPES, *BY_NUMPY))),
    ),
)
BENCH = Table(
    into=types.Bench,
    keys=(
        Key("flops", Formula(0), "Floating-point operations of one launch."),
        Key("bytes", Formula(0), "Bytes moved by one launch."),
        Key(
            "against",
            ListOf(Text("a library and a call such as torch:matmul(a, b)", pattern=values.AGAINST)),
            "Rivals to compare with.",
        ),
    ),
)
_INPUTS = Key(
    "inputs",
    Parts(names=parameters(Either((Scalar(), ListOf(Formula(0), most=8), INPUT)))),
    "Arguments by parameter: a tensor to make (its shape, or a table), or a scalar's value.",
)
_REFERENCE = Key(
    "reference",
    FUNCTION,
    "A plain function over NumPy arrays.",
)
_TOLERANCE = Key("tolerance", TOLERANCE, "Tolerance of results, for all dtypes or by dtype.")
_BENCH = Key("bench", BENCH, "Work of one launch, and rivals to compare with.")
OF_ALL_CASES = tuple(
    dataclasses.replace(key, doc=f"{key.doc[:-1]}, for every case without its own.")
    for key in (_INPUTS, _REFERENCE, _TOLERANCE, _BENCH)
)
CASE = Parts(
    keys=(
        _INPUTS,
        _REFERENCE,
        _TOLERANCE,
        Key("axes", POINT, "Axis values that choose the variant."),
        _BENCH,
    ),
)
CHAIN = Parts(
    keys=(
        Key(
            "steps",
            ListOf(Text("a launch such as gemm(c, a, b, BM=64)"), least=1, most=64),
            "Launches in order, on one stream: kernels, called with names of the case's inputs and numbers.",
            required='steps = ["add(z, x, y)"]',
        ),
        Key(
            "case",
            Parts(
                names=Names(
                    values.WORD,
                    "a case's name",
                    Parts(keys=(_INPUTS, _REFERENCE, _TOLERANCE, _BENCH)),
                )
            ),
            "Named inputs of all steps together, a reference, and the work of all steps.",
        ),
        *OF_ALL_CASES,
    ),
)
