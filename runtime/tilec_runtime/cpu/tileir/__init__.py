"""Tile IR on the CPU: reads its bytecode, executes it with NumPy and checks what it does to memory."""
