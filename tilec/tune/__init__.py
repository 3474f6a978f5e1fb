"""Finds the fastest variants: candidates of a kernel's matrix are compiled, checked, measured and
recorded; nothing printed.
"""
