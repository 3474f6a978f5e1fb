"""z = x + y in the safe language: each block writes its own tile of z, and reads x and y there."""

import tilec.lang as tl

T = tl.dtype("T")
TILE = tl.size("TILE")


@tl.kernel
def safe_add(z: tl.Mut[T, (TILE,)], x: tl.Ref[T, 1], y: tl.Ref[T, 1]) -> None:
    """Add two vectors element by element."""
    z.store(tl.load_tile_like(x, z) + tl.load_tile_like(y, z))
