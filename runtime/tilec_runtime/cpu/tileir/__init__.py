"""Tile IR on the CPU: a bytecode reader, a NumPy interpreter, a memory checker."""
