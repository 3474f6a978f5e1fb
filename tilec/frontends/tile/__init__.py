"""Tile kernels: cuTile Python and CUDA Tile C++."""
