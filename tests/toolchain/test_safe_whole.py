"""Tiles that lie in their array whole: what the facts of a variant say of them, and that nothing
else takes their masks away.
"""

from __future__ import annotations

import re

import pytest

from tests.toolchain.projects import machine_code, write
from tests.toolchain.tile_jobs import job, tensor
from tilec_runtime.model.safety import Checks
from tilec_runtime.model.signature import Assumption

pytestmark = pytest.mark.toolchain

TEXT = """import tilec.lang as tl
T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")


@tl.kernel
def mut(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2]):
    z.store(x.load_tile_like(z, allow_tma=False) + 1, allow_tma=False)


@tl.kernel
def span(z: tl.SpanMut[T, (BM, BN), 1], x: tl.Ref[T, 2]):
    row, _ = z.index
    for j in range(z.num_tiles(1)):
        z.store_tile(j, x.load_tile((row, j), (BM, BN), allow_tma=False) + 1, allow_tma=False)


@tl.kernel
def mapped(z: tl.MappedMut[T, (BM, BN)], x: tl.Ref[T, 2]):
    for tile in z.tiles:
        at = z.place(tile)
        z.store(at, x.load_tile(at.index, (BM, BN), allow_tma=False) + 1, allow_tma=False)


@tl.kernel
def said(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2]):
    z.store(x.load_tile_like(z) if z.whole else 7.0)
"""
KERNELS = ("mut", "span", "mapped")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    write(folder, {"k.py": TEXT})
    return folder


def compiled(tile, root, kernel, facts, *, target="sm_90", extent=(), **spec):
    """A kernel where both arrays have extents with these divisors, or these extents."""
    assume = tuple(
        Assumption(
            param=name,
            shape=() if extent else facts,
            extent=extent,
            stride=(8, 1),
            align=16,
        )
        for name in ("z", "x")
    )
    params = (tensor("z", "f32", 2, out=True), tensor("x", "f32", 2))
    return tile.compile(
        job(
            tile,
            root,
            "k.py",
            kernel,
            params,
            target=target,
            axes={"T": "f32", "BM": 4, "BN": 512},
            assume=assume,
            **spec,
        )
    )


def code(tile, root, kernel, facts, **more):
    return machine_code(compiled(tile, root, kernel, facts, **more), root)


def masked(lines):
    """What is done under a condition: of a tile that may hang over, each vector is."""
    return sum(bool(re.match(r"@!?U?P\d+ (BRA|LDG|STG|EXIT)", line)) for line in lines)


@pytest.mark.parametrize("kernel", KERNELS)
def test_tiles_that_fill_their_arrays_have_no_masks(tile, root, kernel):
    whole, ragged = code(tile, root, kernel, (4, 512)), code(tile, root, kernel, (4, 256))
    assert masked(whole) < masked(ragged)
    if kernel == "mut":
        assert masked(whole) == 0
        assert any("LDG" in line and ".128" in line for line in whole)


@pytest.mark.parametrize(
    ("facts", "more", "whole"),
    [
        ((), {"extent": (64, 1024)}, True),
        ((), {"extent": (64, 1000)}, False),
        ((64, 2048), {}, True),
        ((2, 512), {}, False),
        # Without checks nothing says that a tile begins in its array.
        ((4, 512), {"checks": Checks.OFF}, False),
    ],
)
def test_masks_are_left_out_where_tiles_are_whole(tile, root, facts, more, whole):
    assert (masked(code(tile, root, "mut", facts, **more)) == 0) == whole


def test_kernels_can_ask(tile, root):
    assert any("LDG" in line or "UTMALDG" in line for line in code(tile, root, "said", (4, 512)))
    assert not any("LDG" in line for line in code(tile, root, "said", (4, 8)))


def test_portable_code_is_for_readers_that_know_no_such_promise(tile, root):
    assert compiled(tile, root, "mut", (4, 512), target="tileir").info.ptx_isa == (13, 3)
