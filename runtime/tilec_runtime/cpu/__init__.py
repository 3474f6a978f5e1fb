"""The cpu device: host memory, streams that are threads, and kernels interpreted from Tile IR."""
