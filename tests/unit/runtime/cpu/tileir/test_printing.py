"""What kernels print: C's formats, tiles as lists, and errors about formats that do not fit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import TOKEN, run_op, tile
from tilec_runtime.cpu.tileir.ir import Scalar, Type
from tilec_runtime.errors import TileIRError


def show(text: str, *args: tuple[Type, Any], blocks: int = 1) -> str:
    texts: list[str] = []
    operands = {"args": [(kind, np.asarray(held)[None]) for kind, held in args]}
    run_op("print_tko", operands, TOKEN, {"text": text}, output=texts.append, blocks=blocks)
    return "".join(texts)


I8, I32, I64, I1 = tile(Scalar.I8), tile(Scalar.I32), tile(Scalar.I64), tile(Scalar.I1)
F32, BF16 = tile(Scalar.F32), tile(Scalar.BF16)


@pytest.mark.parametrize(
    ("text", "kind", "value", "wanted"),
    [
        ("%d", I32, np.int32(-7), "-7"),
        ("%i|", I32, np.int32(7), "7|"),
        ("%5d|%%", I32, np.int32(7), "    7|%"),
        ("%-5d|", I32, np.int32(7), "7    |"),
        ("%05d", I32, np.int32(-7), "-0007"),
        ("%+lld", I64, np.int64(2**62), f"+{2**62}"),
        ("%u", I32, np.int32(-1), str(2**32 - 1)),
        ("%hhx", I8, np.int8(-1), "ff"),
        ("%#X", I32, np.int32(255), "0XFF"),
        ("%o", I32, np.int32(8), "10"),
        ("%d", I1, np.bool_(True), "1"),
        ("%f", F32, np.float32(0.5), "0.500000"),
        ("%.2e", F32, np.float32(1234.5), "1.23e+03"),
        ("%10.3g|", F32, np.float32(np.pi), "      3.14|"),
        ("%lf", BF16, np.asarray(1.5, ml_dtypes.bfloat16), "1.500000"),
        ("%f", F32, np.float32(np.nan), "nan"),
        ("%a", F32, np.float32(1.5), "0x1.8p+0"),
        ("%A", F32, np.float32(-1), "-0X1P+0"),
        ("%10a|", F32, np.float32(0.5), "    0x1p-1|"),
        ("%.2a", F32, np.float32(1.00390625), "0x1.01p+0"),
        ("%.1a", F32, np.float32(1.53125), "0x1.8p+0"),
        ("%a", F32, np.float32(np.inf), "inf"),
    ],
)
def test_formats_are_those_of_c(text: str, kind: Type, value: Any, wanted: str) -> None:
    assert show(text, (kind, value)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("%d %d", "has more places for values than its 1 values"),
        ("none", "has 0 places for its 1 values"),
        ("%s", "has the format %s, which is for neither integers nor floating point numbers"),
    ],
)
def test_formats_that_do_not_fit_are_refused(text: str, wanted: str) -> None:
    with pytest.raises(TileIRError, match=wanted):
        show(text, (I32, np.int32(1)))
