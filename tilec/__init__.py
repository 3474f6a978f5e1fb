"""Ahead-of-time GPU kernels for Python: one manifest, one multi-architecture bundle, typed
launchers.
"""

__version__ = "0.1.0"
