"""Compiled kernels: PTX, cubins, fatbins, LTO-IR, NVVM IR and Tile IR."""
