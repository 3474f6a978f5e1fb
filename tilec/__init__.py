"""Ahead-of-time GPU kernels for Python: one manifest, one bundle for all architectures."""

__version__ = "0.1.0"
