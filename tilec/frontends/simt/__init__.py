"""SIMT Python, through numba-cuda."""
