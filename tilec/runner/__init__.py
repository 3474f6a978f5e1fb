"""Runs the cases of kernels and compares them with their references."""
