"""How near results of the cpu device come to the exact ones. What is not named here is exact or
rounded once.
"""

from __future__ import annotations

from tilec_runtime.cpu.tileir.ir import Scalar

# Distance from the exact result in units of its last place, rounding included: in float32, and in
# float64. Half precision functions are rounded once more from float32.
FUNCTIONS: dict[str, tuple[float, float]] = {
    "exp": (0.51, 2.0),
    "exp2": (0.51, 2.0),
    "log": (0.51, 2.0),
    "log2": (0.51, 2.0),
    "sin": (1.5, 1.0),
    "cos": (1.5, 1.0),
    "tan": (0.51, 4.0),
    "sinh": (0.51, 4.0),
    "cosh": (0.51, 4.0),
    "tanh": (0.51, 4.0),
    "fpowf": (0.51, 4.0),
    "atan2": (0.51, 4.0),
    "rsqrt": (0.51, 1.5),
}
_EPSILON = {Scalar.F16: 2.0**-11, Scalar.BF16: 2.0**-8, Scalar.F32: 2.0**-24, Scalar.F64: 2.0**-53}


def of(name: str, kind: Scalar) -> float:
    """Units of the last place that a result may lie from the exact one."""
    if name not in FUNCTIONS:
        return 0.5
    single, double = FUNCTIONS[name]
    return double if kind is Scalar.F64 else single if kind is Scalar.F32 else 0.51


def of_sum(kind: Scalar, depth: int) -> float:
    """How far a sum may lie from the exact one as a part of the sum of the magnitudes, where each
    element is added `depth` times.
    """
    return depth * _EPSILON[kind]
