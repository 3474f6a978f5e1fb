"""Runs kernels on a device and holds them against their references: cases in, results out, nothing
printed.
"""
