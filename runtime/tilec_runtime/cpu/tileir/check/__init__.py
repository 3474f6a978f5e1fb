"""Finds races, bad accesses and broken promises of tile kernels while they run on the CPU."""
