"""Tunes kernels: compiles, checks and measures candidates, and records the fastest."""
