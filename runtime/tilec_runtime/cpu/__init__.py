"""The cpu device: host memory, a thread per stream, and an interpreter of Tile IR."""
