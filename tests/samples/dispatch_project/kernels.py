"""One kernel of any strides, for variants under many assumptions."""

import tilec.lang as tl

T = tl.dtype("T")
BM = tl.size("BM")
BN = tl.size("BN")


@tl.kernel
@tl.preconditions("dim(x, 0) == dim(z, 0)", "dim(x, 1) == dim(z, 1)", "dim(y, 0) == dim(z, 0)", "dim(y, 1) == dim(z, 1)")
def blend(z: tl.Mut[T, (BM, BN)], x: tl.Ref[T, 2], y: tl.Ref[T, 2]) -> None:
    """z = 2 x + y."""
    z.store(x.load_tile_like(z) * 2 + y.load_tile_like(z))
