"""Kernels that come compiled."""
