"""How far results on the cpu device may be from a GPU's, in units in the last place of the output.
What is not listed is bit-equal.
"""

from __future__ import annotations

from tests.corpus.entries import Entry

# operation: largest distance by dtype of the output ("" for all others). An H200 needs these, and
# no more, on the corpus, beside NumPy's functions of processors with AVX-512 and without.
TOLERANCES: dict[str, dict[str, float]] = {
    # Functions: neither side rounds them correctly. Results in f16 and bf16 are computed in f32 on
    # both sides, and nearly always agree.
    "exp": {"f32": 2, "f64": 1, "bf16": 1},
    "exp2": {"f32": 2, "f64": 1},
    "log": {"f32": 2, "f64": 1},
    "log2": {"f32": 1, "f64": 1},
    "sin": {"f32": 1, "f64": 1},
    "cos": {"f32": 1, "f64": 1},
    "tan": {"f32": 2, "f64": 1},
    "sinh": {"f32": 2, "f64": 2},
    "cosh": {"f32": 2, "f64": 1},
    "tanh": {"f32": 2, "f64": 2},
    "pow": {"f32": 1, "f64": 1},
    "atan2": {"f32": 2, "f64": 1},
    "rsqrt": {"f32": 2, "f64": 1},
    "rsqrt_ftz": {"f32": 2},
    "exp2_ftz": {"f32": 2},
    "exp_full": {"f32": 2},
    "tanh_full": {"f32": 2},
    "truediv_full": {"f32": 1},
    # Fast forms of the hardware, which the cpu device computes as exactly as the others.
    "truediv_approx": {"f32": 2},
    "sqrt_approx": {"f32": 1},
    "exp_approx": {"f32": 32},
    "tanh_approx": {"f32": 128},
    # A GPU converts integers to f8e5m2 by way of f16, and so rounds twice.
    "cast_to_f8e5m2": {"": 1},
    # Sums and products in another order. Units are those of the same operation on absolute values.
    "sum": {"": 1},
    "prod": {"": 3},
    "reduce_custom": {"": 1},
    "cumsum": {"": 2},
    "cumprod": {"": 3},
    "mma": {"": 2},
    "atomic_add": {"": 1},
}


def tolerance(entry: Entry) -> float:
    """Units in the last place that an entry's outputs may be off; 0 for bit-equal."""
    row = TOLERANCES.get(entry.operation, {})
    out = next(arg.dtype for arg in entry.args if arg.out)
    return row.get(out, row.get("", 0.0))
