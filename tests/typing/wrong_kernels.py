"""Kernels in the safe tile language that both type checkers refuse, each at its line."""

from typing import Annotated

import tilec.lang as tl

T = tl.dtype("T")
BM = tl.size("BM")


@tl.kernel
def k(
    z: Annotated[tl.Mut, T, (BM,)],
    x: Annotated[tl.Ref, T, 1],
    c: Annotated[tl.MappedMut, T, (BM,)],
    n: int,
) -> None:
    """Does everything wrong."""
    x.store(z.load())  # wrong: it is only read
    z.store(z.load(), (0,))  # wrong: a region has no places
    z.store(x)  # wrong: an array is no tile
    x.load_tile(0, (BM,))  # wrong: an index is a tuple
    x.load_tile_like(x)  # wrong: it is the region of an output that is meant
    c.store(0, 1.0)  # wrong: a place, not a number
    x.load_tile_like(z, pad=1)  # wrong: there is no such argument
    x.load_tile_like(z, broadcast="rows")  # wrong: axes are numbers
    z.index = (0,)  # wrong: it cannot be set
    tl.zeros((BM,), "f32")  # wrong: a dtype, not its name
    tl.zero((BM,), tl.float32)  # wrong: there is no such operation
    tl.load(x, (0,), (BM,))  # wrong: memory is reached through arrays


tl.kernel(speed=3)  # wrong: there is no such hint
tl.preconditions(3)  # wrong: conditions are text
tl.size(3)  # wrong: a name is text
