"""Matrix products against exact ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir import tolerance
from tests.unit.runtime.cpu.tileir.build import run_op, tile
from tests.unit.runtime.cpu.tileir.samples import floats
from tilec_runtime.cpu.tileir.ir import Scalar, Signedness
from tilec_runtime.cpu.tileir.values import Array, storage

PAIRS = [
    (Scalar.F16, Scalar.F16),
    (Scalar.F16, Scalar.F32),
    (Scalar.BF16, Scalar.F32),
    (Scalar.F32, Scalar.F32),
    (Scalar.TF32, Scalar.F32),
    (Scalar.F64, Scalar.F64),
    (Scalar.F8E4M3FN, Scalar.F16),
    (Scalar.F8E4M3FN, Scalar.F32),
    (Scalar.F8E5M2, Scalar.F32),
]


def random(kind: Scalar, *shape: int, seed: int = 0) -> Array:
    found = np.random.default_rng(seed).standard_normal(shape)
    # Numbers that a tf32 has are ones that a half precision number has.
    return found.astype(np.float16 if kind is Scalar.TF32 else storage(kind)).astype(storage(kind))


def run(name: str, kinds: dict[str, Scalar], tiles: dict[str, Array], **attributes: Any) -> Array:
    operands = {key: (tile(kinds[key], *held.shape[1:]), held) for key, held in tiles.items()}
    (found,) = run_op(name, operands, operands["acc"][0], attributes)
    assert found.dtype == tiles["acc"].dtype
    return found


@pytest.mark.parametrize("blocks", [(3, 3, 3), (3, 1, 3), (1, 3, 1), (1, 1, 1), (3, 3, 1)])
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize(("kind", "target"), PAIRS, ids=str)
def test_products_are_as_near_as_their_sums(
    kind: Scalar, target: Scalar, batch: tuple[int, ...], blocks: tuple[int, int, int]
) -> None:
    lhs, rhs = (
        random(kind, blocks[0], *batch, 4, 16),
        random(kind, blocks[1], *batch, 16, 8, seed=1),
    )
    acc = random(target, blocks[2], *batch, 4, 8, seed=2)
    before = acc.copy()
    found = run(
        "mmaf", {"lhs": kind, "rhs": kind, "acc": target}, {"lhs": lhs, "rhs": rhs, "acc": acc}
    )
    wide, other, start = (held.astype(np.float64) for held in (lhs, rhs, acc))
    exact, size = wide @ other + start, np.abs(wide) @ np.abs(other) + np.abs(start)
    bound = size * tolerance.of_sum(
        Scalar.F64 if target is Scalar.F64 else Scalar.F32, 17
    ) + np.abs(exact) * tolerance.of_sum(target, 1)
    assert found.shape == exact.shape
    assert (np.abs(found.astype(np.float64) - exact) <= bound).all()
    assert (acc == before).all()


@pytest.mark.parametrize("inner", [8, 512])
@pytest.mark.parametrize("left", list(Signedness), ids=lambda item: item.name.lower())
@pytest.mark.parametrize("right", list(Signedness), ids=lambda item: item.name.lower())
def test_integer_products_are_exact_and_wrap(
    left: Signedness, right: Signedness, inner: int
) -> None:
    rng = np.random.default_rng(0)
    lhs, rhs = (
        rng.integers(-128, 128, (2, *shape)).astype(np.int8) for shape in ((4, inner), (inner, 8))
    )
    lhs[:, 0], rhs[:, :, 0] = -128, -1
    acc = rng.integers(-(2**31), 2**31, (2, 4, 8)).astype(np.int32)
    found = run(
        "mmai",
        {"lhs": Scalar.I8, "rhs": Scalar.I8, "acc": Scalar.I32},
        {"lhs": lhs, "rhs": rhs, "acc": acc},
        signedness_lhs=left,
        signedness_rhs=right,
    )
    first, second = (
        (held.view(np.uint8) if sign is Signedness.UNSIGNED else held).astype(np.int64)
        for held, sign in ((lhs, left), (rhs, right))
    )
    assert (found == (first @ second + acc).astype(np.int32)).all()


@pytest.mark.parametrize(
    ("kind", "scale", "run_length"),
    [
        (Scalar.F8E4M3FN, Scalar.F8E8M0FNU, 32),
        (Scalar.F8E5M2, Scalar.F8E8M0FNU, 32),
        (Scalar.F4E2M1FN, Scalar.F8E8M0FNU, 16),
        (Scalar.F4E2M1FN, Scalar.F8E4M3FN, 16),
        (Scalar.F4E2M1FN, Scalar.F8E5M3FNU, 32),
    ],
    ids=str,
)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_scales_belong_to_runs_of_elements(
    kind: Scalar, scale: Scalar, run_length: int, batch: tuple[int, ...]
) -> None:
    inner, rng = 64, np.random.default_rng(4)
    limit = {Scalar.F4E2M1FN: 16, Scalar.F8E4M3FN: 0x78, Scalar.F8E5M2: 0x78}[kind]
    scale_codes = {
        Scalar.F8E8M0FNU: (120, 134),
        Scalar.F8E4M3FN: (0x28, 0x48),
        Scalar.F8E5M3FNU: (0x60, 0x90),
    }[scale]
    lhs, rhs = (
        floats(rng.integers(0, limit, (2, *batch, *shape)), kind)
        for shape in ((4, inner), (inner, 8))
    )
    scales = [
        floats(rng.integers(*scale_codes, (2, *batch, *shape)), scale)
        for shape in ((4, inner // run_length), (inner // run_length, 8))
    ]
    acc = random(Scalar.F32, 2, *batch, 4, 8)
    kinds = {"lhs": kind, "rhs": kind, "acc": Scalar.F32, "lhs_scale": scale, "rhs_scale": scale}
    found = run(
        "mmaf_scaled",
        kinds,
        {"lhs": lhs, "rhs": rhs, "acc": acc, "lhs_scale": scales[0], "rhs_scale": scales[1]},
    )
    values = [
        decoded(held, item)
        for held, item in ((lhs, kind), (rhs, kind), (scales[0], scale), (scales[1], scale))
    ]
    first = values[0] * np.repeat(values[2], run_length, axis=-1)
    second = values[1] * np.repeat(values[3], run_length, axis=-2)
    exact = first @ second + acc
    assert (
        np.abs(found - exact)
        <= tolerance.of_sum(Scalar.F32, 2) * (np.abs(first) @ np.abs(second) + np.abs(acc))
    ).all()


def decoded(held: Array, kind: Scalar) -> Array:
    """The numbers of a tile, by fractions."""
    from tests.unit.runtime.cpu.tileir.reference import decode

    known = [
        float(number.value) if (number := decode(bits, kind)).finite else np.nan
        for bits in range(1 << kind.bits)
    ]
    return np.array(known)[held.view(np.uint8)]
