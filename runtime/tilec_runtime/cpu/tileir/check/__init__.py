"""Finds data races, out-of-bounds accesses, broken promises of tile kernels."""
