"""What a block computes does not depend on the other blocks of its batch, their number or their
order: not in a single bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.unit.runtime.cpu.tileir.build import Builder, run_op, tile
from tilec_runtime.cpu.tileir.functions import BINDERS as FUNCTIONS
from tilec_runtime.cpu.tileir.functions import computed
from tilec_runtime.cpu.tileir.ir import Block, Scalar, Value
from tilec_runtime.cpu.tileir.values import Array, storage

FLOATS = [Scalar.F16, Scalar.BF16, Scalar.F32, Scalar.F64]
BLOCKS = 7


def random(kind: Scalar, shape: Sequence[int], seed: int) -> Array:
    return (
        np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(storage(kind))
    )


def as_array(results: tuple[Array, ...]) -> Array:
    (found,) = results
    return found


def bits(held: Array) -> bytes:
    return np.ascontiguousarray(held).tobytes()


def laid_out(held: Array, seed: int) -> list[Array]:
    """The same tiles: one after the other, with their last two axes swapped in memory, and spread
    over more memory.
    """
    swapped = (
        np.ascontiguousarray(np.swapaxes(held, -1, -2)).swapaxes(-1, -2)
        if held.ndim > 2
        else held.copy()
    )
    room = np.zeros((*held.shape[:-1], held.shape[-1] + 1 + seed % 3), held.dtype)
    room[..., 1 : held.shape[-1] + 1] = held
    return [held.copy(), swapped, room[..., 1 : held.shape[-1] + 1]]


def agree(run: Callable[..., Array], *operands: Array, seed: int = 0) -> None:
    """`run` gives each block the same bits whatever part of a batch it is in; an operand of one row
    is what all share.
    """
    rng = np.random.default_rng(seed)
    alone = [
        run(*[held if len(held) == 1 else held[row : row + 1].copy() for held in operands])
        for row in range(BLOCKS)
    ]
    expected = [bits(found) for found in alone]
    for number in range(1, BLOCKS + 1):
        rows = rng.permutation(BLOCKS)[:number]
        for layout in range(3):
            tiles = [
                laid_out(held if len(held) == 1 else held[rows], seed)[layout] for held in operands
            ]
            found = np.broadcast_to(run(*tiles), (number, *alone[0].shape[1:]))
            assert [bits(one) for one in found] == [expected[row] for row in rows], (number, layout)


SHAPES = [(1, 64, 32), (32, 64, 1), (1, 128, 1), (16, 1, 8), (64, 64, 16), (4, 256, 64)]
SHAPES += [tuple((2 ** np.random.default_rng(n).integers(0, 8, 3)).tolist()) for n in range(6)]


@pytest.mark.parametrize("kind", [Scalar.F16, Scalar.TF32, Scalar.F32, Scalar.F64], ids=str)
@pytest.mark.parametrize("shared", ["neither", "lhs", "rhs"])
@pytest.mark.parametrize(("rows", "inner", "columns"), SHAPES)
def test_products(kind: Scalar, shared: str, rows: int, inner: int, columns: int) -> None:
    kinds = {"lhs": kind, "rhs": kind, "acc": Scalar.F64 if kind is Scalar.F64 else Scalar.F32}
    shapes = {"lhs": (rows, inner), "rhs": (inner, columns), "acc": (rows, columns)}
    tiles = [
        # Numbers of half precision are ones of tf32 too.
        random(Scalar.F16 if element is Scalar.TF32 else element, (BLOCKS, *shapes[name]), seed)[
            : 1 if name == shared else BLOCKS
        ].astype(storage(element))
        for seed, (name, element) in enumerate(kinds.items())
    ]

    def run(*tiles: Array) -> Array:
        operands = {
            name: (tile(element, *shapes[name]), held)
            for (name, element), held in zip(kinds.items(), tiles, strict=True)
        }
        return as_array(run_op("mmaf", operands, operands["acc"][0]))

    agree(run, *tiles, seed=rows + inner)


def combining(name: str, kind: Scalar) -> Callable[[Builder], Sequence[Block]]:
    def regions(builder: Builder) -> Sequence[Block]:
        def fill(current: Value, previous: Value) -> None:
            found = builder.op(name, {"lhs": previous, "rhs": current}, tile(kind))
            builder.op("yield", {"values": found})

        return [builder.region([tile(kind), tile(kind)], fill)]

    return regions


@pytest.mark.parametrize("name", ["addf", "mulf", "maxf"])
@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize("operation", ["reduce", "scan"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((64,), 0),
        ((1024,), 0),
        ((16, 64), 1),
        ((1, 256), 1),
        ((64, 1), 0),
        ((256, 8), 0),
        ((2, 16, 128), 2),
    ],
)
def test_sums(name: str, kind: Scalar, operation: str, shape: tuple[int, ...], axis: int) -> None:
    result = shape if operation == "scan" else shape[:axis] + shape[axis + 1 :]
    attributes = {
        "dim": axis,
        "identities": (),
        **({"reverse": False} if operation == "scan" else {}),
    }

    def run(held: Array) -> Array:
        regions = combining(name, kind)
        return as_array(
            run_op(
                operation,
                {"operands": (tile(kind, *shape), held)},
                tile(kind, *result),
                attributes,
                regions=regions,
            )
        )

    agree(run, random(kind, (BLOCKS, *shape), axis), seed=len(shape))


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"fpowi"}))
@pytest.mark.parametrize("kind", FLOATS, ids=str)
def test_functions(name: str, kind: Scalar) -> None:
    """Vector instructions take several elements at a time: what is left over at an end must come
    out like the others.
    """
    function = computed(name, kind)
    operands = [
        np.abs(random(kind, (1, 600), seed))
        for seed in range(2 if name in ("fpowf", "atan2") else 1)
    ]
    whole = function(*operands)
    for start in range(9):
        for length in (*range(1, 20), 500):
            for step in (1, 3):
                part = slice(start, min(start + length * step, 600), step)
                for views in (
                    [held[:, part] for held in operands],
                    [held[:, part].copy() for held in operands],
                ):
                    assert bits(function(*views)) == bits(whole[:, part]), (start, length, step)
