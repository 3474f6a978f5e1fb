"""Measures launches: samples in, a median with its interval out, and what made them doubtful;
nothing printed.
"""
