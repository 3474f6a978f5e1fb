"""Tile IR on the CPU: a bytecode reader, an interpreter that uses NumPy, and a memory checker."""
